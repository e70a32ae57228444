//! Merges an applied value into a live one, and takes fields out of a value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    node::{Atom, SchemaNode},
    path::PathElement,
    set::{FieldSet, side_by_side},
};
use crate::Object;

/// The live value with what the applied one sets.
pub fn merge(node: SchemaNode<'_>, live: &Value, applied: &Value) -> Value {
    merged(node, Some(live), Some(applied)).unwrap_or_default()
}

fn merged(node: SchemaNode<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let atom = node.atom(applied.or(live));
    let leaf = || applied.or(live).cloned();
    match atom {
        Atom::Scalar | Atom::Atomic => leaf(),
        Atom::Map => {
            let (before, after) = (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            if before.is_none_or(Object::is_empty) && after.is_none_or(Object::is_empty) {
                return leaf();
            }
            let mut fields = Object::new();
            for (name, old, new) in side_by_side(before.into_iter().flatten(), after.into_iter().flatten()) {
                if let Some(value) = merged(node.field(name).0, old, new) {
                    fields.insert(name.clone(), value);
                }
            }
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Atom::Set | Atom::Keyed(_) => {
            let (before, after) = (items_of(live), items_of(applied));
            if before.is_empty() && after.is_empty() {
                return leaf();
            }
            let items = ListMerge::new(node, atom, before, after).run();
            (!items.is_empty()).then_some(Value::Array(items))
        }
    }
}

fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A list being merged: the order is that of the applied list where both have an item; items of the live list alone keep
/// their place between those.
struct ListMerge<'v> {
    node: SchemaNode<'v>,
    live: Vec<(PathElement, &'v Value)>,
    applied: Vec<(PathElement, &'v Value)>,
    live_by_element: BTreeMap<PathElement, Option<&'v Value>>,
    applied_elements: BTreeSet<PathElement>,
}

impl<'v> ListMerge<'v> {
    fn new(node: SchemaNode<'v>, atom: Atom<'_>, live: &'v [Value], applied: &'v [Value]) -> Self {
        // An item that nothing names, as in a list that was atomic when it was stored, is like no other one and stays.
        let elements = |items: &'v [Value]| -> Vec<(PathElement, &'v Value)> {
            let element = |(place, item): (i64, &'v Value)| {
                let named = node.element(atom, item);
                (named.unwrap_or(PathElement::Index(place)), item)
            };
            (0..).zip(items).map(element).collect()
        };
        let (live, applied) = (elements(live), elements(applied));
        let mut live_by_element: BTreeMap<PathElement, Option<&Value>> = BTreeMap::new();
        for (element, item) in &live {
            // Of duplicates there is none to merge with.
            live_by_element
                .entry(element.clone())
                .and_modify(|item| *item = None)
                .or_insert(Some(item));
        }
        let applied_elements = applied.iter().map(|(element, _)| element.clone()).collect();
        Self {
            node,
            live,
            applied,
            live_by_element,
            applied_elements,
        }
    }

    fn run(self) -> Vec<Value> {
        let is_shared = |element: &&PathElement| self.live_by_element.contains_key(*element);
        let mut shared = self.applied.iter().map(|(element, _)| element).filter(is_shared);
        let mut next_shared = shared.next();
        let mut done: BTreeSet<&PathElement> = BTreeSet::new();
        let mut items = Vec::new();
        let (mut at_live, mut at_applied) = (0, 0);
        loop {
            let (live, applied) = (self.live.get(at_live), self.applied.get(at_applied));
            if live.is_none() && applied.is_none() {
                return items;
            }
            if let (Some((element, _)), Some((other, item))) = (live, applied) {
                if element == other {
                    done.insert(element);
                    items.extend(self.item(element, item));
                    (at_live, at_applied) = (at_live + 1, at_applied + 1);
                    next_shared = shared.next();
                    continue;
                }
                if self.applied_elements.contains(element) && next_shared.is_some_and(|next| next != element) {
                    at_live += 1;
                    continue;
                }
            }
            if let Some((element, item)) = live {
                if !self.applied_elements.contains(element) {
                    items.extend(merged(self.node.item(), Some(item), None));
                    at_live += 1;
                    continue;
                }
                if done.contains(element) {
                    at_live += 1;
                }
            }
            if let Some((element, item)) = applied {
                done.insert(element);
                items.extend(self.item(element, item));
                at_applied += 1;
                if next_shared == Some(element) {
                    next_shared = shared.next();
                }
            }
        }
    }

    fn item(&self, element: &PathElement, applied: &Value) -> Option<Value> {
        let live = self.live_by_element.get(element).copied().flatten();
        merged(self.node.item(), live, Some(applied))
    }
}

/// The value without the fields of a set; a container that loses all it had stays, empty.
pub fn without(node: SchemaNode<'_>, value: &Value, fields: &FieldSet) -> Value {
    remaining(node, value, fields).unwrap_or_default()
}

fn remaining(node: SchemaNode<'_>, value: &Value, fields: &FieldSet) -> Option<Value> {
    match (node.atom(Some(value)), value) {
        (Atom::Scalar, value) => Some(value.clone()),
        (Atom::Map, Value::Object(entries)) if !entries.is_empty() => {
            let mut has_matches = false;
            let mut kept = Object::new();
            for (name, value) in entries {
                let element = PathElement::Field(name.clone());
                if fields.has_element(&element) {
                    continue;
                }
                let below = fields.below(&element);
                has_matches |= below.is_some();
                kept.insert(name.clone(), inside(node.field(name).0, value, below));
            }
            (!kept.is_empty() || has_matches).then_some(Value::Object(kept))
        }
        (atom @ (Atom::Set | Atom::Keyed(_)), Value::Array(items)) if !items.is_empty() => {
            let mut has_matches = false;
            let mut kept = Vec::new();
            for item in items {
                let Ok(element) = node.element(atom, item) else {
                    kept.push(item.clone());
                    continue;
                };
                if fields.has_element(&element) {
                    continue;
                }
                let below = fields.below(&element);
                has_matches |= below.is_some();
                kept.push(inside(node.item(), item, below));
            }
            (!kept.is_empty() || has_matches).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

fn inside(node: SchemaNode<'_>, value: &Value, below: Option<&FieldSet>) -> Value {
    let Some(below) = below else { return value.clone() };
    remaining(node, value, below).unwrap_or_else(|| match value {
        Value::Object(_) => Value::Object(Object::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    })
}
