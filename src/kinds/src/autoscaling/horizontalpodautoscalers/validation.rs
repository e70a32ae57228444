//! Errors of an autoscaler's spec.

use serde_json::Value;
use trireme_machinery::{
    Feature, Features, GroupVersion,
    field::{Error, ErrorList, Path},
    names::path_segment_name,
};

use super::metrics;
use crate::{
    checks::{number, push_invalid, quantity, validate_nonnegative_quantity},
    values::{items, text},
};

const MAX_WINDOW_SECONDS: i64 = 3600;
const MAX_PERIOD_SECONDS: i64 = 1800;
const SELECT_POLICIES: [&str; 3] = ["Disabled", "Max", "Min"];

/// Validates a spec; `old` is there on update, and what is wrong in it already may stay.
/// Upstream: `validateHorizontalPodAutoscalerSpec`.
pub(super) fn validate_horizontal_pod_autoscaler_spec(
    features: Features,
    spec: &Value,
    old: Option<&Value>,
    errors: &mut ErrorList,
) {
    let path = Path::new("spec");
    let min = number(spec, "minReplicas");
    let max = number(spec, "maxReplicas").unwrap_or(0);
    let was_zero = old.is_some_and(|old| number(old, "minReplicas") == Some(0));
    let may_be_zero = features.has(Feature::HpaScaleToZero) || was_zero;
    let floor = i64::from(!may_be_zero);
    if let Some(min) = min.filter(|min| *min < floor) {
        let detail = format!("must be greater than or equal to {floor}");
        errors.push(Error::invalid(&path.child("minReplicas"), &min.into(), &detail));
    }
    let at = path.child("maxReplicas");
    if max == 0 {
        errors.push(Error::required(&at, "must be set and greater than 0"));
    } else if max < 0 {
        errors.push(Error::invalid(&at, &max.into(), "must be greater than or equal to 1"));
    }
    if min.is_some_and(|min| max < min) {
        errors.push(Error::invalid(
            &at,
            &max.into(),
            "must be greater than or equal to `minReplicas`",
        ));
    }
    let reference = spec.get("scaleTargetRef").unwrap_or(&Value::Null);
    let is_kept = old.is_some_and(|old| {
        let before = old.get("scaleTargetRef").unwrap_or(&Value::Null);
        ["kind", "apiVersion"]
            .iter()
            .all(|name| text(before, name) == text(reference, name))
    });
    // Of the core group only replication controllers can be scaled.
    let rule = match text(reference, "kind") {
        _ if is_kept => ApiVersion::Any,
        "ReplicationController" => ApiVersion::Valid,
        _ => ApiVersion::WithGroup,
    };
    validate_cross_version_object_reference(reference, rule, &path.child("scaleTargetRef"), errors);
    let described = match old.is_some_and(describes_by_invalid_version) {
        true => ApiVersion::Any,
        false => ApiVersion::Valid,
    };
    validate_metrics(spec, described, &path.child("metrics"), errors);
    if let Some(behavior) = spec.get("behavior") {
        for direction in ["scaleUp", "scaleDown"] {
            if let Some(rules) = behavior.get(direction) {
                validate_scaling_rules(rules, &path.child("behavior").child(direction), errors);
            }
        }
    }
}

/// The rule for an `apiVersion`.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum ApiVersion {
    Any,
    Valid,
    WithGroup,
}

/// Validates a reference to an object of any version (`ValidateCrossVersionObjectReference`).
pub(super) fn validate_cross_version_object_reference(
    reference: &Value,
    rule: ApiVersion,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for field in ["kind", "name"] {
        match text(reference, field) {
            "" => errors.push(Error::required(&path.child(field), "")),
            value => push_invalid(&path.child(field), value, path_segment_name(value), errors),
        }
    }
    let version = text(reference, "apiVersion");
    if let Err(why) = validate_api_version(version, rule) {
        errors.push(Error::invalid_str(&path.child("apiVersion"), version, &why));
    }
}

