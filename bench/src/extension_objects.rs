//! Objects that extend a server: definitions with what each write of an object has to go through, webhooks and policies.

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// The group of the custom resources.
const GROUP: &str = "extensions.bench.trireme.dev";
/// Fields of the spec of a custom resource.
const FIELDS: usize = 50;
/// Fields of them that an object has. With them it has about 1 KiB.
const GIVEN_FIELDS: usize = 18;
/// The name that the webhook and the policy refuse, by which it is found out that they are active.
pub(crate) const PROBE: &str = "ready";

/// The definition of gadgets: 50 fields, of which some have a default, and three rules.
pub(crate) fn gadgets() -> Bytes {
    let mut fields: Map<String, Value> = (0..FIELDS - 2)
        .map(|field| {
            let mut schema = json!({"type": "string", "maxLength": 253});
            if field % 10 == 9 {
                schema["default"] = format!("default-{field}").into();
            }
            (format!("field{field}"), schema)
        })
        .collect();
    for bound in ["minimum", "maximum"] {
        let schema = json!({"type": "integer", "minimum": 0, "default": 1});
        fields.insert(bound.to_owned(), schema);
    }
    let rules = json!([
        {"rule": "self.minimum <= self.maximum", "message": "minimum is above maximum"},
        {"rule": "self.field0.startsWith('value') || size(self.field1) > 0"},
        {"rule": "!has(self.field2) || self.field2 != self.field9"},
    ]);
    let spec = json!({"type": "object", "properties": fields, "x-kubernetes-validations": rules});
    definition("gadget", &[("v1", spec)], None)
}

/// The name of a definition's resource and its path in a namespace.
pub(crate) fn collection(singular: &str, version: &str, namespace: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/{namespace}/{singular}s")
}

/// The name of a definition.
pub(crate) fn definition_name(singular: &str) -> String {
    format!("{singular}s.{GROUP}")
}

/// A gadget of about 1 KiB.
pub(crate) fn gadget(name: &str) -> Bytes {
    let fields = (0..GIVEN_FIELDS).map(|field| {
        (
            format!("field{field}"),
            format!("value-{field}-{}", "x".repeat(24)).into(),
        )
    });
    let spec: Map<String, Value> = fields.collect();
    object("Gadget", name, &spec.into())
}

/// The definition of parcels, whose second version a webhook makes of the first.
pub(crate) fn parcels(port: u16, ca_bundle: &str) -> Bytes {
    let version = |field: &str| json!({"type": "object", "properties": {field: {"type": "integer"}}});
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/convert"), "caBundle": ca_bundle},
            "conversionReviewVersions": ["v1"],
        },
    });
    definition(
        "parcel",
        &[("v1", version("size")), ("v2", version("amount"))],
        Some(conversion),
    )
}

/// A parcel in version 1.
pub(crate) fn parcel(name: &str) -> Bytes {
    object("Parcel", name, &json!({"size": 3}))
}

fn object(kind: &str, name: &str, spec: &Value) -> Bytes {
    let object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    Bytes::from(object.to_string())
}

/// A definition whose first version is stored.
fn definition(singular: &str, specs: &[(&str, Value)], conversion: Option<Value>) -> Bytes {
    let (plural, kind) = (
        format!("{singular}s"),
        format!("{}{}", singular[..1].to_uppercase(), &singular[1..]),
    );
    let version = |(number, (name, spec)): (usize, &(&str, Value))| {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"name": name, "served": true, "storage": number == 0, "schema": {"openAPIV3Schema": schema}})
    };
    let versions: Vec<Value> = specs.iter().enumerate().map(version).collect();
    let mut object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition_name(singular)},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": versions,
        },
    });
    if let Some(conversion) = conversion {
        object["spec"]["conversion"] = conversion;
    }
    Bytes::from(object.to_string())
}

/// The script of a receiver that admits everything and converts parcels.
pub(crate) fn receiver_script() -> Vec<Value> {
    let moved = |from: &str, to: &str| json!([{"move": format!("spec.{from}"), "to": format!("spec.{to}")}]);
    vec![
        json!({"path": "/admit", "keep": true, "record": false, "review": {"allowed": true}}),
        json!({
            "path": "/convert", "keep": true,
            "convert": {"v1": moved("amount", "size"), "v2": moved("size", "amount")},
            "review": {"convertedObjects": "${converted}", "result": {"status": "Success"}},
        }),
    ]
}

/// A validating webhook for the config maps of a namespace.
pub(crate) fn webhook(name: &str, namespace: &str, port: u16, ca_bundle: &str) -> Bytes {
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "admit.bench.trireme.dev",
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/admit"), "caBundle": ca_bundle},
            "rules": [rule()],
            "namespaceSelector": selector(namespace),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }],
    });
    Bytes::from(object.to_string())
}

/// A policy of three expressions for config maps.
pub(crate) fn policy(name: &str) -> Bytes {
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule()]},
            "validations": [
                {"expression": format!("object.metadata.name != '{PROBE}'")},
                {"expression": "object.data.size() < 100"},
                {"expression": "!has(object.data.payload) || object.data.payload.size() <= 2048"},
            ],
        },
    });
    Bytes::from(object.to_string())
}

/// Binds the policy to a namespace.
pub(crate) fn policy_binding(name: &str, namespace: &str) -> Bytes {
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": selector(namespace)},
        },
    });
    Bytes::from(object.to_string())
}

fn rule() -> Value {
    json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]})
}

fn selector(namespace: &str) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}})
}
