//! Errors of events (`pkg/apis/core/validation/events.go`): clients of the core group may do nearly anything, those of
//! `events.k8s.io` must follow its rules.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names,
};

use crate::checks::validate_builtin_metadata;
use crate::values::{integer_at, text, text_at};

/// The longest reason, action and instance.
const MAX_WORD: usize = 128;
/// The longest message.
const MAX_NOTE: usize = 1024;

/// An `ObjectReference` of Kubernetes' internal types.
const REFERENCE: &[PrintedField] = &[
    ("Kind", "kind", PrintedShape::Text),
    ("Namespace", "namespace", PrintedShape::Text),
    ("Name", "name", PrintedShape::Text),
    ("UID", "uid", PrintedShape::Text),
    ("APIVersion", "apiVersion", PrintedShape::Text),
    ("ResourceVersion", "resourceVersion", PrintedShape::Text),
    ("FieldPath", "fieldPath", PrintedShape::Text),
];
/// An `EventSource` of theirs.
const SOURCE: &[PrintedField] = &[
    ("Component", "component", PrintedShape::Text),
    ("Host", "host", PrintedShape::Text),
];

/// Validates a new event; `is_core` says that the request is in the core group's version (`ValidateEventCreate`).
pub(super) fn validate_event_create(event: &Value, is_core: bool) -> ErrorList {
    let mut errors = legacy_validate_event(event, is_core);
    if is_core {
        return errors;
    }
    errors.extend(validate_builtin_metadata(event, true, names::name_is_dns_subdomain));
    errors.extend(validate_v1_event_series(event));
    if is_unset(event, "eventTime") {
        errors.push(Error::required(&Path::new("eventTime"), ""));
    }
    let kind = text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(Error::invalid_str(
            &Path::new("type"),
            "",
            &format!("has invalid value: {kind}"),
        ));
    }
    let has_source = ["component", "host"]
        .iter()
        .any(|field| !text_at(event, &format!("/source/{field}")).is_empty());
    let set = [
        ("firstTimestamp", !is_unset(event, "firstTimestamp")),
        ("lastTimestamp", !is_unset(event, "lastTimestamp")),
        ("count", integer_at(event, "/count").unwrap_or(0) != 0),
        ("source", has_source),
    ];
    for (name, _) in set.into_iter().filter(|(_, is_set)| *is_set) {
        errors.push(Error::invalid_str(&Path::new(name), "", "needs to be unset"));
    }
    errors
}

/// Validates a change (`ValidateEventUpdate`).
pub(super) fn validate_event_update(new: &Value, old: &Value, is_core: bool) -> ErrorList {
    let mut errors = legacy_validate_event(new, is_core);
    if is_core {
        return errors;
    }
    if new.get("series") != old.get("series") {
        errors.extend(validate_v1_event_series(new));
    }
    // The reason is checked twice, as in Kubernetes; clients see two causes.
    let kept = [
        ("involvedObject", "involvedObject", PrintedShape::Struct(REFERENCE)),
        ("reason", "reason", PrintedShape::Text),
        ("message", "message", PrintedShape::Text),
        ("source", "source", PrintedShape::Struct(SOURCE)),
        ("firstTimestamp", "firstTimestamp", PrintedShape::Plain),
        ("lastTimestamp", "lastTimestamp", PrintedShape::Plain),
        ("count", "count", PrintedShape::Number),
        ("reason", "reason", PrintedShape::Text),
        ("type", "type", PrintedShape::Text),
        ("eventTime", "eventTime", PrintedShape::Plain),
        ("action", "action", PrintedShape::Text),
        ("related", "related", PrintedShape::Pointer(REFERENCE)),
        ("reportingComponent", "reportingController", PrintedShape::Text),
        ("reportingInstance", "reportingInstance", PrintedShape::Text),
    ];
    for (field, path, shape) in kept {
        let shown = structs::compact(new.get(field), shape);
        if shown != structs::compact(old.get(field), shape) {
            errors.push(Error::invalid_shown(&Path::new(path), shown, "field is immutable"));
        }
    }
    errors
}

fn is_unset(event: &Value, field: &str) -> bool {
    text(event, field).is_empty()
}

/// As upstream's `validateV1EventSeries`.
fn validate_v1_event_series(event: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(series) = event.get("series").filter(|series| series.is_object()) else {
        return errors;
    };
    if series.get("count").and_then(Value::as_i64).unwrap_or(0) < 2 {
        errors.push(Error::invalid_str(
            &Path::new("series.count"),
            "",
            "should be at least 2",
        ));
    }
    if is_unset(series, "lastObservedTime") {
        errors.push(Error::required(&Path::new("series.lastObservedTime"), ""));
    }
    errors
}

/// Validates the rules for all clients. Events with a time are of the newer form and held to more.
fn legacy_validate_event(event: &Value, is_core: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let namespace = text_at(event, "/metadata/namespace");
    let involved = text_at(event, "/involvedObject/namespace");
    let has_time = !is_unset(event, "eventTime");
    let matches = match (involved, has_time) {
        ("", true) => matches!(namespace, "default" | "kube-system"),
        ("", false) => matches!(namespace, "" | "default"),
        (_, true) => true,
        (_, false) => namespace == involved,
    };
    if !matches {
        let path = Path::new("involvedObject.namespace");
        errors.push(Error::invalid_str(&path, involved, "does not match event.namespace"));
    }
    if has_time {
        validate_reporter(event, is_core, &mut errors);
    }
    let path = Path::new("namespace");
    let messages = names::dns1123_subdomain(namespace);
    errors.extend(messages.iter().map(|why| Error::invalid_str(&path, namespace, why)));
    errors
}

fn validate_reporter(event: &Value, is_core: bool, errors: &mut ErrorList) {
    let reporter = text(event, "reportingComponent");
    let path = Path::new(if is_core {
        "reportingComponent"
    } else {
        "reportingController"
    });
    if reporter.is_empty() {
        errors.push(Error::required(&path, ""));
    }
    errors.extend(
        names::qualified_name(reporter)
            .iter()
            .map(|why| Error::invalid_str(&path, reporter, why)),
    );
    for field in ["reportingInstance", "action", "reason"] {
        let path = Path::new(field);
        let value = text(event, field);
        if value.is_empty() {
            errors.push(Error::required(&path, ""));
        }
        validate_length(&path, value, MAX_WORD, errors);
    }
    validate_length(&Path::new("message"), text(event, "message"), MAX_NOTE, errors);
}

fn validate_length(path: &Path<'_>, value: &str, max: usize, errors: &mut ErrorList) {
    if value.len() > max {
        errors.push(Error::invalid_str(
            path,
            "",
            &format!("can have at most {max} characters"),
        ));
    }
}
