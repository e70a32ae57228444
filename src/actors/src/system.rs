//! The actor system: where actors are spawned, listed and stopped. One a process, made by the composition root.

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::actor::Actor;
use crate::arbiters::Arbiters;
use crate::clock::Clock;
use crate::edges::Edges;
use crate::handle::Owned;
use crate::restart::{Fatal, OnFatal};
use crate::shared::ActorShared;
use crate::supervise::Parent;
use crate::tasks::Tasks;
use crate::topology::{ActorKind, Topology};
use crate::vitals::{ActorSnapshot, Vitals};

/// Enough that one long turn does not hold up all actors; actors are short of work, not of threads.
const DEFAULT_ARBITERS: NonZeroUsize = NonZeroUsize::new(2).expect("2 is not 0");

/// Why an actor could not be spawned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The kind has no row in the topology table.
    #[error("actor kind {0} is not in the topology")]
    NotInTopology(ActorKind),
    /// There already is such an actor.
    #[error("actor {0} runs already")]
    Duplicate(String),
    /// The system is shutting down.
    #[error("the actor system is shutting down")]
    ShuttingDown,
    /// The thread that the actor was to have cannot be started.
    #[error("a thread for the actor cannot be started: {0}")]
    Thread(String),
}

/// Tasks and actors that did not end at shutdown; empty if all is well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leaked {
    /// Actors that still take a turn.
    pub actors: Vec<String>,
    /// Named tasks that do not heed their token.
    pub tasks: Vec<String>,
    /// The number of detached tasks of actors that still run.
    pub detached: usize,
}

impl Leaked {
    /// Reports whether everything ended.
    pub fn is_empty(&self) -> bool {
        self.actors.is_empty() && self.tasks.is_empty() && self.detached == 0
    }
}

/// All actors and named tasks of a process. Cheap to clone.
#[derive(Clone)]
pub struct ActorSystem(Arc<Inner>);

struct Inner {
    topology: Topology,
    /// In the order of the topology.
    edges: Vec<Arc<Edges>>,
    clock: Clock,
    tasks: Tasks,
    arbiters: Arbiters,
    detached: TaskTracker,
    on_fatal: OnFatal,
    actors: Mutex<Roster>,
}

#[derive(Default)]
struct Roster {
    members: Vec<Arc<dyn AnyActor>>,
    closed: bool,
}

/// An actor without its type.
trait AnyActor: Send + Sync {
    fn vitals(&self) -> &Vitals;
    fn stop(&self);
}

impl<A: Actor> AnyActor for ActorShared<A> {
    fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    fn stop(&self) {
        ActorShared::stop(self);
    }
}

/// Puts an [`ActorSystem`] together.
pub struct ActorSystemBuilder {
    topology: Topology,
    clock: Clock,
    arbiters: NonZeroUsize,
    on_fatal: OnFatal,
}

impl ActorSystemBuilder {
    /// Another clock than the machine's.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// The number of threads that take turns.
    #[must_use]
    pub fn arbiters(mut self, count: NonZeroUsize) -> Self {
        self.arbiters = count;
        self
    }

    /// Sets the reaction to an actor that has used up its restart budget; by default the process exits.
    #[must_use]
    pub fn on_fatal(mut self, on_fatal: impl Fn(Fatal) + Send + Sync + 'static) -> Self {
        self.on_fatal = Arc::new(on_fatal);
        self
    }

    /// Another table than Trireme's, for tests of actors that are not in it.
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = topology;
        self
    }

    /// Starts the threads. To be called inside [`run_system`](crate::run_system).
    pub fn build(self) -> io::Result<ActorSystem> {
        let tasks = Tasks::new(tokio::runtime::Handle::current(), self.clock.clone());
        Ok(ActorSystem(Arc::new(Inner {
            arbiters: Arbiters::start(self.arbiters)?,
            edges: self
                .topology
                .entries()
                .iter()
                .map(|entry| Arc::new(Edges::new(entry)))
                .collect(),
            topology: self.topology,
            clock: self.clock,
            tasks,
            detached: TaskTracker::new(),
            on_fatal: self.on_fatal,
            actors: Mutex::new(Roster::default()),
        })))
    }
}

impl ActorSystem {
    /// A system with Trireme's topology and the machine's clock.
    pub fn builder() -> ActorSystemBuilder {
        ActorSystemBuilder {
            topology: Topology::trireme(),
            clock: Clock::system(),
            arbiters: DEFAULT_ARBITERS,
            on_fatal: Arc::new(exit_process),
        }
    }

