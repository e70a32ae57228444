//! The OpenAPI documents: `/openapi/v3`, a document a group and version, and `/openapi/v2`.
//!
//! [`builtin`] holds those of the built-in resources. The director builds [`Documents`] of custom resources with the
//! same code and joins them with [`index`]. Documents are made on first request and kept; negotiation, ETags and
//! caching headers are the edge's.

mod documents;
mod enums;
mod operations;
mod parameters;
mod protobuf;
mod render;
mod schemas;

pub use documents::{Document, Documents, builtin, index};
pub use protobuf::encode as v2_protobuf;
pub use render::{v2_document, v3_document};

#[cfg(test)]
mod tests;
