//! Patches: what a PATCH body makes of an object. Each kind of patch is a pure function of object and body.
//!
//! The registry calls these with the object in the version that the request names, decodes the result against the
//! schema and goes on as with an update.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod json_patch;
mod merge;
pub mod strategic;

pub use json_patch::{JsonPatch, MAX_COPIED_BYTES, MAX_COPIED_CONTAINERS, MAX_OPERATIONS};
pub use merge::{decode_merge_patch, decode_strategic_merge_patch, merge_patch};

use crate::{ApiError, ErrorDetails, Reason};

/// The reason that a patch could not be applied, in the words of the reference server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatchError {
    /// The sort of the error.
    pub kind: PatchErrorKind,
    /// The error's text.
    pub message: String,
}

/// The answer to a client for an error in a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchErrorKind {
    /// The patch cannot be read, or breaks a rule of its format: 400 with the message. Where kube-apiserver lets a
    /// error of the patch through as a bare 500, such as an item without its merge key, it is this too.
    BadRequest,
    /// The patch does not fit the object: a 422 that does not show the message.
    Unprocessable,
    /// A `test` of the patch does not hold; otherwise as [`Unprocessable`](Self::Unprocessable).
    TestFailed,
    /// The patch has more operations than are allowed: 413.
    TooLarge,
    /// The object is not what the patch expects it to be: 409.
    Conflict,
}

impl PatchError {
    /// A error of the given kind.
    pub fn new(kind: PatchErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(PatchErrorKind::BadRequest, message)
    }
}

/// The message to the client.
impl From<PatchError> for ApiError {
    fn from(error: PatchError) -> Self {
        match error.kind {
            PatchErrorKind::BadRequest => Self::bad_request(error.message),
            PatchErrorKind::Unprocessable | PatchErrorKind::TestFailed => {
                let message = "the server rejected our request due to an error in our request";
                Self::new(Reason::Invalid, message).with_details(ErrorDetails::default())
            }
            PatchErrorKind::TooLarge => Self::new(Reason::RequestEntityTooLarge, error.message),
            PatchErrorKind::Conflict => Self::new(Reason::Conflict, error.message),
        }
    }
}
