//! RuntimeClasses (`pkg/registry/node/runtimeclass`).

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{
    Features,
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names,
    selector::validate_labels,
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    checks::{push_invalid, require, validate_immutable_texts},
    columns::{self, column, described},
    kind::Kind,
    pod_template::{Tolerated, node_label_advice, validate_overhead, validate_tolerations},
    values::{entries, items, text},
};

const TOLERATION: &[PrintedField] = &[
    ("Key", "key", PrintedShape::Text),
    ("Operator", "operator", PrintedShape::Text),
    ("Value", "value", PrintedShape::Text),
    ("Effect", "effect", PrintedShape::Text),
    ("TolerationSeconds", "tolerationSeconds", PrintedShape::Plain),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("node.k8s.io", "runtimeclasses", RuntimeClasses).columns(vec![
        columns::name(),
        column("Handler", "string", described(""), |object| {
            Value::from(text(object, "handler"))
        }),
        columns::age(),
    ])
}

struct RuntimeClasses;

impl Strategy for RuntimeClasses {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(handler) = require(object, &Path::root(), "handler", &mut errors) {
            push_invalid(
                &Path::new("handler"),
                handler,
                names::dns1123_label(handler),
                &mut errors,
            );
        }
        if let Some(fixed) = object.pointer("/overhead/podFixed") {
            validate_overhead(fixed, Tolerated::default(), &Path::new("overhead"), &mut errors);
        }
        if let Some(scheduling) = object.get("scheduling") {
            validate_scheduling(scheduling, &Path::new("scheduling"), &mut errors);
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        validate_immutable_texts(new, old, &["handler"], &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let labels = new.get("scheduling").into_iter();
        let labels = labels.flat_map(|scheduling| entries(scheduling, "nodeSelector"));
        let advice = labels.filter_map(|(label, _)| node_label_advice(label));
        advice
            .map(|advice| format!("scheduling.nodeSelector: {advice}"))
            .collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn wants_standard_finalizers(&self) -> bool {
        false
    }
}

/// As upstream's `validateScheduling`.
fn validate_scheduling(scheduling: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let labels = scheduling.get("nodeSelector").and_then(Value::as_object);
    errors.extend(validate_labels(labels, &path.child("nodeSelector")));
    let tolerations_path = path.child("tolerations");
    let tolerations = items(scheduling, "tolerations");
    // Their tolerations do not compare, whatever features are on.
    validate_tolerations(Features::default(), tolerations, &tolerations_path, errors);
    let mut seen = BTreeSet::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        let key = ["key", "operator", "value", "effect"].map(|field| text(toleration, field));
        if !seen.insert(key) {
            let shown = structs::compact(Some(toleration), PrintedShape::Struct(TOLERATION));
            errors.push(Error::duplicate_shown(&tolerations_path.index(index), shown));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn errors() {
        let toleration = json!({ "key": "k", "operator": "Exists" });
        let for_seconds = |seconds: i64| json!({ "key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds });
        let trial = Trial::new("node.k8s.io", "runtimeclasses", kind());
        trial.expect_errors(&[
            (json!({ "metadata": {}, "handler": "" }), &["handler: Required value"]),
            (json!({ "metadata": {}, "handler": "h", "scheduling": { "tolerations": [toleration, toleration] } }), &[
                r#"scheduling.tolerations[1]: Duplicate value: {"Key":"k","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}"#,
            ]),
            (json!({ "metadata": {}, "handler": "h", "scheduling": { "tolerations": [for_seconds(5), for_seconds(10)] } }), &[
                r#"scheduling.tolerations[1]: Duplicate value: {"Key":"k","Operator":"Exists","Value":"","Effect":"NoExecute","TolerationSeconds":10}"#,
            ]),
        ]);
        let old = trial
            .create(json!({ "metadata": {}, "handler": "h" }))
            .expect("a valid class");
        trial.expect_patch_errors(
            &old,
            &[(
                json!({ "handler": "i" }),
                &[r#"handler: Invalid value: "i": field is immutable"#],
            )],
        );
    }

    #[test]
    fn old_labels_of_nodes_are_warned_of() {
        let nodes = json!({ "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64" });
        let class = json!({ "handler": "h", "scheduling": { "nodeSelector": nodes } });
        let warning = "scheduling.nodeSelector: deprecated since v1.14; use \"kubernetes.io/os\" instead";
        let trial = Trial::new("node.k8s.io", "runtimeclasses", kind());
        assert_eq!(trial.warnings(&class, None), [warning]);
        assert!(RuntimeClasses.allow_create_on_update());
    }
}
