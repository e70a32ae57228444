//! A simulated group: hosts with disks, what can be seen of them, and the faults that can be done to them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rand_08::rngs::StdRng;
use rand_08::{Rng as _, SeedableRng as _};
use tokio::sync::mpsc;
use trireme_actors::{Clock, Tasks};
use turmoil::Sim;

use super::checker::{ReplicaView, SimulationChecker};
use super::disk::SimDisk;
use super::wire::SimWire;
use crate::core::ReplicaId;
use crate::core::fence::Timing;
use crate::group::{Group, GroupConfig, ReplicaParts};
use crate::lease::Duty;
use crate::raft::{random, timing};
use crate::store::{RaftFile, Work};
use crate::transport::PeerCertificates;

/// The settings of the simulated replicas.
pub(crate) const DUTIES: [Duty; 4] = [
    Duty::named("duty-a"),
    Duty::named("duty-b"),
    Duty::named("duty-c"),
    Duty::named("duty-d"),
];
/// The simulation's step.
const TICK: Duration = Duration::from_millis(10);
const PORT: u16 = 7_000;

/// A replica that runs, as seen from outside.
#[derive(Clone)]
struct ReplicaProbe {
    group: Group,
    /// The same moment by the host's clock and by the simulation's.
    started: (Instant, Duration),
    /// Commands to the host.
    work: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

struct Host {
    disk: Arc<Mutex<SimDisk>>,
    probe: Arc<Mutex<Option<ReplicaProbe>>>,
    /// The port that it listens on from its next start.
    port: Arc<AtomicU16>,
    /// True if its software was started; later starts are restarts.
    is_up: bool,
}

/// See the module's header.
pub(crate) struct Cluster {
    sim: Sim<'static>,
    hosts: BTreeMap<String, Host>,
    pub(crate) random: StdRng,
    pub(crate) checker: SimulationChecker,
    timing: (Timing, Timing),
}

/// The name of the nth host.
pub(crate) fn host(number: usize) -> String {
    format!("replica-{number}")
}

fn address(name: &str) -> String {
    format!("{name}:{PORT}")
}

impl Cluster {
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_timing(seed, timing::LEASES, timing::LEASES)
    }

