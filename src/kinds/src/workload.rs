//! Parts that workloads share: selectors, templates of pods that run for ever, counters, columns.

use serde_json::{Map, Value};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{PrintedField, PrintedShape},
    intstr, names, schema,
    selector::{compile_label_selector, validate_label_selector},
};
use trireme_registry::Column;

use crate::{
    checks::{NOT_NEGATIVE, push_invalid},
    columns::{self, column, described, wide},
    pod_template::{self, Capabilities},
    values::{at, integer_at, items, text, text_at},
};

/// `apps.DeploymentStrategy` and `apps.DaemonSetUpdateStrategy`.
pub(crate) const INTERNAL_STRATEGY: &[PrintedField] = &[
    ("Type", "type", PrintedShape::Text),
    (
        "RollingUpdate",
        "rollingUpdate",
        PrintedShape::Pointer(&[
            ("MaxUnavailable", "maxUnavailable", PrintedShape::Number),
            ("MaxSurge", "maxSurge", PrintedShape::Number),
        ]),
    ),
];

/// A label selector as error texts show it: fields in the order of their declaration.
pub(crate) fn shown_selector(selector: &Value) -> String {
    let types = trireme_schema::type_table();
    match types.find("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector") {
        Some(id) => schema::ordered_json(types, id, selector),
        None => selector.to_string(),
    }
}

/// The selector of a workload must be there, be well-formed and select something (`validateSelector`).
pub(crate) fn validate_selector(spec: &Value, path: &Path<'_>, what: &str, errors: &mut ErrorList) {
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

/// The template of pods that are kept running (`ValidatePodTemplateSpecForReplicaSet`), unless the selector is so bad
/// that no labels could be held against it.
pub(crate) fn validate_pod_template_spec_for_replica_set(
    capabilities: Capabilities,
    spec: &Value,
    path: &Path<'_>,
    what: &str,
    errors: &mut ErrorList,
) {
    let at = path.child("template");
    let Some(template) = spec.get("template").filter(|template| !template.is_null()) else {
        errors.push(Error::required(&at, ""));
        return;
    };
    if validate_selector_conversion(spec, path, "invalid label selector", errors) {
        return;
    }
    validate_template_labels(spec.get("selector"), template, &at, errors);
    pod_template::validate_pod_template_spec(capabilities, template, &at, errors);
    validate_restart_policy_always(template, &at, what, errors);
}

/// A selector that cannot be evaluated is an error beside those of its parts; reports whether it is one.
pub(crate) fn validate_selector_conversion(
    spec: &Value,
    path: &Path<'_>,
    detail: &str,
    errors: &mut ErrorList,
) -> bool {
    let Some(selector) = spec.get("selector") else {
        return false;
    };
    let is_unusable = compile_label_selector(selector.as_object()).is_err();
    if is_unusable {
        errors.push(Error::invalid_shown(
            &path.child("selector"),
            shown_selector(selector),
            detail,
        ));
    }
    is_unusable
}

/// A selector that selects something must select the template's pods.
pub(crate) fn validate_template_labels(
    selector: Option<&Value>,
    template: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let labels = at(template, "/metadata/labels");
    let selector = compile_label_selector(selector.and_then(Value::as_object));
    let misses_pods = selector
        .as_ref()
        .is_ok_and(|selector| !selector.is_everything() && !selector.matches(labels.and_then(Value::as_object)));
    if misses_pods {
        push_unmatched_labels(labels, path, errors);
    }
}

/// The same for a selector that is a map of labels, of which it is not asked that they could be labels.
pub(crate) fn validate_template_labels_by_map(
    selector: Option<&Value>,
    template: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let labels = at(template, "/metadata/labels");
    let mut wanted = selector.and_then(Value::as_object).into_iter().flatten();
    if !wanted.all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value)) {
        push_unmatched_labels(labels, path, errors);
    }
}

fn push_unmatched_labels(labels: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    errors.push(Error::invalid(
        &path.child("metadata.labels"),
        labels.unwrap_or(&Value::Null),
        "`selector` does not match template `labels`",
    ));
}

/// Pods of most workloads are restarted always and have no deadline.
pub(crate) fn validate_restart_policy_always(template: &Value, path: &Path<'_>, what: &str, errors: &mut ErrorList) {
    let policy = text_at(template, "/spec/restartPolicy");
    if policy != "Always" {
        errors.push(Error::not_supported(
            &path.child("spec.restartPolicy"),
            policy,
            &["Always"],
        ));
    }
    if template.pointer("/spec/activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {what} is not Supported");
        errors.push(Error::forbidden(&path.child("spec.activeDeadlineSeconds"), &detail));
    }
}

/// A selector stays what it was made as.
pub(crate) fn validate_immutable_selector(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (new, old) = (new.pointer("/spec/selector"), old.pointer("/spec/selector"));
    if new != old {
        let shown = new.map_or_else(|| "null".to_owned(), shown_selector);
        errors.push(Error::invalid_shown(
            &Path::new("spec.selector"),
            shown,
            "field is immutable",
        ));
    }
}

