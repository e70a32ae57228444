//! Every built-in group and version: schema data and strategies.

pub mod data;
pub mod discovery;
