//! IngressClasses (`pkg/registry/networking/ingressclass`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    checks::{push_invalid, require, validate_immutable_texts},
    columns::{self, column, described},
    kind::Kind,
    values::{text, text_at},
};

const MAX_CONTROLLER_BYTES: usize = 250;

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("networking.k8s.io", "ingressclasses", IngressClasses).columns(vec![
        columns::default_marked_name(&["ingressclass.kubernetes.io/is-default-class"]),
        column(
            "Controller",
            "string",
            described("Controller that is responsible for handling this class"),
            |object| Value::from(text_at(object, "/spec/controller")),
        ),
        column(
            "Parameters",
            "string",
            described("A reference to a resource with additional parameters"),
            parameters,
        ),
        columns::age(),
    ])
}

fn parameters(object: &Value) -> Value {
    let Some(parameters) = object.pointer("/spec/parameters") else {
        return Value::from("<none>");
    };
    let group = match parameters.get("apiGroup").and_then(Value::as_str) {
        Some(group) => format!(".{group}"),
        None => String::new(),
    };
    Value::from(format!(
        "{}{group}/{}",
        text(parameters, "kind"),
        text(parameters, "name")
    ))
}

struct IngressClasses;

impl Strategy for IngressClasses {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let controller = text(spec, "controller");
        let controller_path = path.child("controller");
        if controller.len() > MAX_CONTROLLER_BYTES {
            errors.push(Error::too_long(&controller_path, MAX_CONTROLLER_BYTES));
        }
        is_domain_prefixed_path(controller, &controller_path, &mut errors);
        if let Some(parameters) = spec.get("parameters") {
            validate_ingress_class_parameters_reference(parameters, &path.child("parameters"), &mut errors);
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_immutable_texts(new, old, &["spec.controller"], &mut errors);
        errors.extend(self.validate(context, new));
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }
}

/// `example.com/some/path`: a domain and a path below it, each with its own errors.
fn is_domain_prefixed_path(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    match value
        .split_once('/')
        .filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty())
    {
        None => {
            errors.push(Error::invalid_str(
                path,
                value,
                "must be a domain-prefixed path (such as \"acme.io/foo\")",
            ));
        }
        Some((domain, rest)) => {
            push_invalid(path, domain, names::dns1123_subdomain(domain), errors);
            push_invalid(path, rest, names::http_path(rest), errors);
        }
    }
}

/// A reference to an object that is not looked up (`IngressTypedLocalObjectReference`).
/// Upstream: `validateIngressTypedLocalObjectReference`.
pub(super) fn validate_ingress_typed_local_object_reference(
    reference: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Some(group) = reference.get("apiGroup").and_then(Value::as_str) {
        push_invalid(&path.child("apiGroup"), group, names::dns1123_subdomain(group), errors);
    }
    for field in ["kind", "name"] {
        if let Some(value) = require(reference, path, field, errors) {
            push_invalid(&path.child(field), value, names::path_segment_name(value), errors);
        }
    }
}

/// As upstream's `validateIngressClassParametersReference`.
fn validate_ingress_class_parameters_reference(parameters: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_ingress_typed_local_object_reference(parameters, path, errors);
    let namespace = parameters.get("namespace").and_then(Value::as_str);
    let at = path.child("namespace");
    match (text(parameters, "scope"), namespace) {
        ("Namespace", None) => errors.push(Error::required(&at, "`parameters.scope` is set to 'Namespace'")),
        ("Namespace", Some(namespace)) => push_invalid(&at, namespace, names::dns1123_label(namespace), errors),
        ("Cluster", Some(_)) => errors.push(Error::forbidden(&at, "`parameters.scope` is set to 'Cluster'")),
        ("Cluster", None) => {}
        (other, _) => errors.push(Error::not_supported(
            &path.child("scope"),
            other,
            &["Cluster", "Namespace"],
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn the_default_class_is_marked() {
        let kind = kind();
        let name = kind.columns.first().expect("there are columns");
        let shown = |value: &str| {
            let annotations = json!({ "ingressclass.kubernetes.io/is-default-class": value });
            let class = json!({ "metadata": { "name": "c", "annotations": annotations } });
            (name.cell)(&class, jiff::Timestamp::UNIX_EPOCH)
        };
        assert_eq!([shown("true"), shown("false")], ["c (default)", "c"]);
    }

    #[test]
    fn errors() {
        let parameters = json!({ "kind": "k", "name": "n", "scope": "Namespace" });
        Trial::new("networking.k8s.io", "ingressclasses", kind()).expect_errors(&[
            (named("c", json!({ "controller": "a.b/c" })), &[]),
            (named("c", json!({})), &["spec.controller: Required value"]),
            (
                named("c", json!({ "controller": "a.b/c", "parameters": { "kind": "k", "name": "n", "apiGroup": "" } })),
                &[
                    "spec.parameters.apiGroup: Invalid value: \"\": a lowercase RFC 1123 subdomain must consist of lower case \
                     alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                     'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                ],
            ),
            (
                named("c", json!({ "controller": "a.b/c", "parameters": parameters })),
                &["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"],
            ),
        ]);
    }

    #[test]
    fn rows_show_what_the_parameters_are() {
        let parameters_of = |value: Value| parameters(&named("c", json!({ "parameters": value })));
        assert_eq!(
            parameters_of(json!({ "kind": "K", "name": "n", "apiGroup": "g" })),
            "K.g/n"
        );
        assert_eq!(parameters(&named("c", json!({}))), "<none>");
    }
}
