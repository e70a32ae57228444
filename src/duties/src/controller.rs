//! The interface between a duty and the loop that runs it.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{EventKind, Item, RegistryHandle, ResourceDefinition};

pub use crate::queue::QueueKey;
use crate::tenure::LeaseTenure;

/// A state of the cluster that a replica has to bring about and keep, object by object.
///
/// Level-triggered: [`run`](Self::run) looks at what is there under a key and changes what is not as it should be, so that
/// it does not matter how often it is called or what was missed in between. All that a key stands for must be found by
/// looking at the watched resources: every so often, and after a restart or when changes may have been missed, everything
/// that is there comes as a [`ObjectChange`] again.
pub trait Controller: Send + Sync + 'static {
    /// The key that is reconciled at a time.
    type Key: QueueKey;

    /// The name of the duty's lease; also the name of its work queue.
    fn duty(&self) -> Duty;

    /// After what time to look at everything again when nothing has happened.
    fn period(&self) -> Duration;

    /// The number of keys that are reconciled at the same time.
    fn at_once(&self) -> usize {
        1
    }

    /// The resources whose changes call for a look.
    fn watched(&self) -> Vec<RegistryHandle> {
        Vec::new()
    }

    /// Changes whenever [`watched`](Self::watched) may name other resources; none if it always names the same.
    fn watched_changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// The keys of every full pass, whatever there is in the watched resources.
    fn always(&self) -> Vec<Self::Key> {
        Vec::new()
    }

    /// The keys that a change adds to the queue.
    fn concerned(&self, change: &ObjectChange) -> Vec<Self::Key>;

    /// Forgets what only the holder of the lease shows; called when the lease is no longer held here.
    fn release(&self) {}

    /// Brings the state about. Only the holder of the lease can call it.
    fn run<'a>(
        &'a self,
        key: &'a Self::Key,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Self::Key>, ApiError>>;
}

/// An object of a watched resource that is there or has changed.
#[derive(Clone)]
pub struct ObjectChange {
    /// The resource.
    pub info: Arc<ResourceDefinition>,
    /// The type of the change; in a full pass everything is added.
    pub kind: EventKind,
    /// The object after the change, or as it was last.
    pub item: Arc<Item>,
}

impl ObjectChange {
    /// The object's name if it is being deleted: the key of duties that finish deletions.
    pub fn terminating(&self) -> Vec<Arc<str>> {
        let is_terminating = self.kind != EventKind::Deleted && self.item.is_terminating;
        is_terminating.then(|| self.item.name().into()).into_iter().collect()
    }
}

/// The result of reconciling a key.
#[derive(Debug)]
pub struct ReconcileResult<K> {
    /// After what time to look at the key again, if nothing happens to it before.
    pub(crate) again: Option<Duration>,
    /// Other keys to look at.
    pub(crate) others: Vec<K>,
}

impl<K> ReconcileResult<K> {
    /// All is as it should be.
    pub fn done() -> Self {
        Self {
            again: None,
            others: Vec::new(),
        }
    }

    /// It takes time, or waits for another component: look again.
    pub fn again_after(wait: Duration) -> Self {
        Self {
            again: Some(wait),
            others: Vec::new(),
        }
    }

    /// These have to be looked at as well.
    #[must_use]
    pub fn and(mut self, others: impl IntoIterator<Item = K>) -> Self {
        self.others.extend(others);
        self
    }
}
