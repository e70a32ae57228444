//! The one table of all actors: who they are, how much they take, who may ask them.
//!
//! An actor that is not in the table cannot be spawned, and a handle is given out only along a declared edge. Asks go
//! down in rank only, so a chain of actors that wait for each other ends. What goes up is a snapshot, a watch channel
//! or a one-way note. [`Topology::markdown`] renders the table into the docs.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::restart::RestartPolicy;

/// The name of a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorKind(&'static str);

impl ActorKind {
    /// The seats of one class of requests.
    pub const LIMITER: Self = Self("Limiter");
    /// The queues of one priority level.
    pub const PRIORITY_LEVEL: Self = Self("PriorityLevel");
    /// The one place that learns resources and publishes the route table.
    pub const DIRECTOR: Self = Self("Director");
    /// The write path of one resource.
    pub const REGISTRY: Self = Self("Registry");
    /// The watch cache of one resource.
    pub const WATCH_CACHE: Self = Self("WatchCache");
    /// The shared quorum read of one store.
    pub const READ_INDEX: Self = Self("ReadIndex");
    /// The watch stream and the revision clock of one store.
    pub const STORE_WATCHER: Self = Self("StoreWatcher");
    /// The audit events of one backend.
    pub const AUDITOR: Self = Self("Auditor");

    /// A kind of its own, for a topology of a test.
    pub const fn named(name: &'static str) -> Self {
        Self(name)
    }

    /// The kind's name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for ActorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The holder of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    /// Request handlers, named tasks, the composition root: they have no mailbox, so no actor can wait for them in turn.
    Outside,
    /// Another actor, including the tasks that it detached.
    Actor(ActorKind),
}

impl From<ActorKind> for Caller {
    fn from(kind: ActorKind) -> Self {
        Self::Actor(kind)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside => f.write_str("outside"),
            Self::Actor(kind) => kind.fmt(f),
        }
    }
}

/// On which arbiter an actor is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The next one in turn.
    RoundRobin,
    /// By the instance's name, so that the actors of one resource share a thread.
    ByInstance,
    /// A thread of its own: its turns may wait for a disk, which holds up nobody else.
    OwnThread,
}

/// A note that an actor gets again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    /// The name of its task, before the name of the instance.
    pub name: &'static str,
    /// The time between two ticks.
    pub period: Duration,
    /// The reason for that duration.
    pub reason: &'static str,
}

/// A use of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// It waits for a reply.
    Ask,
    /// It does not.
    Note,
}

impl fmt::Display for CallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ask => "ask",
            Self::Note => "note",
        })
    }
}

/// One row of the table.
#[derive(Debug, Clone)]
pub struct TopologyRow {
    /// The kind.
    pub kind: ActorKind,
    /// The number of instances, in words.
    pub count: &'static str,
    /// The room that owns it.
    pub owner: &'static str,
    /// Asks go from a higher rank to a lower one.
    pub rank: u8,
    /// The number of messages that may wait or be owed a reply.
    pub permits: usize,
    /// The reason for that number.
    pub permits_reason: &'static str,
    /// Callers that may ask it (and send it notes).
    pub asked_by: &'static [Caller],
    /// Callers that may only send it notes.
    pub noted_by: &'static [Caller],
    /// Its timers; each instance starts each of them once, with [`Owned::start_timer`](crate::Owned::start_timer).
    pub timers: &'static [Timer],
    /// The policy for rebuilding it and for ending the process.
    pub restart: RestartPolicy,
    /// The thread that it runs on.
    pub placement: Placement,
    /// The state that it owns.
    pub purpose: &'static str,
}

/// The reason that an edge or a table is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A kind has two rows.
    #[error("actor kind {0} is declared twice")]
    Duplicate(ActorKind),
    /// A row names a caller that has none.
    #[error("{callee} names the caller {caller}, which is not in the topology")]
    UnknownCaller {
        /// The caller without a row.
        caller: ActorKind,
        /// The row that names it.
        callee: ActorKind,
    },
    /// An ask would go up or sideways.
    #[error("{caller} (rank {caller_rank}) may not ask {callee} (rank {callee_rank}): asks go down in rank only")]
    Upward {
        /// The asking actor.
        caller: ActorKind,
        /// Its rank.
        caller_rank: u8,
        /// The actor that would be asked.
        callee: ActorKind,
        /// Its rank.
        callee_rank: u8,
    },
    /// The edge is not in the table.
    #[error("{callee} does not list {caller} among those who may {verb} it")]
    Undeclared {
        /// The caller that wants the handle.
        caller: Caller,
        /// The actor behind the handle.
        callee: ActorKind,
        /// The use that the table does not declare.
        verb: CallKind,
    },
    /// The timer is not in the table.
    #[error("{kind} declares no timer {name}")]
    UndeclaredTimer {
        /// The kind that the timer would belong to.
        kind: ActorKind,
        /// The name of the timer.
        name: &'static str,
    },
}

