//! Read access to an object's metadata.

use std::sync::LazyLock;

use serde_json::Value;

use super::{MetaMut, OwnerReference};
use crate::{GroupVersion, GroupVersionKind, Object};

static NO_FIELDS: LazyLock<Object> = LazyLock::new(Object::new);

/// The metadata of an object, as it stands in the object's tree.
#[derive(Debug, Clone, Copy)]
pub struct Meta<'a>(&'a Object);

/// Objects that have metadata: whole objects as trees.
pub trait ObjectMeta {
    /// Reads the metadata.
    fn meta(&self) -> Meta<'_>;

    /// Changes the metadata, which is made if there is none.
    fn meta_mut(&mut self) -> MetaMut<'_>;

    /// `apiVersion`, `""` if absent.
    fn api_version(&self) -> &str;

    /// `kind`, `""` if absent.
    fn kind(&self) -> &str;

    /// Group, version and kind, if `apiVersion` and `kind` are there and well-formed.
    fn gvk(&self) -> Option<GroupVersionKind> {
        let (api_version, kind) = (self.api_version(), self.kind());
        if api_version.is_empty() || kind.is_empty() {
            return None;
        }
        Some(GroupVersion::parse(api_version)?.with_kind(kind))
    }

    /// Sets `apiVersion` and `kind`.
    fn set_gvk(&mut self, gvk: &GroupVersionKind);
}

impl ObjectMeta for Object {
    fn meta(&self) -> Meta<'_> {
        Meta(self.get("metadata").and_then(Value::as_object).unwrap_or(&NO_FIELDS))
    }

    fn meta_mut(&mut self) -> MetaMut<'_> {
        MetaMut::of(self)
    }

    fn api_version(&self) -> &str {
        text(self, "apiVersion")
    }

    fn kind(&self) -> &str {
        text(self, "kind")
    }

    fn set_gvk(&mut self, gvk: &GroupVersionKind) {
        self.insert("apiVersion".into(), gvk.group_version().to_string().into());
        self.insert("kind".into(), Value::from(&*gvk.kind));
    }
}

impl ObjectMeta for Value {
    fn meta(&self) -> Meta<'_> {
        self.as_object().unwrap_or(&NO_FIELDS).meta()
    }

    fn meta_mut(&mut self) -> MetaMut<'_> {
        object_of(self).meta_mut()
    }

    fn api_version(&self) -> &str {
        self.as_object().unwrap_or(&NO_FIELDS).api_version()
    }

    fn kind(&self) -> &str {
        self.as_object().unwrap_or(&NO_FIELDS).kind()
    }

    fn set_gvk(&mut self, gvk: &GroupVersionKind) {
        object_of(self).set_gvk(gvk);
    }
}

/// The value as an object; anything else becomes an empty one first.
pub(super) fn object_of(value: &mut Value) -> &mut Object {
    if !value.is_object() {
        *value = Value::Object(Object::new());
    }
    value.as_object_mut().expect("just made an object")
}

fn text<'a>(fields: &'a Object, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl<'a> Meta<'a> {
    /// Views a `metadata` struct itself, such as that of a pod template.
    pub fn new(metadata: &'a Object) -> Self {
        Self(metadata)
    }

    /// The fields themselves.
    pub fn fields(self) -> &'a Object {
        self.0
    }

    /// One field as text, `""` if absent.
    pub fn text(self, field: &str) -> &'a str {
        text(self.0, field)
    }

    /// `name`
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// `generateName`
    pub fn generate_name(self) -> &'a str {
        self.text("generateName")
    }

    /// `namespace`, `""` for cluster-scoped objects.
    pub fn namespace(self) -> &'a str {
        self.text("namespace")
    }

    /// `uid`
    pub fn uid(self) -> &'a str {
        self.text("uid")
    }

    /// `resourceVersion`, opaque.
    pub fn resource_version(self) -> &'a str {
        self.text("resourceVersion")
    }

    /// `creationTimestamp`
    pub fn creation_timestamp(self) -> &'a str {
        self.text("creationTimestamp")
    }

    /// `deletionTimestamp`: the object is being deleted.
    pub fn deletion_timestamp(self) -> Option<&'a str> {
        self.0.get("deletionTimestamp")?.as_str()
    }

    /// Returns true if the object is being deleted.
    pub fn is_terminating(self) -> bool {
        self.deletion_timestamp().is_some()
    }

    /// `deletionGracePeriodSeconds`
    pub fn deletion_grace_period_seconds(self) -> Option<i64> {
        self.0.get("deletionGracePeriodSeconds")?.as_i64()
    }

    /// `generation`, 0 if absent.
    pub fn generation(self) -> i64 {
        self.0.get("generation").and_then(Value::as_i64).unwrap_or_default()
    }

    /// `labels`, if there are any.
    pub fn labels(self) -> Option<&'a Object> {
        self.0.get("labels")?.as_object()
    }

    /// One label's value.
    pub fn label(self, key: &str) -> Option<&'a str> {
        self.labels()?.get(key)?.as_str()
    }

    /// `annotations`, if there are any.
    pub fn annotations(self) -> Option<&'a Object> {
        self.0.get("annotations")?.as_object()
    }

    /// One annotation's value.
    pub fn annotation(self, key: &str) -> Option<&'a str> {
        self.annotations()?.get(key)?.as_str()
    }

    /// `finalizers`, in order.
    pub fn finalizers(self) -> impl Iterator<Item = &'a str> {
        self.items("finalizers").filter_map(Value::as_str)
    }

    /// Returns true if the object has this finalizer.
    pub fn has_finalizer(self, name: &str) -> bool {
        self.finalizers().any(|f| f == name)
    }

    /// `ownerReferences`, in order.
    pub fn owner_references(self) -> impl Iterator<Item = OwnerReference<'a>> {
        self.items("ownerReferences")
            .filter_map(Value::as_object)
            .map(OwnerReference::new)
    }

    /// The owner that controls this object.
    pub fn controller(self) -> Option<OwnerReference<'a>> {
        self.owner_references().find(|owner| owner.is_controller())
    }

    /// `managedFields`, in order.
    pub fn managed_fields(self) -> impl Iterator<Item = &'a Object> {
        self.items("managedFields").filter_map(Value::as_object)
    }

    fn items(self, field: &str) -> impl Iterator<Item = &'a Value> {
        self.0.get(field).and_then(Value::as_array).into_iter().flatten()
    }
}
