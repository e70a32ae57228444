//! Other shapes of objects: Tables and `PartialObjectMetadata`.

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_machinery::{ApiError, Object};
use trireme_registry::{Column, Item, ResourceInfo, versions};

use crate::{negotiation::MetaVersion, query::Query};

/// What a row of a Table carries of its object.
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
                trireme_machinery::field::quote(other)
            ))),
        }
    }
}

/// The metadata of an object alone.
pub(crate) fn partial(object: &Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Makes Tables of a resource's objects.
pub(crate) struct Tables<'a> {
    info: &'a ResourceInfo,
    version: usize,
    meta: MetaVersion,
    include: IncludeObject,
    now: Timestamp,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(
        info: &'a ResourceInfo,
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
        self.info.columns.iter().map(definition).collect()
    }

    /// The row of a cached object.
    pub(crate) fn row(&self, item: &Item) -> Value {
        self.row_of(versions::object_value(self.info, item, self.version))
    }

    /// The row of an object.
    pub(crate) fn row_of(&self, object: Value) -> Value {
        // Rows show what is stored, whichever version is asked for; only a whole object is shown in that version.
        let conversion = self
            .info
            .versions
            .get(self.version)
            .and_then(|version| version.conversion);
        let converted = conversion.map(|conversion| {
            let mut stored = object.clone();
            conversion.to_stored(&mut stored);
            stored
        });
        let stored = converted.as_ref().unwrap_or(&object);
        let cells: Vec<Value> = self
            .info
            .columns
            .iter()
            .map(|column| (column.cell)(stored, self.now))
            .collect();
        let conditions = self
            .info
            .row_conditions
            .map_or(Value::Null, |conditions| conditions(stored));
        let object = match self.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial(stored, self.meta),
            IncludeObject::Object => object,
        };
        let mut row = json!({"cells": cells, "object": object});
        if !conditions.is_null() {
            row["conditions"] = conditions;
        }
        row
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
        matches!(&*self.info.columns, [_, created] if &*created.name == "Created At")
    }
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
