//! What the server knows of one resource: data, plus its strategy.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{
    GroupKind, GroupResource, GroupVersion, GroupVersionKind,
    schema::{TypeId, TypeTable},
};

use crate::{
    selectable::SelectableFields,
    strategy::{SideEffects, Strategy},
};

/// Everything that the generic machinery needs to serve a resource. Built-in kinds and custom resources compile to
/// this same form.
#[derive(Clone)]
pub struct ResourceInfo {
    /// Group and plural.
    pub resource: GroupResource,
    /// The kind's name.
    pub kind: Arc<str>,
    /// The list kind's name.
    pub list_kind: Arc<str>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Where objects are stored, without a slash at the end: `/registry/pods`.
    pub storage_prefix: Arc<str>,
    /// The version that objects are stored in; an index into `versions`.
    pub storage_version: usize,
    /// All versions that are served, preferred first.
    pub versions: Vec<ServedVersion>,
    /// The types that the versions' schemas are part of.
    pub types: &'static TypeTable,
    /// The fields that field selectors may name beside `metadata.name` and `metadata.namespace`.
    pub selectable: SelectableFields,
    /// Whether `/status` is served.
    pub has_status: bool,
    /// Where `/scale` reads and writes, if it is served.
    pub scale: Option<ScalePaths>,
    /// The columns of a Table answer in order, the name included.
    pub columns: Vec<Column>,
    /// What else a Table says of an object (`conditions` of its row), or null.
    pub row_conditions: Option<fn(&Value) -> Value>,
    /// Takes out of an object's metadata what stands somewhere else in the form in which kube-apiserver holds the
    /// object, so that neither Tables nor `PartialObjectMetadata` show it.
    pub hide_metadata: Option<fn(&mut Value)>,
    /// The kind's own behaviour.
    pub strategy: Arc<dyn Strategy>,
    /// Work in the store that goes with a write (allocation of addresses and ports), if the kind has any.
    pub side_effects: Option<Arc<dyn SideEffects>>,
    /// How long objects live, for kinds that expire (events).
    pub ttl: Option<std::time::Duration>,
}

/// One served version of a resource.
#[derive(Clone)]
pub struct ServedVersion {
    /// Group and version.
    pub group_version: GroupVersion,
    /// The version's schema.
    pub type_id: TypeId,
    /// How objects of this version are made from stored ones and back; `None` if they are the same but for
    /// `apiVersion`.
    pub conversion: Option<&'static dyn Conversion>,
}

/// Turns objects of one served version into the stored one and back. `apiVersion` is set by the caller.
pub trait Conversion: Send + Sync {
    /// From the served version to the stored one.
    fn to_stored(&self, object: &mut Value);
    /// From the stored version to the served one.
    fn to_served(&self, object: &mut Value);
}

/// Where the scale subresource finds its parts, in dotted form.
#[derive(Debug, Clone)]
pub struct ScalePaths {
    /// `spec.replicas`
    pub spec_replicas: &'static str,
    /// `status.replicas`
    pub status_replicas: &'static str,
    /// `spec.selector`: a LabelSelector or, for replication controllers, a plain map.
    pub selector: &'static str,
}

/// Makes a cell of a Table answer of an object at a time.
pub type Cell = Arc<dyn Fn(&Value, jiff::Timestamp) -> Value + Send + Sync>;

/// A column of a Table answer.
#[derive(Clone)]
pub struct Column {
    /// The heading.
    pub name: Arc<str>,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// OpenAPI format; `name` marks the column that tells the object's name.
    pub format: &'static str,
    /// 0 is always shown, 1 with `-o wide`.
    pub priority: i32,
    /// Whether the definitions name the column: kube-apiserver has rows with a cell more than it names columns.
    pub defined: bool,
    /// What it shows; made when a Table is asked for, so that a server that shows none need not know.
    pub description: Arc<dyn Fn() -> Arc<str> + Send + Sync>,
    /// Makes the cell; the time is for ages.
    pub cell: Cell,
}

impl ResourceInfo {
    /// Group and kind, as validation errors name it.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.resource.group.clone(),
            kind: self.kind.clone(),
        }
    }

    /// The version that objects are stored in.
    ///
    /// # Panics
    /// If `storage_version` is not an index into `versions`.
    pub fn stored(&self) -> &ServedVersion {
        self.versions
            .get(self.storage_version)
            .expect("the storage version is one of the served ones")
    }

    /// Finds a served version by name.
    pub fn version(&self, version: &str) -> Option<&ServedVersion> {
        self.versions.iter().find(|v| &*v.group_version.version == version)
    }

    /// The full kind in a served version.
    pub fn kind_in(&self, version: &ServedVersion) -> GroupVersionKind {
        version.group_version.with_kind(&self.kind)
    }

    /// The key under which an object is stored. The segments must have been validated.
    pub fn storage_key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{}/{namespace}/{name}", self.storage_prefix)
        } else {
            format!("{}/{name}", self.storage_prefix)
        }
    }
}
