//! The built-in kinds as data: their types, their descriptions, and the resources that serve them.
//!
//! Everything here is read from the files under `data`, some of which `schema-generate` makes from k8s-openapi's schemas;
//! see `data/PROVENANCE.md`. Used by the strategies, by discovery and by OpenAPI.

mod decode;
mod definitions;
mod enums;
mod read_resources;
mod resources;

use std::sync::{Arc, LazyLock};

use trireme_machinery::schema::TypeTable;

pub use definitions::{definitions, description, packed_definitions};
pub use enums::{ENUM_TABLE, enums};
pub use read_resources::{resource, resources, type_name};
pub use resources::{ResourceData, SelectableField, StorageData, SubresourceData, VersionData};

static TYPES: LazyLock<Arc<TypeTable>> = LazyLock::new(|| {
    let mut table = decode::type_table(include_str!("../data/types.txt"));
    decode::name_go_types(&mut table, include_str!("../data/go-types.txt"));
    Arc::new(table)
});

/// The types of all built-in kinds, of their lists and of the API machinery.
pub fn type_table() -> &'static Arc<TypeTable> {
    &TYPES
}

/// The last three parts of an OpenAPI name, by which the data files name types: `core.v1.PodSpec`.
pub fn short_name(name: &str) -> &str {
    let cut = name.rmatch_indices('.').nth(2).and_then(|(at, _)| name.get(at + 1..));
    cut.unwrap_or(name)
}

#[cfg(test)]
mod tests;
