//! Sets of fields (`fieldpath.Set`): a tree of path elements, each of which may be a member itself.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{node::SchemaNode, path::PathElement};
use crate::Object;

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet(BTreeMap<PathElement, SetEntry>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SetEntry {
    is_member: bool,
    below: FieldSet,
}

impl SetEntry {
    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Reads `FieldsV1`; `None` if it is malformed.
    pub fn decode(fields: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (key, below) in fields.as_object()? {
            if key == "." {
                continue;
            }
            let below_fields = below.as_object()?;
            let entry = SetEntry {
                is_member: below_fields.is_empty() || below_fields.contains_key("."),
                below: Self::decode(below)?,
            };
            set.0.insert(PathElement::parse(key)?, entry);
        }
        Some(set)
    }

    /// The set as `FieldsV1`.
    pub fn encode(&self) -> Value {
        Value::Object(self.encoded(false))
    }

    fn encoded(&self, with_itself: bool) -> Object {
        let mut fields = Object::new();
        if with_itself && !self.is_empty() {
            fields.insert(".".into(), Value::Object(Object::new()));
        }
        for (element, entry) in self.0.iter().filter(|(_, entry)| !entry.is_empty()) {
            fields.insert(element.encoded(), Value::Object(entry.below.encoded(entry.is_member)));
        }
        fields
    }

    /// True if the set has no path.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(SetEntry::is_empty)
    }

    /// Adds a path; the empty one names the whole object, which nobody owns.
    pub fn insert(&mut self, path: &[PathElement]) {
        if let Some((last, parents)) = path.split_last() {
            let mut set = self;
            for element in parents {
                set = &mut set.0.entry(element.clone()).or_default().below;
            }
            set.0.entry(last.clone()).or_default().is_member = true;
        }
    }

    /// True if the path itself is in the set.
    pub fn has(&self, path: &[PathElement]) -> bool {
        path.split_last().is_some_and(|(last, parents)| {
            let below = parents.iter().try_fold(self, |set, element| set.below(element));
            below.is_some_and(|set| set.has_element(last))
        })
    }

    /// True if the element itself is in the set.
    pub fn has_element(&self, element: &PathElement) -> bool {
        self.0.get(element).is_some_and(|entry| entry.is_member)
    }

    /// The paths below an element, if there are any.
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        self.0
            .get(element)
            .map(|entry| &entry.below)
            .filter(|below| !below.is_empty())
    }

    /// All paths in order.
    pub fn paths(&self) -> Vec<Vec<PathElement>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, paths: &mut Vec<Vec<PathElement>>) {
        // Members of a level come before what is below any of them.
        for (element, _) in self.0.iter().filter(|(_, entry)| entry.is_member) {
            paths.push(prefix.iter().chain([element]).cloned().collect());
        }
        for (element, entry) in &self.0 {
            prefix.push(element.clone());
            entry.below.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// Paths of either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        for (element, entry) in &other.0 {
            let own = self.0.entry(element.clone()).or_default();
            own.is_member |= entry.is_member;
            own.below = std::mem::take(&mut own.below).union(&entry.below);
        }
        self
    }

    /// Paths of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let common = self.0.iter().filter_map(|(element, entry)| {
            let other = other.0.get(element)?;
            let entry = SetEntry {
                is_member: entry.is_member && other.is_member,
                below: entry.below.intersection(&other.below),
            };
            (!entry.is_empty()).then(|| (element.clone(), entry))
        });
        Self(common.collect())
    }

    /// Paths of this set alone.
    #[must_use]
    pub fn difference(mut self, other: &Self) -> Self {
        for (element, other) in &other.0 {
            let Some(entry) = self.0.get_mut(element) else { continue };
            entry.is_member &= !other.is_member;
            entry.below = std::mem::take(&mut entry.below).difference(&other.below);
            if entry.is_empty() {
                self.0.remove(element);
            }
        }
        self
    }

    /// Paths of this set that are neither in the other one nor below a path of it.
    #[must_use]
    pub fn recursive_difference(mut self, other: &Self) -> Self {
        for (element, other) in &other.0 {
            if other.is_member {
                self.0.remove(element);
            } else if let Some(entry) = self.0.get_mut(element) {
                entry.below = std::mem::take(&mut entry.below).recursive_difference(&other.below);
                if entry.is_empty() {
                    self.0.remove(element);
                }
            }
        }
        self
    }

    /// The paths that lead to or are below one of the patterns, which are names and `*` for any element.
    #[must_use]
    pub fn matching(&self, patterns: &[&[&str]]) -> Self {
        let matching = self.0.iter().filter_map(|(element, entry)| {
            let is_matched = |name: &str| name == "*" || matches!(element, PathElement::Field(field) if field == name);
            let below: Vec<&[&str]> = patterns
                .iter()
                .filter_map(|pattern| pattern.split_first())
                .filter_map(|(name, below)| is_matched(name).then_some(below))
                .collect();
            let entry = match below.iter().any(|rest| rest.is_empty()) {
                true => entry.clone(),
                false => SetEntry {
                    is_member: entry.is_member && !below.is_empty(),
                    below: entry.below.matching(&below),
                },
            };
            (!entry.is_empty()).then(|| (element.clone(), entry))
        });
        Self(matching.collect())
    }

    /// The set with the fields of structs that something below of them is in (`EnsureNamedFieldsAreMembers`).
    #[must_use]
    pub fn with_named_fields(mut self, node: SchemaNode<'_>) -> Self {
        for (element, entry) in &mut self.0 {
            let child = match element {
                PathElement::Field(name) => {
                    let (child, is_declared) = node.field(name);
                    entry.is_member |= is_declared && !entry.below.is_empty();
                    child
                }
                _ => node.item(),
            };
            entry.below = std::mem::take(&mut entry.below).with_named_fields(child);
        }
        self
    }
}
