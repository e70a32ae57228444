//! Events in both their forms.

use serde_json::{Value, json};
use trireme_machinery::GroupVersion;
use trireme_registry::{Conversion as _, Strategy as _};

use super::{Events, EventsV1, count, last_seen, reporter, target, validation};

fn texts(errors: &[trireme_machinery::field::Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn newer() -> Value {
    json!({
        "metadata": {"name": "b", "namespace": "n"}, "action": "Binding", "eventTime": "2020-01-01T00:00:00.123456Z",
        "reason": "Scheduled", "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n"}, "type": "Normal",
        "message": "assigned", "reportingComponent": "ex.test/ctl", "reportingInstance": "ctl-1", "source": {},
    })
}

#[test]
fn both_forms_are_one_event() {
    let mut object = json!({"note": "x", "regarding": {"kind": "Pod"}, "deprecatedSource": {}, "deprecatedCount": 3});
    EventsV1.to_stored(&mut object);
    let stored = json!({
        "message": "x", "involvedObject": {"kind": "Pod"}, "source": {}, "count": 3,
        "reportingComponent": "", "reportingInstance": "",
    });
    assert_eq!(object, stored);
    EventsV1.to_served(&mut object);
    assert_eq!(
        object,
        json!({"note": "x", "regarding": {"kind": "Pod"}, "deprecatedSource": {}, "deprecatedCount": 3})
    );
}

#[test]
fn the_core_group_tolerates_what_the_other_refuses() {
    let cases: [(Value, bool, &[&str]); 5] = [
        (newer(), false, &[]),
        (
            json!({"metadata": {"name": "x", "namespace": "n"}}),
            true,
            &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"],
        ),
        (
            json!({"metadata": {"name": "Bad_N", "namespace": "n"}, "involvedObject": {"namespace": "n"}, "type": "Odd", "count": -1}),
            true,
            &[],
        ),
        (
            json!({"metadata": {"name": "x", "namespace": "n"}, "involvedObject": {"namespace": "n"}, "type": "Odd",
                   "count": 1, "source": {"host": "h"}, "firstTimestamp": "2020-01-01T00:00:00Z", "series": {"count": 1}}),
            false,
            &[
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "eventTime: Required value",
                "type: Invalid value: \"\": has invalid value: Odd",
                "firstTimestamp: Invalid value: \"\": needs to be unset",
                "count: Invalid value: \"\": needs to be unset",
                "source: Invalid value: \"\": needs to be unset",
            ],
        ),
        (
            json!({"metadata": {"name": "d", "namespace": "default"}, "eventTime": "2020-01-01T00:00:00.000000Z",
                   "reportingComponent": "ex.test/c", "reason": "r".repeat(129)}),
            true,
            &[
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Invalid value: \"\": can have at most 128 characters",
            ],
        ),
    ];
    for (event, is_core, want) in cases {
        assert_eq!(
            texts(&validation::validate_event_create(&event, is_core)),
            want,
            "{event}"
        );
    }
}

#[test]
fn only_the_core_group_may_change_what_happened() {
    let mut new = newer();
    new["reason"] = "Other".into();
    new["series"] = json!({"count": 2, "lastObservedTime": "2020-01-02T00:00:00.000000Z"});
    let reason = "reason: Invalid value: \"Other\": field is immutable";
    assert_eq!(
        texts(&validation::validate_event_update(&new, &newer(), false)),
        [reason, reason]
    );
    assert_eq!(
        texts(&validation::validate_event_update(&new, &newer(), true)),
        Vec::<String>::new()
    );
}

#[test]
fn each_group_has_words_of_its_own() {
    let refused = |group: &str, field: &str| {
        Events
            .refuse_field(&GroupVersion::new(group, "v1").with_kind("Event"), field)
            .is_some()
    };
    for (field, in_core, in_events) in [
        ("involvedObject.name", true, false),
        ("regarding.name", false, true),
        ("reportingComponent", true, false),
        ("reportingController", false, true),
        ("source", true, false),
        ("reason", true, true),
    ] {
        assert_eq!(
            (refused("", field), refused("events.k8s.io", field)),
            (!in_core, !in_events),
            "{field}"
        );
    }
}

#[test]
fn cells() {
    let now = "2020-01-01T00:01:00Z".parse().expect("a time");
    let mut event = newer();
    assert_eq!((last_seen(&event, now).as_str(), count(&event)), ("59s", 1));
    assert_eq!(
        (target(&event).as_str(), reporter(&event).as_str()),
        ("pod/p", "ex.test/ctl, ctl-1")
    );
    event["series"] = json!({"count": 5, "lastObservedTime": "2020-01-01T00:00:30.000000Z"});
    assert_eq!((last_seen(&event, now).as_str(), count(&event)), ("30s", 5));
    assert_eq!(last_seen(&json!({}), now), "<unknown>");
}
