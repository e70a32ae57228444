//! One entry of `ownerReferences`.

use serde_json::Value;

use crate::{GroupVersion, Object};

/// A reference to an object that this one belongs to.
#[derive(Debug, Clone, Copy)]
pub struct OwnerReference<'a>(&'a Object);

impl<'a> OwnerReference<'a> {
    pub(super) fn new(fields: &'a Object) -> Self {
        Self(fields)
    }

    fn text(self, field: &str) -> &'a str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(self, field: &str) -> Option<bool> {
        self.0.get(field)?.as_bool()
    }

    /// The fields themselves.
    pub fn fields(self) -> &'a Object {
        self.0
    }

    /// `apiVersion`
    pub fn api_version(self) -> &'a str {
        self.text("apiVersion")
    }

    /// Group and version; `None` if `apiVersion` is malformed or has no version.
    pub fn group_version(self) -> Option<GroupVersion> {
        GroupVersion::parse(self.api_version()).filter(|gv| !gv.version.is_empty())
    }

    /// `kind`
    pub fn kind(self) -> &'a str {
        self.text("kind")
    }

    /// `name`
    pub fn name(self) -> &'a str {
        self.text("name")
    }

    /// `uid`
    pub fn uid(self) -> &'a str {
        self.text("uid")
    }

    /// Returns true if this owner is the managing controller.
    pub fn is_controller(self) -> bool {
        self.flag("controller").unwrap_or_default()
    }

    /// Returns true if the owner's foreground deletion waits for this object.
    pub fn blocks_owner_deletion(self) -> bool {
        self.flag("blockOwnerDeletion").unwrap_or_default()
    }

    /// As error texts show it: the fields in their declared order.
    pub(super) fn shown(self) -> String {
        let mut parts: Vec<String> = [
            ("apiVersion", self.api_version()),
            ("kind", self.kind()),
            ("name", self.name()),
            ("uid", self.uid()),
        ]
        .into_iter()
        .map(|(field, text)| format!("\"{field}\":{}", Value::from(text)))
        .collect();
        for field in ["controller", "blockOwnerDeletion"] {
            parts.extend(self.flag(field).map(|flag| format!("\"{field}\":{flag}")));
        }
        format!("{{{}}}", parts.join(","))
    }
}
