//! The nemesis: what can be done to a world, and the proof that it was.
//!
//! ```text
//! Fault::install(&world, chance) ─► Verdict::Installed(Active) ─► observe … done … ─► heal ─► Healed
//!                                   Verdict::Skipped(why)        (cannot be done here, and nothing was)
//!                                   Verdict::Indeterminate(why)  (was begun and failed: the run counts for nothing)
//! ```
//!
//! A fault that was not seen to bite proves nothing. So each has a proof taken from outside the server: the kernel
//! shows the process as stopped *and* a probe got no answer; the proxy has held bytes; etcd has raised its alarm. The
//! runner rejects a run whose [`Healed::observed`] is [`Observation::NotSeen`].
//!
//! Faults use the public methods of [`World`] alone, so they work on any kind of world. The numbers are those of the fault
//! list in the README.

mod balancer;
mod clock;
mod compaction;
mod consumers;
mod damage;
mod depose;
mod held_write;
mod kill;
mod memory;
mod mix;
mod mount;
mod network;
mod observation;
mod pause;
mod rolling;
mod servers;
mod space;
mod storm;
mod task;
mod webhooks;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

use crate::history::{GuardedWrites, LateWrite};
use crate::world::{Proxied, World, WorldError, WorldSettings, WorldTarget};

pub use clock::{Jump, WrongClock};
pub use consumers::NAMESPACE;
pub use damage::Damage;
pub use network::{Cut, Where};
pub use observation::{Healed, Observation};
pub use webhooks::WebhookFailure;

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Fault {
    /// 1: SIGKILL of a replica that does not lead, if one leads.
    KillReplica,
    /// 2: SIGKILL of the replica that leads the group.
    KillLeader,
    /// 3: SIGKILL of all replicas but one.
    KillAllButOne,
    /// 4: SIGKILL of all replicas; healing starts them.
    KillAllReplicas,
    /// 5: SIGSTOP of the leader for longer than its lease.
    PauseLeader,
    /// 5: the same at a moment when a write of one of its duties is under way, until another replica holds that duty.
    DeposeLeader,
    /// 6: SIGSTOP of the leader for 100 to 900 ms, again and again.
    PauseLeaderBriefly,
    /// 7: SIGKILL of a member of etcd that follows.
    KillEtcdFollower,
    /// 8: SIGKILL of the member of etcd that leads.
    KillEtcdLeader,
    /// 9: SIGSTOP of the member of etcd that leads.
    PauseEtcdLeader,
    /// 10: SIGSTOP of so many members of etcd that the rest is no quorum.
    PauseEtcdQuorum,
    /// 11: one replica is cut off from all of etcd.
    CutFromEtcd,
    /// 12: replicas are cut off from each other.
    CutPeers(Cut),
    /// 13: links take time.
    Delay {
        /// Which links.
        place: Where,
        /// The delay of bytes.
        delay: Duration,
        /// The jitter.
        jitter: Duration,
    },
    /// 13: links lose segments.
    Loss {
        /// Which links.
        place: Where,
        /// The number of of them: 0 to 1.
        probability: f64,
    },
    /// 14: open connections are reset, again and again.
    ResetStorm(Where),
    /// 15: the wall clock of a replica is wrong.
    WallClock(WrongClock),
    /// 16: etcd's space is used up.
    NoSpace,
    /// 18: a replica finds its Raft directory damaged when it starts.
    DamageRaft(Damage),
    /// 19: SIGKILL of the load balancer.
    KillBalancer,
    /// 19: the load balancer reloads its configuration.
    ReloadBalancer,
    /// 20: watchers that read slowly or not at all, and changes for them.
    SlowConsumers {
        /// Watches that read 1 kB a second.
        slow: usize,
        /// Watches of an object that does not change.
        idle: usize,
    },
    /// 21: a replica may not have more memory than it has.
    MemoryLimit,
    /// 22: each replica in turn is stopped with SIGTERM and started again.
    RollingRestart {
        /// The number of rounds.
        rounds: usize,
    },
    /// 23: etcd's history is compacted every 200 ms.
    CompactOften,
    /// 25: random faults, two at a time.
    Mix,
    /// 26: webhooks fail.
    Webhooks(WebhookFailure),
    /// 27: a conversion webhook and an aggregated API server are gone.
    ServersGone,
}

