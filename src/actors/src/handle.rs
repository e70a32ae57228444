//! Handles: the only public face of an actor.
//!
//! [`Owned`] stays with the spawner of the actor and gives out the others along the edges of the topology: a
//! [`Handle`] asks and tells, [`Notes`] only tells. Rooms wrap them in types of their own, with a method a message.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::actor::{Actor, Receive};
use crate::message::{AskError, Message, NoteError, Reply, Ticket};
use crate::shared::ActorShared;
use crate::tasks::{TaskHandle, Tasks};
use crate::topology::{CallKind, Caller, TopologyError};
use crate::vitals::ActorSnapshot;

/// One of an actor's permits, held for longer than one message: for work that the actor orders but does not do itself.
/// It is free again when this is dropped.
#[must_use = "dropping a permit frees it"]
pub struct Permit<A: Actor> {
    _held: OwnedSemaphorePermit,
    actor: PhantomData<fn(A)>,
}

/// The right to ask an actor. Cheap to clone.
pub struct Handle<A: Actor> {
    shared: Arc<ActorShared<A>>,
    /// The caller's number among the edges into the actor.
    edge: usize,
}

/// The right to send notes to an actor. Cheap to clone.
pub struct Notes<A: Actor> {
    shared: Arc<ActorShared<A>>,
    edge: usize,
}

/// The actor as its owner holds it. Dropping it does not stop the actor.
pub struct Owned<A: Actor> {
    pub(crate) shared: Arc<ActorShared<A>>,
}

impl<A: Actor> Clone for Handle<A> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            edge: self.edge,
        }
    }
}

impl<A: Actor> Clone for Notes<A> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            edge: self.edge,
        }
    }
}

impl<A: Actor> Handle<A> {
    /// Asks and waits for the reply.
    pub async fn ask<M>(&self, message: M) -> Result<M::Reply, AskError>
    where
        A: Receive<M>,
        M: Message,
    {
        let ticket = self.send(message, None)?;
        self.reply(ticket, None).await
    }

    /// Asks and waits for the reply until `deadline`, which the actor sees too.
    pub async fn ask_until<M>(&self, message: M, deadline: Instant) -> Result<M::Reply, AskError>
    where
        A: Receive<M>,
        M: Message,
    {
        let ticket = self.send(message, Some(deadline))?;
        self.reply(ticket, Some(deadline)).await
    }

    /// Takes a permit for work that needs more than one message.
    ///
    /// # Errors
    /// [`AskError::Overloaded`] if every permit is in use.
    pub fn permit(&self) -> Result<Permit<A>, AskError> {
        Ok(Permit {
            _held: self.shared.admit()?,
            actor: PhantomData,
        })
    }

    /// Asks as part of the work that a permit was taken for, so that the message needs none of its own, and waits for the
    /// reply, up to `deadline` if there is one.
    pub async fn ask_within<M>(
        &self,
        _permit: &Permit<A>,
        message: M,
        deadline: Option<Instant>,
    ) -> Result<M::Reply, AskError>
    where
        A: Receive<M>,
        M: Message,
    {
        self.shared.vitals.edges.record(self.edge, CallKind::Ask);
        let (reply, ticket) = Reply::awaited(None, deadline);
        self.shared.enqueue(message, reply)?;
        self.reply(ticket, deadline).await
    }

    /// The right to send notes only.
    pub fn notes(&self) -> Notes<A> {
        Notes {
            shared: Arc::clone(&self.shared),
            edge: self.edge,
        }
    }

    /// Sends a note; a permit is held until it has been handled.
    pub fn tell<M>(&self, message: M) -> Result<(), NoteError>
    where
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        self.shared.vitals.edges.record(self.edge, CallKind::Note);
        tell(&self.shared, message)
    }

    /// The actor as `/debug/actors` shows it.
    pub fn snapshot(&self) -> ActorSnapshot {
        self.shared.vitals.snapshot()
    }

    /// The number of the present instance, 1 for the first; changes when the actor was rebuilt.
    pub fn lives(&self) -> watch::Receiver<u64> {
        self.shared.lives.subscribe()
    }

    fn send<M>(&self, message: M, deadline: Option<Instant>) -> Result<Ticket<M::Reply>, AskError>
    where
        A: Receive<M>,
        M: Message,
    {
        self.shared.vitals.edges.record(self.edge, CallKind::Ask);
        let permit = self.shared.admit()?;
        let (reply, ticket) = Reply::awaited(Some(permit), deadline);
        self.shared.enqueue(message, reply)?;
        Ok(ticket)
    }

    async fn reply<R: Send>(&self, mut ticket: Ticket<R>, deadline: Option<Instant>) -> Result<R, AskError> {
        let reply = match deadline {
            None => ticket.reply().await,
            Some(deadline) => match self.shared.vitals.clock.timeout_at(deadline, ticket.reply()).await {
                Some(reply) => reply,
                None => {
                    return Err(AskError::Deadline {
                        taken: ticket.abandon(),
                    });
                }
            },
        };
        reply.ok_or_else(|| self.shared.lost(&ticket))
    }
}

