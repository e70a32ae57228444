//! The actor in front of a backend: the events that wait, those that are being written, the requests that wait for them.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use futures_util::future::{BoxFuture, FutureExt as _};
use trireme_actors::{Actor, ActorKind, Message, Receive, Reply, Turn};

use super::{AuditBackend, BUFFERED, BackendError, BatchSettings, Mode, SinkSettings, Throttle};
use crate::{event::AuditEvent, metrics, truncate};

/// Asks to store events; the reply says whether all of them are stored.
pub(super) struct StoreEvents(pub(super) Vec<Arc<AuditEvent>>);

impl Message for StoreEvents {
    type Reply = bool;
}

/// Brings events that no request waits for.
pub(super) struct BufferEvents(pub(super) Vec<Arc<AuditEvent>>);

impl Message for BufferEvents {
    type Reply = ();
}

/// Asks to write all that waits; the reply comes when it is written.
pub(super) struct FlushAuditor;

impl Message for FlushAuditor {
    type Reply = ();
}

/// The end of a write.
struct EventsWritten {
    outcome: AuditLosses,
    askers: Vec<Reply<bool>>,
}

/// The events that a write has not stored.
#[derive(Default)]
struct AuditLosses {
    /// Events that the backend has lost.
    lost: usize,
    /// True if an event was too large to be written; that is counted already.
    has_too_large: bool,
    error: Option<BackendError>,
}

impl AuditLosses {
    fn add(&mut self, events: usize, written: Result<(), BackendError>) {
        if let Err(error) = written {
            self.lost += events;
            self.error = Some(error);
        }
    }
}

impl Message for EventsWritten {
    type Reply = ();
}

/// The end of a wait.
struct Woken;

impl Message for Woken {
    type Reply = ();
}

/// Events that are written together, so that one answer is true of all.
struct WaitingEvents {
    events: Vec<Arc<AuditEvent>>,
    asker: Option<Reply<bool>>,
}

/// Holds the events of one backend that are not stored yet.
pub(super) struct Auditor {
    backend: Arc<dyn AuditBackend>,
    settings: SinkSettings,
    waiting: VecDeque<WaitingEvents>,
    /// Writes under way.
    writing: usize,
    /// The time at which the events that wait are written even if they are few.
    due: Option<Instant>,
    /// True if a wait is under way.
    sleeps: bool,
    rate: Option<Rate>,
    flushing: Vec<Reply<()>>,
}

impl Auditor {
    pub(super) fn new(backend: Arc<dyn AuditBackend>, settings: SinkSettings) -> Self {
        let throttle = match settings.mode {
            Mode::Batch(batch) => batch.throttle,
            Mode::Blocking | Mode::BlockingStrict => None,
        };
        Self {
            backend,
            settings,
            waiting: VecDeque::new(),
            writing: 0,
            due: None,
            sleeps: false,
            rate: throttle.map(Rate::new),
            flushing: Vec::new(),
        }
    }

    fn take(&mut self, waiting: WaitingEvents, turn: &mut Turn<'_, Self>) {
        if let Mode::Batch(batch) = self.settings.mode {
            if self.waiting.len() >= batch.buffer_size {
                metrics::observe_lost(BUFFERED, 1);
                tracing::debug!(
                    plugin = self.backend.plugin(),
                    "the buffer is full, an audit event is lost"
                );
                return;
            }
            self.due.get_or_insert(turn.now() + batch.max_wait);
        }
        self.waiting.push_back(waiting);
        self.go_on(turn);
    }

    /// Begins what writes may begin.
    fn go_on(&mut self, turn: &mut Turn<'_, Self>) {
        while !self.waiting.is_empty() && self.writing < self.settings.concurrency {
            if let Err(until) = self.may_write(turn.now()) {
                return self.sleep_until(until, turn);
            }
            self.begin_write(turn);
        }
        if self.waiting.is_empty() && self.writing == 0 {
            self.flushing.drain(..).for_each(|asker| asker.send(()));
        }
    }

    /// Says until when to wait if it is not time yet.
    fn may_write(&mut self, now: Instant) -> Result<(), Instant> {
        let Mode::Batch(batch) = self.settings.mode else {
            return Ok(());
        };
        if !self.flushing.is_empty() {
            return Ok(());
        }
        if let Some(due) = self.due.filter(|due| self.waiting.len() < batch.max_size && now < *due) {
            return Err(due);
        }
        self.rate.as_mut().map_or(Ok(()), |rate| rate.take(now))
    }

