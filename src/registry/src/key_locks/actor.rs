//! The actor around [`KeyQueues`].

use std::sync::Arc;

use trireme_actors::{Actor, ActorKind, Receive, Reply, Turn};

use super::{
    logic::KeyQueues,
    messages::{KeyGuard, KeyReleased, LockKey},
};
use crate::item::{Item, ItemKey};

/// Hands out the right to write a key, to one at a time.
#[derive(Default)]
pub(super) struct KeyLocker {
    queues: KeyQueues<Reply<KeyGuard>>,
}

impl Actor for KeyLocker {
    const KIND: ActorKind = ActorKind::REGISTRY;
}

impl KeyLocker {
    fn grant(key: ItemKey, latest: Option<Arc<Item>>, reply: Reply<KeyGuard>, turn: &mut Turn<'_, Self>) {
        let (guard, released) = KeyGuard::new(latest);
        turn.detach(released, move |left| KeyReleased {
            key,
            latest: left.ok().and_then(Result::ok).flatten(),
        });
        reply.send(guard);
    }
}

impl Receive<LockKey> for KeyLocker {
    fn receive(&mut self, LockKey(key): LockKey, reply: Reply<KeyGuard>, turn: &mut Turn<'_, Self>) {
        if let Some(reply) = self.queues.request(&key, reply) {
            Self::grant(key, None, reply, turn);
        }
    }
}

impl Receive<KeyReleased> for KeyLocker {
    fn receive(&mut self, message: KeyReleased, _reply: Reply<()>, turn: &mut Turn<'_, Self>) {
        let KeyReleased { key, latest } = message;
        if let Some(next) = self.queues.release(&key, Reply::is_abandoned) {
            Self::grant(key, latest, next, turn);
        }
    }
}
