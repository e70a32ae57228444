//! The tables under `/debug/api_priority_and_fairness` (`apf_controller_debug.go`).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use trireme_actors::Clock;
use trireme_machinery::time::{Duration, Time};

use super::{
    config::QueueShape,
    controller::{FlowLevel, LevelTable},
    messages::Dump,
    queues::QueueState,
    work::TrackedRequest,
};

/// The queues of a level, and what waits in them.
#[derive(Clone)]
pub(crate) struct QueuesDump {
    pub(crate) queues: Vec<(QueueState, Vec<Arc<TrackedRequest>>)>,
}

impl QueuesDump {
    /// Queues of this shape in which nothing waits.
    fn empty(shape: Option<QueueShape>) -> Self {
        let count = shape.map_or(0, |shape| shape.queues);
        let queue = |index| QueueState {
            index,
            ..QueueState::default()
        };
        Self {
            queues: (0..count).map(|index| (queue(index), Vec::new())).collect(),
        }
    }
}

/// A table of what the levels are at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowDump {
    /// `dump_priority_levels`
    PriorityLevels,
    /// `dump_queues`
    Queues,
    /// `dump_requests`: those that wait, and those that are worked on.
    Requests,
    /// `dump_requests?includeRequestDetails`: the same with who asks for what.
    RequestDetails,
}

const LEVEL_COLUMNS: &[&str] = &[
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
];
const QUEUE_COLUMNS: &[&str] = &[
    "PriorityLevelName",
    "Index",
    "PendingRequests",
    "ExecutingRequests",
    "SeatsInUse",
    "NextDispatchR",
    "InitialSeatsSum",
    "MaxSeatsSum",
    "TotalWorkSum",
];
// The spelling is kube-apiserver's.
const REQUEST_COLUMNS: &[&str] = &[
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "FinalSeats",
    "AdditionalLatency",
    "StartTime",
];
const DETAIL_COLUMNS: &[&str] = &[
    "UserName",
    "Verb",
    "APIPath",
    "Namespace",
    "Name",
    "APIVersion",
    "Resource",
    "SubResource",
];

/// The cells of one line.
type DumpLine = Vec<String>;

impl FlowDump {
    fn columns(self) -> DumpLine {
        let (first, more): (&[&str], &[&str]) = match self {
            Self::PriorityLevels => (LEVEL_COLUMNS, &[]),
            Self::Queues => (QUEUE_COLUMNS, &[]),
            Self::Requests => (REQUEST_COLUMNS, &[]),
            Self::RequestDetails => (REQUEST_COLUMNS, DETAIL_COLUMNS),
        };
        first.iter().chain(more).map(|name| (*name).to_owned()).collect()
    }

    /// Renders the table, one line a level, queue or request.
    pub(crate) async fn render(self, table: &LevelTable, clock: &DumpClock) -> String {
        let mut rows = vec![self.columns()];
        for level in &table.levels {
            // An actor that does not answer is being rebuilt: nobody waits.
            let answer = level.actor.ask(Dump).await;
            let dump = answer.unwrap_or_else(|_| QueuesDump::empty(level.seats.shape()));
            match self {
                Self::PriorityLevels => rows.push(level_row(level, &dump)),
                Self::Queues => rows.extend(dump.queues.iter().map(|(queue, _)| queue_row(level, queue))),
                Self::Requests => rows.extend(request_rows(level, &dump, clock, false)),
                Self::RequestDetails => rows.extend(request_rows(level, &dump, clock, true)),
            }
        }
        aligned(&rows)
    }
}

/// One moment by both clocks.
pub(crate) struct DumpClock {
    now: Instant,
    wall: SystemTime,
}

impl DumpClock {
    pub(crate) fn of(clock: &Clock) -> Self {
        Self {
            now: clock.now(),
            wall: clock.wall(),
        }
    }

