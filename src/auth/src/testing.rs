//! For benches: roles and bindings, compiled without the registries around them.

pub use crate::rbac::bench::{PolicyBuilder, PublishedPolicy};
