//! `rbac.authorization.k8s.io`: roles and bindings, of namespaces and of the cluster.

pub(crate) mod bindings;
pub(crate) mod roles;

use crate::kind::Kind;
/// The group's kinds as they declare themselves.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![
        bindings::cluster_role_binding(),
        bindings::role_binding(),
        roles::cluster_role(),
        roles::role(),
    ]
}
