//! The actor of those who wait for keys.

use trireme_actors::{Actor, ActorKind, Receive, Reply, Turn};

use super::{
    logic::KeyQueues,
    messages::{KeyGuard, KeyReleased, LockKey, ReleaseNotice, SharedKeys},
};
use crate::item::ItemKey;

/// Passes the right to write a key on, to one at a time.
pub(super) struct KeyLocker {
    keys: SharedKeys,
    queues: KeyQueues<Reply<KeyGuard>>,
}

impl Actor for KeyLocker {
    const KIND: ActorKind = ActorKind::REGISTRY;

    fn started(&mut self, _turn: &mut Turn<'_, Self>) {
        self.keys.table().begin_anew();
    }
}

impl KeyLocker {
    pub(super) fn new(keys: SharedKeys) -> Self {
        Self {
            keys,
            queues: KeyQueues::default(),
        }
    }
}

/// Makes the sender that tells the actor of the release of a key.
fn notice(key: &ItemKey, turn: &mut Turn<'_, KeyLocker>) -> ReleaseNotice {
    let (notice, released) = tokio::sync::oneshot::channel();
    let key = key.clone();
    turn.detach(released, move |left| KeyReleased {
        key,
        latest: left.ok().and_then(Result::ok).flatten(),
    });
    notice
}

impl Receive<LockKey> for KeyLocker {
    fn receive(&mut self, LockKey(key): LockKey, reply: Reply<KeyGuard>, turn: &mut Turn<'_, Self>) {
        let taken = self.keys.table().take_or_await(&key, || notice(&key, turn));
        match taken {
            Some(holder) => reply.send(self.keys.guard(key, holder, None)),
            None => self.queues.push(&key, reply),
        }
    }
}

impl Receive<KeyReleased> for KeyLocker {
    fn receive(&mut self, message: KeyReleased, _reply: Reply<()>, turn: &mut Turn<'_, Self>) {
        let KeyReleased { key, latest } = message;
        match self.queues.next(&key, Reply::is_abandoned) {
            Some((next, has_more)) => {
                let notice = has_more.then(|| notice(&key, turn));
                let holder = self.keys.table().pass_on(&key, notice);
                next.send(self.keys.guard(key, holder, latest));
            }
            None => self.keys.table().forget(&key),
        }
    }
}
