//! The actor around [`KeyTurns`].

use std::sync::Arc;

use trireme_actors::{Actor, ActorKind, Receive, Reply, Turn};

use super::{
    logic::KeyTurns,
    messages::{KeyReleased, KeyTurn, TakeKey},
};
use crate::item::{Item, ItemKey};

/// Hands out the right to write a key, to one at a time.
#[derive(Default)]
pub(super) struct Registry {
    turns: KeyTurns<Reply<KeyTurn>>,
}

impl Actor for Registry {
    const KIND: ActorKind = ActorKind::REGISTRY;
}

impl Registry {
    fn grant(key: ItemKey, latest: Option<Arc<Item>>, reply: Reply<KeyTurn>, turn: &mut Turn<'_, Self>) {
        let (granted, ended) = KeyTurn::new(latest);
        turn.detach(ended, move |written| KeyReleased {
            key,
            latest: written.ok().and_then(Result::ok),
        });
        reply.send(granted);
    }
}

impl Receive<TakeKey> for Registry {
    fn receive(&mut self, TakeKey(key): TakeKey, reply: Reply<KeyTurn>, turn: &mut Turn<'_, Self>) {
        if let Some(reply) = self.turns.request(&key, reply) {
            Self::grant(key, None, reply, turn);
        }
    }
}

impl Receive<KeyReleased> for Registry {
    fn receive(&mut self, message: KeyReleased, _reply: Reply<()>, turn: &mut Turn<'_, Self>) {
        let KeyReleased { key, latest } = message;
        if let Some(next) = self.turns.release(&key, Reply::is_abandoned) {
            Self::grant(key, latest, next, turn);
        }
    }
}
