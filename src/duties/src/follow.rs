//! Follows resources through their watch caches: everything that is there, then what changes.

use std::{collections::HashMap, convert::Infallible, mem, sync::Arc};

use futures_util::{
    Stream, StreamExt as _,
    stream::{self, BoxStream, SelectAll},
};
use tokio::sync::oneshot;
use trireme_registry::{CacheId, EventKind, Follower, Item, ObjectChanges, RegistryHandle, ResourceDefinition};

use crate::controller::ObjectChange;

/// The number of changes that are announced at once, so that a full pass holds up no other work.
const AT_ONCE: usize = 256;

/// An event of a followed resource.
pub(crate) enum FollowEvent {
    /// These have changed.
    Changed(Vec<ObjectChange>),
    /// Changes may have been missed, deletions among them.
    Lost,
}

/// The changes of several resources. Each goes on for as long as it is read.
#[derive(Default)]
pub(crate) struct Followed {
    events: SelectAll<BoxStream<'static, FollowEvent>>,
    /// Each ends when what is kept here is dropped.
    sources: HashMap<CacheId, (RegistryHandle, oneshot::Sender<Infallible>)>,
}

impl Followed {
    /// Follows these resources, each from all that is there now.
    pub(crate) fn of(registries: Vec<RegistryHandle>) -> Self {
        let mut followed = Self::default();
        followed.become_those_of(registries);
        followed
    }

    /// Follows these resources and no others; those that were followed before go on. Returns false if one of those before
    /// has ended: deletions may have been missed then.
    pub(crate) fn become_those_of(&mut self, registries: Vec<RegistryHandle>) -> bool {
        let mut before = mem::take(&mut self.sources);
        for registry in registries {
            let id = registry.cache_id();
            let source = before.remove(&id).unwrap_or_else(|| {
                let (keep, ended) = oneshot::channel();
                self.events.push(follow(registry.clone()).take_until(ended).boxed());
                (registry, keep)
            });
            self.sources.insert(id, source);
        }
        before.is_empty()
    }

    /// The next event; `None` while nothing is followed.
    pub(crate) async fn next(&mut self) -> Option<FollowEvent> {
        self.events.next().await
    }
}

fn follow(registry: RegistryHandle) -> impl Stream<Item = FollowEvent> + Send {
    let follower = Follower::new(registry.reader().clone());
    stream::unfold((follower, true), |(mut follower, is_first)| async move {
        let changes = follower.next().await;
        Some(((changes, is_first), (follower, false)))
    })
    .flat_map(move |(changes, is_first)| stream::iter(events_of(registry.info(), changes, is_first)))
}

fn events_of(info: &Arc<ResourceDefinition>, changes: ObjectChanges, is_first: bool) -> Vec<FollowEvent> {
    let changes: Vec<(EventKind, Arc<Item>)> = match changes {
        ObjectChanges::Relisted { items, .. } if is_first => {
            items.into_iter().map(|item| (EventKind::Added, item)).collect()
        }
        ObjectChanges::Relisted { .. } => return vec![FollowEvent::Lost],
        ObjectChanges::Changed { changes, .. } => changes,
    };
    let change = |(kind, item): &(EventKind, Arc<Item>)| ObjectChange {
        info: Arc::clone(info),
        kind: *kind,
        item: Arc::clone(item),
    };
    let chunks = changes.chunks(AT_ONCE);
    chunks
        .map(|chunk| FollowEvent::Changed(chunk.iter().map(change).collect()))
        .collect()
}
