//! Kinds whose own defaults, validation and columns are not there yet: every field is held against its type, names
//! and metadata are validated, the status is kept apart, and the generation is counted where Kubernetes counts it.

use serde_json::Value;
use trireme_machinery::names::{self, NameCheck};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    data::ResourceData,
    kind::Kind,
    values::{keep_field, remove},
};

/// Groups whose kinds take any name that fits into a URL.
const PATH_SEGMENT_NAMES: [&str; 1] = ["rbac.authorization.k8s.io"];

/// Kinds that have a `metadata.generation`.
const WITH_GENERATION: [&str; 4] = [
    "customresourcedefinitions",
    "validatingadmissionpolicies",
    "mutatingadmissionpolicies",
    "resourceslices",
];

/// Kinds whose deletion answers with the object.
const RETURNED_WHEN_DELETED: [&str; 5] = [
    "podtemplates",
    "deviceclasses",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourceslices",
];

/// The kind of a row without a module of its own.
pub(crate) fn kind(row: &ResourceData) -> Kind {
    let listed = |list: &[&str]| list.contains(&row.plural.as_str());
    Kind::new(Generic {
        path_segment_names: PATH_SEGMENT_NAMES.contains(&row.group.as_str()),
        generation: listed(&WITH_GENERATION),
        status: row.subresource("status").is_some(),
        returned: listed(&RETURNED_WHEN_DELETED),
    })
}

struct Generic {
    path_segment_names: bool,
    generation: bool,
    status: bool,
    returned: bool,
}

impl Strategy for Generic {
    fn name_check(&self) -> NameCheck {
        if self.path_segment_names {
            names::name_is_path_segment
        } else {
            names::name_is_dns_subdomain
        }
    }

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

    fn returns_deleted_object(&self) -> bool {
        self.returned
    }
}