    fn begin_write(&mut self, turn: &mut Turn<'_, Self>) {
        let most = match self.settings.mode {
            Mode::Batch(BatchSettings { max_size, .. }) => max_size.max(self.settings.group),
            Mode::Blocking | Mode::BlockingStrict => self.settings.group,
        };
        let taken: Vec<WaitingEvents> = self.waiting.drain(..most.min(self.waiting.len())).collect();
        self.due = match self.settings.mode {
            Mode::Batch(batch) if !self.waiting.is_empty() => Some(turn.now() + batch.max_wait),
            _ => None,
        };
        let mut askers = Vec::new();
        let mut events = Vec::with_capacity(taken.len());
        for waited in taken {
            events.extend(waited.events);
            askers.extend(waited.asker);
        }
        let count = events.len();
        self.writing += 1;
        turn.detach(self.write(events), move |outcome| EventsWritten {
            outcome: outcome.unwrap_or_else(|panic| AuditLosses {
                lost: count,
                has_too_large: false,
                error: Some(BackendError(panic.to_string())),
            }),
            askers,
        });
    }

    fn write(&self, events: Vec<Arc<AuditEvent>>) -> BoxFuture<'static, AuditLosses> {
        let (backend, truncate) = (Arc::clone(&self.backend), self.settings.truncate);
        async move {
            let (count, mut outcome) = (events.len(), AuditLosses::default());
            let batches = match truncate {
                Some(truncate) => truncate::batches(events, truncate),
                None => vec![events],
            };
            outcome.has_too_large = batches.iter().map(Vec::len).sum::<usize>() < count;
            for batch in batches {
                outcome.add(batch.len(), backend.write(batch).await);
            }
            outcome
        }
        .boxed()
    }

    fn sleep_until(&mut self, until: Instant, turn: &mut Turn<'_, Self>) {
        if std::mem::replace(&mut self.sleeps, true) {
            return;
        }
        let (clock, ended) = (turn.clock().clone(), turn.ended());
        let sleeping = async move {
            tokio::select! {
                () = clock.sleep_until(until) => {}
                () = ended.cancelled() => {}
            }
        };
        turn.detach(sleeping, |_| Woken);
    }
}

impl Actor for Auditor {
    const KIND: ActorKind = ActorKind::AUDITOR;
}

impl Receive<StoreEvents> for Auditor {
    fn receive(&mut self, StoreEvents(events): StoreEvents, reply: Reply<bool>, turn: &mut Turn<'_, Self>) {
        let asker = Some(reply);
        self.take(WaitingEvents { events, asker }, turn);
    }
}

impl Receive<BufferEvents> for Auditor {
    fn receive(&mut self, BufferEvents(events): BufferEvents, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        for event in events {
            let events = vec![event];
            self.take(WaitingEvents { events, asker: None }, turn);
        }
    }
}

impl Receive<FlushAuditor> for Auditor {
    fn receive(&mut self, _: FlushAuditor, reply: Reply<()>, turn: &mut Turn<'_, Self>) {
        self.flushing.push(reply);
        self.go_on(turn);
    }
}

impl Receive<EventsWritten> for Auditor {
    fn receive(&mut self, EventsWritten { outcome, askers }: EventsWritten, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        self.writing -= 1;
        if let Some(error) = &outcome.error {
            let plugin = self.backend.plugin();
            metrics::observe_lost(plugin, outcome.lost);
            tracing::error!(plugin, %error, events = outcome.lost, "audit events could not be stored");
        }
        let is_stored = outcome.error.is_none() && !outcome.has_too_large;
        askers.into_iter().for_each(|asker| asker.send(is_stored));
        self.go_on(turn);
    }
}

impl Receive<Woken> for Auditor {
    fn receive(&mut self, _: Woken, _: Reply<()>, turn: &mut Turn<'_, Self>) {
        self.sleeps = false;
        self.go_on(turn);
    }
}

/// A token bucket.
struct Rate {
    throttle: Throttle,
    tokens: f64,
    filled: Option<Instant>,
}

impl Rate {
    fn new(throttle: Throttle) -> Self {
        Self {
            throttle,
            tokens: f64::from(throttle.burst),
            filled: None,
        }
    }

    /// Takes a token, or says when there will be one.
    fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let since = self
            .filled
            .map_or(0.0, |filled| now.saturating_duration_since(filled).as_secs_f64());
        self.filled = Some(now);
        let most = f64::from(self.throttle.burst.max(1));
        self.tokens = (self.tokens + since * self.throttle.qps).min(most);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let missing = (1.0 - self.tokens) / self.throttle.qps;
        // A little more, so that a rounded time does not come a moment too early again and again.
        Err(now + std::time::Duration::from_secs_f64(missing.clamp(0.001, 60.0)))
    }
}
