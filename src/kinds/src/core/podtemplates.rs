//! PodTemplates (`pkg/registry/core/podtemplate`).

use serde_json::{Map, Value};
use trireme_machinery::field::{ErrorList, Path};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    columns::{self, column, described, or_none},
    kind::Kind,
    pod_template::{Capabilities, default_spec, drop_disabled_at, validate_pod_template_spec, warnings},
    values::{entries, items, text},
};

/// The kind's parts.
pub(crate) fn kind(capabilities: Capabilities) -> Kind {
    Kind::new("", "podtemplates", PodTemplates { capabilities }).columns(vec![
        columns::name(),
        column(
            "Containers",
            "string",
            described("Names of each container in the template."),
            |object| of_containers(object, "name"),
        ),
        column(
            "Images",
            "string",
            described("Images referenced by each container in the template."),
            |object| of_containers(object, "image"),
        ),
        column(
            "Pod Labels",
            "string",
            described("The labels for the pod template."),
            |object| {
                let metadata = object.pointer("/template/metadata");
                let labels = metadata.into_iter().flat_map(|metadata| entries(metadata, "labels"));
                let labels: Vec<String> = labels
                    .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
                    .collect();
                or_none(&labels.join(","))
            },
        ),
    ])
}

fn of_containers(object: &Value, field: &str) -> Value {
    let containers = object
        .pointer("/template/spec")
        .map_or(&[][..], |spec| items(spec, "containers"));
    let texts: Vec<&str> = containers.iter().map(|container| text(container, field)).collect();
    texts.join(",").into()
}

struct PodTemplates {
    capabilities: Capabilities,
}

impl Strategy for PodTemplates {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.pointer_mut("/template/spec") {
            default_spec(spec);
        }
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(self.capabilities, object, old, "/template/spec");
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let none = Value::Object(Map::new());
        validate_pod_template_spec(
            self.capabilities,
            object.get("template").unwrap_or(&none),
            &Path::new("template"),
            &mut errors,
        );
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let capabilities = self.capabilities.in_change_of(old.get("template"));
        Self { capabilities }.validate(context, new)
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        new.get("template")
            .map_or_else(Vec::new, |template| warnings(template, "template"))
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::{Feature, Features};

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn templates_are_kept_and_shown() {
        let trial = Trial::new("", "podtemplates", kind(Default::default()));
        let template = |image: &str| {
            json!({"template": {
                "metadata": {"labels": {"a": "b", "c": "d"}},
                "spec": {"hostNetwork": true, "containers": [
                    {"name": "one", "image": image, "ports": [{"containerPort": 80}]},
                    {"name": "two", "image": "y:1"},
                ]},
            }})
        };
        let stored = trial.create(template("x")).expect("a good template");
        let container = &stored["template"]["spec"]["containers"][0];
        assert_eq!(container["imagePullPolicy"], "Always");
        assert_eq!(container["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
        assert_eq!(
            trial.create(template("")),
            Err(vec!["template.spec.containers[0].image: Required value".to_owned()])
        );
        let now = jiff::Timestamp::UNIX_EPOCH;
        let cells: Vec<Value> = kind(Default::default())
            .columns
            .iter()
            .skip(1)
            .map(|column| (column.cell)(&stored, now))
            .collect();
        assert_eq!(cells, ["one,two", "x,y:1", "a=b,c=d"]);
    }

    #[test]
    fn a_template_keeps_what_it_has_of_features_that_are_off() {
        let trial = |features: Features| {
            let capabilities = Capabilities {
                features,
                ..Capabilities::default()
            };
            Trial::new("", "podtemplates", kind(capabilities))
        };
        let on = [
            Feature::ContainerStopSignals,
            Feature::TaintTolerationComparisonOperators,
        ];
        let cost = json!({ "controller.kubernetes.io/pod-deletion-cost": "none" });
        let signal = json!({ "stopSignal": "SIGINT" });
        let asked = json!({ "template": { "spec": {
            "os": { "name": "linux" },
            "containers": [{ "name": "c", "image": "x", "lifecycle": signal }],
            "tolerations": [{ "key": "k", "operator": "Lt", "value": "1" }],
        } } });
        let old = trial(Features::with(&on)).create(asked.clone()).expect("both are on");
        let off = trial(Features::default());
        let errors = off.errors(asked);
        assert!(errors.len() == 1 && errors[0].starts_with("template.spec.tolerations[0].operator: Unsupported value"));
        let relabeled = json!({ "template": { "metadata": { "labels": { "a": "b" } } } });
        let kept = off.patch(&old, &relabeled).expect("it has them");
        assert_eq!(kept["template"]["spec"], old["template"]["spec"]);
        assert_eq!(kept["template"]["spec"]["containers"][0]["lifecycle"], signal);
        let costly = json!({ "template": { "metadata": { "annotations": cost } } });
        assert_eq!(off.patch(&old, &costly).expect_err("it is no number").len(), 1);
        let of_old = trial(Features::without(&[Feature::PodDeletionCost]));
        let old = of_old.patch(&old, &costly).expect("no cost counts");
        off.patch(&old, &relabeled).expect("the cost was there");
    }
}
