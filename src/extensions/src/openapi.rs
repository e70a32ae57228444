//! The schemas that OpenAPI documents show of custom resources (`controller/openapi/builder`).
//!
//! Nothing but the bytes of the definition is kept: they are read when a document is rendered.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use bytes::Bytes;
use serde_json::{Value, json};
use trireme_registry::SchemaSource;

use crate::openapi_v2::{preserves_unknown_fields, to_structural_openapi_v2};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// A type of Kubernetes that has the fields of all objects, with their descriptions.
const MODEL: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";

/// The names of a definition as OpenAPI and warnings use them.
#[derive(Debug, Clone)]
pub(crate) struct SourceNames {
    pub(crate) group: String,
    pub(crate) kind: String,
    list_kind: String,
}

impl SourceNames {
    pub(crate) fn of(definition: &Value) -> Self {
        let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Self {
            group: text("/spec/group").to_owned(),
            kind: text("/spec/names/kind").to_owned(),
            list_kind: text("/spec/names/listKind").to_owned(),
        }
    }

    /// `com.example.v1.Widget`
    pub(crate) fn type_name(&self, version: &str) -> String {
        let mut parts: Vec<&str> = self.group.split('.').collect();
        parts.reverse();
        format!("{}.{version}.{}", parts.join("."), self.kind)
    }
}

/// The schemas of one definition.
pub(crate) struct DefinitionSource {
    names: SourceNames,
    bytes: Bytes,
    base: Arc<dyn SchemaSource>,
    digest: String,
}

impl DefinitionSource {
    /// The schemas of `definition`, whose JSON is in `bytes`.
    pub(crate) fn new(definition: &Value, bytes: Bytes, base: Arc<dyn SchemaSource>) -> Self {
        let mut hasher = DefaultHasher::new();
        definition["spec"].to_string().hash(&mut hasher);
        Self {
            digest: format!("{:016x}", hasher.finish()),
            names: SourceNames::of(definition),
            bytes,
            base,
        }
    }

    fn version(&self, name: &str) -> Option<Value> {
        let mut definition: Value = serde_json::from_slice(&self.bytes).ok()?;
        let versions = definition.pointer_mut("/spec/versions")?.as_array_mut()?;
        let mut versions = versions.iter_mut();
        let version = versions.find(|version| version["name"] == name)?;
        Some(version.pointer_mut("/schema/openAPIV3Schema")?.take())
    }

    /// The fields that all objects have, as kinds of Kubernetes describe them.
    fn meta_fields(&self) -> [(&'static str, Value); 2] {
        let model = self.base.component(MODEL);
        ["apiVersion", "kind"].map(|name| {
            let described = model
                .as_ref()
                .and_then(|model| model.pointer(&format!("/properties/{name}")));
            (name, described.cloned().unwrap_or_else(|| json!({"type": "string"})))
        })
    }

    fn object(&self, version: &str, release: OpenApiRelease) -> Option<Value> {
        let mut schema = self.version(version)?;
        if release == OpenApiRelease::V2 {
            if preserves_unknown_fields(&schema) {
                // Clients would take the fields of all objects for the only ones that there are.
                return Some(json!({"type": "object"}));
            }
            to_structural_openapi_v2(&mut schema);
        }
        let fields = schema.as_object_mut()?;
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        for (name, field) in self.meta_fields() {
            properties[name] = field;
        }
        let described = json!({
            "description": "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
            "$ref": format!("{META}.ObjectMeta"),
        });
        properties["metadata"] = described;
        Some(schema)
    }

    fn list(&self, version: &str) -> Value {
        let mut properties = json!({
            "metadata": {
                "description": "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
                "$ref": format!("{META}.ListMeta"),
            },
            "items": {
                "description": format!("List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", self.names.kind.to_lowercase() + "s"),
                "type": "array",
                "items": {"$ref": self.names.type_name(version)},
            },
        });
        for (name, field) in self.meta_fields() {
            properties[name] = field;
        }
        json!({
            "description": format!("{} is a list of {}", self.names.list_kind, self.names.kind),
            "type": "object",
            "required": ["items"],
            "properties": properties,
        })
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
        let (rest, kind) = name.rsplit_once('.')?;
        let (_, version) = rest.rsplit_once('.')?;
        let own = self.names.type_name(version);
        if name == own {
            return self.object(version, release).map(Arc::new);
        }
        let is_list = kind.strip_suffix("List") == Some(&self.names.kind) && name.strip_suffix("List") == Some(&own);
        is_list.then(|| Arc::new(self.list(version)))
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