    /// Spawns a supervised actor: `factory` makes every instance of it, on its arbiter. `instance` distinguishes it from others
    /// of its kind and is empty if there is but one.
    pub fn spawn<A: Actor>(
        &self,
        instance: impl Into<String>,
        factory: impl Fn() -> A + Send + Sync + 'static,
    ) -> Result<Owned<A>, SpawnError> {
        let inner = &self.0;
        let entry = inner
            .topology
            .entry(A::KIND)
            .ok_or(SpawnError::NotInTopology(A::KIND))?;
        let instance = instance.into();
        let arbiter = inner.arbiters.place(entry.placement, &instance);
        let arbiter = arbiter.map_err(|error| SpawnError::Thread(error.to_string()))?;
        let edges = inner.edges.iter().find(|edges| edges.kind() == A::KIND);
        let edges = edges.map_or_else(|| Arc::new(Edges::new(entry)), Arc::clone);
        let vitals = Arc::new(Vitals::new(entry, edges, instance, inner.clock.clone()));
        let shared = Arc::new(ActorShared {
            vitals,
            address: ArcSwapOption::empty(),
            lives: watch::Sender::new(0),
        });
        inner.enlist(Arc::clone(&shared) as Arc<dyn AnyActor>)?;
        let parent = Parent {
            shared: Arc::clone(&shared),
            factory: Arc::new(factory),
            arbiter,
            detached: inner.detached.clone(),
            on_fatal: Arc::clone(&inner.on_fatal),
        };
        let watching = parent.start();
        let (name, gone) = (shared.vitals.name(), Delist::new(inner, &shared));
        inner
            .tasks
            .spawn_graceful(format!("supervise/{name}"), move |_| async move {
                let _gone = gone;
                watching.await;
            });
        Ok(Owned { shared })
    }

    /// The named tasks.
    pub fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The table.
    pub fn topology(&self) -> &Topology {
        &self.0.topology
    }

    /// All actors at this moment, by kind and instance.
    pub fn snapshot(&self) -> Vec<ActorSnapshot> {
        let mut actors: Vec<_> = self
            .0
            .roster()
            .members
            .iter()
            .map(|member| member.vitals().snapshot())
            .collect();
        actors.sort_by(|a, b| (a.kind, &a.instance).cmp(&(b.kind, &b.instance)));
        actors
    }

    /// The edges of the topology into the actors of a room.
    pub(crate) fn edges_into(&self, room: &str) -> impl Iterator<Item = &Edges> {
        self.0
            .edges
            .iter()
            .map(Arc::as_ref)
            .filter(move |edges| edges.room() == room)
    }

    /// The tasks of declared timers of a room's actors: of those that are alive.
    pub(crate) fn declared_timers(&self, room: &str) -> Vec<String> {
        let roster = self.0.roster();
        let members = roster
            .members
            .iter()
            .filter(|member| member.vitals().entry.owner == room);
        let timers = members.flat_map(|member| {
            let timers = member.vitals().entry.timers.iter();
            timers
                .map(|timer| member.vitals().timer_task(timer.name))
                .collect::<Vec<_>>()
        });
        timers.collect()
    }

    /// Stops all actors, highest rank first so that no actor is asked by a running one after its own end; then the tasks,
    /// then the threads. Each step has `patience` of the machine's time.
    pub async fn shutdown(&self, patience: Duration) -> Leaked {
        let mut members = {
            let mut roster = self.0.roster();
            roster.closed = true;
            roster.members.clone()
        };
        members.sort_by_key(|member| std::cmp::Reverse(member.vitals().entry.rank));
        let mut leaked = Leaked::default();
        for member in members {
            member.stop();
            if tokio::time::timeout(patience, member.vitals().gone.cancelled())
                .await
                .is_err()
            {
                leaked.actors.push(member.vitals().name());
            }
        }
        self.0.detached.close();
        if tokio::time::timeout(patience, self.0.detached.wait()).await.is_err() {
            leaked.detached = self.0.detached.len();
        }
        leaked.tasks = self.0.tasks.shutdown(patience).await;
        if leaked.actors.is_empty() {
            // A thread in a turn that never ends cannot be joined.
            let inner = Arc::clone(&self.0);
            let joined = tokio::task::spawn_blocking(move || inner.arbiters.stop_blocking());
            let _ = tokio::time::timeout(patience, joined).await;
        }
        leaked
    }
}

impl Inner {
    fn roster(&self) -> MutexGuard<'_, Roster> {
        // The roster is whole at any time; a panic of another holder does not change that.
        self.actors.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn enlist(&self, member: Arc<dyn AnyActor>) -> Result<(), SpawnError> {
        let mut roster = self.roster();
        if roster.closed {
            return Err(SpawnError::ShuttingDown);
        }
        let name = member.vitals().name();
        // A caller that waited for an actor's end may take its place before its parent has struck it off.
        roster.members.retain(|other| !other.vitals().gone.is_cancelled());
        if roster.members.iter().any(|other| other.vitals().name() == name) {
            return Err(SpawnError::Duplicate(name));
        }
        roster.members.push(member);
        Ok(())
    }
}

/// Takes an actor off the roster when its parent ends.
struct Delist {
    system: Weak<Inner>,
    vitals: Arc<Vitals>,
}

impl Delist {
    fn new<A: Actor>(system: &Arc<Inner>, shared: &ActorShared<A>) -> Self {
        Self {
            system: Arc::downgrade(system),
            vitals: Arc::clone(&shared.vitals),
        }
    }
}

impl Drop for Delist {
    fn drop(&mut self) {
        if let Some(system) = self.system.upgrade() {
            system
                .roster()
                .members
                .retain(|member| !std::ptr::eq(member.vitals(), &*self.vitals));
        }
    }
}

fn exit_process(fatal: Fatal) {
    eprintln!("trireme: fatal: {fatal}");
    std::process::exit(1);
}
