//! The actor that reads for those who wait together.

use std::sync::Arc;

use futures_util::FutureExt as _;
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
        let reading = async move { RoundAnswered(Latest::of(&*store).await) };
        turn.detach(reading.boxed(), |answered| {
            answered.unwrap_or_else(|lost| {
                let outcome = Err(StorageError::Failed(lost.to_string()));
                RoundAnswered(Latest::new(outcome, false))
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
    fn receive(&mut self, RoundAnswered(latest): RoundAnswered, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        self.shared.end(latest);
        self.look(turn);
    }
}
