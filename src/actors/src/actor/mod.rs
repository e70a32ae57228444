//! The traits of a room's actors: an [`Actor`] with one [`Receive`] per message, and the means of a turn: [`Turn`].
//!
//! A turn is synchronous and short. What takes longer than about half a millisecond is started by [`Turn::detach`] (I/O)
//! or [`Turn::offload`] (computing), and comes back as a message in a turn of its own. Between two turns the state
//! stands still. What is detached runs on the actor's thread; I/O that holds a thread up needs an actor with
//! [`Placement::OwnThread`](crate::topology::Placement::OwnThread).

mod shell;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use actix::AsyncContext as _;
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::clock::Clock;
use crate::edges::detached_by;
use crate::message::{Message, Reply};
use crate::restart::panic_text;
use crate::topology::ActorKind;
use crate::vitals::Vitals;

pub(crate) use shell::{ExitGuard, MessageEnvelope, Shell, post, post_stop};

/// The state of an actor. It is made by a factory on its arbiter and never leaves it, so it need not be `Send`.
pub trait Actor: Sized + Unpin + 'static {
    /// The row of the topology table.
    const KIND: ActorKind;

    /// The first turn of a fresh instance: start loading state here.
    fn started(&mut self, turn: &mut Turn<'_, Self>) {
        let _ = turn;
    }

    /// The last turn of an instance that is stopped for good; not called when it panicked.
    fn stopping(&mut self) {}
}

/// Handling of one kind of message by an actor.
pub trait Receive<M: Message>: Actor {
    /// One turn. The reply may be sent now or kept and sent later.
    fn receive(&mut self, message: M, reply: Reply<M::Reply>, turn: &mut Turn<'_, Self>);
}

/// A detached task brought no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the task panicked: {0}")]
pub struct Lost(
    /// The text of the panic.
    pub String,
);

/// The instance that a [`Myself`] belonged to is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the actor instance has ended")]
pub struct Gone;

/// The means of an actor during a turn.
pub struct Turn<'a, A: Actor> {
    pub(crate) context: &'a mut actix::Context<Shell<A>>,
    pub(crate) life: &'a InstanceLife,
    pub(crate) failure: Option<String>,
}

/// State of one instance that ends with it.
#[derive(Clone)]
pub(crate) struct InstanceLife {
    pub(crate) vitals: Arc<Vitals>,
    pub(crate) ended: CancellationToken,
    pub(crate) detached: tokio_util::task::TaskTracker,
}

impl<A: Actor> Turn<'_, A> {
    /// The time.
    pub fn now(&self) -> Instant {
        self.clock().now()
    }

    /// The clock, for tasks.
    pub fn clock(&self) -> &Clock {
        &self.life.vitals.clock
    }

    /// Which of its kind this actor is.
    pub fn instance(&self) -> &str {
        &self.life.vitals.instance
    }

    /// A way for this instance's own tasks to send to it.
    pub fn myself(&self) -> Myself<A> {
        Myself {
            address: self.context.address().downgrade(),
            life: self.life.clone(),
        }
    }

    /// Cancelled when this instance ends, by stop or by panic.
    pub fn ended(&self) -> CancellationToken {
        self.life.ended.clone()
    }

    /// Gives this instance up after the turn: it is rebuilt as after a panic. For state that cannot be trusted any more.
    pub fn fail(&mut self, cause: impl Into<String>) {
        self.failure = Some(cause.into());
    }

    /// Starts I/O. Its result comes back to this instance as a message, in a turn of its own; a later instance never
    /// sees it. The message takes no permit: the actor bounds what it starts, as a rule by the replies that it owes.
    pub fn detach<F, M>(&mut self, future: F, into: impl FnOnce(Result<F::Output, Lost>) -> M + 'static)
    where
        F: Future + 'static,
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        let myself = self.myself();
        let task = async move {
            let outcome = AssertUnwindSafe(future).catch_unwind().await;
            myself.return_result(into(outcome.map_err(|panic| Lost(panic_text(&*panic)))));
        };
        let task = self
            .life
            .detached
            .track_future(detached_by(A::KIND, task).instrument(tracing::Span::current()));
        actix_rt::spawn(task);
    }

    /// Computes on the pool of blocking threads. Its result comes back as with [`Turn::detach`].
    pub fn offload<T, M>(
        &mut self,
        compute: impl FnOnce() -> T + Send + 'static,
        into: impl FnOnce(Result<T, Lost>) -> M + 'static,
    ) where
        T: Send + 'static,
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        let span = tracing::Span::current();
        let computed = actix_rt::task::spawn_blocking(move || span.in_scope(compute));
        self.detach(computed, |outcome| {
            into(outcome.and_then(|joined| joined.map_err(|error| Lost(error.to_string()))))
        });
    }
}

/// One instance of an actor as its own tasks see it.
pub struct Myself<A: Actor> {
    address: actix::WeakAddr<Shell<A>>,
    life: InstanceLife,
}

impl<A: Actor> Clone for Myself<A> {
    fn clone(&self) -> Self {
        Self {
            address: self.address.clone(),
            life: self.life.clone(),
        }
    }
}

impl<A: Actor> Myself<A> {
    /// Waits for a permit and enqueues a note, in the order of the calls. Fails when the instance has ended, which is
    /// the signal for the task to end too.
    pub async fn deliver<M>(&self, message: M) -> Result<(), Gone>
    where
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        let permit = tokio::select! {
            permit = Arc::clone(&self.life.vitals.permits).acquire_owned() => permit.map_err(|_| Gone)?,
            () = self.life.ended.cancelled() => return Err(Gone),
        };
        self.post(message, Reply::unawaited(Some(permit)))
    }

    fn return_result<M>(&self, message: M)
    where
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        // The result of a dead instance's I/O is dropped: the next instance reloads from the store.
        let _ = self.post(message, Reply::unawaited(None));
    }

    fn post<M>(&self, message: M, reply: Reply<()>) -> Result<(), Gone>
    where
        A: Receive<M>,
        M: Message<Reply = ()>,
    {
        if self.life.ended.is_cancelled() {
            return Err(Gone);
        }
        let address = self.address.upgrade().ok_or(Gone)?;
        post(&address, MessageEnvelope::new(message, reply, &self.life.vitals));
        Ok(())
    }
}
