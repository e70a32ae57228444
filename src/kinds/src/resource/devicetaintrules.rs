//! DeviceTaintRules (`pkg/registry/resource/devicetaintrule`).

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names, time,
};
use trireme_registry::{Column, ResetFields, Strategy, WriteContext, request::Subresource};

use super::{names::validate_pool_name, taints::validate_device_taint};
use crate::{
    checks::push_invalid,
    columns::{self, column, documented, since},
    conditions::validate_conditions,
    kind::Kind,
    pod_template::validate_csi_driver_name,
    values::{items, keep_field, keep_metadata, struct_mut, text_at},
};

const TAINT: &str = "io.k8s.api.resource.v1.DeviceTaint";
const ADDED: &str = "/spec/taint/timeAdded";
const EFFECT: &str = "/spec/taint/effect";
const MAX_CONDITIONS: usize = 8;

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let at = |pointer: &'static str| move |object: &Value| Value::from(text_at(object, pointer));
    let added = column("TimeAdded", "string", documented(TAINT, "timeAdded"), |_| Value::Null);
    Kind::new("resource.k8s.io", "devicetaintrules", DeviceTaintRules).columns(vec![
        columns::name(),
        column("Key", "string", documented(TAINT, "key"), at("/spec/taint/key")),
        column("Value", "string", documented(TAINT, "value"), at("/spec/taint/value")),
        column("Effect", "string", documented(TAINT, "effect"), at(EFFECT)),
        Column {
            cell: std::sync::Arc::new(|object, now| match text_at(object, ADDED) {
                "" => "".into(),
                at => since(at, now).into(),
            }),
            ..added
        },
        columns::age(),
    ])
}

struct DeviceTaintRules;

impl Strategy for DeviceTaintRules {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn default_times(&self, now: Timestamp, object: &mut Value) {
        if object.pointer(ADDED).is_none() {
            date_taint(now, object);
        }
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_device_taint_rule(object)
    }

    fn prepare_for_update(&self, context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
        // The time is that of the effect, unless the client says another.
        let has_new_effect = text_at(new, EFFECT) != text_at(old, EFFECT) && new.pointer(ADDED) == old.pointer(ADDED);
        if has_new_effect {
            date_taint(context.now, new);
        }
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_device_taint_rule(new);
        if text_at(new, EFFECT) == text_at(old, EFFECT) {
            errors.retain(|error| error.field != "spec.taint.effect");
        }
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = new.get("status").unwrap_or(&Value::Null);
        let path = Path::new("status.conditions");
        validate_conditions(status, &path, &mut errors);
        let count = items(status, "conditions").len();
        if count > MAX_CONDITIONS {
            errors.push(Error::too_many(&path, count, MAX_CONDITIONS));
        }
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn date_taint(now: Timestamp, object: &mut Value) {
    if let Some(spec) = object.get_mut("spec") {
        let now = time::Time::from(now).to_string();
        struct_mut(spec, "taint").insert("timeAdded".to_owned(), now.into());
    }
}

/// Validates a rule (`ValidateDeviceTaintRule`).
fn validate_device_taint_rule(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let selector = path.child("deviceSelector");
    let selected = |name: &str| spec.get("deviceSelector")?.get(name)?.as_str();
    if let Some(driver) = selected("driver") {
        validate_csi_driver_name(driver, &selector.child("driver"), &mut errors);
    }
    if let Some(pool) = selected("pool") {
        validate_pool_name(pool, &selector.child("pool"), &mut errors);
    }
    if let Some(device) = selected("device") {
        push_invalid(
            &selector.child("device"),
            device,
            names::dns1123_label(device),
            &mut errors,
        );
    }
    validate_device_taint(
        spec.get("taint").unwrap_or(&Value::Null),
        &path.child("taint"),
        &mut errors,
    );
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn the_time_is_that_of_the_effect() {
        let trial = Trial::new("resource.k8s.io", "devicetaintrules", kind());
        let taint = |effect: &str| json!({"taint": {"key": "k", "effect": effect}});
        let mut rule = trial.create(named("r", taint("NoExecute"))).expect("a valid rule");
        assert!(!text_at(&rule, ADDED).is_empty());
        rule["spec"]["taint"]["timeAdded"] = "2020-01-01T00:00:00Z".into();
        let kept = trial
            .patch(&rule, &json!({"spec": {"taint": {"key": "l"}}}))
            .expect("a valid rule");
        assert_eq!(text_at(&kept, ADDED), "2020-01-01T00:00:00Z");
        let changed = trial
            .patch(&rule, &json!({"spec": taint("None")}))
            .expect("a valid rule");
        assert_ne!(text_at(&changed, ADDED), "2020-01-01T00:00:00Z");
    }

    #[test]
    fn a_rule_names_a_taint() {
        let trial = Trial::new("resource.k8s.io", "devicetaintrules", kind());
        trial.expect_errors(&[
            (
                named("r", json!({"taint": {"key": "k", "effect": "PreferNoSchedule"}})),
                &["spec.taint.effect: Unsupported value: \"PreferNoSchedule\": supported values: \"NoExecute\", \"NoSchedule\", \"None\""],
            ),
            (
                named("r", json!({"deviceSelector": {"pool": ""}, "taint": {"key": "k", "effect": "None"}})),
                &["spec.deviceSelector.pool: Required value"],
            ),
        ]);
    }
}
