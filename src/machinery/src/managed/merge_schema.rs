//! The schema that merges of a custom resource go by, made of its definition.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::schema::{ListType, TypeId, TypeTable};

/// The schema of one place in an object of a custom resource (`schema.Atom` of structured-merge-diff).
#[derive(Debug, Clone)]
pub enum MergeSchema {
    /// A built-in type: the metadata.
    BuiltIn(Arc<TypeTable>, TypeId),
    /// Text.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A scalar of any type.
    Scalar,
    /// Anything: maps are granular, lists atomic.
    Deduced,
    /// An object.
    Map {
        /// The fields that the schema names.
        fields: BTreeMap<Box<str>, MergeField>,
        /// The schema of other fields; none if there may be none.
        rest: Option<Box<Self>>,
        /// True if an apply replaces it as a whole.
        atomic: bool,
    },
    /// A list.
    List {
        /// Its items.
        item: Box<Self>,
        /// The merge rule.
        list_type: ListType,
    },
}

/// A named field.
#[derive(Debug, Clone)]
pub struct MergeField {
    /// Its schema.
    pub schema: MergeSchema,
    /// The value that an item of a list has for a key that it leaves out.
    pub default: Option<Value>,
}

impl From<MergeSchema> for MergeField {
    fn from(schema: MergeSchema) -> Self {
        Self { schema, default: None }
    }
}
