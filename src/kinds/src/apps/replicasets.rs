//! ReplicaSets (`pkg/registry/apps/replicaset`, `pkg/apis/apps/validation`).

use serde_json::{Value, json};
use trireme_machinery::field::{ErrorList, Path};
use trireme_registry::{Strategy, WriteContext, info::ScalePaths};

use super::workload::{
    count_column, push_bound_faults, push_negative_faults, push_selector_change, push_selector_faults,
    push_template_faults, template_columns,
};
use crate::{
    columns,
    kind::Kind,
    pod_template,
    values::{keep_field, struct_mut},
};

const SPEC: &str = "io.k8s.api.apps.v1.ReplicaSetSpec";
const STATUS: &str = "io.k8s.api.apps.v1.ReplicaSetStatus";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let [containers, images, selector] = template_columns(SPEC);
    Kind::new(ReplicaSets)
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
            spec_replicas: "spec.replicas",
            status_replicas: "status.replicas",
            selector: "spec.selector",
        })
}

struct ReplicaSets;

impl Strategy for ReplicaSets {
    fn default(&self, object: &mut Value) {
        let spec = struct_mut(object, "spec");
        if let Some(pod) = spec.get_mut("template").and_then(|template| template.get_mut("spec")) {
            pod_template::default_spec(pod);
        }
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "replicas": 0 });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        if let Some(spec) = object.get("spec") {
            push_negative_faults(spec, &path, &["replicas", "minReadySeconds"], &mut errors);
            push_selector_faults(spec, &path, "ReplicaSet", &mut errors);
            push_template_faults(spec, &path, &mut errors);
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
        push_negative_faults(status, &Path::new("status"), &counters, &mut errors);
        let bounds = [
            ("fullyLabeledReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ];
        push_bound_faults(status, &bounds, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        new.pointer("/spec/template").map(|template| pod_template::warnings(template, "spec.template")).unwrap_or_default()
    }

    fn has_generation(&self) -> bool {
        true
    }
}
