//! Defaults without what their schemas do not have (`structural/defaulting/prune.go` of apiextensions-apiserver): what fills an
//! object in is not pruned afterwards.

use super::{Additional, Structural, metadata::MetadataType, prune::prune_value};

/// Prunes the defaults in a schema, the metadata of embedded resources among them. One that is no resource although it should be
/// stays as it is: the definition is invalid, and was accepted before that was looked at.
pub(crate) fn prune_defaults(schema: &mut Structural, metadata: &MetadataType) {
    if let Some(mut default) = schema.default.take() {
        prune_value(&mut default, schema);
        let mut coerced = default.clone();
        let done = if schema.embedded {
            metadata.coerce_resource(&mut coerced, schema)
        } else {
            metadata.coerce(&mut coerced, schema).map(drop)
        };
        schema.default = Some(if done.is_ok() { coerced } else { default });
    }
    for (_, property) in &mut schema.properties {
        prune_defaults(property, metadata);
    }
    if let Some(items) = &mut schema.items {
        prune_defaults(items, metadata);
    }
    if let Additional::Schema(additional) = &mut schema.additional {
        prune_defaults(additional, metadata);
    }
}
