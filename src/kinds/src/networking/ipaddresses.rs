//! IPAddresses (`pkg/registry/networking/ipaddress`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names::{self, NameCheck},
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    checks::{push_invalid, require},
    columns::{self, column, documented},
    kind::Kind,
    values::text,
};

const SPEC: &str = "io.k8s.api.networking.v1.IPAddressSpec";
const PARENT: &[PrintedField] = &[
    ("Group", "group", PrintedShape::Text),
    ("Resource", "resource", PrintedShape::Text),
    ("Namespace", "namespace", PrintedShape::Text),
    ("Name", "name", PrintedShape::Text),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("networking.k8s.io", "ipaddresses", IpAddresses).columns(vec![
        columns::name(),
        column("ParentRef", "string", documented(SPEC, "parentRef"), parent),
        columns::undefined(columns::age()),
    ])
}

/// `resource.group/namespace/name`
fn parent(object: &Value) -> Value {
    let Some(parent) = object.pointer("/spec/parentRef") else {
        return Value::from("<none>");
    };
    let mut shown = text(parent, "resource").to_owned();
    if !text(parent, "group").is_empty() {
        shown.push('.');
        shown.push_str(text(parent, "group"));
    }
    let (namespace, name) = (text(parent, "namespace"), text(parent, "name"));
    let separator = if namespace.is_empty() { "" } else { "/" };
    Value::from(format!("{}{separator}{namespace}/{name}", shown.to_lowercase()))
}

struct IpAddresses;

impl Strategy for IpAddresses {
    fn name_check(&self) -> NameCheck {
        |name, _| names::canonical_ip(name)
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec.parentRef");
        let Some(parent) = object.pointer("/spec/parentRef") else {
            errors.push(Error::required(&path, ""));
            return errors;
        };
        let (group, namespace) = (text(parent, "group"), text(parent, "namespace"));
        if !group.is_empty() {
            push_invalid(
                &path.child("group"),
                group,
                names::dns1123_subdomain(group),
                &mut errors,
            );
        }
        for field in ["resource", "name"] {
            if let Some(value) = require(parent, &path, field, &mut errors) {
                push_invalid(&path.child(field), value, names::path_segment_name(value), &mut errors);
            }
        }
        if !namespace.is_empty() {
            push_invalid(
                &path.child("namespace"),
                namespace,
                names::path_segment_name(namespace),
                &mut errors,
            );
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        let (new, old) = (new.pointer("/spec/parentRef"), old.pointer("/spec/parentRef"));
        let shown = |parent| structs::compact(parent, PrintedShape::Pointer(PARENT));
        if shown(new) != shown(old) {
            errors.push(Error::invalid_shown(
                &Path::new("spec.parentRef"),
                shown(new),
                "field is immutable",
            ));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn an_address_belongs_to_one_object() {
        let trial = Trial::new("networking.k8s.io", "ipaddresses", kind());
        let parent = json!({ "resource": "pods", "name": "p" });
        trial.expect_errors(&[
            (named("10.0.0.1", json!({})), &["spec.parentRef: Required value"]),
            (
                named("10.0.0.1", json!({ "parentRef": { "resource": "", "name": "a/b" } })),
                &[
                    "spec.parentRef.resource: Required value",
                    "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'",
                ],
            ),
        ]);
        let old = trial
            .create(named("10.0.0.1", json!({ "parentRef": parent })))
            .expect("a valid address");
        let error = r#"spec.parentRef: Invalid value: {"Group":"","Resource":"pods","Namespace":"","Name":"q"}: field is immutable"#;
        trial.expect_patch_errors(&old, &[(json!({ "spec": { "parentRef": { "name": "q" } } }), &[error])]);
    }

    #[test]
    fn rows_show_whose_an_address_is() {
        let shown = |reference: Value| parent(&named("10.0.0.1", json!({ "parentRef": reference })));
        assert_eq!(shown(json!({ "resource": "pods", "name": "p" })), "pods/p");
        assert_eq!(
            shown(json!({ "group": "g", "resource": "r", "namespace": "n", "name": "p" })),
            "r.g/n/p"
        );
    }
}
