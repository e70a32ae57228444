//! Kinds whose own defaults, validation and columns are not there yet: every field is held against its type, names
//! and metadata are validated, the status is kept apart, and the generation is counted where Kubernetes counts it.

use serde_json::Value;
use trireme_registry::{Strategy, WriteContext};
use trireme_schema::ResourceData;

use crate::{
    kind::Kind,
    values::{keep_field, remove},
};

/// Kinds that have a `metadata.generation`.
const WITH_GENERATION: [&str; 1] = ["customresourcedefinitions"];

/// Kinds of which a PUT must name the version that it is to replace.
const VERSIONED: [&str; 1] = ["customresourcedefinitions"];

/// The kind of a row without a module of its own.
pub(crate) fn kind(row: &'static ResourceData) -> Kind {
    Kind::new(
        &row.group,
        &row.plural,
        Generic {
            generation: WITH_GENERATION.contains(&row.plural.as_str()),
            status: row.subresource("status").is_some(),
            versioned: VERSIONED.contains(&row.plural.as_str()),
        },
    )
}

struct Generic {
    generation: bool,
    status: bool,
    versioned: bool,
}

impl Strategy for Generic {
    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        if self.status {
            remove(object, "status");
        }
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        if self.status {
            keep_field(new, old, "status");
        }
    }

    fn has_generation(&self) -> bool {
        self.generation
    }

    fn allow_unconditional_update(&self) -> bool {
        !self.versioned
    }
}
