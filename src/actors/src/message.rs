//! Messages, replies and the errors of not getting one.
//!
//! A reply may be sent in the turn that took the message or later, by the holder of the [`Reply`]. The permit that
//! admitted the message is tied to it: while a reply is owed the message counts against the actor's bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// A message that an actor can be sent as an ask or as a note. `Reply = ()` makes it fit for [`Notes::tell`](crate::Notes::tell)
/// too.
pub trait Message: Send + 'static {
    /// The reply of the actor.
    type Reply: Send + 'static;
}

/// Why an ask brought no reply.
///
/// `taken` says whether a turn had begun to work on the message. If not, it surely had no effect and never will; if so,
/// the effect is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Every permit of the actor is in use; try again later.
    #[error("the actor is overloaded")]
    Overloaded,
    /// The actor died while it had the message, or is being rebuilt.
    #[error("the actor is restarting")]
    Restarting {
        /// True if a turn had begun to work on the message.
        taken: bool,
    },
    /// The deadline came before the reply.
    #[error("the actor did not reply before the deadline")]
    Deadline {
        /// True if a turn had begun to work on the message.
        taken: bool,
    },
    /// The actor was stopped for good.
    #[error("the actor is stopped")]
    Stopped {
        /// True if a turn had begun to work on the message.
        taken: bool,
    },
}

impl AskError {
    /// True if the message had no effect and never will have one.
    pub fn is_surely_undone(&self) -> bool {
        match self {
            Self::Overloaded => true,
            Self::Restarting { taken } | Self::Deadline { taken } | Self::Stopped { taken } => !taken,
        }
    }
}

/// Why a note was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// Every permit of the actor is in use; try again later.
    #[error("the actor is overloaded")]
    Overloaded,
    /// The actor is being rebuilt.
    #[error("the actor is restarting")]
    Restarting,
    /// The actor was stopped for good.
    #[error("the actor is stopped")]
    Stopped,
}

impl From<NoteError> for AskError {
    fn from(error: NoteError) -> Self {
        match error {
            NoteError::Overloaded => Self::Overloaded,
            NoteError::Restarting => Self::Restarting { taken: false },
            NoteError::Stopped => Self::Stopped { taken: false },
        }
    }
}

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const ABANDONED: u8 = 2;

/// The race between the turn that takes the message and the asker that leaves. Exactly one of them wins, which is what
/// makes `taken: false` a promise.
#[derive(Debug, Default)]
struct AskProgress(AtomicU8);

impl AskProgress {
    fn take(&self) -> bool {
        self.leave_waiting(TAKEN).is_ok()
    }

    /// Returns whether the message had been taken before.
    fn abandon(&self) -> bool {
        self.leave_waiting(ABANDONED) == Err(TAKEN)
    }

    fn leave_waiting(&self, to: u8) -> Result<u8, u8> {
        self.0
            .compare_exchange(WAITING, to, Ordering::AcqRel, Ordering::Acquire)
    }
}

/// The right and duty to answer one message. Dropping it unanswered gives the asker the error that the actor lost the message.
#[derive(Debug)]
#[must_use = "dropping a reply gives the asker an error"]
pub struct Reply<R> {
    asker: Option<ReplyChannel<R>>,
    permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
struct ReplyChannel<R> {
    sender: oneshot::Sender<R>,
    progress: Arc<AskProgress>,
    deadline: Option<Instant>,
}

impl<R> Reply<R> {
    /// A reply that `Ticket` waits for.
    pub(crate) fn awaited(permit: Option<OwnedSemaphorePermit>, deadline: Option<Instant>) -> (Self, Ticket<R>) {
        let (sender, receiver) = oneshot::channel();
        let progress = Arc::new(AskProgress::default());
        let asker = ReplyChannel {
            sender,
            progress: Arc::clone(&progress),
            deadline,
        };
        (
            Self {
                asker: Some(asker),
                permit,
            },
            Ticket { receiver, progress },
        )
    }

    /// A reply without a receiver; it only holds the permit, if the note needed one.
    pub(crate) fn unawaited(permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { asker: None, permit }
    }

    /// Answers. The permit is free before the asker wakes, so that an asker's next message finds it.
    pub fn send(mut self, reply: R) {
        drop(self.permit.take());
        if let Some(asker) = self.asker.take() {
            // An asker that has left by now does not want the reply.
            let _ = asker.sender.send(reply);
        }
    }

    /// True if the asker has left: work that only serves its reply may be skipped.
    pub fn is_abandoned(&self) -> bool {
        self.asker.as_ref().is_some_and(|asker| asker.sender.is_closed())
    }

    /// The deadline of the asker, to be passed on to I/O.
    pub fn deadline(&self) -> Option<Instant> {
        self.asker.as_ref().and_then(|asker| asker.deadline)
    }

    /// Claims the message for a turn; false if the asker has left before.
    pub(crate) fn take(&self) -> bool {
        self.asker.as_ref().is_none_or(|asker| asker.progress.take())
    }
}

/// The asker's half of a [`Reply`].
#[derive(Debug)]
pub(crate) struct Ticket<R> {
    receiver: oneshot::Receiver<R>,
    progress: Arc<AskProgress>,
}

impl<R> Ticket<R> {
    /// The reply, or `None` if the actor dropped it.
    pub(crate) async fn reply(&mut self) -> Option<R> {
        (&mut self.receiver).await.ok()
    }

    /// Gives the message up and returns whether a turn had begun to work on it.
    pub(crate) fn abandon(&self) -> bool {
        self.progress.abandon()
    }
}

impl<R> Drop for Ticket<R> {
    fn drop(&mut self) {
        self.progress.abandon();
    }
}
