//! Deployments (`pkg/registry/apps/deployment`, `pkg/apis/apps/validation`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    intstr, names,
};
use trireme_registry::{Strategy, WriteContext, info::ScalePaths, strategy::differs_beyond_metadata_and_status};

use super::workload::{
    count_column, push_bound_faults, push_negative_faults, push_selector_change, push_selector_faults,
    push_template_faults, ready_column, template_columns,
};
use crate::{
    columns,
    kind::Kind,
    pod_template,
    values::{integer_at, keep_field, remove, struct_mut, text},
};

const SPEC: &str = "io.k8s.api.apps.v1.DeploymentSpec";
const STATUS: &str = "io.k8s.api.apps.v1.DeploymentStatus";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let up_to_date =
        count_column("Up-to-date", "string", STATUS, "updatedReplicas", "/status/updatedReplicas");
    let available = count_column("Available", "string", STATUS, "availableReplicas", "/status/availableReplicas");
    let [containers, images, selector] = template_columns(SPEC);
    Kind::new(Deployments)
        .columns(vec![
            columns::name(),
            ready_column(),
            up_to_date,
            available,
            columns::age(),
            containers,
            images,
            selector,
        ])
        .scale(ScalePaths {
            spec_replicas: "spec.replicas",
            status_replicas: "status.replicas",
            selector: "spec.selector",
        })
}

struct Deployments;

impl Strategy for Deployments {
    fn default(&self, object: &mut Value) {
        let spec = struct_mut(object, "spec");
        let strategy = spec.entry("strategy").or_insert_with(|| json!({}));
        if text(strategy, "type").is_empty() {
            strategy["type"] = "RollingUpdate".into();
        }
        if text(strategy, "type") == "RollingUpdate" {
            let rolling = struct_mut(strategy, "rollingUpdate");
            for bound in ["maxSurge", "maxUnavailable"] {
                rolling.entry(bound).or_insert_with(|| "25%".into());
            }
        }
        if let Some(pod) = spec.get_mut("template").and_then(|template| template.get_mut("spec")) {
            pod_template::default_spec(pod);
        }
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(spec) = object.get("spec") {
            push_spec_faults(spec, &Path::new("spec"), &mut errors);
        }
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        push_selector_change(new, old, &mut errors);
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        let labels = old.pointer("/metadata/labels").cloned();
        match labels {
            Some(labels) => new["metadata"]["labels"] = labels,
            None => remove(&mut new["metadata"], "labels"),
        }
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = new.get("status").unwrap_or(&Value::Null);
        let path = Path::new("status");
        let counters = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        push_negative_faults(status, &path, &counters, &mut errors);
        let bounds = [
            ("updatedReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ];
        push_bound_faults(status, &bounds, &mut errors);
        push_collision_faults(new, old, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        new.pointer("/spec/template").map(|template| pod_template::warnings(template, "spec.template")).unwrap_or_default()
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn is_new_generation(&self, new: &Value, old: &Value) -> bool {
        let annotations = |object: &Value| object.pointer("/metadata/annotations").cloned();
        differs_beyond_metadata_and_status(new, old) || annotations(new) != annotations(old)
    }
}

fn push_spec_faults(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    push_negative_faults(spec, path, &["replicas"], errors);
    push_selector_faults(spec, path, "deployment", errors);
    push_template_faults(spec, path, errors);
    if let Some(strategy) = spec.get("strategy") {
        push_strategy_faults(strategy, &path.child("strategy"), errors);
    }
    push_negative_faults(spec, path, &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"], errors);
    let ready = integer_at(spec, "/minReadySeconds").unwrap_or(0);
    if let Some(deadline) = integer_at(spec, "/progressDeadlineSeconds").filter(|deadline| *deadline <= ready) {
        let at = path.child("progressDeadlineSeconds");
        errors.push(Error::invalid(&at, &deadline.into(), "must be greater than minReadySeconds"));
    }
}

fn push_strategy_faults(strategy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rolling = strategy.get("rollingUpdate").filter(|rolling| !rolling.is_null());
    match text(strategy, "type") {
        "Recreate" => {
            if rolling.is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(Error::forbidden(&path.child("rollingUpdate"), detail));
            }
        }
        "RollingUpdate" => {
            let at = path.child("rollingUpdate");
            match rolling {
                None => errors.push(Error::required(&at, "this should be defaulted and never be nil")),
                Some(rolling) => push_rolling_faults(rolling, &at, errors),
            }
        }
        other => errors.push(Error::not_supported(&path.child("type"), other, &["Recreate", "RollingUpdate"])),
    }
}

fn push_rolling_faults(rolling: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::from(0);
    let unavailable = rolling.get("maxUnavailable").unwrap_or(&none);
    let surge = rolling.get("maxSurge").unwrap_or(&none);
    push_int_or_percent_faults(unavailable, &path.child("maxUnavailable"), errors);
    push_int_or_percent_faults(surge, &path.child("maxSurge"), errors);
    if int_or_percent(unavailable) == 0 && int_or_percent(surge) == 0 {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(Error::invalid(&path.child("maxUnavailable"), unavailable, detail));
    }
    if unavailable.as_str().and_then(intstr::percent).is_some_and(|percent| percent > 100) {
        errors.push(Error::invalid(&path.child("maxUnavailable"), unavailable, "must not be greater than 100%"));
    }
}

/// A whole number or a percentage, and not negative (`ValidatePositiveIntOrPercent`).
fn push_int_or_percent_faults(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Value::String(text) if !names::percent(text).is_empty() => {
            let detail = "must be an integer or percentage (e.g '5%%')";
            errors.push(Error::invalid(path, value, detail));
        }
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            errors.push(Error::invalid(path, value, "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

fn int_or_percent(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str().and_then(intstr::percent)).unwrap_or(0)
}

fn push_collision_faults(new: &Value, old: &Value, errors: &mut ErrorList) {
    let Some(before) = integer_at(old, "/status/collisionCount") else { return };
    let path = Path::new("status.collisionCount");
    match integer_at(new, "/status/collisionCount") {
        None => errors.push(Error::invalid(&path, &Value::Null, "cannot be set to nil")),
        Some(now) if now < before => errors.push(Error::invalid(&path, &now.into(), "cannot be decremented")),
        Some(_) => {}
    }
}
