//! Every built-in group and version: schema data and strategies.

pub mod authorization;
pub mod data;
pub mod discovery;
pub mod openapi;

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
mod storage;
#[cfg(test)]
mod testing;
mod values;

pub use autoscaling::scale::scale_columns;
pub use builtin::{Settings, known_kinds, resources};
pub use core::componentstatuses::{component_status, component_statuses};
pub use core::serviceaccounts::TokenIssuer;
pub use core::services::held_by_service;
