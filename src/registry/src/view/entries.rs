//! The most frequent fold: every object compiled to one entry.

use std::{ops::Bound, sync::Arc};

use imbl::OrdMap;

use super::Fold;
use crate::item::{Item, ItemKey};

/// The compiled entries of one resource by key (`namespace/name`, or `name`), in order. Persistent: a clone costs
/// nothing.
#[derive(Debug)]
pub struct Entries<E>(OrdMap<ItemKey, Arc<E>>);

impl<E> Clone for Entries<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E> Default for Entries<E> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<E> Entries<E> {
    /// The entry of an object.
    pub fn find(&self, key: &str) -> Option<&Arc<E>> {
        self.0.get(key)
    }

    /// All entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&ItemKey, &Arc<E>)> {
        self.0.iter()
    }

    /// The entries of one namespace, in order.
    pub fn in_namespace<'a>(&'a self, namespace: &str) -> impl Iterator<Item = (&'a ItemKey, &'a Arc<E>)> + use<'a, E> {
        let prefix = format!("{namespace}/");
        self.0
            .range::<_, str>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(&prefix))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Reports whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts an entry in the place of the one with its key; for folds that keep several kinds of entries.
    pub fn insert(&mut self, key: ItemKey, entry: E) {
        self.0.insert(key, Arc::new(entry));
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }
}

/// A fold of one resource whose value is its compiled entries. Objects that `compile` gives nothing for have none.
pub fn compile_entries<E: Send + Sync + 'static>(
    compile: impl Fn(&Item) -> Option<E> + Send + 'static,
) -> impl Fold<Value = Entries<E>> {
    Compiled {
        compile,
        entries: Entries::default(),
    }
}

struct Compiled<E, C> {
    compile: C,
    entries: Entries<E>,
}

impl<E: Send + Sync + 'static, C: Fn(&Item) -> Option<E> + Send + 'static> Fold for Compiled<E, C> {
    type Value = Entries<E>;

    fn put(&mut self, _: usize, item: &Arc<Item>) {
        match (self.compile)(item) {
            Some(entry) => self.entries.insert(item.key.clone(), entry),
            None => self.entries.remove(&item.key),
        }
    }

    fn remove(&mut self, _: usize, key: &ItemKey) {
        self.entries.remove(key);
    }

    fn value(&self) -> Entries<E> {
        self.entries.clone()
    }
}
