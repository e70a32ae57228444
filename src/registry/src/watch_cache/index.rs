//! All objects of a resource as of one moment: by key, by the values of indexed fields, and by owner.

use std::{iter, ops::Bound, sync::Arc};

use imbl::OrdMap;

use super::fingerprint::Fingerprint;
use crate::{
    definition::ResourceDefinition,
    item::{Item, ItemKey},
    unreadable::UnreadableValue,
};

/// A range of keys, as bounds.
pub(crate) type KeyRange<'a> = (Bound<&'a str>, Bound<&'a str>);

/// A field of [`ResourceDefinition::selectable`] by number, and the value that it must have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldValue<'a> {
    pub(crate) field: usize,
    pub(crate) value: &'a str,
}

/// Facts that hold for the objects that are looked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IndexHints<'a> {
    /// The value that each of them has, if that is one.
    pub(crate) field: Option<FieldValue<'a>>,
    /// The fingerprint of the labels of each of them.
    pub(crate) labels: Fingerprint,
}

/// Persistent: a clone costs nothing and stays as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct ItemIndex {
    by_key: OrdMap<ItemKey, IndexEntry>,
    /// The lengths of all objects together.
    bytes: usize,
    by_field: Vec<ByField>,
    /// Only what has owners is in here; an object with several is in here several times.
    by_owner: OrdMap<(Arc<str>, ItemKey), Arc<Item>>,
    /// The keys of values that cannot be read; none of them is in the other maps.
    unreadable: OrdMap<ItemKey, Arc<UnreadableValue>>,
}

#[derive(Debug, Clone)]
struct IndexEntry {
    labels: Fingerprint,
    item: Arc<Item>,
}

#[derive(Debug, Clone)]
struct ByField {
    field: usize,
    items: OrdMap<(Arc<str>, ItemKey), Arc<Item>>,
}

impl ByField {
    fn key(&self, item: &Item) -> (Arc<str>, ItemKey) {
        let value = item.fields.get(self.field).map_or("", |value| value);
        (value.into(), item.key.clone())
    }
}

impl ItemIndex {
    /// An empty index that knows which fields of the resource are indexed.
    pub(crate) fn of(info: &ResourceDefinition) -> Self {
        let by_field = info.selectable.indexed().map(|field| ByField {
            field,
            items: OrdMap::new(),
        });
        Self {
            by_key: OrdMap::new(),
            bytes: 0,
            by_field: by_field.collect(),
            by_owner: OrdMap::new(),
            unreadable: OrdMap::new(),
        }
    }

    /// Puts the object in the place of the one with its key, which is returned.
    pub(crate) fn insert(&mut self, item: Arc<Item>) -> Option<Arc<Item>> {
        let entry = IndexEntry {
            labels: Fingerprint::of(item.labels.iter().map(|(key, value)| (&**key, &**value))),
            item: item.clone(),
        };
        let previous = self.by_key.insert(item.key.clone(), entry);
        let previous = previous.map(|entry| entry.item);
        self.bytes += item.bytes.len();
        self.bytes -= previous.as_ref().map_or(0, |previous| previous.bytes.len());
        for index in &mut self.by_field {
            let key = index.key(&item);
            if let Some(old_key) = previous.as_deref().map(|previous| index.key(previous))
                && old_key != key
            {
                index.items.remove(&old_key);
            }
            index.items.insert(key, item.clone());
        }
        if let Some(previous) = &previous {
            self.forget_owners(previous);
        }
        for owner in &item.owners {
            self.by_owner.insert(((**owner).into(), item.key.clone()), item.clone());
        }
        previous
    }

    fn forget_owners(&mut self, item: &Item) {
        for owner in &item.owners {
            self.by_owner.remove(&((**owner).into(), item.key.clone()));
        }
    }

    /// Puts a value that cannot be read in the place of what has its key; true if what was there could be read, or if
    /// nothing was there.
    pub(crate) fn insert_unreadable(&mut self, value: Arc<UnreadableValue>) -> bool {
        self.remove(&value.key);
        self.unreadable.insert(value.key.clone(), value).is_none()
    }

    /// Takes a value out that could not be read; true if there was one.
    pub(crate) fn remove_unreadable(&mut self, key: &str) -> bool {
        self.unreadable.remove(key).is_some()
    }

    /// The value with this key that cannot be read.
    pub(crate) fn unreadable(&self, key: &str) -> Option<&Arc<UnreadableValue>> {
        self.unreadable.get(key)
    }

