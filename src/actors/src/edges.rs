//! Records which declared edges of the topology are used, and who uses a handle that was given out in another's name,
//! so that a test can hold the table against what happens.
//!
//! One flag per declared edge of a kind, shared by all instances of the kind: a use costs a look at a task-local and a
//! load of a line that is written once.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::topology::{ActorKind, CallKind, Caller, TopologyRow};

/// A use of a handle: the caller, the actor that was called, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HandleUse {
    /// The holder of the handle.
    pub caller: Caller,
    /// The actor behind the handle.
    pub callee: ActorKind,
    /// Ask or note.
    pub verb: CallKind,
}

tokio::task_local! {
    /// The actor in whose turn or detached task this runs.
    static ACTOR: ActorKind;
}

/// Runs a turn of an actor.
pub(crate) fn in_turn_of<R>(kind: ActorKind, turn: impl FnOnce() -> R) -> R {
    ACTOR.sync_scope(kind, turn)
}

/// Runs a task that an actor has detached.
pub(crate) fn detached_by<F: Future>(kind: ActorKind, task: F) -> impl Future<Output = F::Output> {
    ACTOR.scope(kind, task)
}

/// The edges into one kind of actor.
#[derive(Debug)]
pub(crate) struct Edges {
    entry: &'static TopologyRow,
    used: Box<[(Caller, Used)]>,
    /// Uses of a handle by an actor that it was not given out to, under the name of the actor.
    misnamed: Mutex<BTreeSet<HandleUse>>,
}

#[derive(Debug, Default)]
struct Used {
    ask: AtomicBool,
    note: AtomicBool,
}

impl Edges {
    pub(crate) fn new(entry: &'static TopologyRow) -> Self {
        let callers = entry.asked_by.iter().chain(entry.noted_by);
        Self {
            entry,
            used: callers.map(|caller| (*caller, Used::default())).collect(),
            misnamed: Mutex::default(),
        }
    }

    /// The kind that these edges lead to.
    pub(crate) fn kind(&self) -> ActorKind {
        self.entry.kind
    }

    /// The room that owns the kind.
    pub(crate) fn room(&self) -> &'static str {
        self.entry.owner
    }

    /// The number of a caller, to be handed to [`record`](Self::record); callers without a declared edge have none.
    pub(crate) fn number(&self, caller: Caller) -> usize {
        let declared = self.used.iter().position(|(declared, _)| *declared == caller);
        declared.unwrap_or(usize::MAX)
    }

    pub(crate) fn record(&self, number: usize, verb: CallKind) {
        let Some((caller, used)) = self.used.get(number) else {
            return;
        };
        // A named task that an actor has spawned is not known to be its own: there the name of the handle counts.
        if let Ok(actor) = ACTOR.try_with(|actor| *actor)
            && *caller != Caller::Actor(actor)
        {
            let edge = self.edge(actor.into(), verb);
            self.misnamed
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(edge);
        }
        let flag = match verb {
            CallKind::Ask => &used.ask,
            CallKind::Note => &used.note,
        };
        if !flag.load(Ordering::Relaxed) {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// The edges that were used.
    pub(crate) fn used(&self) -> impl Iterator<Item = HandleUse> {
        self.used.iter().flat_map(|(caller, used)| {
            let verbs = [(CallKind::Ask, &used.ask), (CallKind::Note, &used.note)];
            let used = verbs.into_iter().filter(|(_, flag)| flag.load(Ordering::Relaxed));
            used.map(|(verb, _)| self.edge(*caller, verb))
        })
    }

    /// The uses of handles that were given out in another's name.
    pub(crate) fn misnamed(&self) -> BTreeSet<HandleUse> {
        self.misnamed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn edge(&self, caller: Caller, verb: CallKind) -> HandleUse {
        HandleUse {
            caller,
            callee: self.entry.kind,
            verb,
        }
    }

    /// The edges that are declared.
    pub(crate) fn declared(&self) -> impl Iterator<Item = HandleUse> {
        let asks = self
            .entry
            .asked_by
            .iter()
            .map(|caller| self.edge(*caller, CallKind::Ask));
        asks.chain(
            self.entry
                .noted_by
                .iter()
                .map(|caller| self.edge(*caller, CallKind::Note)),
        )
    }
}
