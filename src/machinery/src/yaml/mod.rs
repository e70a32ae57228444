//! YAML as kube-apiserver reads and writes it: the YAML 1.1 scalars of the library that it uses (`yes` is true, `0777`
//! is octal, times stay text), all keys become strings, only the first document counts.
//!
//! Documents that are JSON are read as such where that gives the same. Reading is iterative. Depth is capped as for JSON;
//! what anchors and aliases copy is capped by [`MAX_ALIASED_BYTES`], so that a small document cannot become a large object.
//! Tags other than YAML's own are refused.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod analysis;
mod emit;
mod json_text;
mod load;
mod node;
mod scalar;
mod writer;

pub use emit::encode;
pub use node::encode_node;

use crate::json::DecodedDocument;

/// The number of bytes of values anchors may hold and aliases may repeat, all together. Real manifests use none or few.
pub const MAX_ALIASED_BYTES: usize = 4 * 1024 * 1024;

/// The reason that the input is not an acceptable YAML document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The text is malformed or uses what is not supported.
    #[error("yaml: {0}")]
    Malformed(String),
    /// A value that JSON cannot hold, such as `.nan`.
    #[error("json: unsupported value: {0}")]
    Unsupported(&'static str),
}

/// Decodes the first document; an empty one is null.
///
/// The duplicates are reported by line, `line 8: key "a" already set in map`; the last value counts.
pub fn decode(input: &[u8]) -> Result<DecodedDocument, YamlError> {
    let text =
        std::str::from_utf8(input).map_err(|_| YamlError::Malformed("invalid leading UTF-8 octet".to_owned()))?;
    match json_text::decode(text) {
        Some(decoded) => Ok(decoded),
        None => load::Loader::default().run(text),
    }
}

/// The report of strict validation about a document's duplicates.
pub fn strict_error(duplicates: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", duplicates.join("\n  "))
}

#[cfg(test)]
mod tests;
