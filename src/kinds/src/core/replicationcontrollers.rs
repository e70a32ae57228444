//! ReplicationControllers (`pkg/registry/core/replicationcontroller`, `pkg/apis/core/validation`).

use serde_json::{Value, json};
use trireme_machinery::{
    GroupVersionKind,
    field::{Error, ErrorList, Path},
    names::{self, NameCheck},
};
use trireme_registry::{Strategy, WriteContext, definition::ScalePaths, strategy::MetadataChecks};

use crate::{
    checks::validate_nonnegative_fields,
    columns::{self, column, documented, or_none, wide},
    kind::Kind,
    pod_template::{self, Capabilities, drop_disabled_at},
    values::{entries, keep_field, struct_mut},
    workload::{
        container_columns, count_column, default_template, name_warnings, template_warnings, validate_counter_bounds,
        validate_restart_policy_always, validate_template_labels_by_map,
    },
};

/// The prefix of annotations with fields that were lost in a conversion.
const NON_CONVERTIBLE: &str = "non-convertible.kubernetes.io";
const SPEC: &str = "io.k8s.api.core.v1.ReplicationControllerSpec";
const STATUS: &str = "io.k8s.api.core.v1.ReplicationControllerStatus";

/// The kind's parts.
pub(crate) fn kind(capabilities: Capabilities) -> Kind {
    let [containers, images] = container_columns("/spec/template/spec");
    let selector = |object: &Value| {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let pairs =
            entries(spec, "selector").map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        or_none(&pairs.collect::<Vec<_>>().join(","))
    };
    Kind::new("", "replicationcontrollers", ReplicationControllers { capabilities })
        .columns(vec![
            columns::name(),
            count_column("Desired", "integer", SPEC, "replicas", "/spec/replicas"),
            count_column("Current", "integer", STATUS, "replicas", "/status/replicas"),
            count_column("Ready", "integer", STATUS, "readyReplicas", "/status/readyReplicas"),
            columns::age(),
            containers,
            images,
            wide(column("Selector", "string", documented(SPEC, "selector"), selector)),
        ])
        .scale(ScalePaths {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: Some("spec.selector".into()),
        })
}

struct ReplicationControllers {
    capabilities: Capabilities,
}

impl Strategy for ReplicationControllers {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn name_check(&self) -> NameCheck {
        names::name_is_long_name
    }

    fn default(&self, object: &mut Value) {
        default_template(struct_mut(object, "spec"));
        let labels = object
            .pointer("/spec/template/metadata/labels")
            .filter(|labels| *labels != &json!({}))
            .cloned();
        let Some(labels) = labels else { return };
        let is_empty = |value: Option<&Value>| value.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
        if is_empty(object.pointer("/spec/selector")) {
            struct_mut(object, "spec").insert("selector".into(), labels.clone());
        }
        if is_empty(object.pointer("/metadata/labels")) {
            struct_mut(object, "metadata").insert("labels".into(), labels);
        }
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(self.capabilities, object, old, "/spec/template/spec");
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "replicas": 0 });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let none = Value::Null;
        let spec = object.get("spec").unwrap_or(&none);
        validate_nonnegative_fields(spec, &path, &["minReadySeconds"], &mut errors);
        if entries(spec, "selector").next().is_none() {
            errors.push(Error::required(&path.child("selector"), ""));
        }
        validate_nonnegative_fields(spec, &path, &["replicas"], &mut errors);
        validate_pod_template_spec_for_rc(self.capabilities, spec, &path.child("template"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let capabilities = self.capabilities.in_change_of(old.pointer("/spec/template"));
        let mut errors = Self { capabilities }.validate(context, new);
        validate_non_convertible_fields(new, old, &mut errors);
        errors
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = new.get("status").unwrap_or(&Value::Null);
        let counters = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
        ];
        validate_nonnegative_fields(status, &Path::new("status"), &counters, &mut errors);
        let bounds = [
            ("fullyLabeledReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ];
        validate_counter_bounds(status, &bounds, &mut errors);
        errors
    }

    fn refuse_field(&self, _kind: &GroupVersionKind, field: &str) -> Option<String> {
        (field != "status.replicas").then(|| format!("field label not supported: {field}"))
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = name_warnings(new, old);
        warnings.extend(template_warnings(new, old));
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}

/// A ReplicaSet's fields that a controller cannot have stand in annotations; they may not change.
fn validate_non_convertible_fields(new: &Value, old: &Value, errors: &mut ErrorList) {
    let metadata = old.get("metadata").unwrap_or(&Value::Null);
    for (key, value) in entries(metadata, "annotations").filter(|(key, _)| key.starts_with(NON_CONVERTIBLE)) {
        let Some((_, field)) = key.split_once('/').filter(|(_, field)| !field.contains('/')) else {
            continue;
        };
        let selector = |object: &Value| object.pointer("/spec/selector").cloned();
        if !field.contains("selector") {
            let mut error = Error::not_found(&Path::new(field), value);
            error.body.push_str(": unknown non-convertible field");
            errors.push(error);
        } else if selector(new) != selector(old) {
            let detail = "cannot update non-convertible selector";
            let shown = selector(new).unwrap_or_default();
            errors.push(Error::invalid(&Path::new("spec.selector"), &shown, detail));
        }
    }
}

/// As upstream's `ValidatePodTemplateSpecForRC`.
fn validate_pod_template_spec_for_rc(
    capabilities: Capabilities,
    spec: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(template) = spec.get("template").filter(|template| !template.is_null()) else {
        errors.push(Error::required(path, ""));
        return;
    };
    validate_template_labels_by_map(spec.get("selector"), template, path, errors);
    pod_template::validate_pod_template_spec(capabilities, template, path, errors);
    validate_restart_policy_always(template, path, "ReplicationController", errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Trial, named};

    fn trial() -> Trial {
        Trial::new("", "replicationcontrollers", kind(Default::default()))
    }

    #[test]
    fn labels_and_selector_come_from_the_template() {
        let object = trial().decode(named("a", json!({ "template": testing::template() })));
        assert_eq!(object["spec"]["selector"], json!({ "app": "x" }));
        assert_eq!(object["metadata"]["labels"], json!({ "app": "x" }));
    }

    #[test]
    fn errors_of_the_spec() {
        trial().expect_errors(&[
            (named("a", json!({ "template": testing::template() })), &[]),
            (named("a", json!({})), &["spec.selector: Required value", "spec.template: Required value"]),
            (
                named("a", json!({ "minReadySeconds": -1, "replicas": -1, "selector": { "a": "b" }, "template": testing::template() })),
                &[
                    "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                    r#"spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`"#,
                ],
            ),
        ]);
    }

    #[test]
    fn fields_that_were_lost_in_a_conversion_stay() {
        let mut body = named("a", json!({ "template": testing::template() }));
        body["metadata"]["annotations"] =
            json!({ "non-convertible.kubernetes.io/selector": "A", "non-convertible.kubernetes.io/other": "B" });
        let old = trial().create(body).expect("the controller is valid");
        let labels = json!({ "app": "x", "b": "c" });
        let template = json!({ "metadata": { "labels": labels } });
        let errors = trial().patch(&old, &json!({ "spec": { "selector": labels, "template": template } }));
        assert_eq!(
            errors,
            Err(vec![
                "other: Not found: \"B\": unknown non-convertible field".to_owned(),
                r#"spec.selector: Invalid value: {"app":"x","b":"c"}: cannot update non-convertible selector"#
                    .to_owned(),
            ])
        );
    }
}
