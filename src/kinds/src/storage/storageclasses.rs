//! StorageClasses (`pkg/registry/storage/storageclass`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    checks::{push_invalid, validate_immutable_fields, validate_immutable_texts, validate_supported},
    columns::{self, column, documented},
    kind::Kind,
    pod_template::node_label_advice,
    values::{entries, is_true_at, items, text},
};

const TYPE: &str = "io.k8s.api.storage.v1.StorageClass";
const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let plain = |field: &'static str| move |object: &Value| Value::from(text(object, field));
    Kind::new("storage.k8s.io", "storageclasses", StorageClasses).columns(vec![
        columns::default_marked_name(&[
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ]),
        column(
            "Provisioner",
            "string",
            documented(TYPE, "provisioner"),
            plain("provisioner"),
        ),
        column(
            "ReclaimPolicy",
            "string",
            documented(TYPE, "reclaimPolicy"),
            plain("reclaimPolicy"),
        ),
        column(
            "VolumeBindingMode",
            "string",
            documented(TYPE, "volumeBindingMode"),
            plain("volumeBindingMode"),
        ),
        column(
            "AllowVolumeExpansion",
            "string",
            documented(TYPE, "allowVolumeExpansion"),
            |object| Value::from(is_true_at(object, "/allowVolumeExpansion")),
        ),
        columns::age(),
    ])
}

struct StorageClasses;

