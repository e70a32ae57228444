//! The schemas that OpenAPI documents show of custom resources (`controller/openapi/builder`).
//!
//! Nothing but the bytes of the definition is kept: they are read when a document is rendered.

#[cfg(test)]
mod tests;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use bytes::Bytes;
use serde_json::{Value, json};
use trireme_registry::SchemaSource;

use crate::{
    definition::is_structural,
    openapi_schema::{add_embedded_properties, set_properties, to_kube_openapi},
    openapi_v2::{preserves_unknown_fields, to_structural_openapi_v2},
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
/// A type of Kubernetes that has the fields of all objects, with their descriptions.
const MODEL: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";

/// The names of a definition as OpenAPI and warnings use them.
#[derive(Debug, Clone)]
pub(crate) struct SourceNames {
    pub(crate) group: String,
    pub(crate) kind: String,
    list_kind: String,
    plural: String,
}

impl SourceNames {
    pub(crate) fn of(definition: &Value) -> Self {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Self {
            group: text("/spec/group").to_owned(),
            kind: text("/spec/names/kind").to_owned(),
            list_kind: text("/spec/names/listKind").to_owned(),
            plural: text("/spec/names/plural").to_owned(),
        }
    }

    /// `com.example.v1.Widget`
    pub(crate) fn type_name(&self, version: &str) -> String {
        format!("{}.{}", self.package(version), self.kind)
    }

    /// `com.example.v1`
    fn package(&self, version: &str) -> String {
        let mut parts: Vec<&str> = self.group.split('.').collect();
        parts.reverse();
        format!("{}.{version}", parts.join("."))
    }
}

/// The schemas of one definition.
pub(crate) struct DefinitionSource {
    names: SourceNames,
    bytes: Bytes,
    base: Arc<dyn SchemaSource>,
    digest: String,
    /// `spec.preserveUnknownFields`, which definitions of `v1beta1` may have.
    keeps_unknown_fields: bool,
}

impl DefinitionSource {
    /// The schemas of `definition`, whose JSON is in `bytes`.
    pub(crate) fn new(definition: &Value, bytes: Bytes, base: Arc<dyn SchemaSource>) -> Self {
        let mut hasher = DefaultHasher::new();
        definition["spec"].to_string().hash(&mut hasher);
        Self {
            digest: format!("{:016x}", hasher.finish()),
            names: SourceNames::of(definition),
            keeps_unknown_fields: definition.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true)),
            bytes,
            base,
        }
    }

    fn version(&self, name: &str) -> Option<Value> {
        let mut definition: Value = serde_json::from_slice(&self.bytes).ok()?;
        let versions = definition.pointer_mut("/spec/versions")?.as_array_mut()?;
        let mut versions = versions.iter_mut();
        versions.find(|version| version["name"] == name).map(Value::take)
    }

    /// `apiVersion` and `kind` as kinds of Kubernetes describe them.
    fn type_meta(&self) -> [(&'static str, Value); 2] {
        let model = self.base.component(MODEL);
        ["apiVersion", "kind"].map(|name| {
            let described = model
                .as_ref()
                .and_then(|model| model.pointer(&format!("/properties/{name}")));
            (name, described.cloned().unwrap_or_else(|| json!({"type": "string"})))
        })
    }

    fn object(&self, version: &str, release: OpenApiRelease) -> Option<Value> {
        let version = self.version(version)?;
        let schema = version.pointer("/schema/openAPIV3Schema");
        let mut object = match schema.filter(|schema| schema.is_object() && is_structural(schema)) {
            Some(schema) => self.described(schema, release),
            None => json!({"type": "object"}),
        };
        set_selectable_fields(&mut object, &version);
        Some(object)
    }

    /// The schema of objects, with the fields that all objects have.
    fn described(&self, schema: &Value, release: OpenApiRelease) -> Value {
        let is_v2 = release == OpenApiRelease::V2;
        if is_v2 && (self.keeps_unknown_fields || preserves_unknown_fields(schema)) {
            // Clients would take the fields of all objects for the only ones that there are.
            return json!({"type": "object"});
        }
        let mut schema = to_kube_openapi(schema);
        if is_v2 {
            to_structural_openapi_v2(&mut schema);
        }
        set_properties(&mut schema, &self.type_meta());
        set_properties(&mut schema, &[("metadata", object_meta())]);
        add_embedded_properties(&mut schema, &embedded_fields(), is_v2);
        schema
    }

    fn list(&self, version: &str) -> Option<Value> {
        let names = &self.names;
        let mut list = json!({
            "description": format!("{} is a list of {}", names.list_kind, names.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "metadata": {
                    "description": format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds"),
                    "$ref": format!("{META}.ListMeta"),
                },
                "items": {
                    "description": format!("List of {}. More info: {CONVENTIONS}", names.plural),
                    "type": "array",
                    "items": {"$ref": names.type_name(version)},
                },
            },
        });
        set_properties(&mut list, &self.type_meta());
        set_selectable_fields(&mut list, &self.version(version)?);
        Some(list)
    }
}

fn object_meta() -> Value {
    json!({
        "description": format!("Standard object's metadata. More info: {CONVENTIONS}#metadata"),
        "$ref": format!("{META}.ObjectMeta"),
    })
}

/// The fields that objects within others have.
fn embedded_fields() -> [(&'static str, Value); 3] {
    let text = |description: String| json!({"type": "string", "description": description});
    let version = format!(
        "apiVersion defines the versioned schema of this representation of an object. More info: {CONVENTIONS}#resources"
    );
    let kind = format!(
        "kind is a string value representing the type of this object. In CamelCase. More info: {CONVENTIONS}#types-kinds"
    );
    [
        ("apiVersion", text(version)),
        ("kind", text(kind)),
        ("metadata", object_meta()),
    ]
}

/// Names the fields that field selectors may name, in the order of the definition.
fn set_selectable_fields(schema: &mut Value, version: &Value) {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let paths = fields.into_iter().flatten().map(|field| {
        let path = field["jsonPath"].as_str().unwrap_or_default();
        json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)})
    });
    let paths: Vec<Value> = paths.collect();
    if !paths.is_empty() {
        schema["x-kubernetes-selectable-fields"] = paths.into();
    }
}

/// A version of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenApiRelease {
    V2,
    V3,
}

impl DefinitionSource {
    fn component_in(&self, name: &str, release: OpenApiRelease) -> Option<Arc<Value>> {
        let (package, kind) = name.rsplit_once('.')?;
        let (_, version) = package.rsplit_once('.')?;
        if package != self.names.package(version) {
            return None;
        }
        let schema = match kind {
            kind if kind == self.names.kind => self.object(version, release),
            kind if kind == self.names.list_kind => self.list(version),
            _ => None,
        };
        schema.map(Arc::new)
    }
}

impl SchemaSource for DefinitionSource {
    fn component(&self, name: &str) -> Option<Arc<Value>> {
        self.component_in(name, OpenApiRelease::V3)
    }

    fn component_v2(&self, name: &str) -> Option<Arc<Value>> {
        self.component_in(name, OpenApiRelease::V2)
    }

    fn digest(&self) -> &str {
        &self.digest
    }
}
