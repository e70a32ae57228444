//! Events of the replicas' audit logs.

use serde::{Deserialize, Serialize};

/// An event of the stage ResponseComplete about a write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The address of the replica in whose log it is.
    pub replica: String,
    /// The audit id, as in [`super::Op::audit_id`].
    pub id: String,
    /// The authenticated user.
    pub user: String,
    /// The verb: `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// The plural, with its group.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Empty for collections.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The status code that was answered.
    pub code: u16,
}
