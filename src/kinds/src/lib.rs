//! Every built-in group and version: schema data and strategies.

mod address_warnings;
mod admissionregistration;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod builtin;
mod certificates;
mod checks;
mod columns;
mod conditions;
mod coordination;
mod core;
mod diff;
mod discovery;
mod flowcontrol;
mod generic;
mod internal;
mod kind;
mod networking;
mod node;
mod pod_template;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod schemas;
mod storage;
#[cfg(test)]
mod testing;
mod values;

/// The types and resources of the built-in kinds.
pub use trireme_schema as data;

pub use builtin::{Settings, other_kinds, resources, virtual_resources};
pub use core::bindings::PodBindings;
pub use core::serviceaccounts::TokenIssuer;
pub use core::services::held_by_service;
pub use schemas::schemas;
