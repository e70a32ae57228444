//! Singleton work, done where its lease is held.
//!
//! Each duty is a [`Controller`], or a [`Reconciler`] if it looks at all that it keeps in one go, and [`keep()`] runs it.
//!
//! | what | duties |
//! | --- | --- |
//! | what every cluster starts with | [`SystemNamespaces`], [`SystemPriorityClasses`], [`DefaultServiceRange`], [`KubernetesService`], [`FlowConfiguration`], [`BootstrapRoles`] |
//! | what the server itself keeps up | [`ClientTrust`], [`RepairReservations`], [`FlowStatus`], [`KubernetesEndpoints`], [`ExpiredIdentities`], [`TokenTracking`] |
//! | what kube-controller-manager does, where there is none | [`NamespaceDeletion`], [`DefaultServiceAccount`], [`RootCaConfigMap`], [`GarbageCollector`] |
//!
//! `docs/duties.md` says what each does.

mod alone;
mod client_trust;
mod controller;
mod flow;
mod follow;
mod garbage;
mod identity;
mod in_namespaces;
mod keep;
mod kubernetes_endpoints;
mod kubernetes_service;
mod namespaces;
mod priority_classes;
mod queue;
mod rbac;
mod reservations;
mod root_ca;
mod service_accounts;
mod service_range;
mod system_namespaces;
mod tenure;
mod token_tracking;

pub use alone::acquire_alone;
pub use client_trust::{ClientTrust, FrontProxies};
pub use controller::{Controller, ObjectChange, QueueKey, ReconcileResult};
pub use flow::{DesiredFlowObject, FlowConfiguration, FlowStatus};
pub use garbage::{GarbageCollector, Suspect};
pub use identity::{ExpiredIdentities, ReplicaIdentity, keep_identity};
pub use in_namespaces::{InEveryNamespace, PerNamespace};
pub use keep::{Reconciler, SingleKey, SingleKeyController, keep};
pub use kubernetes_endpoints::{AddressPresence, KubernetesEndpoints};
pub use kubernetes_service::KubernetesService;
pub use namespaces::{NamespaceDeletion, ServedDefinitions};
pub use priority_classes::SystemPriorityClasses;
pub use rbac::{BootstrapProgress, BootstrapRole, BootstrapRoles, RbacRegistries};
pub use reservations::{RepairReservations, ReservationKey, Reservations};
pub use root_ca::RootCaConfigMap;
pub use service_accounts::DefaultServiceAccount;
pub use service_range::DefaultServiceRange;
pub use system_namespaces::SystemNamespaces;
pub use tenure::LeaseTenure;
pub use token_tracking::TokenTracking;

/// The field manager of what the server makes as itself.
const SERVER: &str = "kube-apiserver";
/// The field manager of what kube-controller-manager makes elsewhere.
const MANAGER: &str = "kube-controller-manager";
