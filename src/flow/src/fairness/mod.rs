//! Priority and fairness: who goes first when more is asked than can be worked on (KEP-1040).
//!
//! ```text
//!  FlowConfig ──watch──► FlowController ──LevelTable (ArcSwap)──► classify: schema, level, flow
//!                          │ limits, every 10 s                      │
//!                          ▼                                         ▼
//!                        LevelSeats ◄── seats free, nobody waits? ── acquire      (one atomic exchange, no actor)
//!                          ▲                                         │ no
//!                          │ whose turn it is                        ▼
//!                        PriorityLevel actor ◄──── Enqueue ────── its queue      (waits for a quarter of the request's time)
//! ```
//!
//! Promises: no request is let through beyond the seats of its level, but for exempt ones and those that are alone: while no seat is
//! taken, one that needs more seats than its level has is let through, and one of a level that has neither seats nor queues. What
//! runs goes on when its level gets fewer seats. Of flows that wait in one level none waits for another's flood. A refusal is a
//! 429, and what is refused has not been done.
//!
//! Unlike kube-apiserver, a request that finds a free seat in a level where nobody waits is not put through a queue, so what runs
//! when a queue begins to form counts for no flow.

mod classify;
mod config;
mod controller;
mod counters;
mod defaults;
mod dump;
mod late;
mod level;
mod limits;
mod messages;
mod queues;
mod samples;
mod seats;
#[cfg(test)]
mod tests;
mod waiting;
mod work;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use trireme_actors::{ActorSystem, AskError, Clock};

use self::seats::LevelSeat;
pub use self::{
    classify::{FlowRequest, FlowSubject},
    config::FlowConfig,
    defaults::{BootstrapObject, bootstrap_objects},
    dump::FlowDump,
    work::{RequestDetails, WorkEstimate},
};
use self::{
    controller::{FlowController, FlowRoute, LevelTable},
    counters::RefusalReason,
    dump::DumpClock,
    late::LateReleases,
    messages::{Enqueue, Turned},
    waiting::WaitingRequest,
    work::TrackedRequest,
};
use crate::{
    error::{Full, LimiterError},
    max_in_flight::RequestKind,
    watermark::{self, Watermark, WatermarkCount},
};

/// Classifies requests and gives them seats. Cheap to clone; clones share the seats.
#[derive(Clone)]
pub struct PriorityAndFairness {
    table: Arc<ArcSwap<LevelTable>>,
    configs: Arc<watch::Sender<FlowConfig>>,
    in_flight: Arc<KindMarks>,
    in_queue: Arc<KindMarks>,
    clock: Clock,
}

/// Where a request belongs.
pub struct Flow {
    table: Arc<LevelTable>,
    route: usize,
    distinguisher: Arc<str>,
}

impl Flow {
    fn route(&self) -> Option<&FlowRoute> {
        self.table.routes.get(self.route)
    }

    /// The UID of its flow schema; empty for a mandatory one that the store does not have yet.
    pub fn schema_uid(&self) -> &str {
        self.route().map_or("", |route| &route.uid)
    }

    /// The UID of its priority level; empty for a mandatory one that the store does not have yet.
    pub fn level_uid(&self) -> &str {
        self.route().map_or("", |route| &route.level.uid)
    }

    /// Counts the watchers of what the request writes.
    pub fn note_watchers(&self, watchers: u32) {
        if let Some(route) = self.route() {
            route.meters.watched(watchers);
        }
    }

    /// The most seats that the request may take.
    pub fn widest(&self) -> u32 {
        self.route().map_or(1, |route| route.level.widest)
    }

    /// Reports whether its priority level is one whose requests are never held up.
    pub fn is_exempt(&self) -> bool {
        self.route().is_some_and(|route| route.level.is_exempt)
    }

    /// The name of its flow schema.
    pub fn schema(&self) -> &str {
        self.route().map_or("", |route| route.schema.name())
    }

    /// The name of its priority level.
    pub fn level(&self) -> &str {
        self.route().map_or("", |route| &route.level.name)
    }
}

/// The seats that a request asks for.
#[derive(Debug, Clone, Copy)]
pub struct FlowDemand {
    /// The seats, and for how long.
    pub work: WorkEstimate,
    /// How it is counted.
    pub kind: RequestKind,
    /// True for a watch, which has its seats until it has begun.
    pub is_watch: bool,
    /// How long it waits for them.
    pub deadline: Instant,
}

/// A request's seats in its level; given back on drop.
#[must_use]
pub struct FlowSeat {
    _held: LevelSeat,
    _in_flight: WatermarkCount,
}

/// The requests that have seats, or wait for them, by class.
struct KindMarks {
    read_only: Arc<Watermark>,
    mutating: Arc<Watermark>,
}

impl KindMarks {
    fn new(metric: &'static str) -> Self {
        Self {
            read_only: Watermark::new(metric, "readOnly"),
            mutating: Watermark::new(metric, "mutating"),
        }
    }

    fn of(&self, kind: RequestKind) -> &Arc<Watermark> {
        match kind {
            RequestKind::ReadOnly => &self.read_only,
            RequestKind::Mutating => &self.mutating,
        }
    }

    fn both(&self) -> [Arc<Watermark>; 2] {
        [Arc::clone(&self.read_only), Arc::clone(&self.mutating)]
    }
}

