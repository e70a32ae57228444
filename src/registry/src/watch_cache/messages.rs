//! Messages of a watch cache.

use std::sync::Arc;

use tokio::sync::broadcast;
use trireme_actors::Message;
use trireme_storage::Revision;

use super::{
    index::ItemIndex,
    logic::{CacheChange, CacheSnapshot},
    topics::Topic,
};
use crate::event::LogEvent;

/// Whole revisions of changes, in order.
pub(super) struct Apply {
    pub(super) changes: Vec<CacheChange>,
    pub(super) revision: Revision,
}

impl Message for Apply {
    type Reply = ();
}

/// The whole state as of a revision, after which nothing is missing.
pub(super) struct Replace {
    pub(super) index: ItemIndex,
    pub(super) revision: Revision,
}

impl Message for Replace {
    type Reply = ();
}

/// Subscribes to a topic.
pub(super) struct Subscribe(pub(super) Topic);

impl Message for Subscribe {
    type Reply = Subscription;
}

/// A place from which nothing is missed: all events after `snapshot` that concern the topic arrive in `events`.
pub(crate) struct Subscription {
    pub(crate) snapshot: Arc<CacheSnapshot>,
    pub(crate) events: broadcast::Receiver<Arc<LogEvent>>,
}

/// Old history may go.
pub(super) struct TrimLog;

impl Message for TrimLog {
    type Reply = ();
}

/// The reload that a rebuilt cache asked for has been queued, or failed.
pub(super) struct ReloadAsked(pub(super) Result<(), String>);

impl Message for ReloadAsked {
    type Reply = ();
}

/// Ends the topics: the resource is served by another definition.
pub(super) struct CloseTopics;

impl Message for CloseTopics {
    type Reply = ();
}

/// Ends the instance by a panic, as a bug would.
#[cfg(test)]
pub(super) struct Crash;

#[cfg(test)]
impl Message for Crash {
    type Reply = ();
}
