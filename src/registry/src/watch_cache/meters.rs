//! The figures of one resource's cache in metrics: kube-apiserver's names where it has them, else our own.
//!
//! The handles are made once a cache, which outlives the instances of its actor. Those of what happens are made when it first
//! happens: most resources are hardly used, and a page of zeros for each would be long.

use std::{
    iter,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram, Label};
use trireme_machinery::GroupResource;
use trireme_storage::Revision;

use super::{index::ItemIndex, logic::CacheSnapshot, topics::Topics};
use crate::definition::ResourceDefinition;

/// Revisions are shown by their last digits, as in kube-apiserver: a float has no more.
const SHOWN_REVISIONS: Revision = 1_000_000_000_000_000;

/// The series of one cache.
#[derive(Debug)]
pub(crate) struct CacheMeters {
    resource: GroupResource,
    labels: [Label; 2],
    readable_objects: Gauge,
    unreadable_objects: Gauge,
    log_events: Gauge,
    topics: Gauge,
    watchers: Gauge,
    state: OnceLock<StateMeters>,
    /// The resource is served no longer.
    is_gone: AtomicBool,
    loads: OnceLock<Counter>,
    store_events: OnceLock<Counter>,
    received: OnceLock<Counter>,
    dispatched: OnceLock<Counter>,
    initial_events: OnceLock<Counter>,
    waits: OnceLock<Histogram>,
    consistent_lists: OnceLock<Counter>,
    /// First the lists of keys, then those by each selectable field's index.
    lists: Box<[ListMeters]>,
}

/// The series of what is stored, and of how far the cache is.
#[derive(Debug)]
struct StateMeters {
    objects: [Gauge; 2],
    bytes: Gauge,
    revision: Gauge,
}

/// The series of lists that are answered by way of one index.
#[derive(Debug)]
struct ListMeters {
    /// Its name in kube-apiserver; empty for that of the keys.
    index: String,
    counters: OnceLock<[Counter; 3]>,
}

/// The work that a list was.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ListCost {
    /// The objects that were looked at.
    pub(crate) fetched: usize,
    /// Those of them that were held against the selection.
    pub(crate) evaluated: usize,
    /// Those that were selected.
    pub(crate) returned: usize,
}

impl CacheMeters {
    pub(super) fn new(info: &ResourceDefinition) -> Self {
        let resource = &info.resource;
        let name = resource.to_string();
        let of_fields = info.selectable.iter().map(|field| format!("f:{}", field.label));
        let lists = iter::once(String::new()).chain(of_fields).map(|index| ListMeters {
            index,
            counters: OnceLock::new(),
        });
        let labels = [
            Label::new("group", resource.group.clone()),
            Label::new("resource", resource.resource.clone()),
        ];
        Self {
            resource: resource.clone(),
            labels,
            readable_objects: metrics::gauge!("trireme_watch_cache_objects", "resource" => name.clone()),
            unreadable_objects: metrics::gauge!("trireme_store_unreadable_objects", "resource" => name.clone()),
            log_events: metrics::gauge!("trireme_watch_cache_log_events", "resource" => name.clone()),
            topics: metrics::gauge!("trireme_watch_cache_topics", "resource" => name.clone()),
            watchers: metrics::gauge!("trireme_watch_cache_watchers", "resource" => name),
            state: OnceLock::new(),
            is_gone: AtomicBool::new(false),
            loads: OnceLock::new(),
            store_events: OnceLock::new(),
            received: OnceLock::new(),
            dispatched: OnceLock::new(),
            initial_events: OnceLock::new(),
            waits: OnceLock::new(),
            consistent_lists: OnceLock::new(),
            lists: lists.collect(),
        }
    }

    /// Shows the size of the cache and of what hangs on it.
    pub(super) fn show(&self, snapshot: &CacheSnapshot, topics: &Topics) {
        let index = &snapshot.index;
        self.readable_objects.set(exact(index.len()));
        self.unreadable_objects.set(exact(index.unreadable_len()));
        self.log_events.set(exact(snapshot.log.len()));
        self.topics.set(exact(topics.len()));
        self.watchers.set(exact(topics.receivers()));
    }

    /// Shows what is stored, and up to which revision the cache knows everything.
    pub(crate) fn show_state(&self, index: &ItemIndex, revision: Revision) {
        let state = self.state.get_or_init(|| self.state_meters());
        let objects = exact(index.len() + index.unreadable_len());
        state.objects.iter().for_each(|gauge| gauge.set(objects));
        state.bytes.set(exact(index.bytes()));
        #[expect(clippy::cast_precision_loss, reason = "it has 15 digits")]
        state.revision.set((revision % SHOWN_REVISIONS) as f64);
        // Asked last: it may be gone since.
        if self.is_gone.load(Ordering::SeqCst) {
            self.show_nothing();
        }
    }

