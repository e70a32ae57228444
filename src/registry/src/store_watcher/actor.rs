//! The actor that knows which caches there are; its task, the follower, does the work.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;
use trireme_actors::{Actor, ActorKind, Receive, Reply, Tasks, Turn};

use super::{
    follower::StoreFollower,
    handle::WatchedStore,
    messages::{FollowerEnded, Register, Registration, Reload, Unregister},
};

/// All caches by storage prefix. What is wanted, not what is done: the follower compares it with what it has loaded.
pub(super) type Registrations = Arc<BTreeMap<Arc<str>, Registration>>;

/// Owns the set of caches and the life of the follower.
pub(super) struct StoreWatcher {
    source: WatchedStore,
    tasks: Tasks,
    wanted: Arc<watch::Sender<Registrations>>,
}

impl StoreWatcher {
    pub(super) fn new(source: WatchedStore, tasks: Tasks, wanted: Arc<watch::Sender<Registrations>>) -> Self {
        Self { source, tasks, wanted }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Arc<str>, Registration>)) {
        self.wanted.send_modify(|wanted| change(Arc::make_mut(wanted)));
    }
}

impl Actor for StoreWatcher {
    const KIND: ActorKind = ActorKind::STORE_WATCHER;

    fn started(&mut self, turn: &mut Turn<'_, Self>) {
        let follower = StoreFollower::new(self.source.clone(), turn.clock().clone(), self.wanted.subscribe());
        let ended = turn.ended();
        let task = self.tasks.spawn_named("store-follower", async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = follower.run() => {}
            }
        });
        turn.detach(async move { task.done().await }, |_| FollowerEnded);
    }
}

impl Receive<FollowerEnded> for StoreWatcher {
    fn receive(&mut self, _: FollowerEnded, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        turn.fail("the follower of the store has ended");
    }
}

impl Receive<Register> for StoreWatcher {
    fn receive(&mut self, Register(caches): Register, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        self.change(|wanted| {
            for (info, feed) in caches {
                let prefix = info.storage_prefix.clone();
                let epoch = match wanted.get(&prefix) {
                    // The same cache goes on as it is, by another definition.
                    Some(before) if before.feed.is_same(&feed) => before.epoch,
                    before => {
                        if let Some(before) = before {
                            before.feed.supersede();
                        }
                        0
                    }
                };
                wanted.insert(prefix, Registration { info, feed, epoch });
            }
        });
        reply.send(());
    }
}

impl Receive<Reload> for StoreWatcher {
    fn receive(&mut self, Reload(prefix): Reload, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        self.change(|wanted| {
            if let Some(registration) = wanted.get_mut(&prefix) {
                registration.epoch += 1;
            }
        });
        reply.send(());
    }
}

impl Receive<Unregister> for StoreWatcher {
    fn receive(&mut self, Unregister(prefix): Unregister, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        self.change(|wanted| {
            if let Some(before) = wanted.remove(&prefix) {
                before.feed.supersede();
            }
        });
        reply.send(());
    }
}
