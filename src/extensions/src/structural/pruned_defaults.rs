//! Defaults without what their schemas do not have (`structural/defaulting/prune.go` of apiextensions-apiserver): what fills an
//! object in is not pruned afterwards.

use serde_json::{Value, json};

use super::{Additional, Structural, metadata::MetadataType, prune::prune_value};

/// Prunes the defaults in the schema of a resource, the metadata of embedded resources among them. A default that is no resource
/// although it should be stays as it is: the definition is invalid, and was accepted before that was looked at.
pub(crate) fn prune_defaults(resource: &mut Structural, metadata: &MetadataType) {
    DefaultPruner { metadata }.visit(resource, &SchemaRole::Resource);
}

struct DefaultPruner<'m> {
    metadata: &'m MetadataType,
}

/// The part of an object that the values of a schema are.
enum SchemaRole {
    /// They are resources.
    Resource,
    /// They are part of the metadata of a resource, at this place. The type of metadata prunes them, their schemas do not.
    Metadata(Vec<MetadataStep>),
    /// They are anything else.
    Value,
}

#[derive(Clone)]
enum MetadataStep {
    Key(String),
    Item,
}

impl SchemaRole {
    fn of_property(&self, name: &str, property: &Structural) -> Self {
        match self {
            Self::Resource if name == "metadata" => Self::Metadata(Vec::new()),
            Self::Metadata(steps) => Self::Metadata(with(steps, MetadataStep::Key(name.to_owned()))),
            Self::Resource | Self::Value => Self::of_value(property),
        }
    }

    fn of_item(&self, items: &Structural) -> Self {
        match self {
            Self::Metadata(steps) => Self::Metadata(with(steps, MetadataStep::Item)),
            Self::Resource | Self::Value => Self::of_value(items),
        }
    }

    fn of_value(schema: &Structural) -> Self {
        if schema.embedded { Self::Resource } else { Self::Value }
    }
}

fn with(steps: &[MetadataStep], step: MetadataStep) -> Vec<MetadataStep> {
    [steps, &[step]].concat()
}

impl DefaultPruner<'_> {
    fn visit(&self, schema: &mut Structural, role: &SchemaRole) {
        if let Some(default) = schema.default.take() {
            schema.default = match role {
                SchemaRole::Metadata(steps) => self.pruned_metadata(default, steps),
                SchemaRole::Resource | SchemaRole::Value => Some(self.pruned(default, schema)),
            };
        }
        for (name, property) in &mut schema.properties {
            let role = role.of_property(name, property);
            self.visit(property, &role);
        }
        if let Some(items) = &mut schema.items {
            let role = role.of_item(items);
            self.visit(items, &role);
        }
        if let Additional::Schema(additional) = &mut schema.additional {
            let role = role.of_property("*", additional);
            self.visit(additional, &role);
        }
    }

    fn pruned(&self, mut default: Value, schema: &Structural) -> Value {
        prune_value(&mut default, schema);
        let mut coerced = default.clone();
        let done = if schema.embedded {
            self.metadata.coerce_resource(&mut coerced, schema)
        } else {
            self.metadata.coerce(&mut coerced, schema).map(drop)
        };
        if done.is_ok() { coerced } else { default }
    }

    /// Prunes a default within metadata; `None` if metadata have no such field.
    fn pruned_metadata(&self, default: Value, steps: &[MetadataStep]) -> Option<Value> {
        let within = steps.iter().rev().fold(default.clone(), |value, step| match step {
            MetadataStep::Key(key) => json!({ key: value }),
            MetadataStep::Item => json!([value]),
        });
        let mut resource = json!({ "metadata": within });
        let decoded = self.metadata.decode(resource.as_object_mut()?);
        if decoded.is_err() {
            return Some(default);
        }
        let mut pruned = resource.get_mut("metadata")?;
        for step in steps {
            pruned = match step {
                MetadataStep::Key(key) => pruned.get_mut(key)?,
                MetadataStep::Item => pruned.get_mut(0)?,
            };
        }
        Some(pruned.take())
    }
}
