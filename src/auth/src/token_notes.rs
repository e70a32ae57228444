//! What is known of a token besides its user.

/// What the use of a token makes known, besides its holder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenNotes {
    /// `Warning` texts for the client.
    pub warnings: Vec<&'static str>,
    /// Annotations of the request's audit event.
    pub annotations: Vec<(&'static str, String)>,
}
