//! Sets of fields (`fieldpath.Set`): a tree of path elements, each of which may be a member itself.

use std::cmp::Ordering;

use serde_json::Value;

use super::{
    node::{Atom, SchemaNode},
    path::PathElement,
};
use crate::Object;

/// A set of paths, sorted by their elements at each level. No entry of it is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet(Vec<(PathElement, SetEntry)>);

/// The part of a set at and below a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SetEntry {
    pub(super) is_member: bool,
    pub(super) below: FieldSet,
}

impl SetEntry {
    /// The path itself and nothing below it.
    pub(super) fn member() -> Self {
        Self {
            is_member: true,
            below: FieldSet::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }

    fn union(self, other: Self) -> Self {
        Self {
            is_member: self.is_member || other.is_member,
            below: self.below.union(other.below),
        }
    }
}

impl FieldSet {
    /// A set of entries that are sorted by their elements; no element comes twice and no entry is empty.
    pub(super) fn of_sorted(entries: Vec<(PathElement, SetEntry)>) -> Self {
        debug_assert!(
            entries.is_sorted_by(|(one, _), (other, _)| one < other),
            "they are sorted"
        );
        Self(entries)
    }

    /// Reads `FieldsV1`; `None` if it is malformed.
    pub fn decode(fields: &Value) -> Option<Self> {
        let fields = fields.as_object()?;
        let mut entries = Vec::with_capacity(fields.len());
        for (key, below) in fields.iter().filter(|(key, _)| *key != ".") {
            if PathElement::is_unknown(key) {
                continue;
            }
            let has_itself = below.get(".").is_some();
            let below = match below {
                Value::Null => Self::default(),
                below => Self::decode(below)?,
            };
            let entry = SetEntry {
                is_member: has_itself || below.is_empty(),
                below,
            };
            entries.push((PathElement::parse(key)?, entry));
        }
        // Keys come in the order of their text, and one element may have several texts.
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        entries.dedup_by(|(element, entry), (kept, into)| {
            let is_same = element == kept;
            if is_same {
                *into = std::mem::take(into).union(std::mem::take(entry));
            }
            is_same
        });
        Some(Self(entries))
    }

    /// The set as `FieldsV1`.
    pub fn encode(&self) -> Value {
        Value::Object(self.encoded(false))
    }

    fn encoded(&self, with_itself: bool) -> Object {
        let itself = (with_itself && !self.is_empty()).then(|| (".".to_owned(), Value::Object(Object::new())));
        let below = |(element, entry): &(PathElement, SetEntry)| {
            let below = entry.below.encoded(entry.is_member);
            (element.encoded(), Value::Object(below))
        };
        itself.into_iter().chain(self.0.iter().map(below)).collect()
    }

    /// True if the set has no path.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a path; the empty one names the whole object, which has no owner.
    pub fn insert(&mut self, path: &[PathElement]) {
        if let Some((element, rest)) = path.split_first() {
            let mut entry = SetEntry {
                is_member: rest.is_empty(),
                below: Self::default(),
            };
            entry.below.insert(rest);
            self.put(element.clone(), entry);
        }
    }

    /// Adds what a set has at and below an element. It takes least time when elements come in their order.
    pub(super) fn put(&mut self, element: PathElement, entry: SetEntry) {
        if entry.is_empty() {
            return;
        }
        if self.0.last().is_none_or(|(last, _)| *last < element) {
            self.0.push((element, entry));
            return;
        }
        match self.find(&element) {
            Ok(place) => {
                if let Some((_, into)) = self.0.get_mut(place) {
                    *into = std::mem::take(into).union(entry);
                }
            }
            Err(place) => self.0.insert(place, (element, entry)),
        }
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(element))
    }

    fn get(&self, element: &PathElement) -> Option<&SetEntry> {
        let place = self.find(element).ok()?;
        self.0.get(place).map(|(_, entry)| entry)
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
        self.get(element).is_some_and(|entry| entry.is_member)
    }

    /// The paths below an element, if there are any.
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        self.get(element)
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

