//! Walks over values by their schema: the fields of a value, and the fields in which two values differ.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    node::{Atom, SchemaNode},
    path::PathElement,
    set::FieldSet,
};

/// The fields of a value (`ToFieldSet`): of maps their entries, of structs what is set in them, of lists their items.
pub fn fields_of(node: SchemaNode<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect_fields(node, value, &mut Vec::new(), &mut set);
    set
}

fn collect_fields(node: SchemaNode<'_>, value: &Value, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    let atom = node.atom(Some(value));
    match (atom, value) {
        (Atom::Scalar | Atom::Atomic, _) => set.insert(path),
        (Atom::Map, Value::Object(fields)) => {
            for (name, value) in fields {
                let (child, is_declared) = node.field(name);
                path.push(PathElement::Field(name.clone()));
                collect_fields(child, value, path, set);
                let is_void = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                if is_void || !is_declared {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Atom::Set | Atom::Keyed(_), Value::Array(items)) => {
            for (element, same) in indexed(node, atom, items) {
                path.push(element);
                if let [item] = same.as_slice() {
                    collect_fields(node.item(), item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        _ => {}
    }
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

fn index_of<'v>(
    node: SchemaNode<'_>,
    atom: Atom<'_>,
    value: Option<&'v Value>,
) -> BTreeMap<PathElement, Vec<&'v Value>> {
    match value {
        Some(Value::Array(items)) => indexed(node, atom, items),
        _ => BTreeMap::new(),
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
        let mut comparison = Self::default();
        comparison.compare(node, Some(old), Some(new), &mut Vec::new());
        comparison
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

    fn compare(&mut self, node: SchemaNode<'_>, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<PathElement>) {
        if old == new {
            return;
        }
        let (before, after) = (node.atom(old), node.atom(new));
        if let (Some(_), Some(_)) = (old, new)
            && before != after
        {
            // A deduced value that became another sort of thing is gone, and another one has come.
            self.parts(node, before, old, new, path);
        }
        let atom = if new.is_none() { before } else { after };
        let is_leaf = self.parts(node, atom, old, new, path);
        match (old, new) {
            _ if is_leaf => {}
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            _ => {}
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>, path: &[PathElement]) {
        match (old, new) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            (Some(old), Some(new)) if old != new => self.modified.insert(path),
            _ => {}
        }
    }

    /// Compares what a value is made of; true if it is a leaf.
    fn parts(
        &mut self,
        node: SchemaNode<'_>,
        atom: Atom<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        path: &mut Vec<PathElement>,
    ) -> bool {
        match atom {
            Atom::Map => {
                let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                if before.is_none_or(|fields| fields.is_empty()) && after.is_none_or(|fields| fields.is_empty()) {
                    self.leaf(old, new, path);
                    return true;
                }
                for (name, value) in before.into_iter().flatten() {
                    self.field(node, name, Some(value), after.and_then(|fields| fields.get(name)), path);
                }
                let is_new = |name: &str| before.is_none_or(|fields| !fields.contains_key(name));
                for (name, value) in after.into_iter().flatten().filter(|(name, _)| is_new(name)) {
                    self.field(node, name, None, Some(value), path);
                }
                false
            }
            Atom::Set | Atom::Keyed(_) => {
                let items = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
                if items(old) == 0 && items(new) == 0 {
                    self.leaf(old, new, path);
                    return true;
                }
                self.items(node, atom, old, new, path);
                false
            }
            Atom::Scalar | Atom::Atomic => {
                self.leaf(old, new, path);
                true
            }
        }
    }

    fn field(
        &mut self,
        node: SchemaNode<'_>,
        name: &str,
        old: Option<&Value>,
        new: Option<&Value>,
        path: &mut Vec<PathElement>,
    ) {
        if old == new {
            return;
        }
        path.push(PathElement::Field(name.to_owned()));
        self.compare(node.field(name).0, old, new, path);
        path.pop();
    }

    fn items(
        &mut self,
        node: SchemaNode<'_>,
        atom: Atom<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        path: &mut Vec<PathElement>,
    ) {
        let (before, after) = (index_of(node, atom, old), index_of(node, atom, new));
        let new_ones = after.keys().filter(|element| !before.contains_key(*element));
        for element in before.keys().chain(new_ones) {
            let old = before.get(element).map(Vec::as_slice).unwrap_or_default();
            let new = after.get(element).map(Vec::as_slice).unwrap_or_default();
            path.push(element.clone());
            match (old, new) {
                ([] | [_], [] | [_]) => self.compare(node.item(), old.first().copied(), new.first().copied(), path),
                ([_, _, ..], [_, _, ..]) if old != new => self.modified.insert(path),
                ([_, _, ..], [_, _, ..]) => {}
                ([_, _, ..], rest) => {
                    if let Some(item) = rest.first() {
                        self.compare(node.item(), None, Some(*item), path);
                    }
                    self.removed.insert(path);
                }
                (rest, _) => {
                    if let Some(item) = rest.first() {
                        self.compare(node.item(), Some(item), None, path);
                    }
                    self.added.insert(path);
                }
            }
            path.pop();
        }
    }
}
