//! Patches: what a PATCH body makes of an object. Each kind of patch is a pure function of object and body.
//!
//! The registry calls these with the object in the version that the request names, decodes the result against the
//! schema and goes on as with an update.

mod go_text;
pub mod strategic;

pub use go_text::go_text;

/// Why a patch could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch itself is not one: 400 `BadRequest` with this message.
    #[error("{0}")]
    BadRequest(String),
    /// The patch is well-formed and does not fit the object, or breaks a rule of its format: the 422 that has no
    /// field to point at, with this message (`the server rejected our request due to an error in our request`).
    #[error("{0}")]
    Unprocessable(String),
    /// A strategic merge patch that does not fit the kind's lists and maps, such as an item without its merge key.
    /// kube-apiserver lets these through as a bare 500; the text is the client's fault all the same.
    #[error("{0}")]
    Misfit(String),
    /// The object is not what the patch expects it to be: 409.
    #[error("{0}")]
    Conflict(String),
    /// More operations than are allowed: 413.
    #[error("{0}")]
    TooLarge(String),
}
