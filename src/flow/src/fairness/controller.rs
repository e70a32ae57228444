//! Divides the server's seats among the levels, and publishes the snapshot by which requests are classified.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use metrics::{Gauge, gauge};
use tokio::sync::watch;
use trireme_actors::{ActorSystem, Caller, Handle, Owned};

use super::{
    config::{FlowConfig, FlowSchema, PriorityLevelSpec},
    counters::{LevelCounters, RouteMeters},
    late::LateReleases,
    level::LevelActor,
    limits::{SeatDemand, SeatLimits, borrowed_limits, nominal_limits, widest_request},
    samples::LevelSamples,
    seats::LevelSeats,
};
use crate::error::LimiterError;

/// The time between two decisions about who borrows.
const PERIOD: Duration = Duration::from_secs(10);
/// The weight of the past in the smoothed demand, per period, in thousandths.
const SMOOTHING: u64 = 977;

/// A level as requests see it.
pub(crate) struct FlowLevel {
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
    /// True if it holds nobody up.
    pub(crate) is_exempt: bool,
    /// The most seats that one request may take.
    pub(crate) widest: u32,
    /// True if no configuration names it any more: it only serves those who are in it.
    pub(crate) is_quiescing: bool,
    pub(crate) seats: Arc<LevelSeats>,
    pub(crate) actor: Handle<LevelActor>,
    pub(crate) counters: Arc<LevelCounters>,
    pub(crate) samples: Arc<LevelSamples>,
}

/// A schema and the level that it sends requests to.
#[derive(Clone)]
pub(crate) struct FlowRoute {
    pub(crate) schema: Arc<FlowSchema>,
    pub(crate) uid: Arc<str>,
    pub(crate) level: Arc<FlowLevel>,
    pub(crate) meters: Arc<RouteMeters>,
}

/// What requests are classified by. Immutable; replaced as a whole.
#[derive(Default)]
pub(crate) struct LevelTable {
    /// In the order of matching. The last one matches everything.
    pub(crate) routes: Vec<FlowRoute>,
    /// By name, with those that are about to go.
    pub(crate) levels: Vec<Arc<FlowLevel>>,
}

/// A level as the controller keeps it.
struct KeptLevel {
    level: Arc<FlowLevel>,
    owned: Owned<LevelActor>,
    limits: SeatLimits,
    smoothed_milli: u64,
    shown: LimitGauges,
}

/// Starts and stops the actors of levels, and tells each how many seats it has.
pub(crate) struct FlowController {
    system: ActorSystem,
    server_seats: u32,
    published: Arc<ArcSwap<LevelTable>>,
    kept: BTreeMap<Arc<str>, KeptLevel>,
    late: LateReleases,
    fair_fraction: Gauge,
}

impl FlowController {
    /// A controller of so many seats, with the mandatory levels.
    pub(crate) fn start(
        system: &ActorSystem,
        server_seats: u32,
        published: Arc<ArcSwap<LevelTable>>,
        late: LateReleases,
    ) -> Result<Self, LimiterError> {
        let mut controller = Self {
            system: system.clone(),
            server_seats,
            published,
            kept: BTreeMap::new(),
            late,
            fair_fraction: gauge!("apiserver_flowcontrol_seat_fair_frac"),
        };
        controller.configure(&FlowConfig::of([], []))?;
        Ok(controller)
    }

