//! The actix actor around a room's actor: it takes envelopes, measures turns, catches panics and notifies the supervisor.
//!
//! Private to this crate. A panic does not unwind through actix: its context polls itself again while it is dropped,
//! and a second panic in there would abort the process. The shell catches it, drops the state and terminates.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use actix::{ActorContext as _, AsyncContext as _, WrapFuture as _};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;
use tracing::Span;

use super::{Actor, InstanceLife, Receive, Turn};
use crate::edges::in_turn_of;
use crate::message::{Message, Reply};
use crate::restart::panic_text;
use crate::vitals::{Queued, Vitals};

/// The number of turns that an actor takes before its neighbours on the arbiter get theirs: actix drains a mailbox without ever
/// yielding. At tens of microseconds a turn this is a millisecond or two.
const TURNS_BEFORE_YIELD: u32 = 32;

/// A message on its way.
pub(crate) struct MessageEnvelope<M: Message> {
    message: M,
    reply: Reply<M::Reply>,
    queued: Queued,
    span: Span,
}

impl<M: Message> MessageEnvelope<M> {
    pub(crate) fn new(message: M, reply: Reply<M::Reply>, vitals: &Arc<Vitals>) -> Self {
        Self {
            message,
            reply,
            queued: vitals.enqueue(),
            span: Span::current(),
        }
    }
}

impl<M: Message> actix::Message for MessageEnvelope<M> {
    type Result = ();
}

/// The last message: what came before it is still handled.
struct StopMessage;

impl actix::Message for StopMessage {
    type Result = ();
}

/// Puts a message into a mailbox. The bound is the permit in front of it, so actix's own limit is left aside.
#[expect(clippy::disallowed_methods, reason = "the permit in front is the bound")]
pub(crate) fn post<A, M>(address: &actix::Addr<Shell<A>>, envelope: MessageEnvelope<M>)
where
    A: Receive<M>,
    M: Message,
{
    address.do_send(envelope);
}

/// Ends an instance after what it has in its mailbox.
#[expect(clippy::disallowed_methods, reason = "one message in an actor's life needs no bound")]
pub(crate) fn post_stop<A: Actor>(address: &actix::Addr<Shell<A>>) {
    address.do_send(StopMessage);
}

/// Notifies the supervisor that an instance has ended, however that came about.
pub(crate) struct ExitGuard {
    exits: mpsc::UnboundedSender<String>,
    vitals: Arc<Vitals>,
    cause: Option<String>,
    _ended: DropGuard,
}

impl ExitGuard {
    pub(crate) fn new(exits: mpsc::UnboundedSender<String>, life: &InstanceLife) -> Self {
        Self {
            exits,
            vitals: Arc::clone(&life.vitals),
            cause: None,
            _ended: life.ended.clone().drop_guard(),
        }
    }
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        let cause = self
            .cause
            .take()
            .unwrap_or_else(|| "its context was dropped".to_owned());
        self.vitals.died(&cause);
        // Without a supervisor the whole system is being torn down.
        let _ = self.exits.send(cause);
    }
}

/// One instance of an actor.
pub(crate) struct Shell<A: Actor> {
    actor: Option<A>,
    life: InstanceLife,
    guard: ExitGuard,
    turns: u32,
}

impl<A: Actor> Shell<A> {
    /// Runs the factory; a panic in it counts as the death of the instance.
    pub(crate) fn build(factory: &dyn Fn() -> A, life: InstanceLife, mut guard: ExitGuard) -> Self {
        let actor = catch_unwind(AssertUnwindSafe(factory));
        if let Err(panic) = &actor {
            guard.cause = Some(format!("its factory panicked: {}", panic_text(&**panic)));
        }
        Self {
            actor: actor.ok(),
            life,
            guard,
            turns: 0,
        }
    }

    /// Lets the actor take a turn, and ends the instance if that fails.
    fn turn(&mut self, context: &mut actix::Context<Self>, turn: impl FnOnce(&mut A, &mut Turn<'_, A>)) {
        let Some(actor) = self.actor.as_mut() else { return };
        let mut state = Turn {
            context,
            life: &self.life,
            failure: None,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| in_turn_of(A::KIND, || turn(actor, &mut state))));
        let failure = match outcome {
            Ok(()) => state.failure,
            Err(panic) => Some(format!("it panicked: {}", panic_text(&*panic))),
        };
        if let Some(cause) = failure {
            self.end(cause);
            context.terminate();
        }
    }

    fn end(&mut self, cause: String) {
        self.life.vitals.died(&cause);
        self.guard.cause = Some(cause);
        let actor = self.actor.take();
        // The state may be broken in a way that its own drop trips over; that changes nothing any more.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(actor)));
    }
}

impl<A: Actor> actix::Actor for Shell<A> {
    type Context = actix::Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        if self.actor.is_none() {
            context.terminate();
            return;
        }
        self.turn(context, |actor, turn| actor.started(turn));
    }
}

impl<A, M> actix::Handler<MessageEnvelope<M>> for Shell<A>
where
    A: Receive<M>,
    M: Message,
{
    type Result = ();

    fn handle(&mut self, envelope: MessageEnvelope<M>, context: &mut Self::Context) {
        let MessageEnvelope {
            message,
            reply,
            queued,
            span,
        } = envelope;
        // An asker that has left gets no work done: its deadline has said "surely not".
        if !reply.take() {
            return;
        }
        let timer = self.life.vitals.turn(queued);
        self.turn(context, |actor, turn| {
            span.in_scope(|| actor.receive(message, reply, turn))
        });
        drop(timer);
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS_BEFORE_YIELD) {
            context.wait(tokio::task::yield_now().into_actor(self));
        }
    }
}

impl<A: Actor> actix::Handler<StopMessage> for Shell<A> {
    type Result = ();

    fn handle(&mut self, _: StopMessage, context: &mut Self::Context) {
        self.turn(context, |actor, _| actor.stopping());
        if self.actor.is_some() {
            self.end("it was stopped".to_owned());
            context.terminate();
        }
    }
}
