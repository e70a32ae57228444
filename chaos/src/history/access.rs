//! Requests of users who are no administrators, and the bindings that decide about them.

use serde::{Deserialize, Serialize};

use super::Nanos;

/// The part that a request has in the question who may do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessKind {
    /// Of a user whose permissions stay as they are, and who has the permission.
    Permitted,
    /// The same, and the user does not have the permission.
    Forbidden,
    /// Of the user whose binding comes and goes.
    Revocable,
    /// The administrator makes that binding.
    Grant,
    /// The administrator deletes that binding.
    Revoke,
}

/// One request and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRecord {
    /// Which request it is.
    pub kind: AccessKind,
    /// The user.
    pub user: String,
    /// The address it was sent to, or [`super::BALANCER`].
    pub replica: String,
    /// Method and path.
    pub request: String,
    /// The time when the first byte was about to be sent.
    pub called: Nanos,
    /// The time when the answer was complete, or was given up.
    pub returned: Nanos,
    /// The status code, 0 if there was no answer.
    pub code: u16,
}

impl AccessRecord {
    /// Returns true if authorization has let the request through: what is done then may still fail.
    pub fn is_allowed(&self) -> bool {
        matches!(self.code, 200..=299 | 404 | 409 | 422)
    }
}
