//! Write access to an object's metadata. What becomes empty is removed, as Go omits it.

use serde_json::Value;

use super::{Meta, view::object_of};
use crate::Object;

/// The metadata of an object, to be changed in place.
#[derive(Debug)]
pub struct MetaMut<'a>(&'a mut Object);

impl<'a> MetaMut<'a> {
    pub(super) fn of(object: &'a mut Object) -> Self {
        let metadata = object.entry("metadata").or_insert_with(|| Object::new().into());
        Self(object_of(metadata))
    }

    /// Changes a `metadata` struct itself, such as that of a pod template.
    pub fn new(metadata: &'a mut Object) -> Self {
        Self(metadata)
    }

    /// Reads what is there now.
    pub fn view(&self) -> Meta<'_> {
        Meta::new(self.0)
    }

    /// The fields themselves.
    pub fn fields(&mut self) -> &mut Object {
        self.0
    }

    /// Sets a field, or removes it if there is no value.
    pub fn set(&mut self, field: &str, value: Option<Value>) {
        match value {
            Some(value) => {
                self.0.insert(field.to_owned(), value);
            }
            None => {
                self.0.remove(field);
            }
        }
    }

    /// Sets a text field; an empty text removes it.
    pub fn set_text(&mut self, field: &str, value: &str) {
        self.set(field, (!value.is_empty()).then(|| value.into()));
    }

    /// Sets `name`.
    pub fn set_name(&mut self, name: &str) {
        self.set_text("name", name);
    }

    /// Sets `namespace`.
    pub fn set_namespace(&mut self, namespace: &str) {
        self.set_text("namespace", namespace);
    }

    /// Sets `uid`.
    pub fn set_uid(&mut self, uid: &str) {
        self.set_text("uid", uid);
    }

    /// Sets `resourceVersion`.
    pub fn set_resource_version(&mut self, version: &str) {
        self.set_text("resourceVersion", version);
    }

    /// Sets `creationTimestamp`.
    pub fn set_creation_timestamp(&mut self, time: &str) {
        self.set_text("creationTimestamp", time);
    }

    /// Sets or removes `deletionTimestamp`.
    pub fn set_deletion_timestamp(&mut self, time: Option<&str>) {
        self.set("deletionTimestamp", time.map(Value::from));
    }

    /// Sets or removes `deletionGracePeriodSeconds`.
    pub fn set_deletion_grace_period_seconds(&mut self, seconds: Option<i64>) {
        self.set("deletionGracePeriodSeconds", seconds.map(Value::from));
    }

    /// Sets `generation`; 0 removes it.
    pub fn set_generation(&mut self, generation: i64) {
        self.set("generation", (generation != 0).then(|| generation.into()));
    }

    /// Sets one label.
    pub fn set_label(&mut self, key: &str, value: &str) {
        self.set_entry("labels", key, value);
    }

    /// Removes one label; says whether it was there.
    pub fn remove_label(&mut self, key: &str) -> bool {
        self.remove_entry("labels", key)
    }

    /// Sets one annotation.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.set_entry("annotations", key, value);
    }

    /// Removes one annotation; says whether it was there.
    pub fn remove_annotation(&mut self, key: &str) -> bool {
        self.remove_entry("annotations", key)
    }

    fn set_entry(&mut self, field: &str, key: &str, value: &str) {
        let entries = self.0.entry(field).or_insert_with(|| Object::new().into());
        object_of(entries).insert(key.to_owned(), value.into());
    }

    fn remove_entry(&mut self, field: &str, key: &str) -> bool {
        let Some(entries) = self.0.get_mut(field).and_then(Value::as_object_mut) else {
            return false;
        };
        let found = entries.remove(key).is_some();
        if entries.is_empty() {
            self.0.remove(field);
        }
        found
    }

    /// Sets `finalizers`.
    pub fn set_finalizers<T: Into<Value>>(&mut self, names: impl IntoIterator<Item = T>) {
        self.set_list("finalizers", names.into_iter().map(Into::into).collect());
    }

    /// Adds a finalizer; says whether it was new.
    pub fn add_finalizer(&mut self, name: &str) -> bool {
        if self.view().has_finalizer(name) {
            return false;
        }
        let mut names: Vec<Value> = self.view().finalizers().map(Value::from).collect();
        names.push(name.into());
        self.set_list("finalizers", names);
        true
    }

    /// Removes a finalizer; says whether it was there.
    pub fn remove_finalizer(&mut self, name: &str) -> bool {
        if !self.view().has_finalizer(name) {
            return false;
        }
        let kept = self
            .view()
            .finalizers()
            .filter(|f| *f != name)
            .map(Value::from)
            .collect();
        self.set_list("finalizers", kept);
        true
    }

    /// Sets `ownerReferences`.
    pub fn set_owner_references(&mut self, owners: Vec<Value>) {
        self.set_list("ownerReferences", owners);
    }

    /// Sets `managedFields`.
    pub fn set_managed_fields(&mut self, entries: Vec<Value>) {
        self.set_list("managedFields", entries);
    }

    fn set_list(&mut self, field: &str, items: Vec<Value>) {
        self.set(field, (!items.is_empty()).then(|| items.into()));
    }
}