    /// A past moment as Go prints it (`RFC3339Nano`).
    fn print(&self, at: Instant) -> String {
        let ago = self.now.saturating_duration_since(at);
        let since = (self.wall - ago)
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let whole = Time::from_unix(seconds, 0).to_string();
        let fraction = format!("{:09}", since.subsec_nanos());
        match fraction.trim_end_matches('0') {
            "" => whole,
            fraction => format!("{}.{fraction}Z", whole.trim_end_matches('Z')),
        }
    }
}

/// The start of a request that waits: Go's zero time.
const NOT_STARTED: &str = "0001-01-01T00:00:00Z";

fn level_row(level: &FlowLevel, dump: &QueuesDump) -> DumpLine {
    let counters = &level.counters;
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed).to_string();
    let active = dump.queues.iter().filter(|(_, waiting)| !waiting.is_empty()).count();
    vec![
        level.name.to_string(),
        active.to_string(),
        level.seats.is_idle().to_string(),
        level.is_quiescing.to_string(),
        count(&counters.waiting),
        level.seats.executing().to_string(),
        level.seats.dispatched_so_far().to_string(),
        count(&counters.rejected),
        // kube-apiserver counts none of them either: those are cancelled ones.
        "0".to_owned(),
        count(&counters.cancelled),
    ]
}

fn queue_row(level: &FlowLevel, queue: &QueueState) -> DumpLine {
    vec![
        level.name.to_string(),
        queue.index.to_string(),
        queue.pending.to_string(),
        queue.executing.to_string(),
        queue.seats_in_use.to_string(),
        format!("{:.8}ss", queue.next_start_seconds),
        queue.initial_seats_sum.to_string(),
        queue.most_seats_sum.to_string(),
        format!("{:.8}ss", queue.waiting_work_seconds),
    ]
}

/// The requests of a level: queue by queue those that wait and those that have waited there, then those that found a seat.
fn request_rows(level: &FlowLevel, dump: &QueuesDump, clock: &DumpClock, has_details: bool) -> Vec<DumpLine> {
    let executing = level.seats.requests();
    let started = |queue: Option<usize>| {
        let of_queue = executing.iter().filter(move |executing| executing.queue == queue);
        of_queue.map(move |executing| {
            let start = clock.print(executing.since);
            ([index(queue), index(None)], &executing.request, start)
        })
    };
    let mut lines = Vec::new();
    for (queue, waiting) in &dump.queues {
        let of_queue = Some(queue.index);
        let places = waiting.iter().enumerate();
        lines.extend(places.map(|(place, request)| {
            let at = [index(of_queue), index(Some(place))];
            (at, request, NOT_STARTED.to_owned())
        }));
        lines.extend(started(of_queue));
    }
    lines.extend(started(None));
    let row = |([queue, place], request, start): ([String; 2], &Arc<TrackedRequest>, String)| {
        let mut row = vec![
            level.name.to_string(),
            request.schema.name().to_owned(),
            queue,
            place,
            request.distinguisher.to_string(),
            clock.print(request.arrived),
            request.work.initial_seats.to_string(),
            request.work.final_seats.to_string(),
            go_duration(request.work.additional_latency),
            start,
        ];
        if has_details {
            row.extend(request.details.cells());
        }
        row
    };
    lines.into_iter().map(row).collect()
}

/// An index, or that of what is in no queue.
fn index(of: Option<usize>) -> String {
    of.map_or_else(|| "-1".to_owned(), |index| index.to_string())
}

fn go_duration(duration: std::time::Duration) -> String {
    Duration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

/// The least width of a column.
const LEAST_WIDTH: usize = 8;

/// Lines whose columns are as wide as their widest cell, the last one apart (`text/tabwriter`).
fn aligned(rows: &[DumpLine]) -> String {
    let width = |cell: &String| cell.chars().count() + ", ".len();
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(width).max().unwrap_or_default().max(LEAST_WIDTH)
    };
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(widest).collect();
    let mut text = String::new();
    for row in rows {
        let last = row.len().saturating_sub(1);
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            text.push_str(cell);
            if column < last {
                let padding = width.saturating_sub(cell.chars().count() + 1);
                text.push(',');
                text.extend(std::iter::repeat_n(' ', padding));
            }
        }
        text.push('\n');
    }
    text
}
