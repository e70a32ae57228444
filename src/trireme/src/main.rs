//! The `trireme` binary.

fn main() {}
