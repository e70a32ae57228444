//! Workloads (`pkg/registry/scheduling/workload`), behind the gate GenericWorkload.

use serde_json::Value;
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, Path},
    go_text::structs::{PrintedField, PrintedShape},
    names,
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource, strategy::MetadataChecks};

use super::group_fields::{
    CLAIM, drop_disabled, immutable, is_changed, validate_long_name, validate_new, validate_short_name, validate_unique,
};
use crate::{
    checks::push_invalid,
    columns,
    kind::Kind,
    values::{items, set_default, text},
};

const MAX_TEMPLATES: usize = 8;

/// `v1alpha2.PodGroupTemplate`.
const TEMPLATE: &[PrintedField] = &[
    ("name", "name", PrintedShape::Text),
    ("schedulingPolicy", "schedulingPolicy", PrintedShape::Plain),
    ("schedulingConstraints", "schedulingConstraints", PrintedShape::Plain),
    ("resourceClaims", "resourceClaims", PrintedShape::NamedList(CLAIM)),
    ("disruptionMode", "disruptionMode", PrintedShape::Plain),
    ("priorityClassName", "priorityClassName", PrintedShape::Plain),
    ("priority", "priority", PrintedShape::Plain),
];

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    Kind::new("scheduling.k8s.io", "workloads", Workloads { features }).columns(vec![columns::name(), columns::age()])
}

struct Workloads {
    features: Features,
}

impl Strategy for Workloads {
    fn reset_fields(&self, _subresource: Subresource) -> ResetFields {
        ResetFields(&[])
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        let templates = object.pointer_mut("/spec/podGroupTemplates");
        let templates = templates.and_then(Value::as_array_mut).into_iter().flatten();
        let old = old.and_then(|old| old.get("spec"));
        for (index, template) in templates.enumerate() {
            let old = old.and_then(|old| items(old, "podGroupTemplates").get(index));
            drop_disabled(self.features, template, old);
            // Templates show their constraints also where there are none.
            if let Some(fields) = template.as_object_mut() {
                set_default(fields, "schedulingConstraints", Value::Null);
            }
        }
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        if let Some(controller) = spec.get("controllerRef").filter(|controller| !controller.is_null()) {
            validate_controller(controller, &path.child("controllerRef"), &mut errors);
        }
        let templates = items(spec, "podGroupTemplates");
        let path = path.child("podGroupTemplates");
        errors.extend(count_error(templates.len(), &path));
        if (1..=MAX_TEMPLATES).contains(&templates.len()) {
            validate_unique(templates, TEMPLATE, &path, &mut errors);
            for (index, template) in templates.iter().enumerate() {
                let at = path.index(index);
                validate_short_name(text(template, "name"), &at.child("name"), &mut errors);
                validate_new(template, &at, &mut errors);
            }
        }
        errors
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let [new, old] = [new, old].map(|object| object.get("spec").unwrap_or(&Value::Null));
        if is_changed(new, old, "controllerRef") {
            errors.push(immutable(&path.child("controllerRef")));
        }
        if is_changed(new, old, "podGroupTemplates") {
            let path = path.child("podGroupTemplates");
            errors.push(immutable(&path));
            errors.extend(count_error(items(new, "podGroupTemplates").len(), &path));
        }
        errors
    }
}

fn count_error(count: usize, path: &Path<'_>) -> Option<Error> {
    match count {
        0 => Some(Error::required(path, "")),
        1..=MAX_TEMPLATES => None,
        many => Some(Error::too_many(path, many, MAX_TEMPLATES)),
    }
}

/// As upstream's `Validate_TypedLocalObjectReference`.
fn validate_controller(controller: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let group = text(controller, "apiGroup");
    if !group.is_empty() {
        validate_long_name(group, &path.child("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        let at = path.child(field);
        match text(controller, field) {
            "" => errors.push(Error::required(&at, "")),
            name => push_invalid(&at, name, names::path_segment_name(name), errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::Feature;

    use super::*;
    use crate::testing::{Trial, named};

    fn trial(features: &[Feature]) -> Trial {
        Trial::new("scheduling.k8s.io", "workloads", kind(Features::with(features)))
    }

    fn workload(templates: &Value) -> Value {
        named("w", json!({ "podGroupTemplates": templates }))
    }

    #[test]
    fn templates_are_named_and_have_one_policy() {
        let template = |name: &str, policy: Value| json!({ "name": name, "schedulingPolicy": policy });
        let basic = json!({ "basic": {} });
        trial(&[]).expect_errors(&[
            (workload(&json!([template("a", basic.clone())])), &[]),
            (workload(&json!([])), &["spec.podGroupTemplates: Required value"]),
            (
                workload(&json!([template("", json!({ "basic": {}, "gang": { "minCount": 0 } }))])),
                &[
                    "spec.podGroupTemplates[0].name: Required value",
                    "spec.podGroupTemplates[0].schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`",
                    "spec.podGroupTemplates[0].schedulingPolicy.gang.minCount: Required value",
                ],
            ),
            (
                workload(&(0..9).map(|index| template(&format!("t{index}"), basic.clone())).collect()),
                &["spec.podGroupTemplates: Too many: 9: must have at most 8 items"],
            ),
        ]);
    }

    #[test]
    fn fields_of_features_that_are_off_are_dropped() {
        let asked = workload(&json!([{
            "name": "a", "schedulingPolicy": { "basic": {} }, "disruptionMode": "Both", "priority": 2_000_000_000,
            "schedulingConstraints": { "topology": [{ "key": "" }] },
        }]));
        let made = trial(&[]).create(asked.clone()).expect("what is wrong is dropped");
        let template = json!({ "name": "a", "schedulingPolicy": { "basic": {} }, "schedulingConstraints": null });
        assert_eq!(made["spec"]["podGroupTemplates"], json!([template]));
        let on = [
            Feature::TopologyAwareWorkloadScheduling,
            Feature::WorkloadAwarePreemption,
        ];
        trial(&on).expect_errors(&[(
            asked,
            &[
                "spec.podGroupTemplates[0].schedulingConstraints.topology[0].key: Required value",
                "spec.podGroupTemplates[0].disruptionMode: Unsupported value: \"Both\": supported values: \"Pod\", \"PodGroup\"",
                "spec.podGroupTemplates[0].priority: Invalid value: 2000000000: must be less than or equal to 1000000000",
            ],
        )]);
    }

    #[test]
    fn a_workload_stays_as_it_was_made() {
        let trial = trial(&[]);
        let made = trial.create(workload(&json!([{ "name": "a", "schedulingPolicy": { "basic": {} } }])));
        let made = made.expect("a valid workload");
        trial.expect_patch_errors(
            &made,
            &[
                (json!({ "metadata": { "labels": { "a": "b" } } }), &[]),
                (
                    json!({ "spec": { "podGroupTemplates": [], "controllerRef": { "kind": "K", "name": "n" } } }),
                    &[
                        "spec.controllerRef: Invalid value: null: field is immutable",
                        "spec.podGroupTemplates: Invalid value: null: field is immutable",
                        "spec.podGroupTemplates: Required value",
                    ],
                ),
            ],
        );
    }
}
