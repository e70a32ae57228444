//! The fields that field selectors may name, and how their values are read out of stored bytes.
//!
//! Every object that comes from the store or goes to it passes here, so each field says which parts of the object it
//! looks at: a decoder builds a tree of those parts and skips over all else without allocating.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{borrow::Cow, fmt, ops::Deref, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use trireme_machinery::Object;

use crate::item::Item;

/// A field that selectors may name.
#[derive(Clone)]
pub struct SelectableField {
    /// As the client writes it: `spec.nodeName`.
    pub label: Arc<str>,
    /// The parts of the object that `read` looks at, in dotted form; nothing in `metadata`, of which an item knows what
    /// can be selected.
    pub parts: Vec<Arc<str>>,
    /// Reads the value from the object, which may come with nothing but the parts named; absent fields read as the empty
    /// string. A field labelled `name` always is the object's name.
    pub read: Arc<dyn Fn(&Value) -> String + Send + Sync>,
    /// True if lists that select on this field look at no other objects, and watchers are woken by its value
    /// (`spec.nodeName` of pods).
    pub indexed: bool,
}

/// A resource's selectable fields beside `metadata.name` and `metadata.namespace`.
#[derive(Clone, Default)]
pub struct SelectableFields {
    fields: Arc<[SelectableField]>,
    parts: Arc<PathTree>,
}

impl SelectableFields {
    /// The numbers of the indexed fields.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = usize> {
        let indexed = self.fields.iter().enumerate().filter(|(_, field)| field.indexed);
        indexed.map(|(number, _)| number)
    }

    /// Reports whether items have the same values in the same places, and indexed alike.
    pub(crate) fn is_same_layout(&self, other: &Self) -> bool {
        let facts = |field: &SelectableField| (field.label.clone(), field.parts.clone(), field.indexed);
        self.fields.iter().map(facts).eq(other.fields.iter().map(facts))
    }

    /// The value that an item of the resource has for the field with this label, if there is such a field.
    pub fn value_of<'a>(&self, item: &'a Item, label: &str) -> Option<&'a str> {
        let mut values = self.fields.iter().zip(&item.fields);
        values
            .find(|(field, _)| *field.label == *label)
            .map(|(_, value)| &**value)
    }

    /// The values in the order of the fields; the object may come with no more than what [`Head`] kept of it.
    pub(crate) fn values(&self, object: &Value) -> Box<[Box<str>]> {
        self.fields
            .iter()
            .map(|field| (field.read)(object).into_boxed_str())
            .collect()
    }
}

impl FromIterator<SelectableField> for SelectableFields {
    fn from_iter<I: IntoIterator<Item = SelectableField>>(fields: I) -> Self {
        let fields: Arc<[SelectableField]> = fields.into_iter().collect();
        let mut parts = PathTree::default();
        for part in fields.iter().flat_map(|field| &field.parts) {
            parts.add(part);
        }
        Self {
            fields,
            parts: Arc::new(parts),
        }
    }
}

impl Deref for SelectableFields {
    type Target = [SelectableField];

    fn deref(&self) -> &[SelectableField] {
        &self.fields
    }
}

/// A tree of field names; a name without names below it stands for all that is below it.
#[derive(Debug, Default)]
struct PathTree(Vec<(Box<str>, PathTree)>);

impl PathTree {
    fn add(&mut self, dotted: &str) {
        let (first, rest) = match dotted.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (dotted, None),
        };
        let place = match self.0.iter().position(|(name, _)| **name == *first) {
            // The whole of it is wanted already.
            Some(place) if self.0.get(place).is_some_and(|(_, below)| below.0.is_empty()) => return,
            Some(place) => place,
            None => {
                let place = self.0.len();
                self.0.push((first.into(), Self::default()));
                place
            }
        };
        let Some((_, below)) = self.0.get_mut(place) else {
            return;
        };
        match rest {
            Some(rest) => below.add(rest),
            None => below.0.clear(),
        }
    }

    fn find(&self, name: &str) -> Option<&Self> {
        self.0
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, below)| below)
    }
}

/// The head of a stored object, with the parts of it that selectable fields are read from.
pub(crate) struct Head<'a> {
    pub(crate) api_version: Cow<'a, str>,
    pub(crate) kind: Cow<'a, str>,
    pub(crate) metadata: Metadata,
    pub(crate) selected: Value,
}

/// The part of `metadata` that an item keeps.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    #[serde(default)]
    pub(crate) uid: Option<Box<str>>,
    #[serde(default)]
    pub(crate) labels: Option<std::collections::BTreeMap<Box<str>, Option<Box<str>>>>,
    #[serde(rename = "resourceVersion", default)]
    pub(crate) resource_version: Option<IgnoredAny>,
    #[serde(rename = "deletionTimestamp", default)]
    pub(crate) deletion_timestamp: Option<IgnoredAny>,
    #[serde(rename = "ownerReferences", default)]
    pub(crate) owner_references: Option<Vec<Owner>>,
}

/// The part of an entry of `ownerReferences` that an item keeps.
#[derive(Deserialize)]
pub(crate) struct Owner {
    #[serde(default)]
    pub(crate) uid: Option<Box<str>>,
}

impl<'a> Head<'a> {
    /// Reads it in one pass over the bytes.
    pub(crate) fn read(fields: &SelectableFields, bytes: &'a [u8]) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_slice(bytes);
        let head = deserializer.deserialize_map(HeadVisitor(&fields.parts))?;
        deserializer.end()?;
        Ok(head)
    }

