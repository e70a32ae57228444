//! The way to the present instance of an actor, for its handles and its supervisor.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError, watch};

use crate::actor::{Actor, MessageEnvelope, Receive, Shell, post, post_stop};
use crate::message::{AskError, Message, NoteError, Reply, Ticket};
use crate::vitals::{ActorState, Vitals};

/// The state that all handles of one actor share; outlives its instances.
pub(crate) struct ActorShared<A: Actor> {
    pub(crate) vitals: Arc<Vitals>,
    /// The mailbox of the present instance.
    pub(crate) address: ArcSwapOption<actix::Addr<Shell<A>>>,
    /// Counts the instances, 1 for the first.
    pub(crate) lives: watch::Sender<u64>,
}

impl<A: Actor> ActorShared<A> {
    /// Takes a permit without waiting for one.
    pub(crate) fn admit(&self) -> Result<OwnedSemaphorePermit, NoteError> {
        match Arc::clone(&self.vitals.permits).try_acquire_owned() {
            Ok(permit) => Ok(permit),
            Err(TryAcquireError::Closed) => Err(NoteError::Stopped),
            Err(TryAcquireError::NoPermits) => {
                self.vitals.refused();
                Err(NoteError::Overloaded)
            }
        }
    }

    pub(crate) fn enqueue<M>(&self, message: M, reply: Reply<M::Reply>) -> Result<(), NoteError>
    where
        A: Receive<M>,
        M: Message,
    {
        if self.vitals.is_ending() {
            return Err(NoteError::Stopped);
        }
        match (self.vitals.state(), self.address.load().as_deref()) {
            (ActorState::Running, Some(address)) => {
                post(address, MessageEnvelope::new(message, reply, &self.vitals));
                Ok(())
            }
            _ => Err(NoteError::Restarting),
        }
    }

    pub(crate) fn lost(&self, ticket: &Ticket<impl Send>) -> AskError {
        let taken = ticket.abandon();
        if self.vitals.is_ending() {
            AskError::Stopped { taken }
        } else {
            AskError::Restarting { taken }
        }
    }

    /// Asks the present instance to end after what it has in its mailbox.
    pub(crate) fn stop(&self) {
        self.vitals.stopping.cancel();
        if let Some(address) = self.address.load().as_deref() {
            post_stop(address);
        }
    }
}
