//! Events of both groups, over one storage (`pkg/registry/core/event`, `pkg/apis/events/v1`).
//!
//! They are stored as the core group's; `events.k8s.io` names the same fields differently.

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{
    Object,
    field::{Error, ErrorList, Path},
    names::{self, NameCheck},
};
use trireme_registry::{Column, Conversion, Strategy, WriteContext};

use crate::{
    columns::{self, column, described, since, wide},
    kind::{Kind, selectable},
    values::{text, text_at},
};

mod validation;

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new(Events).columns(event_columns()).selectable(vec![
        selectable("source", |object| source_component(object).to_owned()),
        selectable("reportingComponent", |object| text(object, "reportingComponent").to_owned()),
    ])
}

/// How `events.k8s.io/v1` differs from what is stored.
pub(crate) static EVENTS_V1: EventsV1 = EventsV1;

/// The conversion of `events.k8s.io/v1`.
pub(crate) struct EventsV1;

/// Stored name, name in `events.k8s.io/v1`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Fields that the core group's JSON always has, and the other's leaves out when they are empty.
const WRITTEN_WHEN_EMPTY: [&str; 2] = ["reportingComponent", "reportingInstance"];

impl Conversion for EventsV1 {
    fn to_stored(&self, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else { return };
        for (stored, served) in RENAMED {
            rename(fields, served, stored);
        }
        for name in WRITTEN_WHEN_EMPTY {
            fields.entry(name).or_insert_with(|| "".into());
        }
        fields.entry("involvedObject").or_insert_with(|| Value::Object(Object::new()));
    }

    fn from_stored(&self, object: &mut Value) {
        let Some(fields) = object.as_object_mut() else { return };
        for name in WRITTEN_WHEN_EMPTY {
            if fields.get(name).is_some_and(|value| value.as_str() == Some("")) {
                fields.remove(name);
            }
        }
        for (stored, served) in RENAMED {
            rename(fields, stored, served);
        }
    }
}

fn rename(fields: &mut Object, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

struct Events;

impl Strategy for Events {
    fn name_check(&self) -> NameCheck {
        // Event names are not validated beyond what a URL needs: clients make them of the names of other objects.
        names::name_is_path_segment
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validation::validate_new(object)
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validation::validate_update(new, old)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}