impl PriorityAndFairness {
    /// Starts the mandatory levels, with so many seats for the whole server, and the task that follows the configuration.
    ///
    /// # Errors
    /// If an actor cannot be started.
    pub fn start(system: &ActorSystem, server_seats: usize) -> Result<Self, LimiterError> {
        let table = Arc::<ArcSwap<LevelTable>>::default();
        let (sender, receiver) = watch::channel(FlowConfig::default());
        let seats = u32::try_from(server_seats).unwrap_or(u32::MAX);
        let (late, ended) = LateReleases::channel();
        let controller = FlowController::start(system, seats, Arc::clone(&table), late)?;
        system.tasks().spawn_named("flow-controller", controller.run(receiver));
        let releases = late::release(system.clock().clone(), ended);
        system.tasks().spawn_named("flow-late-releases", releases);
        let in_flight = KindMarks::new("apiserver_current_inflight_requests");
        let in_queue = KindMarks::new("apiserver_current_inqueue_requests");
        let marks = [in_flight.both(), in_queue.both()].concat();
        watermark::show_every_second(system, "flow-watermarks", marks);
        samples::take_regularly(system, Arc::clone(&table), seats);
        Ok(Self {
            table,
            configs: Arc::new(sender),
            in_flight: Arc::new(in_flight),
            in_queue: Arc::new(in_queue),
            clock: system.clock().clone(),
        })
    }

    /// Goes by other schemas and levels from soon on.
    pub fn configure(&self, config: FlowConfig) {
        self.configs.send_replace(config);
    }

    /// Finds the schema of a request.
    pub fn classify(&self, request: &FlowRequest<'_>) -> Flow {
        let table = self.table.load_full();
        let found = table.routes.iter().position(|route| route.schema.matches(request));
        // Who matches nothing, such as a user in no group, is caught by the last one.
        let route = found.unwrap_or_else(|| table.routes.len().saturating_sub(1));
        let distinguisher = table
            .routes
            .get(route)
            .map_or("", |route| route.schema.distinguisher(request));
        Flow {
            route,
            distinguisher: distinguisher.into(),
            table,
        }
    }

    /// Takes seats in the flow's level, and waits for them in its queue if the level has queues. `details` says who
    /// asks for what, for the dumps.
    ///
    /// # Errors
    /// [`Full`] if there are none in time.
    pub async fn acquire(&self, flow: &Flow, demand: FlowDemand, details: RequestDetails) -> Result<FlowSeat, Full> {
        Ok(FlowSeat {
            _held: self.take(flow, demand, details).await?,
            _in_flight: self.in_flight.of(demand.kind).count(),
        })
    }

    async fn take(&self, flow: &Flow, demand: FlowDemand, details: RequestDetails) -> Result<LevelSeat, Full> {
        let route = flow.route().ok_or(Full)?;
        let level = &route.level;
        route.meters.asked(demand.work.most_seats());
        let request = Arc::new(TrackedRequest {
            schema: Arc::clone(&route.schema),
            meters: Arc::clone(&route.meters),
            distinguisher: Arc::clone(&flow.distinguisher),
            arrived: self.clock.now(),
            work: demand.work,
            is_watch: demand.is_watch,
            details,
        });
        if level.is_exempt {
            route.meters.dispatched();
            return Ok(level.seats.exempt(request));
        }
        if let Some(held) = level.seats.try_take(&request) {
            route.meters.dispatched();
            route.meters.waited(Duration::ZERO);
            return Ok(held);
        }
        self.wait(route, request, demand).await
    }

    async fn wait(
        &self,
        route: &FlowRoute,
        request: Arc<TrackedRequest>,
        demand: FlowDemand,
    ) -> Result<LevelSeat, Full> {
        let level = &route.level;
        let waiting = Arc::new(WaitingRequest::new(Arc::clone(&request)));
        let message = Enqueue {
            flow: route.schema.flow_hash(&request.distinguisher),
            waiting: Arc::clone(&waiting),
            counters: Arc::clone(&level.counters),
            in_queue: Arc::clone(self.in_queue.of(demand.kind)),
        };
        let refuse = |reason| {
            route.meters.waited_in_vain(level.seats.time_since(request.arrived));
            level.counters.refused(route.schema.name(), reason);
            Err(Full)
        };
        let Some(asks) = level.counters.ask(&level.seats, &waiting) else {
            return refuse(RefusalReason::QueueFull);
        };
        let outcome = level.actor.ask_until(message, demand.deadline).await;
        if matches!(outcome, Err(AskError::Deadline { .. })) {
            return Err(Full);
        }
        asks.over();
        match outcome {
            Ok(Turned::Seated(held)) => {
                route.meters.dispatched();
                route.meters.waited(level.seats.time_since(request.arrived));
                Ok(held)
            }
            Ok(Turned::Refused) if !level.seats.has_queues() => refuse(RefusalReason::ConcurrencyLimit),
            // An actor that has no place for another message has queues that are full.
            Ok(Turned::Refused) | Err(_) => refuse(RefusalReason::QueueFull),
        }
    }

    /// A table of what the levels are at, as text.
    pub async fn dump(&self, dump: FlowDump) -> String {
        dump.render(&self.table.load_full(), &DumpClock::of(&self.clock)).await
    }
}
