//! The actor that keeps one quorum read under way at most.

use std::{pin::pin, sync::Arc};

use futures_util::{FutureExt as _, future::poll_immediate};
use trireme_actors::{Actor, ActorKind, Receive, Reply, Turn};
use trireme_storage::{Storage, StorageError};

use super::{
    handle::{Latest, ReadIndexShared},
    messages::{Look, RoundAnswered},
};

/// Asks the store how far it is, once for all who wait.
pub(super) struct ReadIndex {
    store: Arc<dyn Storage>,
    shared: Arc<ReadIndexShared>,
}

impl ReadIndex {
    pub(super) fn new(store: Arc<dyn Storage>, shared: Arc<ReadIndexShared>) -> Self {
        Self { store, shared }
    }

    fn look(&self, turn: &mut Turn<'_, Self>) {
        if !self.shared.begin() {
            return;
        }
        let store = self.store.clone();
        let reading = async move {
            let mut read = pin!(store.read_index());
            match poll_immediate(&mut read).await {
                Some(outcome) => RoundAnswered {
                    outcome,
                    immediate: true,
                },
                None => RoundAnswered {
                    outcome: read.await,
                    immediate: false,
                },
            }
        };
        turn.detach(reading.boxed(), |answered| {
            answered.unwrap_or_else(|lost| RoundAnswered {
                outcome: Err(StorageError::Failed(lost.to_string())),
                immediate: false,
            })
        });
    }
}

impl Actor for ReadIndex {
    const KIND: ActorKind = ActorKind::READ_INDEX;

    fn started(&mut self, turn: &mut Turn<'_, Self>) {
        // The answer to a round of an earlier instance is lost.
        self.shared.abandon();
        self.look(turn);
    }
}

impl Receive<Look> for ReadIndex {
    fn receive(&mut self, _: Look, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        self.look(turn);
    }
}

impl Receive<RoundAnswered> for ReadIndex {
    fn receive(&mut self, answered: RoundAnswered, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        self.shared.end(Latest::new(answered.outcome, answered.immediate));
        self.look(turn);
    }
}
