//! Kinds whose own defaults, validation and columns are not there yet: every field is held against its type, names
//! and metadata are validated, and the status is kept apart.

use serde_json::Value;
use trireme_registry::{Strategy, WriteContext};
use trireme_schema::ResourceData;

use crate::{
    kind::Kind,
    values::{keep_field, remove},
};

/// The kind of a row without a module of its own.
pub(crate) fn kind(row: &'static ResourceData) -> Kind {
    Kind::new(
        &row.group,
        &row.plural,
        Generic {
            status: row.subresource("status").is_some(),
        },
    )
}

struct Generic {
    status: bool,
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
}
