//! Waits of those who read documents for the resources that definitions in a cache ask for.

use std::time::Duration;

use tokio::sync::watch;
use trireme_storage::Revision;

use crate::reads::Reader;

/// The time within which the surface shows a definition; a document without it is answered after that.
const SHOWN_WITHIN: Duration = Duration::from_secs(1);

/// Objects that define resources, and the revision up to which the surface shows them.
pub(super) struct DefinedResources {
    pub(super) definitions: Reader,
    /// Negative before anything is loaded.
    pub(super) shown: watch::Receiver<Revision>,
}

impl DefinedResources {
    /// Waits until the surface shows what a client could have read of the definitions before.
    pub(super) async fn settle(&self) {
        let Some(newest) = self.definitions.last_change_if_ready() else {
            return;
        };
        let mut shown = self.shown.clone();
        let revision = *shown.borrow();
        if revision < 0 || revision >= newest {
            return;
        }
        let clock = self.definitions.clock();
        let is_shown = shown.wait_for(|revision| *revision >= newest);
        let _ = clock.timeout_at(clock.now() + SHOWN_WITHIN, is_shown).await;
    }
}
