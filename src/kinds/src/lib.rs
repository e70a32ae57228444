//! Every built-in group and version: schema data and strategies.

pub mod data;
pub mod discovery;
pub mod openapi;

mod apps;
mod builtin;
mod columns;
mod coordination;
mod core;
mod generic;
mod kind;
mod pod_template;
mod values;

pub use builtin::{Settings, known_kinds, resources};