impl Fault {
    /// One of each kind, as a full run has them.
    pub fn all() -> Vec<Self> {
        let mut all = vec![
            Self::KillReplica,
            Self::KillLeader,
            Self::KillAllButOne,
            Self::KillAllReplicas,
            Self::PauseLeader,
            Self::DeposeLeader,
            Self::PauseLeaderBriefly,
            Self::KillEtcdFollower,
            Self::KillEtcdLeader,
            Self::PauseEtcdLeader,
            Self::PauseEtcdQuorum,
            Self::CutFromEtcd,
        ];
        all.extend([Cut::Symmetric, Cut::OneWay, Cut::Bridge].map(Self::CutPeers));
        let delay = Duration::from_millis(50);
        all.extend([
            Self::Delay {
                place: Where::Everywhere,
                delay,
                jitter: delay,
            },
            Self::Loss {
                place: Where::Everywhere,
                probability: 0.02,
            },
            Self::ResetStorm(Where::Everywhere),
        ]);
        all.extend(WrongClock::ALL.map(Self::WallClock));
        all.push(Self::NoSpace);
        all.extend(Damage::ALL.map(Self::DamageRaft));
        all.extend([
            Self::KillBalancer,
            Self::ReloadBalancer,
            Self::SlowConsumers { slow: 100, idle: 1000 },
            Self::MemoryLimit,
            Self::RollingRestart { rounds: 5 },
            Self::CompactOften,
            Self::Mix,
        ]);
        all.extend(WebhookFailure::ALL.map(Self::Webhooks));
        all.push(Self::ServersGone);
        all
    }

    /// Its number in the fault list.
    pub fn number(&self) -> u8 {
        match self {
            Self::KillReplica => 1,
            Self::KillLeader => 2,
            Self::KillAllButOne => 3,
            Self::KillAllReplicas => 4,
            Self::PauseLeader | Self::DeposeLeader => 5,
            Self::PauseLeaderBriefly => 6,
            Self::KillEtcdFollower => 7,
            Self::KillEtcdLeader => 8,
            Self::PauseEtcdLeader => 9,
            Self::PauseEtcdQuorum => 10,
            Self::CutFromEtcd => 11,
            Self::CutPeers(_) => 12,
            Self::Delay { .. } | Self::Loss { .. } => 13,
            Self::ResetStorm(_) => 14,
            Self::WallClock(_) => 15,
            Self::NoSpace => 16,
            Self::DamageRaft(_) => 18,
            Self::KillBalancer | Self::ReloadBalancer => 19,
            Self::SlowConsumers { .. } => 20,
            Self::MemoryLimit => 21,
            Self::RollingRestart { .. } => 22,
            Self::CompactOften => 23,
            Self::Mix => 25,
            Self::Webhooks(_) => 26,
            Self::ServersGone => 27,
        }
    }

    /// The time before it is healed. A fault that ends by itself (see [`Active::done`]) may take longer.
    pub fn hold(&self) -> Duration {
        Duration::from_secs(match self {
            Self::PauseLeader | Self::PauseEtcdLeader => 10,
            // Of few requests, the slowest in a hundred are a matter of luck.
            Self::PauseEtcdQuorum | Self::SlowConsumers { .. } | Self::Webhooks(_) => 8,
            Self::WallClock(wrong) => wrong.hold_s(),
            Self::KillBalancer => 3,
            Self::DeposeLeader
            | Self::DamageRaft(_)
            | Self::KillAllReplicas
            | Self::ReloadBalancer
            | Self::RollingRestart { .. } => 1,
            Self::Mix => 30,
            _ => 5,
        })
    }

    /// Changes the settings of a world so that this fault can be installed in it.
    pub fn prepare(&self, settings: &mut WorldSettings) {
        match self {
            Self::DeposeLeader => depose::prepare(settings),
            Self::CutFromEtcd => settings.proxied.etcd = true,
            Self::CutPeers(_) => settings.proxied.peers = settings.group,
            Self::Delay { place, .. } | Self::Loss { place, .. } | Self::ResetStorm(place) => {
                place.prepare(settings);
            }
            Self::WallClock(wrong) => wrong.prepare(settings),
            Self::NoSpace => settings.etcd_flags.push(space::QUOTA.to_owned()),
            Self::Mix => {
                settings.proxied = Proxied {
                    peers: settings.group,
                    ..Proxied::ALL
                }
            }
            _ => {}
        }
    }

