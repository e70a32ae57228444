//! Errors of a job's spec, also of one in a cron job's template, and of its changes.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedShape},
    names,
    selector::validate_label_selector,
};

use super::policies::{FAILURE_POLICY, SUCCESS_POLICY, validate_job_policies};
use crate::{
    checks::{not_supported_value, number, push_invalid, validate_nonnegative_fields},
    pod_template::{self, Capabilities, Tolerated, layout},
    values::{items, keep_field, remove, struct_mut, text, text_at},
    workload::{shown_selector, validate_template_labels},
};

/// From here on the state of an indexed job may grow too large to be tracked.
const MANY: i64 = 100_000;
const MANY_AT_ONCE: i64 = 10_000;
const MAX_MANAGER_BYTES: usize = 63;

/// Validates a job's own spec (`ValidateJobSpec`).
pub(super) fn validate_job_spec(capabilities: Capabilities, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_common_job_spec(capabilities, spec, path, errors);
    match spec.get("selector") {
        None => errors.push(Error::required(&path.child("selector"), "")),
        Some(selector) => {
            let any_value = capabilities.tolerated.has(Tolerated::SELECTOR_VALUES);
            let fields = selector.as_object().into_iter();
            errors
                .extend(fields.flat_map(|fields| validate_label_selector(fields, any_value, &path.child("selector"))));
        }
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    validate_template_labels(spec.get("selector"), template, &path.child("template"), errors);
}

/// Validates the spec in a cron job's template (`ValidateJobTemplateSpec`).
pub(crate) fn validate_job_template_spec(
    capabilities: Capabilities,
    spec: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_common_job_spec(capabilities, spec, path, errors);
    if let Some(selector) = spec.get("selector") {
        let detail = "`selector` will be auto-generated";
        errors.push(Error::invalid_shown(
            &path.child("selector"),
            shown_selector(selector),
            detail,
        ));
    }
    if let Some(manual) = spec
        .get("manualSelector")
        .filter(|manual| **manual == Value::Bool(true))
    {
        errors.push(not_supported_value(
            &path.child("manualSelector"),
            manual,
            &["nil", "false"],
        ));
    }
}

fn validate_common_job_spec(capabilities: Capabilities, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let counters = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    validate_nonnegative_fields(spec, path, &counters, errors);
    if spec.get("maxFailedIndexes").is_some() && spec.get("backoffLimitPerIndex").is_none() {
        errors.push(Error::required(
            &path.child("backoffLimitPerIndex"),
            "when maxFailedIndexes is specified",
        ));
    }
    if let Some(manager) = spec.get("managedBy").and_then(Value::as_str) {
        let at = path.child("managedBy");
        push_invalid(&at, manager, names::domain_prefixed_path(manager), errors);
        if manager.len() > MAX_MANAGER_BYTES {
            errors.push(Error::too_long(&at, MAX_MANAGER_BYTES));
        }
    }
    validate_completion_mode(spec, path, errors);
    validate_job_policies(spec, path, errors);
    let template = spec.get("template").unwrap_or(&Value::Null);
    pod_template::validate_pod_template_spec(capabilities, template, &path.child("template"), errors);
    validate_restart_policy(spec, template, &path.child("template.spec.restartPolicy"), errors);
}

fn validate_completion_mode(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mode = spec.get("completionMode").and_then(Value::as_str);
    match mode {
        Some("Indexed") => validate_indexed_job(spec, path, errors),
        None | Some("NonIndexed") => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = spec.get(field) {
                    errors.push(Error::invalid(
                        &path.child(field),
                        value,
                        "requires indexed completion mode",
                    ));
                }
            }
        }
        Some(other) => {
            errors.push(Error::not_supported(
                &path.child("completionMode"),
                other,
                &["NonIndexed", "Indexed"],
            ));
        }
    }
}

