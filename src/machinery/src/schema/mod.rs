//! The schema engine: what a kind's fields are, and what the server does to an object because of them.
//!
//! [`types`] is the data; it is made once at start for the built-in kinds and, later, for custom
//! resources. The other modules are the engine.

mod types;

pub use types::{Field, ListType, Patch, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable};