impl Strategy for StorageClasses {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_provisioner(text(object, "provisioner"), &Path::new("provisioner"), &mut errors);
        validate_parameters(object, &Path::new("parameters"), &mut errors);
        if !text(object, "reclaimPolicy").is_empty() {
            validate_supported(
                object,
                &Path::root(),
                "reclaimPolicy",
                &["Delete", "Retain"],
                &mut errors,
            );
        }
        let modes = ["Immediate", "WaitForFirstConsumer"];
        validate_supported(object, &Path::root(), "volumeBindingMode", &modes, &mut errors);
        validate_allowed_topologies(object, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        validate_immutable_fields(new, old, &["parameters"], &mut errors);
        validate_immutable_texts(new, old, &["provisioner"], &mut errors);
        validate_immutable_fields(new, old, &["reclaimPolicy", "volumeBindingMode"], &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (at, term) in items(new, "allowedTopologies").iter().enumerate() {
            for (index, expression) in items(term, "matchLabelExpressions").iter().enumerate() {
                let advice = node_label_advice(text(expression, "key"));
                warnings.extend(
                    advice
                        .map(|advice| format!("allowedTopologies[{at}].matchLabelExpressions[{index}].key: {advice}")),
                );
            }
        }
        warnings
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// Validates the provisioner: a qualified name in any case (`validateProvisioner`).
pub(super) fn validate_provisioner(provisioner: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if provisioner.is_empty() {
        errors.push(Error::required(path, ""));
    } else {
        let provisioner = provisioner.to_lowercase();
        push_invalid(path, &provisioner, names::qualified_name(&provisioner), errors);
    }
}

/// Parameters: not too many, not too long, none without a name (`validateParameters`).
pub(super) fn validate_parameters(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if entries(object, "parameters").count() > MAX_PARAMETERS {
        errors.push(Error::too_long(path, MAX_PARAMETERS));
        return;
    }
    let mut bytes = 0;
    for (key, value) in entries(object, "parameters") {
        if key.is_empty() {
            errors.push(Error::invalid_str(path, key, "field can not be empty."));
        }
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > MAX_PARAMETER_BYTES {
        errors.push(Error::too_long(path, MAX_PARAMETER_BYTES));
    }
}

/// As upstream's `validateAllowedTopologies`.
fn validate_allowed_topologies(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("allowedTopologies");
    let terms = items(object, "allowedTopologies");
    for (at, term) in terms.iter().enumerate() {
        let at_path = path.index(at);
        let expressions_path = at_path.child("matchLabelExpressions");
        let expressions = items(term, "matchLabelExpressions");
        for (index, expression) in expressions.iter().enumerate() {
            let expression_path = expressions_path.index(index);
            validate_topology_selector_label_requirement(expression, &expression_path, errors);
            let key = text(expression, "key");
            if expressions
                .iter()
                .take(index)
                .any(|earlier| text(earlier, "key") == key)
            {
                errors.push(Error::duplicate(&expression_path.child("key"), &key.into()));
            }
        }
        // Kubernetes compares with as many empty terms as there are terms, and with all earlier ones.
        let empty = if expressions.is_empty() { terms.len() } else { 0 };
        let same = terms.iter().take(at).filter(|earlier| by_key(earlier) == by_key(term));
        for _ in 0..empty + same.count() {
            errors.push(Error::duplicate(&expressions_path, &"".into()));
        }
    }
}

/// As upstream's `validateTopologySelectorLabelRequirement`.
fn validate_topology_selector_label_requirement(expression: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let values_path = path.child("values");
    let values = items(expression, "values");
    if values.is_empty() {
        errors.push(Error::required(&values_path, ""));
    }
    for (index, value) in values.iter().enumerate() {
        if values.iter().take(index).any(|earlier| earlier == value) {
            errors.push(Error::duplicate(&values_path.index(index), value));
        }
    }
    let key = text(expression, "key");
    push_invalid(&path.child("key"), key, names::qualified_name(key), errors);
}

/// A term without regard to the order in which it is written.
fn by_key(term: &Value) -> std::collections::BTreeMap<&str, std::collections::BTreeSet<&str>> {
    let expressions = items(term, "matchLabelExpressions").iter();
    expressions
        .map(|e| {
            (
                text(e, "key"),
                items(e, "values").iter().filter_map(Value::as_str).collect(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn errors() {
        let topology = json!({ "matchLabelExpressions": [{ "key": "zone", "values": ["a", "a"] }] });
        Trial::new("storage.k8s.io", "storageclasses", kind()).expect_errors(&[
            (json!({ "metadata": {}, "provisioner": "Ex.com/P" }), &[]),
            (json!({ "metadata": {}, "provisioner": "", "reclaimPolicy": "Z", "volumeBindingMode": "Z" }), &[
                "provisioner: Required value",
                r#"reclaimPolicy: Unsupported value: "Z": supported values: "Delete", "Retain""#,
                r#"volumeBindingMode: Unsupported value: "Z": supported values: "Immediate", "WaitForFirstConsumer""#,
            ]),
            (json!({ "metadata": {}, "provisioner": "p", "allowedTopologies": [topology, topology] }), &[
                r#"allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a""#,
                r#"allowedTopologies[1].matchLabelExpressions[0].values[1]: Duplicate value: "a""#,
                r#"allowedTopologies[1].matchLabelExpressions: Duplicate value: """#,
            ]),
            (json!({ "metadata": {}, "provisioner": "p", "allowedTopologies": [{}] }), &[
                r#"allowedTopologies[0].matchLabelExpressions: Duplicate value: """#,
            ]),
        ]);
    }

    #[test]
    fn what_a_class_does_stays() {
        let trial = Trial::new("storage.k8s.io", "storageclasses", kind());
        let old = trial
            .create(json!({ "metadata": {}, "provisioner": "p" }))
            .expect("a valid class");
        trial.expect_patch_errors(
            &old,
            &[
                (json!({ "mountOptions": ["ro"], "allowVolumeExpansion": true }), &[]),
                (
                    json!({ "parameters": { "a": "b" } }),
                    &[r#"parameters: Invalid value: {"a":"b"}: field is immutable"#],
                ),
            ],
        );
    }

    #[test]
    fn old_labels_of_nodes_are_warned_of() {
        let expressions = json!([{ "key": "beta.kubernetes.io/os", "values": ["linux"] }]);
        let class = json!({ "provisioner": "p", "allowedTopologies": [{ "matchLabelExpressions": expressions }] });
        let warning = "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use \"kubernetes.io/os\" \
                    instead";
        let trial = Trial::new("storage.k8s.io", "storageclasses", kind());
        assert_eq!(trial.warnings(&class, None), [warning]);
    }
}
