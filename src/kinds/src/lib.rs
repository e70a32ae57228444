//! Every built-in group and version: schema data and strategies.

mod address_warnings;
mod admissionregistration;
mod apiregistration;
mod apiserverinternal;
mod apps;
mod autoscaling;
mod batch;
mod builtin;
#[cfg(test)]
mod builtin_tests;
mod certificates;
mod checks;
mod columns;
mod conditions;
mod coordination;
mod core;
mod deprecation;
mod discovery;
mod flowcontrol;
mod gated;
mod generic;
mod kind;
mod networking;
mod node;
mod other_kinds;
mod pod_template;
mod policy;
mod rbac;
mod resource;
mod resource_names;
mod scheduling;
mod schemas;
mod settings;
mod signers;
mod storage;
mod storagemigration;
mod stored_versions;
#[cfg(test)]
mod testing;
mod values;
mod volumes;
mod workload;

pub use builtin::{resources, storage_prefixes, virtual_resources};
pub use core::bindings::PodBindings;
pub use core::services::held_by_service;
pub use other_kinds::other_kinds;
pub use schemas::schemas;
pub use settings::{KindSettings, MonotonicTime, TokenIssuer};
pub use trireme_schema::ApiSelection;