fn validate_indexed_job(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (completions, parallelism) = (number(spec, "completions"), number(spec, "parallelism"));
    let max_failed = number(spec, "maxFailedIndexes");
    if completions.is_none() {
        errors.push(Error::required(
            &path.child("completions"),
            "when completion mode is Indexed",
        ));
    }
    if let Some(parallelism) = parallelism.filter(|count| *count > MANY) {
        let detail = format!("must be less than or equal to {MANY} when completion mode is Indexed");
        errors.push(Error::invalid(&path.child("parallelism"), &parallelism.into(), &detail));
    }
    let at = path.child("maxFailedIndexes");
    if let Some(max_failed) = max_failed.filter(|failed| completions.is_some_and(|count| *failed > count)) {
        errors.push(Error::invalid(
            &at,
            &max_failed.into(),
            "must be less than or equal to completions",
        ));
    }
    if let Some(max_failed) = max_failed.filter(|failed| *failed > MANY) {
        errors.push(Error::invalid(
            &at,
            &max_failed.into(),
            &format!("must be less than or equal to {MANY}"),
        ));
    }
    if completions.is_none_or(|count| count <= MANY) || spec.get("backoffLimitPerIndex").is_none() {
        return;
    }
    if max_failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY}");
        errors.push(Error::required(&at, &detail));
    }
    let detail = format!(
        "must be less than or equal to {MANY_AT_ONCE} when completions are above {MANY} and used with backoff limit per \
         index"
    );
    for (field, value) in [("parallelism", parallelism), ("maxFailedIndexes", max_failed)] {
        if let Some(value) = value.filter(|value| *value > MANY_AT_ONCE) {
            errors.push(Error::invalid(&path.child(field), &value.into(), &detail));
        }
    }
}

