//! The built-in kinds as data: their types, their descriptions, and the resources that serve them.
//!
//! Everything here is read from the files under `data`, most of which `schema-generate` makes from Kubernetes' sources;
//! see `data/PROVENANCE.md`. Used by the strategies, by discovery and by OpenAPI.

mod decode;
mod definitions;
mod enums;
mod gates;
mod lifecycle;
mod read_resources;
mod resources;
mod selection;
mod unpublished;

use std::sync::{Arc, LazyLock};

use trireme_machinery::schema::TypeTable;

pub use definitions::{definitions, description, packed_definitions};
pub use enums::{ENUM_TABLE, enums};
pub use gates::{FeatureGate, GateStage, feature_gates};
pub use lifecycle::{ApiLifecycle, Release, lifecycle};
pub use read_resources::{resource, resources, type_name};
pub use resources::{ResourceData, SelectableField, StorageData, SubresourceData, VersionData};
pub use selection::ApiSelection;

const TYPES: &str = include_str!("../data/types.txt");

static SERVED_BY_DEFAULT: LazyLock<Arc<TypeTable>> = LazyLock::new(|| table(decode::served_by_default(TYPES)));

static ALL: LazyLock<Arc<TypeTable>> = LazyLock::new(|| table(TYPES));

/// The types of the kinds that are served by default, of their lists and of the API machinery.
pub fn type_table() -> &'static Arc<TypeTable> {
    &SERVED_BY_DEFAULT
}

/// The types of all versions, alpha and beta included. The types of [`type_table`] have the same ids here. It is made
/// on first need, so that a server which does not serve such versions has no memory taken by it.
pub fn complete_type_table() -> &'static Arc<TypeTable> {
    &ALL
}

fn table(text: &str) -> Arc<TypeTable> {
    let mut table = decode::type_table(text);
    decode::name_go_types(&mut table, include_str!("../data/go-types.txt"));
    Arc::new(table)
}

/// The last three parts of an OpenAPI name, by which the data files name types: `core.v1.PodSpec`.
pub fn short_name(name: &str) -> &str {
    let cut = name.rmatch_indices('.').nth(2).and_then(|(at, _)| name.get(at + 1..));
    cut.unwrap_or(name)
}

#[cfg(test)]
mod tests;