    fn state_meters(&self) -> StateMeters {
        StateMeters {
            objects: [
                metrics::gauge!("apiserver_storage_objects", "resource" => self.resource.to_string()),
                metrics::gauge!("apiserver_resource_objects", self.labels.iter()),
            ],
            bytes: metrics::gauge!("apiserver_resource_size_estimate_bytes", self.labels.iter()),
            revision: metrics::gauge!("apiserver_watch_cache_resource_version", self.labels.iter()),
        }
    }

    /// Shows from now on that there is nothing: a recorder cannot be told to forget the series of a resource that is gone.
    pub(super) fn show_gone(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
        self.show_nothing();
    }

    fn show_nothing(&self) {
        let cached = [
            &self.readable_objects,
            &self.unreadable_objects,
            &self.log_events,
            &self.topics,
            &self.watchers,
        ];
        let stored = self.state.get().into_iter();
        let stored = stored.flat_map(|state| state.objects.iter().chain([&state.bytes, &state.revision]));
        cached.into_iter().chain(stored).for_each(|gauge| gauge.set(0.0));
    }

    /// Counts a load of the cache.
    pub(super) fn loaded(&self) {
        let counter = || self.counter("apiserver_watch_cache_initializations_total");
        self.loads.get_or_init(counter).increment(1);
    }

    /// Counts changes of the resource that the store has told of.
    pub(crate) fn heard_of(&self, changes: usize) {
        let counter = || self.counter("apiserver_storage_events_received_total");
        self.store_events.get_or_init(counter).increment(count(changes));
    }

    /// Counts changes that have come to the cache.
    pub(super) fn received(&self, changes: usize) {
        let counter = || self.counter("apiserver_watch_cache_events_received_total");
        self.received.get_or_init(counter).increment(count(changes));
    }

    /// Counts events that have been handed to the topics, each once, however many receivers there are.
    pub(super) fn dispatched(&self, events: usize) {
        let counter = || self.counter("apiserver_watch_cache_events_dispatched_total");
        self.dispatched.get_or_init(counter).increment(count(events));
    }

    /// Counts objects and events from before a watch began that it has looked at.
    pub(crate) fn looked_back_at(&self, events: u64) {
        if events > 0 {
            let counter = || self.counter("apiserver_init_events_total");
            self.initial_events.get_or_init(counter).increment(events);
        }
    }

    /// Records the time that a read waited for the cache to be at a revision.
    pub(crate) fn waited(&self, time: Duration) {
        let histogram = || metrics::histogram!("apiserver_watch_cache_read_wait_seconds", self.labels.iter());
        self.waits.get_or_init(histogram).record(time.as_secs_f64());
    }

    /// Counts a list that was to be as new as the store. None is read from the store instead.
    pub(crate) fn listed_consistently(&self, is_answered: bool) {
        let counter = |success: &'static str| {
            let outcome = [Label::new("success", success), Label::new("fallback", "false")];
            let labels = self.labels.iter().cloned().chain(outcome);
            metrics::counter!(
                "apiserver_watch_cache_consistent_read_total",
                labels.collect::<Vec<_>>()
            )
        };
        if is_answered {
            self.consistent_lists.get_or_init(|| counter("true")).increment(1);
        } else {
            counter("false").increment(1);
        }
    }

    /// Counts a list from the cache, by the index of a field or of the keys.
    pub(crate) fn listed(&self, field: Option<usize>, cost: ListCost) {
        let Some(meters) = self.lists.get(field.map_or(0, |field| field + 1)) else {
            return;
        };
        let [lists, fetched, returned] = meters.counters.get_or_init(|| {
            let mut by_index = self.labels.to_vec();
            by_index.push(Label::new("index", meters.index.clone()));
            [
                metrics::counter!("apiserver_cache_list_total", by_index.iter()),
                metrics::counter!("apiserver_cache_list_fetched_objects_total", by_index.iter()),
                self.counter("apiserver_cache_list_returned_objects_total"),
            ]
        });
        lists.increment(1);
        fetched.increment(count(cost.fetched));
        returned.increment(count(cost.returned));
    }

    /// Counts a list from the store: a load of the cache, or one that the cache could not answer. Both are rare.
    pub(crate) fn listed_from_store(&self, cost: ListCost) {
        let add = |name, number| self.counter(name).increment(count(number));
        add("apiserver_storage_list_total", 1);
        add("apiserver_storage_list_fetched_objects_total", cost.fetched);
        add("apiserver_storage_list_evaluated_objects_total", cost.evaluated);
        add("apiserver_storage_list_returned_objects_total", cost.returned);
    }

    fn counter(&self, name: &'static str) -> Counter {
        metrics::counter!(name, self.labels.iter())
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "no cache has 2^53 objects or bytes")]
fn exact(count: usize) -> f64 {
    count as f64
}