    /// Follows the configuration, and lets busy levels borrow from idle ones.
    pub(crate) async fn run(mut self, mut configs: watch::Receiver<FlowConfig>) {
        let clock = self.system.clock().clone();
        let mut next = clock.now() + PERIOD;
        loop {
            tokio::select! {
                changed = configs.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let config = configs.borrow_and_update().clone();
                    if let Err(error) = self.configure(&config) {
                        tracing::error!(%error, "the priority levels stay as they are");
                    }
                }
                () = clock.sleep_until(next) => {
                    next = clock.now() + PERIOD;
                    self.divide();
                }
            }
            self.stop_idle().await;
        }
    }

    fn configure(&mut self, config: &FlowConfig) -> Result<(), LimiterError> {
        let specs: Vec<_> = config.levels.iter().map(|level| &level.spec).collect();
        let limits = nominal_limits(self.server_seats, &specs);
        let mut before = mem::take(&mut self.kept);
        for (level, limits) in config.levels.iter().zip(limits) {
            let name: Arc<str> = level.metadata.name.as_str().into();
            let mut kept = match before.remove(&name) {
                Some(kept) => kept,
                None => match self.start_level(&name, &level.spec) {
                    Ok(started) => started,
                    Err(error) => {
                        // Their actors run, and the next configuration has to find them.
                        self.kept.append(&mut before);
                        return Err(error);
                    }
                },
            };
            kept.set(&level.metadata.uid, &level.spec, limits);
            self.kept.insert(name, kept);
        }
        // What is left is not in the configuration any more.
        for (name, mut gone) in before {
            gone.quiesce();
            self.kept.insert(name, gone);
        }
        self.divide();
        self.publish(&config.schemas);
        Ok(())
    }

    fn start_level(&self, name: &Arc<str>, spec: &PriorityLevelSpec) -> Result<KeptLevel, LimiterError> {
        let seats = LevelSeats::new(self.system.clock().clone(), self.late.clone());
        let shared = Arc::clone(&seats);
        let owned = self
            .system
            .spawn(&**name, move || LevelActor::new(Arc::clone(&shared)))?;
        let level = FlowLevel {
            name: Arc::clone(name),
            uid: "".into(),
            is_exempt: spec.limited.is_none(),
            widest: 1,
            is_quiescing: false,
            seats,
            actor: owned.for_caller(Caller::Outside)?,
            counters: Arc::new(LevelCounters::new(name)),
            samples: Arc::new(LevelSamples::new(name)),
        };
        Ok(KeptLevel {
            level: Arc::new(level),
            owned,
            limits: SeatLimits::default(),
            smoothed_milli: 0,
            shown: LimitGauges::new(name),
        })
    }

    /// Divides the seats anew, by the demand since the last time.
    fn divide(&mut self) {
        let in_use = self.kept.values_mut().filter(|kept| !kept.level.is_quiescing);
        let mut kept: Vec<&mut KeptLevel> = in_use.collect();
        let demands: Vec<SeatDemand> = kept.iter_mut().map(|kept| kept.demand()).collect();
        let borrowed = borrowed_limits(&demands);
        self.fair_fraction.set(borrowed.fair_fraction);
        for ((kept, demand), limit) in kept.into_iter().zip(demands).zip(borrowed.limits) {
            kept.show_demand(&demand);
            kept.set_current(limit);
        }
    }

    /// Stops the levels that are in no configuration and serve nobody any more. Waits for their actors to end, so that levels
    /// of the same names can be started.
    async fn stop_idle(&mut self) {
        let is_done = |kept: &KeptLevel| kept.level.is_quiescing && kept.level.seats.is_idle();
        let done: Vec<Arc<str>> = self
            .kept
            .iter()
            .filter(|(_, kept)| is_done(kept))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        if done.is_empty() {
            return;
        }
        for name in done {
            if let Some(gone) = self.kept.remove(&name) {
                gone.owned.stop().await;
            }
        }
        self.publish_routes(self.published.load().routes.clone());
    }

    fn publish(&self, schemas: &[Arc<FlowSchema>]) {
        let route = |schema: &Arc<FlowSchema>| {
            let kept = self.kept.get(schema.spec.priority_level_configuration.name.as_str())?;
            (!kept.level.is_quiescing).then(|| FlowRoute {
                schema: Arc::clone(schema),
                uid: schema.metadata.uid.as_str().into(),
                level: Arc::clone(&kept.level),
                meters: Arc::new(RouteMeters::new(schema.name(), &kept.level.name)),
            })
        };
        self.publish_routes(schemas.iter().filter_map(route).collect());
    }

    fn publish_routes(&self, routes: Vec<FlowRoute>) {
        self.published.store(Arc::new(LevelTable {
            routes,
            levels: self.kept.values().map(|kept| Arc::clone(&kept.level)).collect(),
        }));
    }
}

impl KeptLevel {
    /// Takes in a configuration.
    fn set(&mut self, uid: &str, spec: &PriorityLevelSpec, limits: SeatLimits) {
        self.level.seats.set_shape(spec.queuing());
        self.level = Arc::new(FlowLevel {
            uid: uid.into(),
            is_exempt: spec.limited.is_none(),
            widest: widest_request(spec, limits.nominal),
            is_quiescing: false,
            ..self.level.share()
        });
        self.limits = limits;
    }

    fn quiesce(&mut self) {
        self.level = Arc::new(FlowLevel {
            is_quiescing: true,
            ..self.level.share()
        });
    }

    fn set_current(&self, limit: u32) {
        self.level.seats.set_limit(limit);
        self.shown.show(self.limits, limit);
    }

    /// Shows the seats that are wanted and aimed at. Exempt levels aim at nothing, they take what they want.
    fn show_demand(&self, demand: &SeatDemand) {
        let level = || self.level.name.to_string();
        gauge!("apiserver_flowcontrol_demand_seats_high_watermark", "priority_level" => level())
            .set(f64::from(demand.peak));
        if !demand.is_exempt {
            gauge!("apiserver_flowcontrol_target_seats", "priority_level" => level()).set(demand.target());
        }
    }

    /// The demand of the last period.
    fn demand(&mut self) -> SeatDemand {
        let peak = self.level.seats.take_peak();
        let now = u64::from(peak) * 1000;
        // Grows at once and shrinks slowly.
        self.smoothed_milli = now.max((SMOOTHING * self.smoothed_milli + (1000 - SMOOTHING) * now) / 1000);
        SeatDemand {
            limits: self.limits,
            is_exempt: self.level.is_exempt,
            peak,
            smoothed_milli: self.smoothed_milli,
        }
    }
}

impl FlowLevel {
    /// Another view of the same level.
    fn share(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            uid: Arc::clone(&self.uid),
            is_exempt: self.is_exempt,
            widest: self.widest,
            is_quiescing: self.is_quiescing,
            seats: Arc::clone(&self.seats),
            actor: self.actor.clone(),
            counters: Arc::clone(&self.counters),
            samples: Arc::clone(&self.samples),
        }
    }
}

struct LimitGauges {
    nominal: Gauge,
    current: Gauge,
    lower: Gauge,
    upper: Gauge,
}

impl LimitGauges {
    fn new(level: &str) -> Self {
        let shown = |name: &'static str| gauge!(name, "priority_level" => level.to_owned());
        Self {
            nominal: shown("apiserver_flowcontrol_nominal_limit_seats"),
            current: shown("apiserver_flowcontrol_current_limit_seats"),
            lower: shown("apiserver_flowcontrol_lower_limit_seats"),
            upper: shown("apiserver_flowcontrol_upper_limit_seats"),
        }
    }

    fn show(&self, limits: SeatLimits, current: u32) {
        self.nominal.set(f64::from(limits.nominal));
        self.lower.set(f64::from(limits.lower));
        self.upper.set(f64::from(limits.upper));
        self.current.set(f64::from(current));
    }
}
