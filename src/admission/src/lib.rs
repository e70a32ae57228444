//! The admission chain and its built-in plugins.
//!
//! A [`Chain`] is made by the composition root and handed to every registry. Of kube-apiserver's plugins there is
//! [`NamespaceLifecycle`]; [`DeviceAdminAccess`] is a check of its registry of claims. Webhooks, CEL policies and the
//! other plugins are not there yet.

mod chain;
mod device_admin_access;
mod doubts;
mod namespace_lifecycle;
mod namespaces;

pub use chain::Chain;
pub use device_admin_access::DeviceAdminAccess;
pub use namespace_lifecycle::NamespaceLifecycle;
pub use namespaces::Namespaces;