    /// The values in a range of keys that cannot be read, in order.
    pub(crate) fn unreadable_in<'a>(
        &'a self,
        range: KeyRange<'_>,
    ) -> impl Iterator<Item = &'a Arc<UnreadableValue>> + use<'a> {
        self.unreadable.range::<_, str>(range).map(|(_, value)| value)
    }

    /// The number of values that cannot be read.
    pub(crate) fn unreadable_len(&self) -> usize {
        self.unreadable.len()
    }

    /// Reports whether there are values that could not be decrypted.
    pub(crate) fn has_undecrypted(&self) -> bool {
        self.unreadable.values().any(|value| value.is_undecrypted())
    }

    /// Reports whether there are values that could not be decoded.
    pub(crate) fn has_undecoded(&self) -> bool {
        self.unreadable.values().any(|value| !value.is_undecrypted())
    }

    /// Takes the object out.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Item>> {
        let removed = self.by_key.remove(key)?.item;
        self.bytes -= removed.bytes.len();
        for index in &mut self.by_field {
            let key = index.key(&removed);
            index.items.remove(&key);
        }
        self.forget_owners(&removed);
        Some(removed)
    }

    /// The objects that name this uid as an owner, in the order of their keys.
    pub(crate) fn owned_by(&self, uid: &str) -> impl Iterator<Item = &Arc<Item>> {
        let owner: Arc<str> = uid.into();
        let from = (owner.clone(), ItemKey::from(""));
        self.by_owner
            .range(from..)
            .take_while(move |((found, _), _)| *found == owner)
            .map(|(_, item)| item)
    }

    /// The object with this key.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Item>> {
        self.by_key.get(key).map(|entry| &entry.item)
    }

    /// The number of objects.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// The lengths of all objects together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The objects in a range of keys, in order.
    pub(crate) fn range<'a>(&'a self, range: KeyRange<'_>) -> impl Iterator<Item = &'a Arc<Item>> + use<'a> {
        self.with_labels(range, Fingerprint::default())
    }

    fn with_labels<'a>(
        &'a self,
        range: KeyRange<'_>,
        labels: Fingerprint,
    ) -> impl Iterator<Item = &'a Arc<Item>> + use<'a> {
        let entries = self.by_key.range::<_, str>(range).map(|(_, entry)| entry);
        entries
            .filter(move |entry| entry.labels.shows(labels))
            .map(|entry| &entry.item)
    }

    /// Those of [`range`](Self::range) that may be wanted: those with the value if its field is indexed, else those whose
    /// labels show what is wanted.
    pub(crate) fn candidates<'a>(
        &'a self,
        range: KeyRange<'_>,
        wanted: IndexHints<'_>,
    ) -> impl Iterator<Item = &'a Arc<Item>> + use<'a> {
        let index = wanted.field.and_then(|wanted| {
            let index = self.by_field.iter().find(|index| index.field == wanted.field)?;
            Some((index, Arc::from(wanted.value)))
        });
        let (mut indexed, mut all) = (None, None);
        match index {
            Some((index, value)) => indexed = Some(index.with_value(range, value)),
            None => all = Some(self.with_labels(range, wanted.labels)),
        }
        iter::from_fn(move || match (&mut indexed, &mut all) {
            (Some(indexed), _) => indexed.next(),
            (None, all) => all.as_mut().and_then(Iterator::next),
        })
    }
}

