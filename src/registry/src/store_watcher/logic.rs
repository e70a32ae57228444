//! Which resource a key belongs to, what a batch means for each, and how long to wait after a failure.

use std::{collections::HashMap, sync::Arc, time::Duration};

use trireme_storage::{Event as StoreEvent, KeyValue, Revision};

use crate::{
    definition::ResourceDefinition,
    event_kind::EventKind,
    item::Item,
    stored::{self, ItemError},
    unreadable::UnreadableValue,
    watch_cache::{CacheChange, ItemIndex, SharedItems},
};

/// Resources by storage prefix.
#[derive(Clone, Default)]
pub(super) struct Routes {
    by_prefix: HashMap<Arc<str>, CacheRoute>,
}

/// A resource, and the items that it shares with its writers.
#[derive(Clone)]
pub(super) struct CacheRoute {
    pub(super) info: Arc<ResourceDefinition>,
    pub(super) items: Arc<SharedItems>,
}

impl Routes {
    pub(super) fn new(routes: impl IntoIterator<Item = CacheRoute>) -> Self {
        let routes = routes.into_iter();
        Self {
            by_prefix: routes.map(|route| (route.info.storage_prefix.clone(), route)).collect(),
        }
    }

    /// The resource with the longest prefix of whole segments of `key`.
    pub(super) fn find(&self, key: &str) -> Option<&CacheRoute> {
        let mut rest = key;
        while let Some((shorter, _)) = rest.rsplit_once('/') {
            if let Some(info) = self.by_prefix.get(shorter) {
                return Some(info);
            }
            rest = shorter;
        }
        None
    }

    /// The first place after `key` where there can be keys of a resource; `None` if there is no such place.
    pub(super) fn next_place(&self, key: &str) -> Option<String> {
        if self.find(key).is_some() {
            return Some(format!("{key}\0"));
        }
        let places = self.by_prefix.keys().map(|prefix| format!("{prefix}/"));
        places.filter(|place| place.as_str() > key).min()
    }
}

/// Changes of one resource, in order.
pub(super) struct PrefixChanges {
    pub(super) prefix: Arc<str>,
    pub(super) changes: Vec<(Revision, CacheChange)>,
}

/// Sorts a batch by resource and decodes it.
pub(super) fn route_events(routes: &Routes, events: &[StoreEvent]) -> Vec<PrefixChanges> {
    let mut parts: Vec<PrefixChanges> = Vec::new();
    for event in events {
        let Some(route) = routes.find(key_of(event)) else {
            continue;
        };
        let Some(change) = decode_event(route, event) else {
            continue;
        };
        let info = &route.info;
        let part = match parts.iter_mut().find(|part| part.prefix == info.storage_prefix) {
            Some(part) => part,
            None => {
                parts.push(PrefixChanges {
                    prefix: info.storage_prefix.clone(),
                    changes: Vec::new(),
                });
                parts.last_mut().expect("one was just pushed")
            }
        };
        part.changes.push((revision_of(event), change));
    }
    parts
}

fn key_of(event: &StoreEvent) -> &str {
    match event {
        StoreEvent::Put { entry, .. } => &entry.key,
        StoreEvent::Delete { key, .. } => key,
    }
}

fn revision_of(event: &StoreEvent) -> Revision {
    match event {
        StoreEvent::Put { entry, .. } => entry.mod_revision,
        StoreEvent::Delete { revision, .. } => *revision,
    }
}

fn decode_event(CacheRoute { info, items }: &CacheRoute, event: &StoreEvent) -> Option<CacheChange> {
    let revision = revision_of(event);
    if let StoreEvent::Put { entry, previous } = event {
        let kind = if previous.is_some() {
            EventKind::Modified
        } else {
            EventKind::Added
        };
        let make = || Item::from_stored_as(kind, info, &entry.key, &entry.value, revision);
        return match items.take_or_make(info, (&entry.key, revision), make) {
            Ok(item) => Some(CacheChange::Put(item)),
            Err(error) => unreadable(info, entry, &error).map(CacheChange::Unreadable),
        };
    }
    let (key, _) = stored::item_key(info, key_of(event)).ok()?;
    Some(CacheChange::Delete { key, revision })
}

/// Objects of one page of a load, by resource.
pub(super) type Loaded = HashMap<Arc<str>, ItemIndex>;

/// Decodes a page of a load into what is loaded so far.
pub(super) fn load_entries(routes: &Routes, entries: &[KeyValue], loaded: &mut Loaded) {
    for entry in entries {
        let Some(CacheRoute { info, .. }) = routes.find(&entry.key) else {
            continue;
        };
        let item = Item::from_stored_as(EventKind::Added, info, &entry.key, &entry.value, entry.mod_revision);
        let item = item.map_err(|error| unreadable(info, entry, &error));
        if matches!(item, Err(None)) {
            continue;
        }
        let index = loaded.entry(info.storage_prefix.clone());
        let index = index.or_insert_with(|| ItemIndex::of(info));
        match item {
            Ok(item) => drop(index.insert(Arc::new(item))),
            Err(Some(value)) => drop(index.insert_unreadable(value)),
            Err(None) => {}
        }
    }
}

/// The value as one that cannot be read; `None` if its key is none that an object of the resource could have.
fn unreadable(info: &ResourceDefinition, entry: &KeyValue, error: &ItemError) -> Option<Arc<UnreadableValue>> {
    let resource = info.resource.to_string();
    let cause = std::error::Error::source(error)
        .map(ToString::to_string)
        .unwrap_or_default();
    let (key, revision) = (&*entry.key, entry.mod_revision);
    tracing::error!(%resource, key, revision, %error, cause, "a stored object cannot be read");
    metrics::counter!("trireme_store_undecodable_objects_total", "resource" => resource).increment(1);
    let (key, _) = stored::item_key(info, key).ok()?;
    Some(UnreadableValue::new(key, revision, error))
}

/// The number of changes that a cache takes in one turn: about 300 µs of work.
const CHANGES_A_TURN: usize = 96;

/// Cuts changes into turns that end with whole revisions.
pub(super) fn into_turns(changes: Vec<(Revision, CacheChange)>) -> Vec<(Vec<CacheChange>, Revision)> {
    let mut turns: Vec<(Vec<CacheChange>, Revision)> = Vec::new();
    for (revision, change) in changes {
        match turns.last_mut() {
            Some((turn, last)) if turn.len() < CHANGES_A_TURN || *last == revision => {
                turn.push(change);
                *last = revision;
            }
            Some(_) | None => turns.push((vec![change], revision)),
        }
    }
    turns
}

/// Waits after failures: short at first, so that a restarted store is noticed at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);

    /// The wait before the next attempt; `jitter` is between 0 and 1.
    pub(super) fn next(&mut self, jitter: f64) -> Duration {
        let doubled = Self::FIRST.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        doubled.min(Self::LONGEST).mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }

    /// All is well again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}