/// A checked table.
#[derive(Debug, Clone)]
pub struct Topology {
    entries: &'static [TopologyRow],
}

impl Topology {
    /// The actors of Trireme.
    pub fn trireme() -> Self {
        Self::new(TABLE).expect("the tests hold the table to its rules")
    }

    /// Checks a table: no kind twice, no unknown caller, no ask upwards.
    pub fn new(entries: &'static [TopologyRow]) -> Result<Self, TopologyError> {
        let topology = Self { entries };
        for (index, entry) in entries.iter().enumerate() {
            if entries.iter().skip(index + 1).any(|other| other.kind == entry.kind) {
                return Err(TopologyError::Duplicate(entry.kind));
            }
            for caller in entry.asked_by.iter().chain(entry.noted_by) {
                topology.check_known(*caller, entry)?;
            }
            for caller in entry.asked_by {
                topology.check_downward(*caller, entry)?;
            }
        }
        Ok(topology)
    }

    /// All rows.
    pub fn entries(&self) -> &'static [TopologyRow] {
        self.entries
    }

    /// The row of a kind.
    pub fn entry(&self, kind: ActorKind) -> Option<&'static TopologyRow> {
        self.entries.iter().find(|entry| entry.kind == kind)
    }

    fn check_known(&self, caller: Caller, callee: &TopologyRow) -> Result<(), TopologyError> {
        match caller {
            Caller::Actor(kind) if self.entry(kind).is_none() => Err(TopologyError::UnknownCaller {
                caller: kind,
                callee: callee.kind,
            }),
            Caller::Actor(_) | Caller::Outside => Ok(()),
        }
    }

    fn check_downward(&self, caller: Caller, callee: &TopologyRow) -> Result<(), TopologyError> {
        let Caller::Actor(kind) = caller else { return Ok(()) };
        match self.entry(kind) {
            Some(caller) if caller.rank <= callee.rank => Err(TopologyError::Upward {
                caller: kind,
                caller_rank: caller.rank,
                callee: callee.kind,
                callee_rank: callee.rank,
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// The table as Markdown, highest rank first.
    pub fn markdown(&self) -> String {
        let mut rows: Vec<&TopologyRow> = self.entries.iter().collect();
        rows.sort_by_key(|entry| std::cmp::Reverse(entry.rank));
        let mut text = String::from(
            "| actor | how many | room | rank | owns | asked by | notes from | permits | timers | restarts | placement |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for entry in rows {
            writeln!(text, "{}", entry.markdown_row()).expect("writing to a string cannot fail");
        }
        text
    }
}

impl TopologyRow {
    /// Reports whether `caller` may ask.
    pub(crate) fn check_ask(&self, caller: Caller) -> Result<(), TopologyError> {
        if self.asked_by.contains(&caller) {
            return Ok(());
        }
        Err(TopologyError::Undeclared {
            caller,
            callee: self.kind,
            verb: CallKind::Ask,
        })
    }

    /// Reports whether `caller` may send notes.
    pub(crate) fn check_note(&self, caller: Caller) -> Result<(), TopologyError> {
        if self.noted_by.contains(&caller) || self.asked_by.contains(&caller) {
            return Ok(());
        }
        Err(TopologyError::Undeclared {
            caller,
            callee: self.kind,
            verb: CallKind::Note,
        })
    }

    /// The declared timer of this name.
    pub(crate) fn timer(&self, name: &'static str) -> Result<Timer, TopologyError> {
        let declared = self.timers.iter().find(|timer| timer.name == name);
        declared
            .copied()
            .ok_or(TopologyError::UndeclaredTimer { kind: self.kind, name })
    }

    fn markdown_row(&self) -> String {
        let list = |callers: &[Caller]| match callers {
            [] => "—".to_owned(),
            callers => callers.iter().map(Caller::to_string).collect::<Vec<_>>().join(", "),
        };
        let timers = if self.timers.is_empty() {
            "—".to_owned()
        } else {
            let shown = self
                .timers
                .iter()
                .map(|timer| format!("`{}` every {:?} ({})", timer.name, timer.period, timer.reason));
            shown.collect::<Vec<_>>().join(", ")
        };
        let placement = match self.placement {
            Placement::RoundRobin => "round robin",
            Placement::ByInstance => "by instance",
            Placement::OwnThread => "a thread of its own",
        };
        format!(
            "| `{}` | {} | `{}` | {} | {} | {} | {} | {} ({}) | {} | {} | {} |",
            self.kind,
            self.count,
            self.owner,
            self.rank,
            self.purpose,
            list(self.asked_by),
            list(self.noted_by),
            self.permits,
            self.permits_reason,
            timers,
            self.restart,
            placement,
        )
    }
}

/// Five lives a minute: a bug that hits one request now and then costs that request; one that hits every request
/// must not hide behind rebuilding.
pub(crate) const FIVE_A_MINUTE: RestartPolicy = RestartPolicy {
    max_restarts: 5,
    window: Duration::from_secs(60),
    backoff: Duration::from_millis(50),
    max_backoff: Duration::from_millis(800),
};

const OUTSIDE: Caller = Caller::Outside;
const DIRECTOR: Caller = Caller::Actor(ActorKind::DIRECTOR);
const WATCH_CACHE: Caller = Caller::Actor(ActorKind::WATCH_CACHE);
const STORE_WATCHER: Caller = Caller::Actor(ActorKind::STORE_WATCHER);

/// The actors of Trireme.
pub static TABLE: &[TopologyRow] = &[
    TopologyRow {
        kind: ActorKind::LIMITER,
        count: "1 a class of requests",
        owner: "flow",
        rank: 60,
        permits: 1024,
        permits_reason: "requests that find no seat at one moment; more are refused without a turn",
        asked_by: &[OUTSIDE],
        noted_by: &[],
        timers: &[],
        restart: FIVE_A_MINUTE,
        placement: Placement::RoundRobin,
        purpose: "how many seats a class has, and who is refused when none is free",
    },
    TopologyRow {
        kind: ActorKind::PRIORITY_LEVEL,
        count: "1 a priority level",
        owner: "flow",
        rank: 60,
        permits: 16384,
        permits_reason: "8,128 requests that wait, as many that have left and are not forgotten yet, and dumps",
        asked_by: &[OUTSIDE],
        noted_by: &[],
        timers: &[],
        restart: FIVE_A_MINUTE,
        placement: Placement::RoundRobin,
        purpose: "who waits for a seat of the level, and whose turn it is",
    },
    TopologyRow {
        kind: ActorKind::DIRECTOR,
        count: "1",
        owner: "registry",
        rank: 50,
        permits: 256,
        permits_reason: "a start installs every resource at once",
        asked_by: &[OUTSIDE],
        noted_by: &[],
        timers: &[],
        restart: FIVE_A_MINUTE,
        placement: Placement::RoundRobin,
        purpose: "the route table, discovery and OpenAPI documents",
    },
    TopologyRow {
        kind: ActorKind::REGISTRY,
        count: "1 a resource",
        owner: "registry",
        rank: 40,
        permits: 512,
        permits_reason: "writes under way in the store at 2 ms each are a quarter of a second of 2,000 a second",
        asked_by: &[OUTSIDE],
        noted_by: &[],
        timers: &[],
        restart: FIVE_A_MINUTE,
        placement: Placement::ByInstance,
        purpose: "strategies and the write order per key of one resource",
    },
    TopologyRow {
        kind: ActorKind::WATCH_CACHE,
        count: "1 a resource",
        owner: "registry",
        rank: 30,
        permits: 1024,
        permits_reason: "watchers that come back all at once after a failover",
        asked_by: &[OUTSIDE],
        noted_by: &[DIRECTOR, STORE_WATCHER],
        timers: &[Timer {
            name: "watch-cache-trim",
            period: Duration::from_secs(30),
            reason: "history is looked through a few times within the time that it is kept, also when nothing happens",
        }],
        restart: FIVE_A_MINUTE,
        placement: Placement::ByInstance,
        purpose: "the object index, the event log and the indexes of one resource",
    },
    TopologyRow {
        kind: ActorKind::READ_INDEX,
        count: "1 a store",
        owner: "registry",
        rank: 20,
        permits: 8192,
        permits_reason: "waiting readers are cheap: they all share one read",
        asked_by: &[],
        noted_by: &[OUTSIDE],
        timers: &[],
        restart: FIVE_A_MINUTE,
        placement: Placement::RoundRobin,
        purpose: "the one outstanding quorum read that all waiting readers share",
    },
    TopologyRow {
        kind: ActorKind::STORE_WATCHER,
        count: "1 a store",
        owner: "registry",
        rank: 10,
        permits: 256,
        permits_reason: "every watch cache may ask to resubscribe at once",
        asked_by: &[DIRECTOR, WATCH_CACHE],
        noted_by: &[],
        timers: &[],
        restart: FIVE_A_MINUTE,
        placement: Placement::RoundRobin,
        purpose: "the watch stream and the revision clock of one store",
    },
    TopologyRow {
        kind: ActorKind::AUDITOR,
        count: "1 an audit backend",
        owner: "audit",
        rank: 5,
        permits: 16_384,
        permits_reason: "requests that wait for their event to be stored, and notes of a burst; later events are lost and counted",
        asked_by: &[OUTSIDE],
        noted_by: &[],
        timers: &[],
        restart: FIVE_A_MINUTE,
        placement: Placement::OwnThread,
        purpose: "the audit events that are not stored yet",
    },
];