impl ByField {
    fn with_value<'a>(
        &'a self,
        (from, to): KeyRange<'_>,
        value: Arc<str>,
    ) -> impl Iterator<Item = &'a Arc<Item>> + use<'a> {
        let at = |key: &str| (value.clone(), ItemKey::from(key));
        let from = match from {
            Bound::Unbounded => Bound::Included(at("")),
            bound => bound.map(at),
        };
        let beyond = to.map(ToOwned::to_owned);
        self.items
            .range((from, Bound::Unbounded))
            .take_while(move |((found, key), _)| {
                *found == value
                    && match &beyond {
                        Bound::Unbounded => true,
                        Bound::Included(last) => **key <= **last,
                        Bound::Excluded(end) => **key < **end,
                    }
            })
            .map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::selector::LabelSelector;

    use super::*;
    use crate::fixtures::{item, pods};

    fn pod(key: &str, node: &str) -> Arc<Item> {
        item(&pods(), key, json!({"spec": {"nodeName": node}}), 1)
    }

    fn on_node(index: &ItemIndex, node: &str, range: KeyRange<'_>) -> Vec<String> {
        let field = FieldValue { field: 0, value: node };
        let wanted = IndexHints {
            field: Some(field),
            ..IndexHints::default()
        };
        let found = index.candidates(range, wanted);
        found.map(|item| item.key.to_string()).collect()
    }

    const ALL: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

    #[test]
    fn an_object_is_found_by_the_value_it_has_now() {
        let mut index = ItemIndex::of(&pods());
        for (key, node) in [("ns/a", "n1"), ("ns/b", "n2"), ("ns/c", "n1"), ("ns/d", "")] {
            index.insert(pod(key, node));
        }
        let before = index.clone();
        index.insert(pod("ns/a", "n2"));
        index.remove("ns/c");
        assert_eq!(on_node(&index, "n1", ALL), Vec::<String>::new());
        assert_eq!(on_node(&index, "n2", ALL), ["ns/a", "ns/b"]);
        assert_eq!(on_node(&index, "", ALL), ["ns/d"]);
        assert_eq!(on_node(&before, "n1", ALL), ["ns/a", "ns/c"]);
    }

    #[test]
    fn an_object_is_found_by_the_owners_it_has_now() {
        let owned = |key: &str, owners: &[&str]| {
            let references: Vec<_> = owners.iter().map(|uid| json!({ "uid": uid })).collect();
            item(&pods(), key, json!({"ownerReferences": references}), 1)
        };
        let found = |index: &ItemIndex, uid: &str| -> Vec<String> {
            index.owned_by(uid).map(|item| item.key.to_string()).collect()
        };
        let mut index = ItemIndex::of(&pods());
        for (key, owners) in [("ns/a", &["u1"][..]), ("ns/b", &["u1", "u2"]), ("ns/c", &[])] {
            index.insert(owned(key, owners));
        }
        assert_eq!(found(&index, "u1"), ["ns/a", "ns/b"]);
        index.insert(owned("ns/b", &["u2"]));
        index.insert(owned("ns/c", &["u1"]));
        assert_eq!(found(&index, "u1"), ["ns/a", "ns/c"]);
        assert_eq!(found(&index, "u2"), ["ns/b"]);
        index.remove("ns/a");
        assert_eq!(found(&index, "u1"), ["ns/c"]);
        assert_eq!(found(&index, "u"), Vec::<String>::new(), "a uid is not a prefix");
    }

    #[test]
    fn bounds_cut_what_has_the_value() {
        let mut index = ItemIndex::of(&pods());
        for key in ["a/1", "a/2", "b/1", "b/2"] {
            index.insert(pod(key, "n"));
        }
        let bounds: [(KeyRange<'_>, &[&str]); 4] = [
            ((Bound::Included("a/2"), Bound::Unbounded), &["a/2", "b/1", "b/2"]),
            ((Bound::Excluded("a/2"), Bound::Excluded("b/2")), &["b/1"]),
            ((Bound::Unbounded, Bound::Included("b/1")), &["a/1", "a/2", "b/1"]),
            ((Bound::Included("c"), Bound::Unbounded), &[]),
        ];
        for (range, keys) in bounds {
            assert_eq!(on_node(&index, "n", range), keys, "{range:?}");
        }
    }

    #[test]
    fn a_field_that_is_not_indexed_leaves_all() {
        let mut index = ItemIndex::of(&pods());
        index.insert(pod("ns/a", "n1"));
        let wanted = IndexHints {
            field: Some(FieldValue { field: 7, value: "x" }),
            ..IndexHints::default()
        };
        assert_eq!(index.candidates(ALL, wanted).count(), 1);
        assert_eq!(index.candidates(ALL, IndexHints::default()).count(), 1);
    }

    #[test]
    fn labels_leave_what_shows_them_now() {
        let labelled = |key: &str, app: &str| item(&pods(), key, json!({"labels": {"app": app}}), 1);
        let mut index = ItemIndex::of(&pods());
        for number in 0..100 {
            index.insert(labelled(&format!("ns/{number:02}"), &format!("a{number}")));
        }
        index.insert(labelled("ns/03", "a42"));
        let selector = LabelSelector::parse("app=a42").expect("a selector");
        let wanted = IndexHints {
            field: None,
            labels: Fingerprint::required_by(&selector),
        };
        let found: Vec<&str> = index.candidates(ALL, wanted).map(|item| &*item.key).collect();
        assert!(found.contains(&"ns/03") && found.contains(&"ns/42"), "{found:?}");
        assert!(found.len() < 20, "{found:?}");
    }
}
