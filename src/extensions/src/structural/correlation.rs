//! Values beside those that they replace (`k8s.io/apiserver/pkg/cel/common.CorrelatedObject`): what an update leaves as it was is
//! not held against a schema that has become stricter.

use serde_json::Value;
use trireme_machinery::schema::ListType;

use super::Structural;

/// A value and the one that it replaces.
#[derive(Clone, Copy)]
pub(crate) struct Correlated<'v> {
    new: &'v Value,
    old: &'v Value,
    schema: &'v Structural,
}

impl<'v> Correlated<'v> {
    pub(crate) const fn new(new: &'v Value, old: &'v Value, schema: &'v Structural) -> Self {
        Self { new, old, schema }
    }

    /// The value at a key, if both have one of which the schema says anything.
    pub(crate) fn key(self, name: &str) -> Option<Self> {
        Some(Self::new(
            self.new.as_object()?.get(name)?,
            self.old.as_object()?.get(name)?,
            self.schema.of_key(name)?,
        ))
    }

    /// An item of a list whose items are known by their keys.
    pub(crate) fn item(self, index: usize) -> Option<Self> {
        let item = self.new.as_array()?.get(index)?;
        let old = old_item(item, Some(self.old), self.schema.list_type.as_ref())?;
        Some(Self::new(item, old, self.schema.items.as_deref()?))
    }

    /// Reports whether nothing has changed. Fields that the schema does not have count as changed, as at kube-apiserver.
    pub(crate) fn is_unchanged(self) -> bool {
        match (self.new, self.old) {
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new
                        .keys()
                        .all(|name| self.key(name).is_some_and(Correlated::is_unchanged))
            }
            (Value::Array(new), Value::Array(old)) if matches!(self.schema.list_type, Some(ListType::Map(_))) => {
                new.len() == old.len()
                    && (0..new.len()).all(|index| self.item(index).is_some_and(Correlated::is_unchanged))
            }
            (new, old) => new == old,
        }
    }
}

/// The item that an item of a list replaces, where that can be known: by the keys of a map.
pub(crate) fn old_item<'o>(item: &Value, old: Option<&'o Value>, list_type: Option<&ListType>) -> Option<&'o Value> {
    let Some(ListType::Map(keys)) = list_type else {
        return None;
    };
    let same_keys = |old: &&Value| keys.iter().all(|key| old.get(key) == item.get(key));
    old?.as_array()?.iter().find(same_keys)
}

/// The ratcheting of the errors of rules: a broken rule is a warning where the value, or the nearest one around it that is known
/// from before, has not changed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ratchet<'v> {
    current: Option<Correlated<'v>>,
    parent: Option<Correlated<'v>>,
}

impl<'v> Ratchet<'v> {
    /// That of a whole object.
    pub(crate) fn of(new: &'v Value, old: Option<&'v Value>, schema: &'v Structural) -> Self {
        Self {
            current: old.map(|old| Correlated::new(new, old, schema)),
            parent: None,
        }
    }

    pub(crate) fn key(self, name: &str) -> Self {
        let Some(current) = self.current else { return self };
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        Self {
            current: current.key(name),
            parent: self.current,
        }
    }

    pub(crate) fn item(self, index: usize) -> Self {
        let Some(current) = self.current else { return self };
        Self {
            current: current.item(index),
            parent: self.current,
        }
    }

    /// Reports whether an error is but a warning.
    pub(crate) fn holds(self) -> bool {
        self.current.or(self.parent).is_some_and(Correlated::is_unchanged)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_known_items_are_compared_by_their_keys_and_unknown_fields_count_as_changes() {
        let item = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "known": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            "plain": {"type": "array", "items": item},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}));
        let (ab, ba) = (
            json!([{"name": "a"}, {"name": "b"}]),
            json!([{"name": "b"}, {"name": "a"}]),
        );
        for (name, new, old, is_unchanged) in [
            ("known", &ab, &ab, true),
            ("known", &ab, &ba, true),
            ("plain", &ab, &ab, true),
            ("plain", &ab, &ba, false),
            ("open", &json!({}), &json!({}), true),
            ("open", &json!({"x": 1}), &json!({"x": 1}), false),
        ] {
            let (new, old) = (json!({ name: new }), json!({ name: old }));
            let found = Correlated::new(&new, &old, &schema).is_unchanged();
            assert_eq!(found, is_unchanged, "{new} after {old}");
        }
    }
}
