//! A document that is rendered once and then served as bytes.

use std::fmt::Write as _;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest as _, Sha512};

/// A document as it goes over the wire. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The bytes.
    pub body: Bytes,
    /// Upper-case hexadecimal SHA-512 by which clients see whether they have it: ETag, and `hash` of OpenAPI URLs.
    pub hash: String,
}

impl Document {
    /// A document of compact JSON, identified by its contents.
    pub fn of(form: &impl Serialize) -> Self {
        Self::new(serde_json::to_vec(form).expect("texts, lists and records are JSON"))
    }

    /// A document that is identified by its contents.
    pub fn new(body: Vec<u8>) -> Self {
        Self {
            hash: hex(&Sha512::digest(&body)),
            body: body.into(),
        }
    }

    /// The hash as an ETag shows it.
    pub fn etag(&self) -> String {
        format!("\"{}\"", self.hash)
    }
}

pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}
