//! The OpenAPI definitions: k8s-openapi's schemas brought back to what Kubernetes publishes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::roots;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Kinds that are only ever posted, so that there are no lists of them.
const WITHOUT_LIST: [&str; 10] = [
    "Binding",
    "Eviction",
    "LocalSubjectAccessReview",
    "Scale",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "SubjectAccessReview",
    "TokenRequest",
    "TokenReview",
];

/// Required fields that k8s-openapi treats as optional to be lenient with old servers.
const REQUIRED_AGAIN: [(&str, &[&str]); 1] = [(
    "io.k8s.api.policy.v1.PodDisruptionBudgetStatus",
    &["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"],
)];

/// All definitions by name, with references as bare names.
pub(crate) fn all() -> BTreeMap<String, Value> {
    let mut generator = schemars::SchemaGenerator::default();
    roots::describe_all(&mut generator);
    let mut definitions: BTreeMap<String, Value> = generator.take_definitions(true).into_iter().collect();
    for (name, definition) in &mut definitions {
        shorten_references(definition);
        drop_required_metadata(definition);
        if let Some((_, fields)) = REQUIRED_AGAIN.iter().find(|(ty, _)| ty == name) {
            definition["required"] = json!(fields);
        }
    }
    restore_special_types(&mut definitions);
    add_lists(&mut definitions);
    definitions
}

fn shorten_references(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            if let Some(Value::String(reference)) = entries.get_mut("$ref") {
                *reference = reference.trim_start_matches("#/$defs/").to_owned();
            }
            entries.values_mut().for_each(shorten_references);
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_references),
        _ => {}
    }
}

/// k8s-openapi calls `metadata` required because its Rust field is not an `Option`.
fn drop_required_metadata(definition: &mut Value) {
    let reference = definition.pointer("/properties/metadata/$ref").and_then(Value::as_str);
    if !reference.is_some_and(|name| name.ends_with(".ObjectMeta") || name.ends_with(".ListMeta")) {
        return;
    }
    let Some(entries) = definition.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(required)) = entries.get_mut("required") {
        required.retain(|field| field != "metadata");
        if required.is_empty() {
            entries.remove("required");
        }
    }
}

fn restore_special_types(definitions: &mut BTreeMap<String, Value>) {
    for name in [
        "JSON",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
    ] {
        let entries = definitions
            .get_mut(&format!("{EXTENSIONS}.{name}"))
            .and_then(Value::as_object_mut);
        entries
            .expect("the definition exists")
            .retain(|key, _| key == "description");
    }
    let quantity = definitions.get_mut("io.k8s.apimachinery.pkg.api.resource.Quantity");
    retype(quantity, "string", None);
    let int_or_string = definitions.get_mut("io.k8s.apimachinery.pkg.util.intstr.IntOrString");
    retype(int_or_string, "string", Some("int-or-string"));
    definitions.insert(
        format!("{META}.WatchEvent"),
        json!({
            "description": "Event represents a single event to a watched resource.",
            "type": "object",
            "required": ["type", "object"],
            "properties": {
                "type": {"type": "string"},
                "object": {
                    "$ref": "io.k8s.apimachinery.pkg.runtime.RawExtension",
                    "description": "The object that was added or changed, or its last state if it was deleted; a \
                        Status if something went wrong.",
                },
            },
        }),
    );
}

fn retype(definition: Option<&mut Value>, ty: &str, format: Option<&str>) {
    let entries = definition
        .and_then(Value::as_object_mut)
        .expect("the definition exists");
    entries.retain(|key, _| key == "description");
    entries.insert("type".to_owned(), ty.into());
    if let Some(format) = format {
        entries.insert("format".to_owned(), format.into());
    }
}

fn add_lists(definitions: &mut BTreeMap<String, Value>) {
    let lists: Vec<(String, Value)> = definitions
        .iter()
        .filter(|(name, definition)| has_lists(name, definition))
        .map(|(name, definition)| (format!("{name}List"), list_of(name, definition)))
        .collect();
    definitions.extend(lists);
}

fn has_lists(name: &str, definition: &Value) -> bool {
    let has = |field: &str| definition.pointer(&format!("/properties/{field}")).is_some();
    let kind = name.rsplit('.').next().unwrap_or(name);
    has("apiVersion")
        && has("kind")
        && definition
            .pointer("/properties/metadata/$ref")
            .is_some_and(|meta| *meta == json!(format!("{META}.ObjectMeta")))
        && !WITHOUT_LIST.contains(&kind)
}

fn list_of(name: &str, definition: &Value) -> Value {
    let kind = name.rsplit('.').next().unwrap_or(name);
    let mut properties = Map::new();
    for field in ["apiVersion", "kind"] {
        properties.insert(field.to_owned(), definition["properties"][field].clone());
    }
    properties.insert(
        "items".to_owned(),
        json!({"description": format!("items is the list of {kind} objects."), "type": "array", "items": {"$ref": name}}),
    );
    properties.insert(
        "metadata".to_owned(),
        json!({"description": "Standard list metadata.", "$ref": format!("{META}.ListMeta")}),
    );
    json!({
        "description": format!("{kind}List is a collection of {kind} objects."),
        "type": "object",
        "required": ["items"],
        "properties": properties,
    })
}
