//! What must hold for any bytes that come from outside, one check a module.
//!
//! Each `check` takes the input of a fuzz target and panics if a promise is broken: that decoding ends in a value or in
//! an error, never in a panic, and what is said about the value in the module. The engine is added by
//! `fuzz_targets/*.rs`; the tests of this crate run the checks over the kept corpus without it. See `README.md`.

mod input;
mod world;

pub mod credentials;
pub mod json;
pub mod kinds;
pub mod patches;
pub mod protobuf;
pub mod requests;
pub mod scalars;
pub mod selectors;
pub mod stored;
pub mod yaml;

/// A check by the name of its target.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 10] = [
    ("credentials", credentials::check),
    ("json", json::check),
    ("kinds", kinds::check),
    ("patches", patches::check),
    ("protobuf", protobuf::check),
    ("requests", requests::check),
    ("scalars", scalars::check),
    ("selectors", selectors::check),
    ("stored", stored::check),
    ("yaml", yaml::check),
];
