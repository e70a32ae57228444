//! Follows resources through their watch caches: everything that is there, then what changes.

use std::time::Duration;

use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream, SelectAll},
};
use trireme_actors::Clock;
use trireme_registry::{
    RegistryHandle, WatchFrame, Watcher,
    request::{Freshness, Selection, Target, WatchRequest, WatchStart, own_user},
};

use crate::controller::Change;

/// The delay before a watch that could not be opened is tried again.
const REOPEN: Duration = Duration::from_millis(200);
/// Watches are opened anew with every full pass, long before this.
const AT_MOST: Duration = Duration::from_secs(24 * 3600);

/// An event of a followed resource.
pub(crate) enum FollowEvent {
    /// These have changed.
    Changed(Vec<Change>),
    /// Changes may have been missed; everything of this resource is told again.
    Lost,
}

/// The changes of several resources. Each goes on for as long as it is read.
pub(crate) type Followed = SelectAll<BoxStream<'static, FollowEvent>>;

/// Follows resources, each from all that is there now.
pub(crate) fn follow(registries: Vec<RegistryHandle>, clock: &Clock) -> Followed {
    stream::select_all(registries.into_iter().map(|registry| {
        let followed = One {
            registry,
            watcher: None,
            clock: clock.clone(),
        };
        stream::unfold(followed, |mut followed| async move {
            let told = followed.next().await;
            Some((told, followed))
        })
        .boxed()
    }))
}

struct One {
    registry: RegistryHandle,
    watcher: Option<Watcher>,
    clock: Clock,
}

impl One {
    async fn next(&mut self) -> FollowEvent {
        let Some(watcher) = &mut self.watcher else {
            self.watcher = Some(self.open().await);
            return FollowEvent::Changed(Vec::new());
        };
        let frames = watcher.next().await.unwrap_or_default();
        let broken = frames.is_empty() || frames.iter().any(|frame| matches!(frame, WatchFrame::Error(_)));
        if broken {
            self.watcher = None;
            return FollowEvent::Lost;
        }
        let change = |frame| match frame {
            WatchFrame::Event { kind, item, .. } => Some(Change {
                info: self.registry.info().clone(),
                kind,
                item,
            }),
            WatchFrame::Bookmark { .. } | WatchFrame::Error(_) => None,
        };
        FollowEvent::Changed(frames.into_iter().filter_map(change).collect())
    }

    /// At the start caches are not loaded yet: waits until this one is.
    async fn open(&self) -> Watcher {
        loop {
            let request = WatchRequest {
                target: Target {
                    user: own_user(),
                    ..Target::default()
                },
                selection: Selection::default(),
                start: WatchStart::State(Freshness::Any),
                bookmarks: false,
                initial_events_end: false,
                timeout: AT_MOST,
            };
            match self.registry.watch(request).await {
                Ok(watcher) => return watcher,
                Err(error) => {
                    tracing::debug!(resource = %self.registry.info().resource, %error, "cannot be followed yet");
                    self.clock.sleep(REOPEN).await;
                }
            }
        }
    }
}