    /// The same of an object that is there as a tree, but for what is selected: that is read from the tree itself.
    pub(crate) fn of(object: &'a Value) -> Result<Self, serde_json::Error> {
        let field = |name| object.get(name).ok_or_else(|| serde_json::Error::missing_field(name));
        Ok(Self {
            api_version: BorrowedText::deserialize(field("apiVersion")?)?.0,
            kind: BorrowedText::deserialize(field("kind")?)?.0,
            metadata: Metadata::deserialize(field("metadata")?)?,
            selected: Value::Null,
        })
    }
}

/// A string that is borrowed where it has no escapes.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

struct HeadVisitor<'p>(&'p PathTree);

impl<'de> Visitor<'de> for HeadVisitor<'_> {
    type Value = Head<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Head<'de>, A::Error> {
        let (mut api_version, mut kind, mut metadata) = (None, None, None);
        let mut selected = Object::new();
        while let Some(BorrowedText(key)) = map.next_key()? {
            match &*key {
                "apiVersion" => api_version = Some(map.next_value::<BorrowedText<'de>>()?.0),
                "kind" => kind = Some(map.next_value::<BorrowedText<'de>>()?.0),
                "metadata" => metadata = Some(map.next_value()?),
                name => select(self.0, name, &mut map, &mut selected)?,
            }
        }
        Ok(Head {
            api_version: api_version.ok_or_else(|| A::Error::missing_field("apiVersion"))?,
            kind: kind.ok_or_else(|| A::Error::missing_field("kind"))?,
            metadata: metadata.ok_or_else(|| A::Error::missing_field("metadata"))?,
            selected: Value::Object(selected),
        })
    }
}

fn select<'de, A: MapAccess<'de>>(
    parts: &PathTree,
    name: &str,
    map: &mut A,
    into: &mut Object,
) -> Result<(), A::Error> {
    match parts.find(name) {
        Some(below) => {
            let value = map.next_value_seed(below)?;
            into.insert(name.to_owned(), value);
        }
        None => drop(map.next_value::<IgnoredAny>()?),
    }
    Ok(())
}

impl<'de> DeserializeSeed<'de> for &PathTree {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0.is_empty() {
            return Value::deserialize(deserializer);
        }
        deserializer.deserialize_any(PartsVisitor(self))
    }
}

/// Builds the wanted parts of an object; where something else stands in place of the object, no part of it is there.
struct PartsVisitor<'p>(&'p PathTree);

impl<'de> Visitor<'de> for PartsVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut selected = Object::new();
        while let Some(BorrowedText(name)) = map.next_key()? {
            select(self.0, &name, &mut map, &mut selected)?;
        }
        Ok(Value::Object(selected))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(label: &str, parts: &[&str]) -> SelectableField {
        let pointer = format!("/{}", label.replace('.', "/"));
        SelectableField {
            label: label.into(),
            parts: parts.iter().map(|&part| part.into()).collect(),
            read: Arc::new(move |object| object.pointer(&pointer).map(Value::to_string).unwrap_or_default()),
            indexed: false,
        }
    }

    fn selected(fields: &[(&str, &[&str])], object: &Value) -> Value {
        let fields: SelectableFields = fields.iter().map(|(label, parts)| field(label, parts)).collect();
        let bytes = object.to_string();
        Head::read(&fields, bytes.as_bytes()).expect("it has a head").selected
    }

    #[test]
    fn only_the_named_parts_are_kept() {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u"},
            "spec": {"nodeName": "n", "containers": [{"name": "c"}], "deep": {"x": 1, "y": 2}},
            "status": {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}]},
        });
        let fields: &[(&str, &[&str])] = &[
            ("spec.nodeName", &["spec.nodeName"]),
            ("spec.deep.y", &["spec.deep.y"]),
            ("status.podIPs", &["status.podIPs"]),
        ];
        assert_eq!(
            selected(fields, &object),
            json!({"spec": {"nodeName": "n", "deep": {"y": 2}}, "status": {"podIPs": [{"ip": "1.2.3.4"}]}})
        );
    }

    #[test]
    fn the_whole_includes_its_parts_in_either_order() {
        let object = json!({"apiVersion": "v1", "kind": "K", "metadata": {}, "spec": {"a": 1, "b": 2}});
        for parts in [["spec", "spec.a"], ["spec.a", "spec"]] {
            assert_eq!(selected(&[("x", &parts)], &object), json!({"spec": {"a": 1, "b": 2}}));
        }
    }

    #[test]
    fn another_type_where_an_object_is_looked_for_has_no_parts() {
        for odd in [
            json!([1, [2]]),
            json!("text"),
            json!(1),
            json!(-1),
            json!(1.5),
            json!(true),
            json!(null),
        ] {
            let object = json!({"apiVersion": "v1", "kind": "K", "metadata": {}, "spec": odd});
            assert_eq!(selected(&[("x", &["spec.a"])], &object), json!({"spec": null}));
        }
    }

    #[test]
    fn what_has_no_head_is_refused() {
        for bytes in [
            r#"{"kind":"K","metadata":{}}"#,
            r#"{"apiVersion":"v1","kind":"K"}"#,
            "[]",
            "{} x",
        ] {
            assert!(
                Head::read(&SelectableFields::default(), bytes.as_bytes()).is_err(),
                "{bytes}"
            );
        }
    }
}
