//! RuntimeClasses (`pkg/registry/node/runtimeclass`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
    selector::validate_labels,
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    checks::{push_immutable, push_invalid, require},
    columns::{self, column, described},
    internal::{self, Field, Shape},
    kind::Kind,
    pod_template::{validate_overhead, validate_tolerations},
    values::{items, text},
};

const TOLERATION: &[Field] = &[
    ("Key", "key", Shape::Text),
    ("Operator", "operator", Shape::Text),
    ("Value", "value", Shape::Text),
    ("Effect", "effect", Shape::Text),
    ("TolerationSeconds", "tolerationSeconds", Shape::Plain),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new(RuntimeClasses).columns(vec![
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
        if let Some(handler) = require(&mut errors, object, &Path::root(), "handler") {
            push_invalid(
                &mut errors,
                &Path::new("handler"),
                handler,
                names::dns1123_label(handler),
            );
        }
        if let Some(fixed) = object.pointer("/overhead/podFixed") {
            validate_overhead(fixed, &Path::new("overhead"), &mut errors);
        }
        if let Some(scheduling) = object.get("scheduling") {
            push_scheduling(&mut errors, scheduling, &Path::new("scheduling"));
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        push_immutable(&mut errors, new, old, &["handler"]);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        const RENAMED: [(&str, &str, &str); 5] = [
            ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
            ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
            (
                "failure-domain.beta.kubernetes.io/region",
                "v1.17",
                "topology.kubernetes.io/region",
            ),
            (
                "failure-domain.beta.kubernetes.io/zone",
                "v1.17",
                "topology.kubernetes.io/zone",
            ),
            (
                "beta.kubernetes.io/instance-type",
                "v1.17",
                "node.kubernetes.io/instance-type",
            ),
        ];
        let Some(selector) = new.pointer("/scheduling/nodeSelector") else {
            return Vec::new();
        };
        let renamed = RENAMED.iter().filter(|(old, _, _)| selector.get(old).is_some());
        let text = |(old, since, new): &(&str, &str, &str)| {
            format!("scheduling.nodeSelector[{old}]: deprecated since {since}; use \"{new}\" instead")
        };
        renamed.map(text).collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn push_scheduling(errors: &mut ErrorList, scheduling: &Value, path: &Path<'_>) {
    let labels = scheduling.get("nodeSelector").and_then(Value::as_object);
    errors.extend(validate_labels(labels, &path.child("nodeSelector")));
    let tolerations_path = path.child("tolerations");
    let tolerations = items(scheduling, "tolerations");
    for (index, toleration) in tolerations.iter().enumerate() {
        if tolerations.iter().take(index).any(|earlier| earlier == toleration) {
            let shown = internal::compact(Some(toleration), Shape::Struct(TOLERATION));
            errors.push(Error::duplicate_shown(&tolerations_path.index(index), shown));
        }
    }
    validate_tolerations(tolerations, &tolerations_path, errors);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn faults() {
        let toleration = json!({ "key": "k", "operator": "Exists" });
        let trial = Trial::new("node.k8s.io", "runtimeclasses", kind());
        trial.expect_faults(&[
            (json!({ "metadata": {}, "handler": "" }), &["handler: Required value"]),
            (json!({ "metadata": {}, "handler": "h", "scheduling": { "tolerations": [toleration, toleration] } }), &[
                r#"scheduling.tolerations[1]: Duplicate value: {"Key":"k","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}"#,
            ]),
        ]);
        let old = trial
            .create(json!({ "metadata": {}, "handler": "h" }))
            .expect("a valid class");
        trial.expect_patch_faults(
            &old,
            &[(
                json!({ "handler": "i" }),
                &[r#"handler: Invalid value: "i": field is immutable"#],
            )],
        );
    }
}
