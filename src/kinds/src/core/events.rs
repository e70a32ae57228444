//! Events of both groups, over one storage (`pkg/registry/core/event`, `pkg/apis/events/v1`).
//!
//! They are stored as the core group's; `events.k8s.io` names the same fields differently.

use jiff::Timestamp;
use serde_json::{Map, Value};
use trireme_machinery::{
    GroupVersion, GroupVersionKind,
    field::ErrorList,
    names::{self, NameCheck},
};
use trireme_registry::{
    Column, Conversion, SelectableField, Strategy, TimeToLive, WriteContext, strategy::MetadataChecks,
};

use crate::{
    columns::{self, column, documented, since, wide},
    kind::{Kind, selectable},
    values::{integer_at, text, text_at},
};

mod validation;

#[cfg(test)]
mod tests;

/// The group that serves the same events in a form of its own.
pub(crate) const GROUP: &str = "events.k8s.io";
const EVENT: &str = "io.k8s.api.core.v1.Event";
const REFERENCE: &str = "io.k8s.api.core.v1.ObjectReference";

/// The kind's parts; events live for `ttl`, or until they are deleted.
pub(crate) fn kind(ttl: Option<TimeToLive>) -> Kind {
    let mut kind = Kind::new("", "events", Events)
        .columns(event_columns())
        .selectable(selectable_fields())
        .conversion(GroupVersion::new(GROUP, "v1"), EventsV1);
    kind.ttl = ttl;
    kind
}

/// Names of the stored fields in selectors of `events.k8s.io`, and the one of the core group that reads otherwise than
/// what stands at its path.
fn selectable_fields() -> Vec<SelectableField> {
    vec![
        selectable("source", &["source.component", "reportingComponent"], |event| {
            source(event).to_owned()
        }),
        selectable("reportingController", &["reportingComponent"], |event| {
            text(event, "reportingComponent").to_owned()
        }),
        selectable("regarding.kind", &["involvedObject.kind"], |event| {
            involved(event, "kind")
        }),
        selectable("regarding.namespace", &["involvedObject.namespace"], |event| {
            involved(event, "namespace")
        }),
        selectable("regarding.name", &["involvedObject.name"], |event| {
            involved(event, "name")
        }),
        selectable("regarding.uid", &["involvedObject.uid"], |event| involved(event, "uid")),
        selectable("regarding.apiVersion", &["involvedObject.apiVersion"], |event| {
            involved(event, "apiVersion")
        }),
        selectable(
            "regarding.resourceVersion",
            &["involvedObject.resourceVersion"],
            |event| involved(event, "resourceVersion"),
        ),
        selectable("regarding.fieldPath", &["involvedObject.fieldPath"], |event| {
            involved(event, "fieldPath")
        }),
    ]
}

fn involved(event: &Value, field: &str) -> String {
    event
        .get("involvedObject")
        .map_or("", |object| text(object, field))
        .to_owned()
}

fn source(event: &Value) -> &str {
    first_set(text_at(event, "/source/component"), text(event, "reportingComponent"))
}

fn first_set<'a>(first: &'a str, second: &'a str) -> &'a str {
    if first.is_empty() { second } else { first }
}

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
        fields
            .entry("involvedObject")
            .or_insert_with(|| Value::Object(Map::new()));
    }

    fn to_served(&self, object: &mut Value) {
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

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

struct Events;

impl Strategy for Events {
    fn metadata_checks_of_update(&self, context: &WriteContext) -> MetadataChecks {
        if is_core(context) {
            MetadataChecks::None
        } else {
            MetadataChecks::OfChange
        }
    }

    fn name_check(&self) -> NameCheck {
        // Event names are not validated beyond what a URL needs: clients make them of the names of other objects.
        names::name_is_path_segment
    }

    fn validates_metadata_of_new(&self) -> bool {
        false
    }

    fn validate(&self, context: &WriteContext, object: &Value) -> ErrorList {
        validation::validate_event_create(object, is_core(context))
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validation::validate_event_update(new, old, is_core(context))
    }

    fn refuse_field(&self, kind: &GroupVersionKind, field: &str) -> Option<String> {
        let is_new_word = field == "reportingController" || field.starts_with("regarding.");
        let is_old_word = matches!(field, "reportingComponent" | "source") || field.starts_with("involvedObject.");
        let is_foreign = if &*kind.group == GROUP {
            is_old_word
        } else {
            is_new_word
        };
        is_foreign.then(|| format!("field label not supported: {field}"))
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    /// There are too many of them for a garbage collector to follow.
    fn may_have_dependents(&self) -> bool {
        false
    }
}

fn is_core(context: &WriteContext) -> bool {
    context.version.group.is_empty()
}

fn event_columns() -> Vec<Column> {
    let plain = |field: &'static str| move |event: &Value| Value::from(text(event, field));
    let path = |event: &Value| Value::from(text_at(event, "/involvedObject/fieldPath"));
    let message = |event: &Value| Value::from(text(event, "message").trim());
    vec![
        Column {
            cell: std::sync::Arc::new(|event, now| Value::from(last_seen(event, now))),
            ..column("Last Seen", "string", documented(EVENT, "lastTimestamp"), |_| {
                Value::Null
            })
        },
        column("Type", "string", documented(EVENT, "type"), plain("type")),
        column("Reason", "string", documented(EVENT, "reason"), plain("reason")),
        column("Object", "string", documented(EVENT, "involvedObject"), |event| {
            Value::from(target(event))
        }),
        wide(column("Subobject", "string", documented(REFERENCE, "fieldPath"), path)),
        wide(column("Source", "string", documented(EVENT, "source"), |event| {
            Value::from(reporter(event))
        })),
        column("Message", "string", documented(EVENT, "message"), message),
        wide(Column {
            cell: std::sync::Arc::new(|event, now| Value::from(first_seen(event, now))),
            ..column("First Seen", "string", documented(EVENT, "firstTimestamp"), |_| {
                Value::Null
            })
        }),
        wide(column("Count", "string", documented(EVENT, "count"), |event| {
            Value::from(count(event))
        })),
        wide(columns::name()),
    ]
}

fn first_seen(event: &Value, now: Timestamp) -> String {
    since(first_set(text(event, "firstTimestamp"), text(event, "eventTime")), now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    if event.get("series").is_some_and(Value::is_object) {
        return since(text_at(event, "/series/lastObservedTime"), now);
    }
    match text(event, "lastTimestamp") {
        "" => first_seen(event, now),
        last => since(last, now),
    }
}

fn count(event: &Value) -> i64 {
    if event.get("series").is_some_and(Value::is_object) {
        return integer_at(event, "/series/count").unwrap_or(0);
    }
    // Events that occur once have no count in the newer form.
    integer_at(event, "/count").filter(|count| *count != 0).unwrap_or(1)
}

fn target(event: &Value) -> String {
    let kind = involved(event, "kind").to_lowercase();
    match involved(event, "name") {
        name if name.is_empty() => kind,
        name => format!("{kind}/{name}"),
    }
}

fn reporter(event: &Value) -> String {
    let instance = first_set(text_at(event, "/source/host"), text(event, "reportingInstance"));
    match (source(event), instance) {
        (component, "") => component.to_owned(),
        (component, instance) => format!("{component}, {instance}"),
    }
}