    /// The reason that it cannot be done in a world of this kind at all, if so.
    pub fn impossible_in(&self, target: WorldTarget) -> Option<&'static str> {
        match (self, target) {
            (Self::ReloadBalancer, WorldTarget::Compose) => {
                Some("the HAProxy of docker-compose.yml has no master process, which a reload in a container needs")
            }
            (Self::WallClock(_), WorldTarget::Compose) => {
                Some("the image of a replica has no libfaketime, and that of this machine may be of another C library")
            }
            (Self::Webhooks(_) | Self::ServersGone, WorldTarget::Compose) => Some(
                "the server of the webhooks listens on the loopback of this machine, which is not that of a container",
            ),
            _ => None,
        }
    }

    /// Does it. `chance` decides who is hit where that is open.
    pub async fn install(&self, world: &Arc<World>, chance: &mut StdRng) -> InstallVerdict {
        let asked_at = Instant::now();
        match self.begin(world, chance).await {
            Ok(doing) => InstallVerdict::Installed(Active {
                fault: self.clone(),
                began: doing.began().unwrap_or(asked_at),
                seen: None,
                doing,
            }),
            Err(Refusal::Skipped(why)) => InstallVerdict::Skipped(why),
            Err(Refusal::Failed(error)) => InstallVerdict::Indeterminate(text_of(&error)),
        }
    }

    async fn begin(&self, world: &Arc<World>, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
        if let Some(why) = self.impossible_in(world.settings().target) {
            return skip(why);
        }
        match self {
            Self::KillReplica => kill::replica(world, chance).await,
            Self::KillLeader => kill::leader(world).await,
            Self::KillAllButOne => kill::all_but_one(world, chance).await,
            Self::KillAllReplicas => kill::all(world).await,
            Self::PauseLeader => pause::leader(world).await,
            Self::DeposeLeader => depose::begin(world).await,
            Self::PauseLeaderBriefly => pause::leader_briefly(world, chance).await,
            Self::KillEtcdFollower => kill::etcd_follower(world, chance).await,
            Self::KillEtcdLeader => kill::etcd_leader(world).await,
            Self::PauseEtcdLeader => pause::etcd_leader(world).await,
            Self::PauseEtcdQuorum => pause::etcd_quorum(world, chance).await,
            Self::CutFromEtcd => network::cut_from_etcd(world, chance),
            Self::CutPeers(cut) => network::cut_peers(world, *cut, chance).await,
            Self::Delay { place, delay, jitter } => network::delay(world, *place, *delay, *jitter),
            Self::Loss { place, probability } => network::loss(world, *place, *probability),
            Self::ResetStorm(place) => storm::begin(world, *place, chance),
            Self::WallClock(wrong) => clock::begin(world, *wrong, chance).await,
            Self::NoSpace => space::fill(world).await,
            Self::DamageRaft(damage) => damage::begin(world, *damage, chance).await,
            Self::KillBalancer => balancer::kill(world).await,
            Self::ReloadBalancer => balancer::reload(world),
            Self::SlowConsumers { slow, idle } => consumers::begin(world, *slow, *idle).await,
            Self::MemoryLimit => memory::limit(world, chance).await,
            Self::RollingRestart { rounds } => Ok(rolling::begin(world, *rounds)),
            Self::CompactOften => compaction::begin(world).await,
            Self::Mix => Ok(mix::begin(world, chance)),
            Self::Webhooks(failure) => webhooks::begin(world, *failure).await,
            Self::ServersGone => servers::begin(world).await,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillReplica => f.write_str("a replica is killed"),
            Self::KillLeader => f.write_str("the group's leader is killed"),
            Self::KillAllButOne => f.write_str("all replicas but one are killed"),
            Self::KillAllReplicas => f.write_str("all replicas are killed"),
            Self::PauseLeader => f.write_str("the group's leader is paused past its lease"),
            Self::DeposeLeader => f.write_str("the group's leader is paused past its lease while a duty of it writes"),
            Self::PauseLeaderBriefly => f.write_str("the group's leader is paused briefly, again and again"),
            Self::KillEtcdFollower => f.write_str("a follower of etcd is killed"),
            Self::KillEtcdLeader => f.write_str("etcd's leader is killed"),
            Self::PauseEtcdLeader => f.write_str("etcd's leader is paused"),
            Self::PauseEtcdQuorum => f.write_str("etcd's quorum is paused"),
            Self::CutFromEtcd => f.write_str("a replica is cut off from etcd"),
            Self::CutPeers(cut) => write!(f, "replicas are cut off from each other: {cut}"),
            Self::Delay { place, delay, jitter } => write!(f, "{place} take {delay:?} ± {jitter:?}"),
            Self::Loss { place, probability } => write!(f, "{place} lose {} % of segments", probability * 100.0),
            Self::ResetStorm(place) => write!(f, "connections on {place} are reset, again and again"),
            Self::WallClock(wrong) => write!(f, "{wrong}"),
            Self::NoSpace => f.write_str("etcd's space is used up"),
            Self::DamageRaft(damage) => write!(f, "a replica's Raft directory: {damage}"),
            Self::KillBalancer => f.write_str("the load balancer is killed"),
            Self::ReloadBalancer => f.write_str("the load balancer reloads"),
            Self::SlowConsumers { slow, idle } => write!(f, "{slow} watchers are slow, {idle} idle"),
            Self::MemoryLimit => f.write_str("a replica may have no more memory"),
            Self::RollingRestart { rounds } => write!(f, "rolling restart, {rounds} times"),
            Self::CompactOften => f.write_str("etcd is compacted every 200 ms"),
            Self::Mix => f.write_str("random faults, two at a time"),
            Self::Webhooks(failure) => write!(f, "{failure}"),
            Self::ServersGone => f.write_str("a conversion webhook and an aggregated server are gone"),
        }
    }
}

