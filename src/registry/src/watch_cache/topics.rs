//! Delivery of events: one broadcast channel for each thing that is watched.
//!
//! An event is sent to the topics that have receivers and concern it, so it costs only the watchers that it concerns.
//! A topic lives as long as it has receivers.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::broadcast;

use crate::{
    definition::ResourceDefinition,
    event::LogEvent,
    item::{Item, ItemKey},
};

/// The events that a watcher subscribes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// Every object.
    All,
    /// The objects of one namespace.
    Namespace(Arc<str>),
    /// One object.
    Object(ItemKey),
    /// The objects whose indexed field has this value, or had it before the event.
    Field {
        /// An index into `ResourceDefinition::selectable`.
        field: usize,
        /// The value.
        value: Box<str>,
    },
}

impl Topic {
    /// The number of events that a receiver may be behind before it has to turn to the log. A slot is some 40 bytes and is there
    /// once a topic: a topic of everything takes bursts, one of an object hardly ever sees two events at once.
    fn capacity(&self) -> usize {
        match self {
            Self::All => 1024,
            Self::Namespace(_) | Self::Field { .. } => 64,
            Self::Object(_) => 8,
        }
    }
}

/// Topics below this number are not worth a sweep.
const SWEEP_AT_LEAST: usize = 64;

/// The open topics of one resource.
#[derive(Debug)]
pub(crate) struct Topics {
    senders: HashMap<Topic, broadcast::Sender<Arc<LogEvent>>>,
    indexed: Vec<usize>,
    sweep_at: usize,
}

impl Topics {
    /// No topics yet; `info` says which fields are indexed.
    pub(crate) fn new(info: &ResourceDefinition) -> Self {
        Self {
            senders: HashMap::new(),
            indexed: info.selectable.indexed().collect(),
            sweep_at: SWEEP_AT_LEAST,
        }
    }

    /// Hears of what is published from now on.
    pub(crate) fn subscribe(&mut self, topic: Topic) -> broadcast::Receiver<Arc<LogEvent>> {
        if self.senders.len() >= self.sweep_at {
            self.senders.retain(|_, sender| sender.receiver_count() > 0);
            self.sweep_at = SWEEP_AT_LEAST.max(self.senders.len() * 2);
        }
        let capacity = topic.capacity();
        self.senders
            .entry(topic)
            .or_insert_with(|| broadcast::Sender::new(capacity))
            .subscribe()
    }

    /// Publishes the event to the topics that it concerns.
    pub(crate) fn publish(&mut self, event: &Arc<LogEvent>) {
        if self.senders.is_empty() {
            return;
        }
        self.send(&Topic::All, event);
        self.send(&Topic::Object(event.item.key.clone()), event);
        if event.item.namespace_len > 0 {
            self.send(&Topic::Namespace(Arc::from(event.item.namespace())), event);
        }
        for place in 0..self.indexed.len() {
            let Some(&field) = self.indexed.get(place) else {
                continue;
            };
            let value = |item: &Item| item.fields.get(field).cloned().unwrap_or_default();
            let now = value(&event.item);
            let before = event.previous.as_deref().map(value);
            if let Some(before) = before.filter(|before| *before != now) {
                self.send(&Topic::Field { field, value: before }, event);
            }
            self.send(&Topic::Field { field, value: now }, event);
        }
    }

    fn send(&mut self, topic: &Topic, event: &Arc<LogEvent>) {
        let Some(sender) = self.senders.get(topic) else { return };
        if sender.send(event.clone()).is_err() {
            self.senders.remove(topic);
        }
    }

    /// Ends all topics: their receivers have to find out where they stand.
    pub(crate) fn close(&mut self) {
        self.senders.clear();
    }

    /// The number of open topics.
    pub(crate) fn len(&self) -> usize {
        self.senders.len()
    }

    /// The number of their receivers.
    pub(crate) fn receivers(&self) -> usize {
        self.senders.values().map(broadcast::Sender::receiver_count).sum()
    }
}
