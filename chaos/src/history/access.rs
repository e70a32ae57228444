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
    /// Of a user whose permission or credential comes and goes.
    Revocable,
    /// The administrator makes what that depends on.
    Grant,
    /// The administrator takes that away.
    Revoke,
}

/// The thing that a permission comes and goes with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Credential {
    /// A ClusterRoleBinding of the user.
    #[default]
    Binding,
    /// The ServiceAccount of a token.
    ServiceAccount,
    /// The Secret that a token is bound to.
    Secret,
    /// The Pod that a token is bound to.
    Pod,
    /// A line of `--token-auth-file`.
    StaticToken,
    /// A certificate in `--client-ca-file`.
    ClientCa,
}

impl Credential {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Binding,
        Self::ServiceAccount,
        Self::Secret,
        Self::Pod,
        Self::StaticToken,
        Self::ClientCa,
    ];

    /// Its revocation, in words.
    pub fn revocation(self) -> &'static str {
        match self {
            Self::Binding => "its binding was deleted",
            Self::ServiceAccount => "its ServiceAccount was deleted",
            Self::Secret => "the Secret that its token is bound to was deleted",
            Self::Pod => "the Pod that its token is bound to was deleted",
            Self::StaticToken => "its token was taken out of its file",
            Self::ClientCa => "the CA of its certificate was taken out of its file",
        }
    }
}

/// One request and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRecord {
    /// Which request it is.
    pub kind: AccessKind,
    /// Of what comes and goes.
    #[serde(default)]
    pub credential: Credential,
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
