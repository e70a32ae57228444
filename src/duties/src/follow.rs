//! Follows resources through their watch caches: everything that is there, then what changes.

use std::sync::Arc;

use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream, SelectAll},
};
use trireme_registry::{EventKind, Follower, Item, ObjectChanges, RegistryHandle, ResourceDefinition};

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
pub(crate) type Followed = SelectAll<BoxStream<'static, FollowEvent>>;

/// Follows resources, each from all that is there now.
pub(crate) fn follow(registries: Vec<RegistryHandle>) -> Followed {
    stream::select_all(registries.into_iter().map(|registry| {
        let follower = Follower::new(registry.reader().clone());
        stream::unfold((follower, true), |(mut follower, is_first)| async move {
            let changes = follower.next().await;
            Some(((changes, is_first), (follower, false)))
        })
        .flat_map(move |(changes, is_first)| stream::iter(events_of(registry.info(), changes, is_first)))
        .boxed()
    }))
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
