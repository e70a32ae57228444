//! `rbac.authorization.k8s.io`: roles and bindings, of namespaces and of the cluster.

pub(crate) mod bindings;
pub(crate) mod roles;
