//! Items that one write would have this replica make twice: its writer, of what was committed, and the follower of the store,
//! of what it is told. The second of the two takes the item of the first, whichever that is: to make one of a pod is a
//! twentieth of its creation, and the client's answer and the cache then share its bytes.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use trireme_storage::Revision;

use crate::{definition::ResourceDefinition, item::Item};

/// Items that nobody has taken yet, at most. Their takers are milliseconds away, or have failed.
const KEPT: usize = 32;

/// The items of one resource that are to be had by their second maker.
#[derive(Debug, Default)]
pub(crate) struct SharedItems {
    made: Mutex<VecDeque<MadeItem>>,
    /// The writes under way.
    writes: AtomicUsize,
}

struct MadeItem {
    /// The fields that an item carries are those that its definition selects by.
    definition: Arc<ResourceDefinition>,
    item: Arc<Item>,
}

impl std::fmt::Debug for MadeItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.item.key.fmt(f)
    }
}

/// A write under way; until it is dropped, the follower keeps for its writer what it makes.
pub(crate) struct ItemsExpected<'s>(&'s SharedItems);

impl SharedItems {
    /// Announces a write of the resource.
    pub(crate) fn expect(&self) -> ItemsExpected<'_> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        ItemsExpected(self)
    }

    /// The item of the entry with this key at this revision if the other side has made it, or `make`s it.
    ///
    /// # Errors
    /// Those of `make`.
    pub(crate) fn take_or_make<E>(
        &self,
        definition: &Arc<ResourceDefinition>,
        (key, revision): (&str, Revision),
        make: impl FnOnce() -> Result<Item, E>,
    ) -> Result<Arc<Item>, E> {
        if let Some(item) = self.take(definition, key, revision) {
            return Ok(item);
        }
        let item = Arc::new(make()?);
        if self.writes.load(Ordering::Relaxed) > 0 {
            self.keep(definition, &item);
        }
        Ok(item)
    }

    fn take(&self, definition: &Arc<ResourceDefinition>, key: &str, revision: Revision) -> Option<Arc<Item>> {
        let mut made = self.made();
        let is_it = |made: &MadeItem| {
            // The key of an item is the end of the key of its entry.
            made.item.revision == revision
                && key.ends_with(&*made.item.key)
                && Arc::ptr_eq(&made.definition, definition)
        };
        let place = made.iter().position(is_it)?;
        made.remove(place).map(|made| made.item)
    }

    fn keep(&self, definition: &Arc<ResourceDefinition>, item: &Arc<Item>) {
        let mut made = self.made();
        if made.len() == KEPT {
            made.pop_front();
        }
        made.push_back(MadeItem {
            definition: Arc::clone(definition),
            item: Arc::clone(item),
        });
    }

    fn made(&self) -> MutexGuard<'_, VecDeque<MadeItem>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ItemsExpected<'_> {
    fn drop(&mut self) {
        self.0.writes.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;
    use crate::fixtures::pods;

    fn pod(definition: &ResourceDefinition, revision: &str) -> Item {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "n", "name": "p", "resourceVersion": revision},
        });
        Item::from_object(definition, &object).expect("it is an object")
    }

    #[test]
    fn the_second_maker_of_an_item_takes_that_of_the_first_once() {
        let (shared, definition, other) = (SharedItems::default(), Arc::new(pods()), Arc::new(pods()));
        let make = |definition: &Arc<ResourceDefinition>, at: Revision| {
            let key = (&*definition.storage_key("n", "p"), at);
            let made = shared.take_or_make(definition, key, || {
                Ok::<_, Infallible>(pod(definition, &at.to_string()))
            });
            made.expect("it is made")
        };
        let alone = make(&definition, 7);
        assert!(!Arc::ptr_eq(&alone, &make(&definition, 7)), "no write was expected");

        let _expected = shared.expect();
        let first = make(&definition, 8);
        assert!(!Arc::ptr_eq(&first, &make(&definition, 9)), "another revision");
        assert!(!Arc::ptr_eq(&first, &make(&other, 8)), "another definition");
        assert!(Arc::ptr_eq(&first, &make(&definition, 8)));
        assert!(!Arc::ptr_eq(&first, &make(&definition, 8)), "it is taken");
    }

    #[test]
    fn items_that_nobody_takes_do_not_pile_up() {
        let (shared, definition) = (SharedItems::default(), Arc::new(pods()));
        let _expected = shared.expect();
        for revision in 0..100 {
            let key = (&*definition.storage_key("n", "p"), revision);
            let make = || Ok::<_, Infallible>(pod(&definition, &revision.to_string()));
            shared.take_or_make(&definition, key, make).expect("it is made");
        }
        assert_eq!(shared.made().len(), KEPT);
    }
}
