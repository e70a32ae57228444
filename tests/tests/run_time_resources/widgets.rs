//! Widgets: a resource whose older version is converted by something that takes its time.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, GroupResource, GroupVersion,
    schema::{Field, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable},
};
use trireme_registry::{Column, Converter, OpenApiFragment, ResourceDefinition, SchemaSource, ServedVersion, Strategy};

/// The number of objects in each call of the converter. The field `spec` is called `oldSpec` in `v1alpha1`.
#[derive(Clone, Default)]
pub(super) struct Converted(Arc<Mutex<Vec<usize>>>);

impl Converted {
    pub(super) fn batches(&self) -> Vec<usize> {
        self.0.lock().expect("no holder panicked").clone()
    }

    pub(super) fn forget(&self) {
        self.0.lock().expect("no holder panicked").clear();
    }
}

impl Converter for Converted {
    fn convert<'a>(
        &'a self,
        mut objects: Vec<Value>,
        from: &'a GroupVersion,
        to: &'a GroupVersion,
    ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.0.lock().expect("no holder panicked").push(objects.len());
            let name = |version: &GroupVersion| match &*version.version {
                "v1alpha1" => "oldSpec",
                _ => "spec",
            };
            for fields in objects.iter_mut().filter_map(Value::as_object_mut) {
                if let Some(spec) = fields.remove(name(from)) {
                    fields.insert(name(to).to_owned(), spec);
                }
            }
            Ok(objects)
        })
    }
}

/// The schemas of widgets, with one field in the spec.
pub(super) struct WidgetSource(&'static str);

impl WidgetSource {
    pub(super) fn new(field: &'static str) -> Self {
        Self(field)
    }
}

impl SchemaSource for WidgetSource {
    fn component(&self, name: &str) -> Option<Arc<Value>> {
        let name = name.strip_prefix("com.example.")?;
        Some(Arc::new(if name.ends_with("List") {
            let items =
                json!({"type": "array", "items": {"$ref": format!("com.example.{}", name.trim_end_matches("List"))}});
            json!({"type": "object", "properties": {"items": items}})
        } else {
            let spec =
                json!({"type": "object", "description": "The wish.", "properties": {self.0: {"type": "string"}}});
            json!({"type": "object", "properties": {"spec": spec}})
        }))
    }

    fn digest(&self) -> &str {
        self.0
    }
}

struct Plain;

impl Strategy for Plain {}

fn field(name: &str, shape: Shape) -> Field {
    Field {
        name: name.to_owned(),
        shape,
        presence: Presence::OmitZero,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag: 0,
    }
}

fn types() -> (Arc<TypeTable>, TypeId) {
    let mut types = TypeTable::default();
    let text = || Shape::String(StringFormat::Plain);
    let id = types.define(TypeDef {
        name: "com.example.Widget".to_owned(),
        fields: vec![
            field("apiVersion", text()),
            field("kind", text()),
            field("metadata", Shape::Any),
            field("spec", Shape::Any),
            field("oldSpec", Shape::Any),
        ],
        atomic: false,
    });
    (Arc::new(types), id)
}

fn column(name: &str, pointer: String) -> Column {
    Column {
        name: name.into(),
        kind: "string",
        format: if name == "Name" { "name" } else { "" },
        priority: 0,
        defined: true,
        description: Arc::new(|| "".into()),
        cell: Arc::new(move |object, _| object.pointer(&pointer).cloned().unwrap_or_default()),
    }
}

/// Widgets in these versions, the first of them stored, with a column for each of these fields of the spec.
pub(super) fn definition(
    versions: &[&str],
    columns: &[&str],
    schemas: WidgetSource,
    converter: &Converted,
) -> Arc<ResourceDefinition> {
    let (types, type_id) = types();
    let name = GroupResource {
        group: "example.com".into(),
        resource: "widgets".into(),
    };
    let capital = |text: &str| text.get(..1).unwrap_or_default().to_uppercase() + text.get(1..).unwrap_or_default();
    let own = columns
        .iter()
        .map(|field| column(&capital(field), format!("/spec/{field}")));
    let columns: Arc<[Column]> = std::iter::once(column("Name", "/metadata/name".to_owned()))
        .chain(own)
        .collect();
    let versions = versions.iter().map(|version| {
        let type_name = format!("com.example.{version}.Widget");
        ServedVersion {
            columns: columns.clone(),
            ..ServedVersion::new(GroupVersion::new("example.com", version), type_id, type_name)
        }
    });
    let prefix = "/registry/example.com/widgets";
    Arc::new(ResourceDefinition {
        converter: Some(Arc::new(converter.clone())),
        openapi: OpenApiFragment::new(Arc::new(schemas)),
        ..ResourceDefinition::new(name, "Widget", prefix, versions.collect(), types, Arc::new(Plain))
    })
}