/// As upstream's `validateRestartPolicy`.
fn validate_restart_policy(spec: &Value, template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match text_at(template, "/spec/restartPolicy") {
        "" | "Always" => errors.push(Error::required(path, r#"valid values: "OnFailure", "Never""#)),
        "Never" => {}
        policy @ "OnFailure" => {
            if spec.get("podFailurePolicy").is_some() {
                let detail = r#"only "Never" is supported when podFailurePolicy is specified"#;
                errors.push(Error::invalid_str(path, policy, detail));
            }
        }
        other => errors.push(Error::not_supported(path, other, &["OnFailure", "Never"])),
    }
}

/// Validates a change (`ValidateJobSpecUpdate`, without the errors of the new spec).
pub(super) fn validate_job_spec_update(new: &Value, old: &Value, mutable: MutablePods, errors: &mut ErrorList) {
    let path = Path::new("spec");
    let none = Value::Null;
    let (spec, old_spec) = (new.get("spec").unwrap_or(&none), old.get("spec").unwrap_or(&none));
    validate_completions(spec, old_spec, errors);
    let push = |errors: &mut ErrorList, field: &str, shown: &dyn Fn(&Value) -> String| {
        let (value, old_value) = (spec.get(field), old_spec.get(field));
        if value != old_value {
            let shown = value.map_or_else(|| "null".to_owned(), shown);
            errors.push(Error::invalid_shown(&path.child(field), shown, "field is immutable"));
        }
    };
    push(errors, "selector", &shown_selector);
    let template = spec.get("template").unwrap_or(&none);
    let old_template = old_spec.get("template").unwrap_or(&none);
    validate_pod_template_update(template, old_template, mutable, &path.child("template"), errors);
    push(errors, "completionMode", &Value::to_string);
    push(errors, "podFailurePolicy", &|policy| {
        structs::compact(Some(policy), PrintedShape::Pointer(FAILURE_POLICY))
    });
    push(errors, "backoffLimitPerIndex", &Value::to_string);
    push(errors, "managedBy", &Value::to_string);
    push(errors, "successPolicy", &|policy| {
        structs::compact(Some(policy), PrintedShape::Pointer(SUCCESS_POLICY))
    });
}

/// The parts of a suspended job's template that may change.
#[derive(Clone, Copy)]
pub(super) struct MutablePods {
    /// The resources of containers, and with them all of the template's metadata.
    pub(super) resources: bool,
    /// The pods' scheduling, and the template's labels and annotations.
    pub(super) scheduling: bool,
}

/// Of a template only what is mutable may change (`validatePodTemplateUpdate`).
fn validate_pod_template_update(
    template: &Value,
    old: &Value,
    mutable: MutablePods,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if template == old {
        return;
    }
    let reference = with_mutable_parts(old, template, mutable);
    if !mutable.resources {
        if *template != reference {
            let shown = layout::compact("PodTemplateSpec", template);
            errors.push(Error::invalid_shown(path, shown, "field is immutable"));
        }
    } else if template.get("spec") != reference.get("spec") {
        let shown = layout::compact("PodSpec", template.get("spec").unwrap_or(&Value::Null));
        errors.push(Error::invalid_shown(&path.child("spec"), shown, "field is immutable"));
    }
}

/// Completions of an indexed job may change along with the parallelism (`validateCompletions`).
fn validate_completions(spec: &Value, old: &Value, errors: &mut ErrorList) {
    let (count, before) = (spec.get("completions"), old.get("completions"));
    if count == before {
        return;
    }
    let path = Path::new("spec.completions");
    let shown = count.unwrap_or(&Value::Null);
    if text(spec, "completionMode") != "Indexed" {
        errors.push(Error::invalid(&path, shown, "field is immutable"));
    } else if count.is_some() && count != spec.get("parallelism") {
        errors.push(Error::invalid(
            &path,
            shown,
            "can only be modified in tandem with spec.parallelism",
        ));
    }
}

/// The old template with all that is mutable as it is in the new one.
fn with_mutable_parts(old: &Value, new: &Value, mutable: MutablePods) -> Value {
    let mut opened = old.clone();
    if mutable.scheduling {
        open_metadata(&mut opened, new);
    }
    let none = Value::Null;
    let (Some(pod), from) = (opened.get_mut("spec"), new.get("spec").unwrap_or(&none)) else {
        return opened;
    };
    if mutable.scheduling {
        for field in ["nodeSelector", "tolerations", "schedulingGates"] {
            keep_field(pod, from, field);
        }
        open_affinity(pod, from);
    }
    if mutable.resources {
        open_resources(pod, from);
    }
    opened
}

/// Labels and annotations may change.
fn open_metadata(template: &mut Value, from: &Value) {
    let none = Value::Null;
    let wanted = from.get("metadata");
    let metadata = struct_mut(template, "metadata");
    for field in ["labels", "annotations"] {
        match wanted.unwrap_or(&none).get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    if metadata.is_empty() && wanted.is_none() {
        remove(template, "metadata");
    }
}

/// Resources of the containers of both specs may change.
fn open_resources(pod: &mut Value, from: &Value) {
    for list in ["containers", "initContainers"] {
        let containers = pod.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, from) in containers.zip(items(from, list)) {
            keep_field(container, from, "resources");
        }
    }
}

/// Node affinity may change; an affinity of nothing else may come and go.
fn open_affinity(pod: &mut Value, from: &Value) {
    let wanted = from.get("affinity");
    if wanted.is_none() && pod.get("affinity").is_none() {
        return;
    }
    let affinity = struct_mut(pod, "affinity");
    match wanted.and_then(|affinity| affinity.get("nodeAffinity")) {
        Some(node_affinity) => affinity.insert("nodeAffinity".into(), node_affinity.clone()),
        None => affinity.remove("nodeAffinity"),
    };
    if affinity.is_empty() && wanted.is_none() {
        remove(pod, "affinity");
    }
}

/// Warnings of a job's spec; `path` is where it stands.
pub(crate) fn warnings(spec: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let count = |field: &str| number(spec, field).unwrap_or(0);
    let is_indexed = text(spec, "completionMode") == "Indexed";
    if is_indexed && count("completions") > MANY && count("parallelism") > MANY_AT_ONCE {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    if let Some(template) = spec.get("template") {
        warnings.extend(pod_template::warnings(template, &format!("{path}.template")));
    }
    warnings
}
