//! Other shapes of objects: Tables and `PartialObjectMetadata`.

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_machinery::{ApiError, Object};
use trireme_registry::{Column, Item, ResourceDefinition, versions};

use crate::{negotiation::MetaVersion, query::Query};

/// The part of its object that a row of a Table carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads `includeObject`.
    ///
    /// # Errors
    /// 400 for other values.
    pub(crate) fn parse(query: &Query) -> Result<Self, ApiError> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                trireme_machinery::go_text::quote(other)
            ))),
        }
    }
}

/// The metadata of a stored object alone.
pub(crate) fn partial(info: &ResourceDefinition, stored: &Value, version: MetaVersion) -> Value {
    let mut alone = metadata_alone(stored, version);
    if let Some(hide) = info.hide_metadata {
        hide(&mut alone["metadata"]);
    }
    alone
}

/// The metadata of any object alone.
pub(crate) fn metadata_alone(object: &Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// A cached object in the form that views are made of: Tables and metadata show what is stored, whichever version is
/// asked for.
pub(crate) fn stored(info: &ResourceDefinition, item: &Item) -> Value {
    versions::object_value(info, item, info.storage_version)
}

/// The same of an object of a served version.
pub(crate) fn to_stored(info: &ResourceDefinition, version: usize, mut object: Value) -> Value {
    if let Some(served) = info.versions.get(version) {
        versions::to_stored(info, served, &mut object);
    }
    object
}

/// Makes Tables of a resource's objects.
pub(crate) struct Tables<'a> {
    info: &'a ResourceDefinition,
    version: usize,
    meta: MetaVersion,
    include: IncludeObject,
    now: Timestamp,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(
        info: &'a ResourceDefinition,
        version: usize,
        meta: MetaVersion,
        include: IncludeObject,
        clock: &Clock,
    ) -> Self {
        Self {
            info,
            version,
            meta,
            include,
            now: Timestamp::try_from(clock.wall()).unwrap_or(Timestamp::UNIX_EPOCH),
        }
    }

    /// The headings.
    pub(crate) fn columns(&self) -> Value {
        definitions(self.info.columns_in(self.version))
    }

    /// The row of a cached object.
    pub(crate) fn row(&self, item: &Item) -> Value {
        let stored = stored(self.info, item);
        self.row_of(&stored, || versions::object_value(self.info, item, self.version))
    }

    /// The row of an object of the version that is asked for.
    pub(crate) fn row_of_served(&self, object: Value) -> Value {
        let stored = to_stored(self.info, self.version, object.clone());
        self.row_of(&stored, || object)
    }

    /// Only a whole object in a row is in the version that is asked for.
    fn row_of(&self, stored: &Value, served: impl FnOnce() -> Value) -> Value {
        let conditions = self.info.row_conditions.map(|conditions| conditions(stored));
        let object = match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial(self.info, stored, self.meta),
            IncludeObject::Object => served(),
        };
        let mut row = json!({ "cells": self.cells(self.info.columns_in(self.version), stored), "object": object });
        if let Some(conditions) = conditions.filter(|conditions| !conditions.is_null()) {
            row["conditions"] = conditions;
        }
        row
    }

    fn cells(&self, columns: &[Column], object: &Value) -> Vec<Value> {
        columns.iter().map(|column| (column.cell)(object, self.now)).collect()
    }

    /// The Table of a scale, which has columns of its own.
    pub(crate) fn of_scale(&self, metadata: Object, object: Value) -> Value {
        let scale = self.info.subresource("scale");
        let columns = scale.and_then(|scale| scale.columns.as_deref()).unwrap_or(&[]);
        let cells = self.cells(columns, &object);
        let shown = match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial(self.info, &object, self.meta),
            IncludeObject::Object => object,
        };
        let row = json!({ "cells": cells, "object": shown });
        self.table(metadata, definitions(columns), vec![row])
    }

    /// A Table of these rows.
    pub(crate) fn table(&self, metadata: Object, columns: Value, rows: Vec<Value>) -> Value {
        // The table that kube-apiserver makes of kinds without columns of their own has null for no rows.
        let rows = if rows.is_empty() && self.is_generic() {
            Value::Null
        } else {
            rows.into()
        };
        json!({
            "kind": "Table",
            "apiVersion": self.meta.api_version(),
            "metadata": metadata,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    fn is_generic(&self) -> bool {
        matches!(self.info.columns_in(self.version), [_, created] if &*created.name == "Created At")
    }
}

fn definitions(columns: &[Column]) -> Value {
    columns.iter().filter(|column| column.defined).map(definition).collect()
}

fn definition(column: &Column) -> Value {
    json!({
        "name": &*column.name,
        "type": column.kind,
        "format": column.format,
        "description": &*(column.description)(),
        "priority": column.priority,
    })
}
