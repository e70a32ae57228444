//! Singleton work, done where its lease is held.
//!
//! Each duty is a [`Reconciler`], and [`keep()`] runs it. There are those that make what every cluster starts with:
//! [`SystemNamespaces`], [`SystemPriorityClasses`], [`DefaultServiceRange`], [`KubernetesService`],
//! [`FlowConfiguration`]; and [`FlowStatus`], which says of FlowSchemas whether their level is there. Endpoint
//! reconciling, identity leases, compaction, garbage collection, namespace deletion and default service accounts are
//! not there yet.

mod flow;
mod keep;
mod kubernetes_service;
mod priority_classes;
mod service_range;
mod system_namespaces;

pub use flow::{FlowConfiguration, FlowStatus};
pub use keep::{Reconciler, keep};
pub use kubernetes_service::KubernetesService;
pub use priority_classes::SystemPriorityClasses;
pub use service_range::DefaultServiceRange;
pub use system_namespaces::SystemNamespaces;

/// The field manager of what the server makes as itself.
const SERVER: &str = "kube-apiserver";
