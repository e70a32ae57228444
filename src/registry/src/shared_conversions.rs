//! Conversions that the watchers of one resource share: what one of them has converted, or is converting, no other asks a
//! webhook for again. kube-apiserver gets the same by a watch cache for each version.
//!
//! Called by [`versions::shared_in_version`](crate::versions::shared_in_version), which knows how to convert. A conversion is
//! known by the item's address, which all watchers have from the log or the index, and by the version. It runs as long as a watcher
//! waits for it; results are kept up to a number of items and of bytes, oldest first to go. Nothing here orders events: each
//! watcher goes through its own.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use trireme_machinery::ApiError;

use crate::item::Item;

/// The results that are kept: what watchers look at between two answers, twice.
const MOST_ITEMS: usize = 512;
/// Their bytes, a fraction of what a watched resource has in its log; the newest result is kept whatever its size.
const MOST_BYTES: usize = 1024 * 1024;

/// The items in the order in which they were given, converted.
type Converted = Result<Arc<[Arc<Item>]>, ApiError>;
type RunningBatch = BoxFuture<'static, Converted>;
/// The address of an item, and the place of the version that it is converted to.
type ConversionKey = (usize, usize);

/// Conversions of one definition of a resource; another definition begins anew.
#[derive(Default)]
pub struct SharedConversions(Mutex<ConversionEntries>);

#[derive(Default)]
struct ConversionEntries {
    by_key: HashMap<ConversionKey, ConversionEntry>,
    /// The finished ones, oldest first.
    finished: VecDeque<ConversionKey>,
    bytes: usize,
}

struct ConversionEntry {
    /// Keeps the address from being another item's.
    _original: Weak<Item>,
    state: ConversionState,
}

enum ConversionState {
    Running {
        batch: WeakShared<RunningBatch>,
        place: usize,
    },
    Finished(Arc<Item>),
}

/// The conversion of one item.
enum ConversionTicket {
    Running { batch: Shared<RunningBatch>, place: usize },
    Finished(Arc<Item>),
}

impl ConversionTicket {
    async fn item(self) -> Result<Arc<Item>, ApiError> {
        match self {
            Self::Finished(item) => Ok(item),
            Self::Running { batch, place } => {
                let items = batch.await?;
                let item = items.get(place).cloned();
                item.ok_or_else(|| ApiError::internal("an object was lost in its conversion"))
            }
        }
    }
}

/// Items on their way to another version.
pub(crate) struct JoinedConversions {
    tickets: Vec<ConversionTicket>,
    /// True if others began some of them, for more items maybe.
    pub(crate) joins_others: bool,
}

impl JoinedConversions {
    /// The items, converted, in their order.
    ///
    /// # Errors
    /// Those of the converter, also about items of others.
    pub(crate) async fn items(self) -> Result<Vec<Arc<Item>>, ApiError> {
        futures_util::future::try_join_all(self.tickets.into_iter().map(ConversionTicket::item)).await
    }
}

impl SharedConversions {
    /// Joins the conversions of items to a version that are there or under way; `convert` gets all others, at once.
    pub(crate) fn join(
        self: &Arc<Self>,
        items: &[Arc<Item>],
        version: usize,
        convert: impl FnOnce(Vec<Arc<Item>>) -> BoxFuture<'static, Result<Vec<Arc<Item>>, ApiError>>,
    ) -> JoinedConversions {
        let key = |item: &Arc<Item>| (Arc::as_ptr(item).addr(), version);
        let mut entries = self.entries();
        let known: Vec<Option<ConversionTicket>> = items.iter().map(|item| entries.ticket(key(item))).collect();
        let joins_others = known
            .iter()
            .flatten()
            .any(|ticket| matches!(ticket, ConversionTicket::Running { .. }));
        let missing = items.iter().zip(&known).filter(|(_, known)| known.is_none());
        let missing: Vec<Arc<Item>> = missing.map(|(item, _)| item.clone()).collect();
        if missing.is_empty() {
            let tickets = known.into_iter().flatten().collect();
            return JoinedConversions { tickets, joins_others };
        }
        let keys: Vec<ConversionKey> = missing.iter().map(key).collect();
        let originals: Vec<Weak<Item>> = missing.iter().map(Arc::downgrade).collect();
        let batch = self.clone().run(keys.clone(), convert(missing)).shared();
        entries.begin(&keys, originals, &batch);
        drop(entries);
        let mut place = 0..;
        let own = |place| ConversionTicket::Running {
            batch: batch.clone(),
            place,
        };
        let tickets = known.into_iter().map(|known| known.or_else(|| place.next().map(own)));
        JoinedConversions {
            tickets: tickets.flatten().collect(),
            joins_others,
        }
    }

    fn run(
        self: Arc<Self>,
        keys: Vec<ConversionKey>,
        conversion: BoxFuture<'static, Result<Vec<Arc<Item>>, ApiError>>,
    ) -> RunningBatch {
        Box::pin(async move {
            let converted: Converted = conversion.await.map(Arc::from);
            self.entries().finish(&keys, &converted);
            converted
        })
    }

    fn entries(&self) -> MutexGuard<'_, ConversionEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConversionEntries {
    fn ticket(&self, key: ConversionKey) -> Option<ConversionTicket> {
        match &self.by_key.get(&key)?.state {
            ConversionState::Finished(item) => Some(ConversionTicket::Finished(item.clone())),
            ConversionState::Running { batch, place } => {
                let (batch, place) = (batch.upgrade()?, *place);
                Some(ConversionTicket::Running { batch, place })
            }
        }
    }

    fn begin(&mut self, keys: &[ConversionKey], originals: Vec<Weak<Item>>, batch: &Shared<RunningBatch>) {
        self.by_key.retain(|_, entry| entry.is_of_use());
        for ((place, key), original) in keys.iter().enumerate().zip(originals) {
            if let Some(batch) = batch.downgrade() {
                let state = ConversionState::Running { batch, place };
                self.by_key.insert(
                    *key,
                    ConversionEntry {
                        _original: original,
                        state,
                    },
                );
            }
        }
    }

    fn finish(&mut self, keys: &[ConversionKey], converted: &Converted) {
        let Ok(items) = converted else {
            for key in keys {
                self.by_key.remove(key);
            }
            return;
        };
        for (key, item) in keys.iter().zip(items.iter()) {
            if let Some(entry) = self.by_key.get_mut(key).filter(|entry| entry.is_running()) {
                entry.state = ConversionState::Finished(item.clone());
                self.finished.push_back(*key);
                self.bytes += item.bytes.len();
            }
        }
        while self.finished.len() > 1 && (self.finished.len() > MOST_ITEMS || self.bytes > MOST_BYTES) {
            let oldest = self.finished.pop_front().and_then(|key| self.by_key.remove(&key));
            self.bytes -= oldest.map_or(0, |entry| entry.bytes());
        }
    }
}

impl ConversionEntry {
    fn is_running(&self) -> bool {
        matches!(self.state, ConversionState::Running { .. })
    }

    /// False if nothing waits for the conversion any more.
    fn is_of_use(&self) -> bool {
        match &self.state {
            ConversionState::Running { batch, .. } => batch.upgrade().is_some(),
            ConversionState::Finished(_) => true,
        }
    }

    fn bytes(&self) -> usize {
        match &self.state {
            ConversionState::Running { .. } => 0,
            ConversionState::Finished(item) => item.bytes.len(),
        }
    }
}
