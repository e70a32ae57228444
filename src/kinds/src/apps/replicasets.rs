//! ReplicaSets (`pkg/registry/apps/replicaset`, `pkg/apis/apps/validation`).

use serde_json::{Value, json};
use trireme_machinery::{
    Feature,
    field::{ErrorList, Path},
};
use trireme_registry::{Strategy, WriteContext, definition::ScalePaths, strategy::MetadataChecks};

use crate::{
    checks::validate_nonnegative_fields,
    columns,
    gated::{GatedField, drop_disabled_fields},
    kind::Kind,
    pod_template::{Capabilities, drop_disabled_at},
    values::{keep_field, struct_mut},
    workload::{
        count_column, default_template, name_warnings, template_columns, template_warnings, validate_counter_bounds,
        validate_immutable_selector, validate_pod_template_spec_for_replica_set, validate_selector,
    },
};

const SPEC: &str = "io.k8s.api.apps.v1.ReplicaSetSpec";
const STATUS: &str = "io.k8s.api.apps.v1.ReplicaSetStatus";
const GATED: &[GatedField] = &[(
    Feature::DeploymentReplicaSetTerminatingReplicas,
    "/status",
    "terminatingReplicas",
)];

/// The kind's parts.
pub(crate) fn kind(capabilities: Capabilities) -> Kind {
    let [containers, images, selector] = template_columns(SPEC);
    Kind::new("apps", "replicasets", ReplicaSets { capabilities })
        .columns(vec![
            columns::name(),
            count_column("Desired", "integer", SPEC, "replicas", "/spec/replicas"),
            count_column("Current", "integer", STATUS, "replicas", "/status/replicas"),
            count_column("Ready", "integer", STATUS, "readyReplicas", "/status/readyReplicas"),
            columns::age(),
            containers,
            images,
            selector,
        ])
        .scale(ScalePaths {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: Some("spec.selector".into()),
        })
}

struct ReplicaSets {
    capabilities: Capabilities,
}

impl Strategy for ReplicaSets {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn default(&self, object: &mut Value) {
        default_template(struct_mut(object, "spec"));
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(self.capabilities, object, old, "/spec/template/spec");
        drop_disabled_fields(self.capabilities.features, GATED, object, old);
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "replicas": 0 });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        if let Some(spec) = object.get("spec") {
            validate_nonnegative_fields(spec, &path, &["replicas", "minReadySeconds"], &mut errors);
            // As kube-apiserver calls it here.
            validate_selector(spec, &path, "deployment", &mut errors);
            validate_pod_template_spec_for_replica_set(self.capabilities, spec, &path, "ReplicaSet", &mut errors);
        }
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let capabilities = self.capabilities.in_change_of(old.pointer("/spec/template"));
        let mut errors = Self { capabilities }.validate(context, new);
        validate_immutable_selector(new, old, &mut errors);
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
            "terminatingReplicas",
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

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = name_warnings(new, old);
        warnings.extend(template_warnings(new, old));
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Trial, named};

    fn replica_set(patch: &Value) -> Value {
        let spec = json!({ "selector": testing::selector(), "template": testing::template() });
        named("a", testing::merged(&spec, patch))
    }

    #[test]
    fn terminating_replicas_are_dropped_unless_they_were_stored() {
        testing::expect_terminating_replicas_gated("replicasets", kind, replica_set(&json!({})));
    }

    #[test]
    fn errors_of_spec_and_status() {
        let trial = Trial::new("apps", "replicasets", kind(Default::default()));
        let cases: [(Value, &[&str]); 3] = [
            (json!({}), &[]),
            (
                json!({ "replicas": -2, "minReadySeconds": -1, "selector": { "matchLabels": null } }),
                &[
                    "spec.replicas: Invalid value: -2: must be greater than or equal to 0",
                    "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
                ],
            ),
            (
                json!({ "template": { "metadata": null, "spec": { "restartPolicy": "Never", "activeDeadlineSeconds": 1 } } }),
                &[
                    "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                    r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
                ],
            ),
        ];
        trial.expect_errors(&cases.map(|(patch, errors)| (replica_set(&patch), errors)));
        let old = trial.create(replica_set(&json!({}))).expect("the replica set is valid");
        trial.expect_status_errors(
            &old,
            &[(
                json!({ "replicas": 1, "availableReplicas": 2 }),
                &[
                    "status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas",
                    "status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas",
                ],
            )],
        );
    }
}