/// Counters of a status that may not be greater than another one: `(counter, bound, how the bound is named)`.
pub(crate) fn validate_counter_bounds(status: &Value, bounds: &[(&str, &str, &str)], errors: &mut ErrorList) {
    let path = Path::new("status");
    let number = |name: &str| status.get(name).and_then(Value::as_i64).unwrap_or(0);
    for (counter, bound, bound_name) in bounds {
        if number(counter) > number(bound) {
            let detail = format!("cannot be greater than {bound_name}");
            errors.push(Error::invalid(&path.child(counter), &number(counter).into(), &detail));
        }
    }
}

/// A collision counter never goes back.
pub(crate) fn validate_collision_count(new: &Value, old: &Value, errors: &mut ErrorList) {
    let pointer = "/status/collisionCount";
    let Some(before) = integer_at(old, pointer) else { return };
    if integer_at(new, pointer).is_none_or(|now| now < before) {
        let shown = Value::from(integer_at(new, pointer).unwrap_or(0));
        errors.push(Error::invalid(
            &Path::new("status.collisionCount"),
            &shown,
            "cannot be decremented",
        ));
    }
}

/// A whole number or a percentage, and not negative (`ValidatePositiveIntOrPercent`).
pub(crate) fn validate_positive_int_or_percent(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Value::String(text) => push_invalid(path, text, names::percent(text), errors),
        Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
            errors.push(Error::invalid(path, value, NOT_NEGATIVE));
        }
        _ => {}
    }
}

/// A percentage is not more than everything (`IsNotMoreThan100Percent`).
pub(crate) fn is_not_more_than_100_percent(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if value
        .as_str()
        .and_then(intstr::percent)
        .is_some_and(|percent| percent > 100)
    {
        errors.push(Error::invalid(path, value, "must not be greater than 100%"));
    }
}

/// The number, or the number before the percent sign; a number in quotes counts too, though it is no valid value.
pub(crate) fn int_or_percent(value: &Value) -> i64 {
    let read = |text: &str| intstr::percent(text).or_else(|| text.parse().ok());
    value.as_i64().or_else(|| value.as_str().and_then(read)).unwrap_or(0)
}

/// Warnings of a template, unless an update leaves the generation as it is.
pub(crate) fn template_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    if !changes_generation(new, old) {
        return Vec::new();
    }
    let template = new.pointer("/spec/template").filter(|template| !template.is_null());
    template
        .map(|template| pod_template::warnings(template, "spec.template"))
        .unwrap_or_default()
}

/// Returns true if an object is new or an update made its generation grow.
pub(crate) fn changes_generation(new: &Value, old: Option<&Value>) -> bool {
    let generation = |object: &Value| integer_at(object, "/metadata/generation");
    old.is_none_or(|old| generation(old) != generation(new))
}

/// New objects whose names pods inherit are warned of what hosts cannot be called.
pub(crate) fn name_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let errors = names::dns1123_label(text_at(new, "/metadata/name"));
    if old.is_some() || errors.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is \
         recommended: [{}]",
        errors.join(" ")
    )]
}

/// Sets what is not static of a workload's pod template.
pub(crate) fn default_template(spec: &mut Map<String, Value>) {
    if let Some(pod) = spec.get_mut("template").and_then(|template| template.get_mut("spec")) {
        pod_template::default_spec(pod);
    }
}

/// `ready/wanted`
pub(crate) fn ready_column() -> Column {
    column(
        "Ready",
        "string",
        described("Number of the pod with ready state"),
        |object| {
            let ready = integer_at(object, "/status/readyReplicas").unwrap_or(0);
            let wanted = integer_at(object, "/spec/replicas").unwrap_or(0);
            Value::from(format!("{ready}/{wanted}"))
        },
    )
}

/// A counter, 0 if it is absent.
pub(crate) fn count_column(
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
pub(crate) fn template_columns(spec_type: &'static str) -> [Column; 3] {
    let selector = |object: &Value| columns::label_selector(object.pointer("/spec/selector"));
    let [containers, images] = container_columns("/spec/template/spec");
    let described = columns::documented(spec_type, "selector");
    [
        containers,
        images,
        wide(column("Selector", "string", described, selector)),
    ]
}

/// The names and images of the containers of the pod's spec at a JSON pointer.
pub(crate) fn container_columns(pointer: &'static str) -> [Column; 2] {
    let join = |object: &Value, pointer: &str, field: &str| {
        let containers = object
            .pointer(pointer)
            .map_or(&[][..], |spec| items(spec, "containers"));
        let all: Vec<&str> = containers.iter().map(|container| text(container, field)).collect();
        Value::from(all.join(","))
    };
    let names = described("Names of each container in the template.");
    let images = described("Images referenced by each container in the template.");
    [
        wide(column("Containers", "string", names, move |object| {
            join(object, pointer, "name")
        })),
        wide(column("Images", "string", images, move |object| {
            join(object, pointer, "image")
        })),
    ]
}