    /// True if the other set has all paths of this one.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let mut others = other.0.iter();
        self.0.iter().all(|(element, entry)| {
            let found = others.by_ref().find(|(other, _)| other >= element);
            let found = found.filter(|(other, _)| other == element);
            found.is_some_and(|(_, other)| (!entry.is_member || other.is_member) && entry.below.is_within(&other.below))
        })
    }

    /// Paths of either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        let merged = side_by_side(self.0, other.0).map(|(element, one, other)| match (one, other) {
            (Some(one), Some(other)) => (element, one.union(other)),
            (one, other) => (element, one.or(other).unwrap_or_default()),
        });
        Self(merged.collect())
    }

    /// Paths of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let common = side_by_side(self.entries(), other.entries()).filter_map(|(element, one, other)| {
            let (one, other) = (one?, other?);
            let entry = SetEntry {
                is_member: one.is_member && other.is_member,
                below: one.below.intersection(&other.below),
            };
            (!entry.is_empty()).then(|| (element.clone(), entry))
        });
        Self(common.collect())
    }

    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = (&PathElement, &SetEntry)> {
        self.0.iter().map(|(element, entry)| (element, entry))
    }

    /// Paths of this set alone.
    #[must_use]
    pub fn difference(mut self, other: &Self) -> Self {
        self.subtract(other, |entry, other| {
            entry.is_member &= !other.is_member;
            entry.below = std::mem::take(&mut entry.below).difference(&other.below);
        });
        self
    }

    /// Paths of this set that are neither in the other one nor below a path of it.
    #[must_use]
    pub fn recursive_difference(mut self, other: &Self) -> Self {
        self.subtract(other, |entry, other| {
            if other.is_member {
                *entry = SetEntry::default();
            } else {
                entry.below = std::mem::take(&mut entry.below).recursive_difference(&other.below);
            }
        });
        self
    }

    /// Changes the entries of elements that the other set has too, and drops those that this empties.
    fn subtract(&mut self, other: &Self, change: impl Fn(&mut SetEntry, &SetEntry)) {
        let mut others = other.0.iter().peekable();
        self.0.retain_mut(|(element, entry)| {
            while others.next_if(|(other, _)| other < element).is_some() {}
            if let Some((_, other)) = others.next_if(|(other, _)| other == element) {
                change(entry, other);
            }
            !entry.is_empty()
        });
    }

    /// Brings the set in line with a schema that has changed since: a list or map that is atomic now is owned as a whole by
    /// who owned something in it (`ReconcileFieldSetWithSchema`).
    pub(super) fn reconcile(&mut self, node: SchemaNode<'_>) {
        for (element, entry) in &mut self.0 {
            let child = match (node.atom(None), &element) {
                (Atom::Map, PathElement::Field(name)) => node.field(name).0,
                (Atom::Set | Atom::Keyed(_), _) => node.item(),
                _ => continue,
            };
            if entry.below.is_empty() || child.is_free_map() {
                continue;
            }
            match child.atom(None) {
                Atom::Atomic => *entry = SetEntry::member(),
                _ => entry.below.reconcile(child),
            }
        }
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

/// The entries of two sequences that are sorted by their keys, side by side.
pub(super) fn side_by_side<K: Ord, V>(
    one: impl IntoIterator<Item = (K, V)>,
    other: impl IntoIterator<Item = (K, V)>,
) -> impl Iterator<Item = (K, Option<V>, Option<V>)> {
    let (mut ones, mut others) = (one.into_iter().peekable(), other.into_iter().peekable());
    std::iter::from_fn(move || {
        let order = match (ones.peek(), others.peek()) {
            (Some((one, _)), Some((other, _))) => one.cmp(other),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        match order {
            Ordering::Less => ones.next().map(|(key, value)| (key, Some(value), None)),
            Ordering::Greater => others.next().map(|(key, value)| (key, None, Some(value))),
            Ordering::Equal => {
                let other = others.next().map(|(_, value)| value);
                ones.next().map(|(key, value)| (key, Some(value), other))
            }
        }
    })
}
