//! Notes on a token, besides its user: for the client and the audit log.

/// Notes that an authenticator makes on a token that a request shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenNotes {
    /// `Warning` texts for the client.
    pub warnings: Vec<&'static str>,
    /// Annotations of the request's audit event.
    pub annotations: Vec<(&'static str, String)>,
}