/// As upstream's `ValidateAPIVersion`.
fn validate_api_version(version: &str, rule: ApiVersion) -> Result<(), String> {
    let is_parsed = matches!(version, "" | "/") || GroupVersion::parse(version).is_some();
    let has_group = version.split_once('/').is_some_and(|(group, _)| !group.is_empty());
    match rule {
        ApiVersion::Any => Ok(()),
        _ if !is_parsed => Err(format!("unexpected GroupVersion string: {version}")),
        ApiVersion::WithGroup if !has_group => Err("apiVersion must specify API group".to_owned()),
        _ => Ok(()),
    }
}

/// Reports whether a metric describes its object by a version that would be refused today: then all may.
fn describes_by_invalid_version(spec: &Value) -> bool {
    let objects = items(spec, "metrics")
        .iter()
        .filter(|metric| text(metric, "type") == "Object");
    let mut described = objects.filter_map(|metric| metric.get("object")?.get("describedObject"));
    described.any(|object| validate_api_version(text(object, "apiVersion"), ApiVersion::Valid).is_err())
}

/// As upstream's `validateMetrics`.
fn validate_metrics(spec: &Value, described: ApiVersion, path: &Path<'_>, errors: &mut ErrorList) {
    let all = items(spec, "metrics");
    for (index, metric) in all.iter().enumerate() {
        metrics::validate_metric_spec(metric, described, &path.index(index), errors);
    }
    let tells_of_need = all
        .iter()
        .any(|metric| matches!(text(metric, "type"), "Object" | "External"));
    if number(spec, "minReplicas") == Some(0) && !tells_of_need {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(Error::forbidden(path, detail));
    }
}

/// As upstream's `validateScalingRules`.
fn validate_scaling_rules(rules: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("stabilizationWindowSeconds");
    match number(rules, "stabilizationWindowSeconds") {
        Some(seconds) if seconds < 0 => {
            errors.push(Error::invalid(
                &at,
                &seconds.into(),
                "must be greater than or equal to zero",
            ));
        }
        Some(seconds) if seconds > MAX_WINDOW_SECONDS => {
            let detail = format!("must be less than or equal to {MAX_WINDOW_SECONDS}");
            errors.push(Error::invalid(&at, &seconds.into(), &detail));
        }
        _ => {}
    }
    let select = rules.get("selectPolicy").and_then(Value::as_str);
    if let Some(select) = select.filter(|select| !SELECT_POLICIES.contains(select)) {
        errors.push(Error::not_supported(
            &path.child("selectPolicy"),
            select,
            &SELECT_POLICIES,
        ));
    }
    let at = path.child("policies");
    if items(rules, "policies").is_empty() {
        errors.push(Error::required(&at, "must specify at least one Policy"));
    }
    for (index, policy) in items(rules, "policies").iter().enumerate() {
        validate_scaling_policy(policy, &at.index(index), errors);
    }
    if let Some(tolerance) = rules.get("tolerance") {
        validate_nonnegative_quantity(tolerance, &path.child("tolerance"), errors);
    }
}

/// As upstream's `validateScalingPolicy`.
fn validate_scaling_policy(policy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let kind = text(policy, "type");
    if !matches!(kind, "Pods" | "Percent") {
        errors.push(Error::not_supported(&path.child("type"), kind, &["Percent", "Pods"]));
    }
    for field in ["value", "periodSeconds"] {
        let value = number(policy, field).unwrap_or(0);
        if value <= 0 {
            errors.push(Error::invalid(
                &path.child(field),
                &value.into(),
                "must be greater than zero",
            ));
        }
    }
    if let Some(seconds) = number(policy, "periodSeconds").filter(|seconds| *seconds > MAX_PERIOD_SECONDS) {
        let detail = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
        errors.push(Error::invalid(&path.child("periodSeconds"), &seconds.into(), &detail));
    }
}

/// A quantity that must be more than nothing, if it is there.
pub(super) fn validate_positive_quantity_field(fields: &Value, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(value) = fields.get(name).filter(|value| quantity(value).signum() <= 0) {
        errors.push(Error::invalid(&path.child(name), value, "must be positive"));
    }
}
