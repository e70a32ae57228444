//! What workloads have in common: selectors, templates of pods that run for ever, counters, columns.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    schema,
    selector::{compile_label_selector, validate_label_selector},
};
use trireme_registry::Column;

use crate::{
    columns::{self, column, described, wide},
    data, pod_template,
    values::{integer_at, items, text, text_at},
};

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Fields that may not be negative, in order; those that are absent pass.
pub(super) fn push_negative_faults(value: &Value, path: &Path<'_>, fields: &[&str], errors: &mut ErrorList) {
    for field in fields {
        if let Some(number) = value.get(field).and_then(Value::as_i64).filter(|number| *number < 0) {
            errors.push(Error::invalid(&path.child(field), &number.into(), NOT_NEGATIVE));
        }
    }
}

/// A label selector as error texts show it: fields in the order of their declaration.
pub(super) fn shown_selector(selector: &Value) -> String {
    let types = data::type_table();
    match types.find("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector") {
        Some(id) => schema::ordered_json(types, id, selector),
        None => selector.to_string(),
    }
}

/// The selector of a workload must be there, be well-formed and select something.
pub(super) fn push_selector_faults(spec: &Value, path: &Path<'_>, what: &str, errors: &mut ErrorList) {
    let at = path.child("selector");
    let Some(selector) = spec.get("selector").filter(|selector| !selector.is_null()) else {
        errors.push(Error::required(&at, ""));
        return;
    };
    if let Some(fields) = selector.as_object() {
        errors.extend(validate_label_selector(fields, false, &at));
    }
    let is_empty = selector.get("matchLabels").is_none() && items(selector, "matchExpressions").is_empty();
    if is_empty {
        let detail = format!("empty selector is invalid for {what}");
        errors.push(Error::invalid_shown(&at, shown_selector(selector), &detail));
    }
}

/// The template of pods that are kept running (`ValidatePodTemplateSpecForReplicaSet`).
pub(super) fn push_template_faults(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("template");
    let Some(template) = spec.get("template").filter(|template| !template.is_null()) else {
        errors.push(Error::required(&at, ""));
        return;
    };
    let labels = template.pointer("/metadata/labels");
    let selector = compile_label_selector(spec.get("selector").and_then(Value::as_object));
    let selects_nothing = selector.as_ref().is_ok_and(|selector| {
        !selector.is_everything() && !selector.matches(labels.and_then(Value::as_object))
    });
    if selects_nothing {
        errors.push(Error::invalid(
            &at.child("metadata.labels"),
            labels.unwrap_or(&Value::Null),
            "`selector` does not match template `labels`",
        ));
    }
    pod_template::validate_template(template, &at, errors);
    let policy = text_at(template, "/spec/restartPolicy");
    if policy != "Always" {
        errors.push(Error::not_supported(&at.child("spec.restartPolicy"), policy, &["Always"]));
    }
    if template.pointer("/spec/activeDeadlineSeconds").is_some() {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        errors.push(Error::forbidden(&at.child("spec.activeDeadlineSeconds"), detail));
    }
}

/// A selector stays what it was made as.
pub(super) fn push_selector_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (new, old) = (new.pointer("/spec/selector"), old.pointer("/spec/selector"));
    if new != old {
        let shown = new.map_or_else(|| "null".to_owned(), shown_selector);
        errors.push(Error::invalid_shown(&Path::new("spec.selector"), shown, "field is immutable"));
    }
}

/// Counters of a status that may not be greater than another one: `(counter, bound, how the bound is named)`.
pub(super) fn push_bound_faults(status: &Value, bounds: &[(&str, &str, &str)], errors: &mut ErrorList) {
    let path = Path::new("status");
    let number = |name: &str| status.get(name).and_then(Value::as_i64).unwrap_or(0);
    for (counter, bound, bound_name) in bounds {
        if number(counter) > number(bound) {
            let detail = format!("cannot be greater than {bound_name}");
            errors.push(Error::invalid(&path.child(counter), &number(counter).into(), &detail));
        }
    }
}

/// `ready/wanted`
pub(super) fn ready_column() -> Column {
    column("Ready", "string", described("Number of the pod with ready state"), |object| {
        let ready = integer_at(object, "/status/readyReplicas").unwrap_or(0);
        let wanted = integer_at(object, "/spec/replicas").unwrap_or(0);
        Value::from(format!("{ready}/{wanted}"))
    })
}

/// A counter, 0 if it is absent.
pub(super) fn count_column(
    name: &str,
    kind: &'static str,
    type_name: &'static str,
    field: &'static str,
    pointer: &'static str,
) -> Column {
    column(name, kind, columns::documented(type_name, field), move |object| {
        Value::from(integer_at(object, pointer).unwrap_or(0))
    })
}

/// The names and images of the template's containers, and the selector: what `-o wide` adds.
pub(super) fn template_columns(spec_type: &'static str) -> [Column; 3] {
    let join = |object: &Value, field: &str| {
        let spec = object.pointer("/spec/template/spec");
        let containers = spec.map_or(&[][..], |spec| items(spec, "containers"));
        let all: Vec<&str> = containers.iter().map(|container| text(container, field)).collect();
        Value::from(all.join(","))
    };
    let selector = |object: &Value| {
        let selector = object.pointer("/spec/selector").and_then(Value::as_object);
        let text = compile_label_selector(selector).map(|selector| selector.to_string()).unwrap_or_default();
        Value::from(if text.is_empty() { "<none>".to_owned() } else { text })
    };
    [
        wide(column("Containers", "string", described("Names of each container in the template."), move |object| {
            join(object, "name")
        })),
        wide(column("Images", "string", described("Images referenced by each container in the template."), move |object| {
            join(object, "image")
        })),
        wide(column("Selector", "string", columns::documented(spec_type, "selector"), selector)),
    ]
}