/// The result of an installation.
#[derive(Debug)]
pub enum InstallVerdict {
    /// It is there.
    Installed(Active),
    /// It cannot be done in this world or on this machine, for this reason. Nothing was touched.
    Skipped(String),
    /// It failed on the way, for this reason. The state of the world is not known: it must be restored, and the run does
    /// not count.
    Indeterminate(String),
}

/// A fault that is there. Dropping it ends what it does by itself, but heals nothing.
#[derive(Debug)]
pub struct Active {
    fault: Fault,
    began: Instant,
    /// The first time that it was seen to bite counts: a killed leader has a successor only after a while.
    seen: Option<Observation>,
    doing: Box<dyn ActiveFault>,
}

impl Active {
    /// The fault.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// The time when the harm began. The end of its installation is when [`Fault::install`] returns.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// The write of a deposed holder that comes late, if the fault is about one.
    pub fn late_write(&self) -> Option<LateWrite> {
        self.doing.late_write()
    }

    /// The time when all was as it is now but for the harm, if the fault made such a time to be compared with.
    pub fn control(&self) -> Option<Range<Instant>> {
        self.doing.control()
    }

    /// The parts and links that it touches, as their names read.
    pub fn targets(&self) -> Vec<String> {
        self.doing.targets()
    }

    /// Looks whether it bites. Once seen it stays seen.
    pub async fn observe(&mut self, world: &World) -> Observation {
        if let Some(seen) = &self.seen {
            return seen.clone();
        }
        let observation = self.doing.observe(world).await;
        if observation.is_seen() {
            self.seen = Some(observation.clone());
        }
        observation
    }

    /// Waits for the end of what ends by itself, such as a rolling restart; at once for everything else.
    pub async fn done(&mut self) {
        self.doing.done().await;
    }

    /// Takes a last look, undoes it, and returns when what it touched does its work again.
    ///
    /// # Errors
    /// If the world does not come back. That is a finding about the server, unless the cause is in the machine.
    pub async fn heal(mut self, world: &World) -> Result<Healed, WorldError> {
        let observed = self.observe(world).await;
        let notes = self.doing.heal(world).await?;
        let guarded = self.doing.guarded();
        Ok(Healed {
            observed,
            notes,
            guarded,
        })
    }
}

/// The reason that a fault is not there.
enum Refusal {
    Skipped(String),
    Failed(WorldError),
}

impl From<WorldError> for Refusal {
    fn from(error: WorldError) -> Self {
        Self::Failed(error)
    }
}

fn skip<T>(why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Skipped(why.into()))
}

/// One kind of fault that is there.
trait ActiveFault: fmt::Debug + Send + Sync {
    fn targets(&self) -> Vec<String>;
    /// The time when the harm began, if not at once.
    fn began(&self) -> Option<Instant> {
        None
    }
    fn late_write(&self) -> Option<LateWrite> {
        None
    }
    /// The outcome of the writes that were made beside it, once it is healed.
    fn guarded(&self) -> Option<GuardedWrites> {
        None
    }
    /// The time when all was the same but for the harm, if it made such a time.
    fn control(&self) -> Option<Range<Instant>> {
        None
    }
    fn observe<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Observation>;
    fn done(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
    /// Gives the notes.
    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>>;
}

/// An error with its causes, on one line.
fn text_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
