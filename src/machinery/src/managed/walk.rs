//! Walks over values by their schema: the fields of a value, and the fields in which two values differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    node::{Atom, SchemaNode},
    path::PathElement,
    set::{FieldSet, SetEntry, side_by_side},
};

/// The fields of a value (`ToFieldSet`): of maps their entries, of structs what is set in them, of lists their items.
pub fn fields_of(node: SchemaNode<'_>, value: &Value) -> FieldSet {
    collect_fields(node, value).below
}

fn collect_fields(node: SchemaNode<'_>, value: &Value) -> SetEntry {
    let atom = node.atom(Some(value));
    let mut found = SetEntry::default();
    match (atom, value) {
        (Atom::Scalar | Atom::Atomic, _) => found.is_member = true,
        (Atom::Map, Value::Object(fields)) => {
            for (name, value) in fields {
                let (child, is_declared) = node.field(name);
                let mut entry = collect_fields(child, value);
                let is_void = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                entry.is_member |= is_void || !is_declared;
                found.below.put(PathElement::Field(name.clone()), entry);
            }
        }
        (Atom::Set | Atom::Keyed(_), Value::Array(items)) => {
            for (element, same) in indexed(node, atom, items) {
                let mut entry = match same.as_slice() {
                    [item] => collect_fields(node.item(), item),
                    _ => SetEntry::default(),
                };
                entry.is_member = true;
                found.below.put(element, entry);
            }
        }
        _ => {}
    }
    found
}

/// The items of a list by their path elements; those that have none are left out.
fn indexed<'v>(node: SchemaNode<'_>, atom: Atom<'_>, items: &'v [Value]) -> BTreeMap<PathElement, Vec<&'v Value>> {
    let mut index: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = node.element(atom, item) {
            index.entry(element).or_default().push(item);
        }
    }
    index
}

fn index_of<'v>(node: SchemaNode<'_>, atom: Atom<'_>, value: &'v Value) -> BTreeMap<PathElement, Vec<&'v Value>> {
    match value {
        Value::Array(items) => indexed(node, atom, items),
        _ => BTreeMap::new(),
    }
}

/// All paths at and below a value that has nothing to be compared with. What is below items of one element is left out.
fn whole(node: SchemaNode<'_>, value: &Value) -> SetEntry {
    let atom = node.atom(Some(value));
    let below = match (atom, value) {
        (Atom::Map, Value::Object(fields)) => {
            let entry = |(name, value): (&String, &Value)| {
                let child = node.field(name).0;
                (PathElement::Field(name.clone()), whole(child, value))
            };
            fields.iter().map(entry).collect()
        }
        (Atom::Set | Atom::Keyed(_), Value::Array(items)) => {
            let entry = |(element, same): (PathElement, Vec<&Value>)| match same.as_slice() {
                [item] => (element, whole(node.item(), item)),
                _ => (element, SetEntry::member()),
            };
            indexed(node, atom, items).into_iter().map(entry).collect()
        }
        _ => Vec::new(),
    };
    SetEntry {
        is_member: true,
        below: FieldSet::of_sorted(below),
    }
}

/// The fields in which a new value differs from an old one (`typed.Comparison`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldComparison {
    /// Fields of the old value alone.
    pub removed: FieldSet,
    /// Fields of both with other values.
    pub modified: FieldSet,
    /// Fields of the new value alone.
    pub added: FieldSet,
}

impl FieldComparison {
    /// Compares two values of one schema.
    pub fn of(node: SchemaNode<'_>, old: &Value, new: &Value) -> Self {
        let found = Differences::between(node, Some(old), Some(new));
        Self {
            removed: found.removed.below,
            modified: found.modified.below,
            added: found.added.below,
        }
    }

    /// The comparison of some of the fields only.
    #[must_use]
    pub fn only(self, some: impl Fn(FieldSet) -> FieldSet) -> Self {
        Self {
            removed: some(self.removed),
            modified: some(self.modified),
            added: some(self.added),
        }
    }
}

/// A comparison at and below one place.
#[derive(Default)]
struct Differences {
    removed: SetEntry,
    modified: SetEntry,
    added: SetEntry,
}

impl Differences {
    fn between(node: SchemaNode<'_>, old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut differences = Self::default();
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => differences.added = whole(node, new),
            (Some(old), None) => differences.removed = whole(node, old),
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => {
                let (before, after) = (node.atom(Some(old)), node.atom(Some(new)));
                if before != after {
                    // A deduced value that became another sort of thing is gone, and another one has come.
                    differences.parts(node, before, old, new);
                }
                differences.parts(node, after, old, new);
            }
        }
        differences
    }

    /// Adds the differences below an element.
    fn put(&mut self, element: impl Fn() -> PathElement, below: Self) {
        let pairs = [
            (&mut self.removed, below.removed),
            (&mut self.modified, below.modified),
            (&mut self.added, below.added),
        ];
        for (differences, entry) in pairs.into_iter().filter(|(_, entry)| !entry.is_empty()) {
            differences.below.put(element(), entry);
        }
    }

    /// Compares what two values are made of.
    fn parts(&mut self, node: SchemaNode<'_>, atom: Atom<'_>, old: &Value, new: &Value) {
        match atom {
            Atom::Map => {
                let (before, after) = (old.as_object(), new.as_object());
                if before.is_none_or(|fields| fields.is_empty()) && after.is_none_or(|fields| fields.is_empty()) {
                    self.modified.is_member |= old != new;
                    return;
                }
                let (before, after) = (before.into_iter().flatten(), after.into_iter().flatten());
                for (name, old, new) in side_by_side(before, after) {
                    let below = Self::between(node.field(name).0, old, new);
                    self.put(|| PathElement::Field(name.clone()), below);
                }
            }
            Atom::Set | Atom::Keyed(_) => {
                let items = |value: &Value| value.as_array().map_or(0, Vec::len);
                if items(old) == 0 && items(new) == 0 {
                    self.modified.is_member |= old != new;
                    return;
                }
                for (element, old, new) in side_by_side(index_of(node, atom, old), index_of(node, atom, new)) {
                    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
                    self.put(|| element.clone(), Self::of_items(node.item(), &old, &new));
                }
            }
            Atom::Scalar | Atom::Atomic => self.modified.is_member |= old != new,
        }
    }

    /// Compares the items of one element, of which there should be one.
    fn of_items(node: SchemaNode<'_>, old: &[&Value], new: &[&Value]) -> Self {
        let mut differences = match (old, new) {
            ([_, _, ..], [_, _, ..]) => Self::default(),
            ([_, _, ..], rest) => Self::between(node, None, rest.first().copied()),
            (rest, [_, _, ..]) => Self::between(node, rest.first().copied(), None),
            (old, new) => Self::between(node, old.first().copied(), new.first().copied()),
        };
        match (old, new) {
            ([_, _, ..], [_, _, ..]) => differences.modified.is_member |= old != new,
            ([_, _, ..], _) => differences.removed.is_member = true,
            (_, [_, _, ..]) => differences.added.is_member = true,
            _ => {}
        }
        differences
    }
}
