//! The actor around [`CacheState`] and [`Topics`].

use std::sync::Arc;

use trireme_actors::{Actor, ActorKind, Receive, Reply, Turn};

use super::{
    handle::{PublishedCache, ReloadFn},
    logic::CacheState,
    messages::{Apply, CloseTopics, ReloadAsked, Replace, Subscribe, Subscription, TrimLog},
    topics::{Topic, Topics},
};
use crate::definition::ResourceDefinition;

/// Owns the objects and the event log of one resource.
pub(super) struct WatchCache {
    info: Arc<ResourceDefinition>,
    published: Arc<PublishedCache>,
    reload: ReloadFn,
    state: CacheState,
    topics: Topics,
    /// Subscribers that came before the first load.
    early: Option<Vec<(Topic, Reply<Subscription>)>>,
}

impl WatchCache {
    pub(super) fn new(info: Arc<ResourceDefinition>, published: Arc<PublishedCache>, reload: ReloadFn) -> Self {
        Self {
            state: CacheState::after(&published.snapshot()),
            topics: Topics::new(&info),
            early: Some(Vec::new()),
            info,
            published,
            reload,
        }
    }

    fn subscribe(&mut self, topic: Topic, reply: Reply<Subscription>) {
        let events = self.topics.subscribe(topic);
        reply.send(Subscription {
            snapshot: self.published.snapshot(),
            events,
        });
    }

    fn measure(&self) {
        self.published.meters().show(self.state.snapshot(), &self.topics);
    }
}

impl Actor for WatchCache {
    const KIND: ActorKind = ActorKind::WATCH_CACHE;

    fn started(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.published.begin_life() || self.published.is_superseded() {
            // The first instance is loaded when it is registered at the store watcher, and after another took its place none is.
            return;
        }
        let reload = (self.reload)(self.info.storage_prefix.clone());
        let asking = async move { reload.await.map_err(|error| error.to_string()) };
        turn.detach(asking, |outcome| {
            ReloadAsked(outcome.map_err(|lost| lost.to_string()).and_then(|asked| asked))
        });
    }
}

impl Receive<ReloadAsked> for WatchCache {
    fn receive(&mut self, ReloadAsked(outcome): ReloadAsked, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        if let Err(cause) = outcome {
            turn.fail(format!("cannot reload: {cause}"));
        }
    }
}

impl Receive<Replace> for WatchCache {
    fn receive(&mut self, replace: Replace, _: Reply<()>, _: &mut Turn<'_, Self>) {
        self.state.replace(replace.index, replace.revision);
        self.published.meters().loaded();
        // Watchers have lost history; a watcher finds that out when its topic ends.
        self.topics.close();
        self.published.publish(self.state.snapshot());
        for (topic, reply) in self.early.take().unwrap_or_default() {
            self.subscribe(topic, reply);
        }
        self.published
            .mark_applied(replace.revision, self.state.snapshot().log.next_sequence());
        let index = &self.state.snapshot().index;
        self.published.meters().show_state(index, replace.revision);
        self.measure();
    }
}

impl Receive<Apply> for WatchCache {
    fn receive(&mut self, apply: Apply, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        if self.early.is_some() {
            // The load that is under way, or the reload that was asked for, will bring these.
            return;
        }
        self.published.meters().received(apply.changes.len());
        let applied = self.state.apply(apply.changes, apply.revision, turn.now());
        if applied.history_lost {
            self.topics.close();
            self.measure();
        }
        // The snapshot first: a receiver that lags finds what it lost in its log.
        self.published.publish(self.state.snapshot());
        for event in &applied.events {
            self.topics.publish(event);
        }
        self.published.meters().dispatched(applied.events.len());
        // And this last: who waits for it knows that receivers have all events up to here.
        self.published
            .mark_applied(apply.revision, self.state.snapshot().log.next_sequence());
    }
}

impl Receive<Subscribe> for WatchCache {
    fn receive(&mut self, Subscribe(topic): Subscribe, reply: Reply<Subscription>, _: &mut Turn<'_, Self>) {
        match &mut self.early {
            Some(early) => early.push((topic, reply)),
            None => self.subscribe(topic, reply),
        }
    }
}

impl Receive<TrimLog> for WatchCache {
    fn receive(&mut self, _: TrimLog, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        if self.early.is_none() && self.state.trim(turn.now()) {
            self.published.publish(self.state.snapshot());
        }
        self.measure();
    }
}

impl Receive<CloseTopics> for WatchCache {
    fn receive(&mut self, _: CloseTopics, _: Reply<()>, _: &mut Turn<'_, Self>) {
        self.topics.close();
    }
}

#[cfg(test)]
impl Receive<super::messages::Crash> for WatchCache {
    fn receive(&mut self, _: super::messages::Crash, _: Reply<()>, _: &mut Turn<'_, Self>) {
        panic!("a test wants it");
    }
}