impl<A: Actor> Notes<A> {
    /// Sends a note; a permit is held until it has been handled.
    pub fn tell<M>(&self, message: M) -> Result<(), NoteError>
    where
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        self.shared.vitals.edges.record(self.edge, CallKind::Note);
        tell(&self.shared, message)
    }

    /// Waits for a permit and sends a note, in the order of the calls: for a stream that must lose nothing and can be
    /// held back. A request never waits like this; it is answered [`NoteError::Overloaded`].
    pub async fn deliver<M>(&self, message: M) -> Result<(), NoteError>
    where
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        self.shared.vitals.edges.record(self.edge, CallKind::Note);
        let permits = Arc::clone(&self.shared.vitals.permits);
        let permit = permits.acquire_owned().await.map_err(|_| NoteError::Stopped)?;
        self.shared.enqueue(message, Reply::unawaited(Some(permit)))
    }

    /// Makes the function that a timer calls at each tick, see [`Owned::start_timer`]. A timer has a place of its own in
    /// front of the mailbox, so a flood cannot starve it; a tick that finds the last one still waiting merges with it.
    pub(crate) fn ticker<M>(&self, tick: impl Fn() -> M + Send + 'static) -> impl FnMut() + Send + 'static
    where
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        let shared = Arc::clone(&self.shared);
        let place = Arc::new(Semaphore::new(1));
        move || {
            if let Ok(permit) = Arc::clone(&place).try_acquire_owned() {
                // While the actor is rebuilt a tick is lost; the next one comes.
                let _ = shared.enqueue(tick(), Reply::unawaited(Some(permit)));
            }
        }
    }

    /// The number of the present instance, 1 for the first; changes when the actor was rebuilt.
    pub fn lives(&self) -> watch::Receiver<u64> {
        self.shared.lives.subscribe()
    }
}

impl<A: Actor> Owned<A> {
    /// A handle for `caller`, if the topology lets it ask.
    pub fn for_caller(&self, caller: impl Into<Caller>) -> Result<Handle<A>, TopologyError> {
        let caller = caller.into();
        self.shared.vitals.entry.check_ask(caller)?;
        Ok(Handle {
            shared: Arc::clone(&self.shared),
            edge: self.shared.vitals.edges.number(caller),
        })
    }

    /// A way for `caller` to send notes, if the topology lets it.
    pub fn notes_for(&self, caller: impl Into<Caller>) -> Result<Notes<A>, TopologyError> {
        let caller = caller.into();
        self.shared.vitals.entry.check_note(caller)?;
        Ok(Notes {
            shared: Arc::clone(&self.shared),
            edge: self.shared.vitals.edges.number(caller),
        })
    }

    /// Starts a timer that the topology declares, in a task `<timer>/<instance>`: the actor gets a note every period.
    ///
    /// # Errors
    /// If the topology does not declare it.
    pub fn start_timer<M>(
        &self,
        tasks: &Tasks,
        name: &'static str,
        tick: impl Fn() -> M + Send + 'static,
    ) -> Result<TaskHandle, TopologyError>
    where
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        let vitals = &self.shared.vitals;
        let timer = vitals.entry.timer(name)?;
        let notes = Notes {
            shared: Arc::clone(&self.shared),
            // A timer is no edge: it belongs to the actor.
            edge: usize::MAX,
        };
        Ok(tasks.every(vitals.timer_task(name), timer.period, notes.ticker(tick)))
    }

    /// Stops the actor for good, after what it has in its mailbox. Does not wait for it.
    pub fn begin_stop(&self) {
        self.shared.stop();
    }

    /// Stops the actor for good, after what it has in its mailbox. Waits until it is gone.
    pub async fn stop(&self) {
        self.begin_stop();
        self.shared.vitals.gone.cancelled().await;
    }

    /// The actor as `/debug/actors` shows it.
    pub fn snapshot(&self) -> ActorSnapshot {
        self.shared.vitals.snapshot()
    }
}

fn tell<A, M>(shared: &ActorShared<A>, message: M) -> Result<(), NoteError>
where
    A: Receive<M>,
    M: Message<Reply = ()>,
{
    let permit = shared.admit()?;
    shared.enqueue(message, Reply::unawaited(Some(permit)))
}
