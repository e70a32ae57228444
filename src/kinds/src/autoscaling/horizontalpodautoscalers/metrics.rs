//! Errors of the metrics that an autoscaler goes by.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names::{dns1123_label, path_segment_name},
};

use super::validation::{ApiVersion, validate_cross_version_object_reference, validate_positive_quantity_field};
use crate::{
    checks::{number, push_invalid},
    resource_names::validate_container_resource_name,
    values::text,
};

/// The sorts of metrics with the fields that describe them, in the order in which Kubernetes looks at them.
const SORTS: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const KNOWN: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// The field that describes metrics of a sort.
pub(super) fn field_of(sort: &str) -> Option<&'static str> {
    SORTS.iter().find(|(name, _)| *name == sort).map(|(_, field)| *field)
}

/// Validates one metric (`validateMetricSpec`).
pub(super) fn validate_metric_spec(metric: &Value, described: ApiVersion, path: &Path<'_>, errors: &mut ErrorList) {
    let sort = text(metric, "type");
    let expected = field_of(sort);
    if sort.is_empty() {
        errors.push(Error::required(
            &path.child("type"),
            "must specify a metric source type",
        ));
    }
    if expected.is_none() {
        errors.push(Error::not_supported(&path.child("type"), sort, &KNOWN));
    }
    let present: Vec<&str> = SORTS
        .iter()
        .map(|(_, field)| *field)
        .filter(|field| metric.get(field).is_some())
        .collect();
    if let Some(field) = present.first() {
        let source = metric.get(field).unwrap_or(&Value::Null);
        if *field == "object" {
            let object = source.get("describedObject").unwrap_or(&Value::Null);
            let at = path.child(field);
            validate_cross_version_object_reference(object, described, &at.child("describedObject"), errors);
        }
        validate_metric_source(field, source, &path.child(field), errors);
    }
    match expected {
        None => errors.push(Error::not_supported(&path.child("type"), sort, &KNOWN)),
        Some(expected) if !present.contains(&expected) => {
            errors.push(Error::required(
                &path.child(expected),
                "must populate information for the given metric source",
            ));
        }
        Some(_) => {}
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| Some(**field) != expected) {
            errors.push(Error::forbidden(
                &path.child(field),
                "must populate the given metric source only",
            ));
        }
    }
}

fn validate_metric_source(field: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let target = source.get("target").unwrap_or(&Value::Null);
    let target_path = path.child("target");
    let has = |name: &str| target.get(name).is_some();
    if matches!(field, "resource" | "containerResource") {
        if text(source, "name").is_empty() {
            errors.push(Error::required(&path.child("name"), "must specify a resource name"));
        }
        if field == "containerResource" {
            validate_container_resource_source(source, path, errors);
        }
    } else {
        validate_metric_identifier(
            source.get("metric").unwrap_or(&Value::Null),
            &path.child("metric"),
            errors,
        );
    }
    validate_metric_target(target, &target_path, errors);
    let missing = |name: &str, detail: &str| Error::required(&target_path.child(name), detail);
    match field {
        "object" if !has("value") && !has("averageValue") => {
            errors.push(missing(
                "averageValue",
                "must set either a target value or averageValue",
            ));
        }
        "external" if !has("value") && !has("averageValue") => {
            errors.push(missing(
                "averageValue",
                "must set either a target value for metric or a per-pod target",
            ));
        }
        "external" if has("value") && has("averageValue") => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(Error::forbidden(&target_path.child("value"), detail));
        }
        "pods" if !has("averageValue") => {
            errors.push(missing("averageValue", "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" => match (has("averageUtilization"), has("averageValue")) {
            (false, false) => {
                let detail = "must set either a target raw value or a target utilization";
                errors.push(missing("averageUtilization", detail));
            }
            (true, true) => {
                let detail = "may not set both a target raw value and a target utilization";
                errors.push(Error::forbidden(&target_path.child("averageValue"), detail));
            }
            _ => {}
        },
        _ => {}
    }
}

/// Validates what names a resource of one container (`validateContainerResourceSource`).
fn validate_container_resource_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let name = text(source, "name");
    if !name.is_empty() {
        validate_container_resource_name(name, &path.child("name"), errors);
    }
    match text(source, "container") {
        "" => errors.push(Error::required(&path.child("container"), "must specify a container")),
        name => push_invalid(&path.child("container"), name, dns1123_label(name), errors),
    }
}

/// As upstream's `validateMetricIdentifier`.
fn validate_metric_identifier(metric: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match text(metric, "name") {
        "" => errors.push(Error::required(&path.child("name"), "must specify a metric name")),
        name => push_invalid(&path.child("name"), name, path_segment_name(name), errors),
    }
}

/// As upstream's `validateMetricTarget`.
fn validate_metric_target(target: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let sort = text(target, "type");
    if sort.is_empty() {
        errors.push(Error::required(
            &path.child("type"),
            "must specify a metric target type",
        ));
    }
    if !matches!(sort, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(Error::invalid_str(&path.child("type"), sort, detail));
    }
    validate_positive_quantity_field(target, "value", path, errors);
    validate_positive_quantity_field(target, "averageValue", path, errors);
    if let Some(utilization) = number(target, "averageUtilization").filter(|utilization| *utilization < 1) {
        let detail = "must be greater than 0";
        errors.push(Error::invalid(
            &path.child("averageUtilization"),
            &utilization.into(),
            detail,
        ));
    }
}
