//! The work of a request in seats (`request.WorkEstimate`), and what the dumps show of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{config::FlowSchema, counters::RouteMeters};

/// The seats of a request while it is worked on and for a while after that, when its watchers get its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkEstimate {
    /// While it is worked on.
    pub initial_seats: u32,
    /// After that.
    pub final_seats: u32,
    /// The time for which its seats stay taken after its end. The client does not wait for that.
    pub additional_latency: Duration,
}

impl WorkEstimate {
    /// Work that is over with the request.
    pub const fn of_seats(seats: u32) -> Self {
        Self {
            initial_seats: seats,
            final_seats: 0,
            additional_latency: Duration::ZERO,
        }
    }

    /// The seats that are taken all the time.
    pub fn most_seats(&self) -> u32 {
        self.initial_seats.max(self.final_seats)
    }
}

/// The columns of a request in `dump_requests?includeRequestDetails`, in one allocation.
#[derive(Debug, Clone, Default)]
pub struct RequestDetails {
    text: String,
    ends: [usize; RequestDetails::COLUMNS],
}

impl RequestDetails {
    const COLUMNS: usize = 9;

    /// User name, verb, path, namespace, name, API group, API version, resource and subresource.
    pub fn new(columns: [&str; Self::COLUMNS]) -> Self {
        let mut text = String::with_capacity(columns.iter().map(|column| column.len()).sum());
        let ends = columns.map(|column| {
            text.push_str(column);
            text.len()
        });
        Self { text, ends }
    }

    fn column(&self, index: usize) -> &str {
        let begin = index.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(index).copied().unwrap_or_default();
        self.text
            .get(begin.copied().unwrap_or_default()..end)
            .unwrap_or_default()
    }

    /// The cells of the dump: group and version are one.
    pub(crate) fn cells(&self) -> impl Iterator<Item = String> {
        let version = match (self.column(5), self.column(6)) {
            ("", version) => version.to_owned(),
            (group, version) => format!("{group}/{version}"),
        };
        let before = (0..5).map(|index| self.column(index).to_owned());
        let after = (7..Self::COLUMNS).map(|index| self.column(index).to_owned());
        before.chain([version]).chain(after)
    }
}

/// A request that waits or is worked on.
pub(crate) struct TrackedRequest {
    pub(crate) schema: Arc<FlowSchema>,
    pub(crate) meters: Arc<RouteMeters>,
    /// Tells its flow from others of the schema.
    pub(crate) distinguisher: Arc<str>,
    pub(crate) arrived: Instant,
    pub(crate) work: WorkEstimate,
    pub(crate) is_watch: bool,
    pub(crate) details: RequestDetails,
}

/// A request that is worked on.
#[derive(Clone)]
pub(crate) struct ExecutingRequest {
    pub(crate) request: Arc<TrackedRequest>,
    /// The index of the queue that it waited in.
    pub(crate) queue: Option<usize>,
    pub(crate) since: Instant,
}

/// So many that workers seldom meet at one.
const SHARDS: usize = 16;

/// The requests of a level that are worked on, by number.
#[derive(Default)]
pub(crate) struct ExecutingRequests {
    shards: [Mutex<BTreeMap<u64, ExecutingRequest>>; SHARDS],
}

impl ExecutingRequests {
    fn shard(&self, number: u64) -> MutexGuard<'_, BTreeMap<u64, ExecutingRequest>> {
        let index = usize::try_from(number % SHARDS as u64).unwrap_or_default();
        // A map is whole after every call, whoever panicked in between.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, number: u64, request: ExecutingRequest) {
        self.shard(number).insert(number, request);
    }

    pub(crate) fn remove(&self, number: u64) {
        self.shard(number).remove(&number);
    }

    /// All of them, the oldest first.
    pub(crate) fn all(&self) -> Vec<ExecutingRequest> {
        let mut all = BTreeMap::new();
        for shard in &self.shards {
            all.extend(shard.lock().unwrap_or_else(PoisonError::into_inner).clone());
        }
        all.into_values().collect()
    }
}