    /// Holders and leaders count leases by these times.
    pub(crate) fn with_timing(seed: u64, as_holder: Timing, as_leader: Timing) -> Self {
        random::seed(seed);
        let sim = turmoil::Builder::new()
            .rng_seed(seed)
            .simulation_duration(Duration::from_secs(100_000))
            .tick_duration(TICK)
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(20))
            .tcp_capacity(4_096)
            .build();
        Self {
            sim,
            hosts: BTreeMap::new(),
            random: StdRng::seed_from_u64(seed ^ 0x7269_7265_6d65),
            checker: SimulationChecker::default(),
            timing: (as_holder, as_leader),
        }
    }

    /// Starts a replica on a new host. `peers` are its settings' first members.
    pub(crate) fn start(&mut self, name: &str, peers: &[String]) {
        let disk = Arc::new(Mutex::new(SimDisk::default()));
        let probe = Arc::new(Mutex::new(None));
        let config = GroupConfig {
            name: "simulated".to_owned(),
            directory: Path::new("simulated").to_owned(),
            listen: String::new(),
            advertise: name.to_owned(),
            peers: peers.iter().map(|peer| address(peer)).collect(),
            version: "1".to_owned(),
            certificates: PeerCertificates {
                ca: Vec::new(),
                certificate: Vec::new(),
                key: Vec::new(),
            },
        };
        let port = Arc::new(AtomicU16::new(PORT));
        let (timing, listens) = (self.timing, Arc::clone(&port));
        let made = (Arc::clone(&disk), Arc::clone(&probe));
        let ids = Arc::new(Mutex::new(StdRng::seed_from_u64(self.random.r#gen())));
        self.sim.host(name, move || {
            let (mut config, (disk, probe)) = (config.clone(), made.clone());
            let port = listens.load(Ordering::Relaxed);
            config.listen = format!("0.0.0.0:{port}");
            config.advertise = format!("{}:{port}", config.advertise);
            let fresh = ReplicaId(ids.lock().expect("no holder panics").r#gen());
            async move {
                let disk = disk.lock().expect("no holder panics").clone();
                let (started, mut work) = start_replica(config, disk, fresh, timing).await?;
                *probe.lock().expect("no holder panics") = Some(started);
                while let Some(work) = work.recv().await {
                    work.await;
                }
                Ok(())
            }
        });
        let is_up = true;
        let host = Host {
            disk,
            probe,
            port,
            is_up,
        };
        self.hosts.insert(name.to_owned(), host);
    }

    /// Starts the group's first three replicas.
    pub(crate) fn start_three(&mut self) -> Vec<String> {
        let names: Vec<String> = (1..=3).map(host).collect();
        for name in &names {
            self.start(name, &names);
        }
        names
    }

    /// Lets `time` pass, and checks at every tick.
    pub(crate) fn run(&mut self, time: Duration) -> Result<(), String> {
        let until = self.sim.elapsed() + time;
        while self.sim.elapsed() < until {
            self.tick()?;
        }
        Ok(())
    }

    /// Lets time pass until `is_done`; fails if that takes longer than `limit`. Gives how long it took.
    pub(crate) fn run_until(
        &mut self,
        what: &str,
        limit: Duration,
        is_done: impl Fn(&Self) -> bool,
    ) -> Result<Duration, String> {
        let started = self.sim.elapsed();
        while !is_done(self) {
            if self.sim.elapsed() > started + limit {
                return Err(format!("{what}: not within {limit:?}; {}", self.describe()));
            }
            self.tick()?;
        }
        Ok(self.sim.elapsed() - started)
    }

    fn tick(&mut self) -> Result<(), String> {
        self.sim.step().map_err(|error| format!("a host failed: {error}"))?;
        let now = self.sim.elapsed();
        let views: Vec<ReplicaView> = self.probes().map(|(_, probe)| probe.view()).collect();
        self.checker.look(now, &views)
    }

    fn probes(&self) -> impl Iterator<Item = (&String, ReplicaProbe)> {
        self.hosts
            .iter()
            .filter(|(_, host)| host.is_up)
            .filter_map(|(name, host)| {
                let probe = host.probe.lock().expect("no holder panics").clone();
                Some((name, probe?))
            })
    }

    /// The replica on a host that is up.
    pub(crate) fn group(&self, name: &str) -> Option<Group> {
        self.probes()
            .find(|(found, _)| *found == name)
            .map(|(_, probe)| probe.group)
    }

    /// Has something done with the replica on a host that is up, on that host.
    pub(crate) fn on<F, W>(&self, name: &str, work: W)
    where
        W: FnOnce(Group) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let (_, probe) = self.probes().find(|(found, _)| *found == name).expect("it is up");
        let sent = probe.work.send(work(probe.group.clone()).boxed());
        sent.expect("the host runs");
    }

    /// The hosts that are up.
    pub(crate) fn up(&self) -> Vec<String> {
        self.hosts
            .iter()
            .filter(|(_, host)| host.is_up)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Cuts a host's power.
    pub(crate) fn crash(&mut self, name: &str) {
        let Some(host) = self.hosts.get_mut(name).filter(|host| host.is_up) else {
            return;
        };
        let mut disk = host.disk.lock().expect("no holder panics");
        *disk = disk.cut(&mut self.random);
        drop(disk);
        host.is_up = false;
        *host.probe.lock().expect("no holder panics") = None;
        self.sim.crash(name);
    }

    /// Starts a host that has crashed.
    pub(crate) fn restart(&mut self, name: &str) {
        if let Some(host) = self.hosts.get_mut(name).filter(|host| !host.is_up) {
            host.is_up = true;
            self.sim.bounce(name);
        }
    }

    /// Has a host that has crashed listen at another port when it is started.
    pub(crate) fn listen_at(&mut self, name: &str, port: u16) {
        self.hosts[name].port.store(port, Ordering::Relaxed);
    }

    /// Empties the disk of a host that has crashed.
    pub(crate) fn lose_disk(&mut self, name: &str) {
        if let Some(host) = self.hosts.get(name).filter(|host| !host.is_up) {
            *host.disk.lock().expect("no holder panics") = SimDisk::default();
        }
    }

    /// Breaks the disk of a host that is up.
    pub(crate) fn break_disk(&mut self, name: &str) {
        self.hosts[name].disk.lock().expect("no holder panics").fail();
    }

    /// The network, to break it.
    pub(crate) fn network(&mut self) -> &mut Sim<'static> {
        &mut self.sim
    }

    /// Names of the other hosts.
    pub(crate) fn others(&self, name: &str) -> Vec<String> {
        self.hosts.keys().filter(|other| *other != name).cloned().collect()
    }

    /// The host whose replica leads by its own belief, the highest term first.
    pub(crate) fn leader(&self) -> Option<String> {
        let leaders = self
            .probes()
            .filter_map(|(name, probe)| Some((probe.view().leads?, name.clone())));
        leaders.max().map(|(_, name)| name)
    }

    /// The valid holder of each duty.
    pub(crate) fn holders(&self) -> BTreeMap<String, String> {
        let now = self.sim.elapsed();
        let held = self.probes().flat_map(|(name, probe)| {
            let tenures = probe.view().tenures.into_iter().filter(|(_, _, until)| *until > now);
            tenures.map(|(duty, ..)| (duty, name.clone())).collect::<Vec<_>>()
        });
        held.collect()
    }

    /// Every duty is held, and all replicas that run are voters and agree on one leader.
    pub(crate) fn is_settled(&self) -> bool {
        let is_member = |probe: ReplicaProbe| {
            let members = probe.group.raft_metrics().membership_config;
            members.membership().voter_ids().any(|voter| voter == probe.group.id())
        };
        if !self.probes().all(|(_, probe)| is_member(probe)) {
            return false;
        }
        let leaders: Vec<_> = self.probes().map(|(_, probe)| probe.leader()).collect();
        let is_agreed = leaders
            .first()
            .is_some_and(|first| first.is_some() && leaders.iter().all(|other| other == first));
        is_agreed && leaders.len() == self.up().len() && self.holders().len() == DUTIES.len()
    }

    /// The leases are spread evenly over the hosts that are up.
    pub(crate) fn is_balanced(&self) -> bool {
        let holders = self.holders();
        let loads = self
            .up()
            .into_iter()
            .map(|name| holders.values().filter(|holder| **holder == name).count());
        let loads: Vec<usize> = loads.collect();
        self.is_settled()
            && loads
                .iter()
                .max()
                .zip(loads.iter().min())
                .is_some_and(|(most, least)| most - least <= 1)
    }

    fn describe(&self) -> String {
        let lines = self.probes().map(|(name, probe)| {
            let metrics = probe.group.raft_metrics();
            let duties = probe.group.duties();
            format!("\n{name}: {metrics}\n{duties:?}")
        });
        format!("holders {:?}{}", self.holders(), lines.collect::<String>())
    }
}

async fn start_replica(
    config: GroupConfig,
    disk: SimDisk,
    fresh: ReplicaId,
    (as_holder, as_leader): (Timing, Timing),
) -> Result<(ReplicaProbe, mpsc::UnboundedReceiver<BoxFuture<'static, ()>>), Box<dyn std::error::Error>> {
    let (file, identity) = RaftFile::open_on(disk, Path::new("simulated"), Work::InPlace, fresh)?;
    let clock = Clock::system();
    let tasks = Tasks::new(tokio::runtime::Handle::current(), clock.clone());
    let parts = ReplicaParts {
        file,
        identity,
        wire: Arc::new(SimWire),
        tls: None,
        as_holder,
        as_leader,
    };
    let started = (clock.now(), turmoil::sim_elapsed().expect("in a simulation"));
    let group = Group::start_on(config, parts, &tasks, clock).await?;
    for duty in DUTIES {
        drop(group.acquire(duty));
    }
    let (work, doing) = mpsc::unbounded_channel();
    Ok((ReplicaProbe { group, started, work }, doing))
}

impl ReplicaProbe {
    fn leader(&self) -> Option<ReplicaId> {
        self.group.raft_metrics().current_leader
    }

    fn view(&self) -> ReplicaView {
        let (started, started_sim) = self.started;
        let tenures = self.group.tenures().into_iter().filter_map(|tenure| {
            let until = tenure.valid_until()?.saturating_duration_since(started) + started_sim;
            let lease = tenure.lease();
            Some((lease.duty.name().to_owned(), lease.token.0, until))
        });
        let applied = self.group.applied_state();
        let granted = applied.group.leases.iter().filter_map(|(duty, lease)| {
            let holder = lease.holder?;
            Some((duty.to_owned(), lease.token, holder.replica.0))
        });
        ReplicaView {
            replica: self.group.id().0,
            leads: self.group.leading_term(),
            tenures: tenures.collect(),
            granted: granted.collect(),
            applied: applied.last.map(|last| {
                let state = serde_json::to_string(&applied.group).expect("the state is JSON");
                (last.index, state)
            }),
        }
    }
}
