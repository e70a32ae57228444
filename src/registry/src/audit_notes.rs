//! The audit log's notes of one request while it is carried out.
//!
//! The edge begins [`AuditNotes`] for a request that is recorded, and hands them on in the request's
//! [`Target`](crate::request::Target); the body's decoder notes the object, admission and subresources add
//! annotations. Promise: what was noted is there whether the request succeeds or not. Notes that are off cost a look.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

/// The notes of one request. Cheap to clone; clones are the same notes. The default is off.
#[derive(Clone, Default)]
pub struct AuditNotes(Option<Arc<Record>>);

struct Record {
    keeps_objects: bool,
    noted: Mutex<AuditNoted>,
}

/// All that was noted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditNoted {
    /// The object that was sent, in the version of the request, with its defaults.
    pub object: Option<Value>,
    /// The namespace in it.
    pub namespace: String,
    /// The name in it.
    pub name: String,
    /// The uid in it.
    pub uid: String,
    /// The revision in it.
    pub resource_version: String,
    /// Annotations of the event.
    pub annotations: BTreeMap<String, String>,
}

impl AuditNotes {
    /// Begins the notes of a request; bodies are kept if `keeps_objects`.
    pub fn begin(keeps_objects: bool) -> Self {
        Self(Some(Arc::new(Record {
            keeps_objects,
            noted: Mutex::default(),
        })))
    }

    /// Returns true if bodies are wanted.
    pub fn are_kept(&self) -> bool {
        self.0.as_ref().is_some_and(|record| record.keeps_objects)
    }

    /// Notes the object of a create or update.
    pub fn note_object(&self, object: &Value) {
        let Some(record) = &self.0 else { return };
        let kept = record.keeps_objects.then(|| object.clone());
        let text = |name: &str| {
            let field = object.get("metadata").and_then(|metadata| metadata.get(name));
            field.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        self.noting(|noted| {
            noted.namespace = text("namespace");
            noted.name = text("name");
            noted.uid = text("uid");
            noted.resource_version = text("resourceVersion");
            noted.object = kept;
        });
    }

    /// Notes a body that is not an object with metadata: a patch, the options of a deletion.
    pub fn note_body(&self, body: impl FnOnce() -> Value) {
        if let Some(record) = self.0.as_ref().filter(|record| record.keeps_objects) {
            record.noted.lock().unwrap_or_else(PoisonError::into_inner).object = Some(body());
        }
    }

    /// Adds an annotation to the event.
    pub fn annotate(&self, key: impl Into<String>, value: impl Into<String>) {
        self.noting(|noted| noted.annotations.insert(key.into(), value.into()));
    }

    /// Adds an annotation that shows a part of a body: only to events that show bodies.
    pub fn annotate_body(&self, key: impl Into<String>, value: impl FnOnce() -> String) {
        if self.are_kept() {
            self.annotate(key, value());
        }
    }

    /// All that was noted so far.
    pub fn noted(&self) -> AuditNoted {
        let mut all = AuditNoted::default();
        self.noting(|noted| all.clone_from(noted));
        all
    }

    fn noting<T>(&self, note: impl FnOnce(&mut AuditNoted) -> T) {
        if let Some(record) = &self.0 {
            note(&mut record.noted.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl fmt::Debug for AuditNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Bodies may hold secrets.
        f.write_str(if self.0.is_some() {
            "AuditNotes(on)"
        } else {
            "AuditNotes(off)"
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notes_are_shared_and_bodies_kept_only_where_they_are_wanted() {
        let object = json!({"metadata": {"name": "n", "resourceVersion": "7"}, "data": {}});
        for (keeps, expected) in [(true, Some(object.clone())), (false, None)] {
            let notes = AuditNotes::begin(keeps);
            notes.clone().note_object(&object);
            notes.clone().annotate("k", "v");
            notes.clone().annotate_body("body", || "b".to_owned());
            let noted = notes.noted();
            assert_eq!(noted.annotations.contains_key("body"), keeps);
            assert_eq!(noted.object, expected);
            assert_eq!((noted.name.as_str(), noted.resource_version.as_str()), ("n", "7"));
            assert_eq!(noted.annotations["k"], "v");
        }
    }

    #[test]
    fn notes_that_are_off_keep_nothing() {
        let notes = AuditNotes::default();
        notes.note_object(&json!({"metadata": {"name": "n"}}));
        notes.note_body(|| unreachable!("the body is not recorded"));
        assert_eq!(notes.noted(), AuditNoted::default());
    }
}
