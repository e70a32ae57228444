//! The schema engine: what a kind's fields are, and what the server does to an object because of them.
//!
//! [`TypeTable`] is the data; it is made once at start for the built-in kinds and, later, for custom
//! resources. The rest is the engine:
//! - [`decode()`] holds a freshly parsed value against its type, as Go's strict decoding into a struct does;
//! - [`apply_defaults`] fills in what the client left out;
//! - [`ordered_json`] and [`patched_json`] print a value as Go would, for messages;
//! - [`paths`] reads and writes fields by dotted path.

mod base64_go;
mod decode;
mod decode_error;
mod decode_path;
mod defaults;
mod empty;
mod json_schema;
mod ordered;
pub mod paths;
#[cfg(test)]
pub(crate) mod samples;
mod scalars;
#[cfg(test)]
mod tests;
mod types;
mod zero;

pub use decode::{Decoded, decode, decode_with_empty};
pub use decode_error::DecodeError;
pub use defaults::apply_defaults;
pub use empty::void_empty;
pub use ordered::{ordered_json, patched_json};
pub use paths::{accessor_error, get_path, nested_field, remove_path, set_path, str_at};
pub(crate) use types::WireField;
pub use types::{Field, ListType, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable};
