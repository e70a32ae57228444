//! The way of events to the backends: one actor for each, behind one handle.

mod actor;

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use trireme_actors::{ActorSystem, AskError, Caller, Handle, Owned, SpawnError, topology::TopologyError};

use crate::{event::AuditEvent, metrics, policy::AuditPolicy, truncate::TruncateSettings};
use actor::{Auditor, BufferEvents, FlushAuditor, StoreEvents};

/// The name under which losses in front of a backend are counted, as in kube-apiserver.
const BUFFERED: &str = "buffered";

/// Stores events.
pub trait AuditBackend: Send + Sync + 'static {
    /// The name under which its errors are counted.
    fn plugin(&self) -> &'static str;

    /// Stores events, in order.
    fn write(&self, events: Vec<Arc<AuditEvent>>) -> BoxFuture<'static, Result<(), BackendError>>;
}

/// The reason that events could not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BackendError(pub String);

/// `--audit-…-mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Events are stored later, several at a time; one that finds the buffer full is lost.
    Batch(BatchSettings),
    /// The request waits until its event is stored, and goes on if it cannot be.
    Blocking,
    /// The same, but a request that cannot be recorded is refused before anything is done.
    BlockingStrict,
}

/// `--audit-…-batch-…`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSettings {
    /// Events that may wait.
    pub buffer_size: usize,
    /// Events that are written without waiting for more, and, if the backend sends them somewhere, the most at a time.
    pub max_size: usize,
    /// The longest wait of a smaller batch.
    pub max_wait: Duration,
    /// The limit on writes per second.
    pub throttle: Option<Throttle>,
}

/// A bound on the rate of writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// Writes a second.
    pub qps: f64,
    /// So many may come at once.
    pub burst: u32,
}

impl Eq for Throttle {}

/// The way of events to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkSettings {
    /// The mode: whether requests wait for the backend.
    pub mode: Mode,
    /// Bounds on sizes, if there are any.
    pub truncate: Option<TruncateSettings>,
    /// Outside of batches, the most that requests record which is written at a time; events that are recorded together are
    /// written together.
    pub group: usize,
    /// The most writes at a time.
    pub concurrency: usize,
}

/// The reason that a backend cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Its actor cannot be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The table of actors is wrong.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// The policy with the backends: all that a filter needs. Cheap to clone.
#[derive(Clone)]
pub struct Audit {
    /// The policy of what is recorded.
    pub policy: Arc<AuditPolicy>,
    /// The backend.
    pub sink: AuditSink,
}

/// All backends. Cheap to clone.
#[derive(Clone, Default)]
pub struct AuditSink(Vec<RunningBackend>);

#[derive(Clone)]
struct RunningBackend {
    plugin: &'static str,
    mode: Mode,
    writes_together: bool,
    auditor: Handle<Auditor>,
    _owned: Arc<Owned<Auditor>>,
}

impl AuditSink {
    /// Adds a backend.
    ///
    /// # Errors
    /// If its actor cannot be run.
    pub fn add(
        &mut self,
        system: &ActorSystem,
        backend: Arc<dyn AuditBackend>,
        settings: SinkSettings,
    ) -> Result<(), SinkError> {
        let plugin = backend.plugin();
        let owned = system.spawn(plugin, move || Auditor::new(Arc::clone(&backend), settings))?;
        self.0.push(RunningBackend {
            plugin,
            mode: settings.mode,
            writes_together: settings.group > 1,
            auditor: owned.for_caller(Caller::Outside)?,
            _owned: Arc::new(owned),
        });
        Ok(())
    }

    /// Returns true if there is no backend.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if every backend writes several events at a time: then it is cheaper to record two at once.
    pub fn writes_together(&self) -> bool {
        self.0.iter().all(|backend| backend.writes_together)
    }

    /// Records events, in order. Returns false if a backend in the mode blocking-strict has not stored one of them.
    pub async fn record(&self, events: Vec<AuditEvent>) -> bool {
        let events = counted(events);
        match self.0.as_slice() {
            [] => true,
            [only] => only.record(events).await,
            several => {
                let recorded = join_all(several.iter().map(|backend| backend.record(events.clone())));
                recorded.await.into_iter().all(|is_recorded| is_recorded)
            }
        }
    }

    /// Records events that no request can wait for, such as the end of a body that was streamed.
    pub fn record_unawaited(&self, events: Vec<AuditEvent>) {
        let events = counted(events);
        for backend in &self.0 {
            backend.buffer(events.clone());
        }
    }

    /// Waits until everything that was recorded is stored, or is lost.
    pub async fn flush(&self) {
        // An actor that does not answer is gone, with what it had.
        join_all(self.0.iter().map(|backend| backend.auditor.ask(FlushAuditor))).await;
    }
}

fn counted(events: Vec<AuditEvent>) -> Vec<Arc<AuditEvent>> {
    events.iter().for_each(|_| metrics::observe_event());
    events.into_iter().map(Arc::new).collect()
}

impl RunningBackend {
    async fn record(&self, events: Vec<Arc<AuditEvent>>) -> bool {
        if let Mode::Batch(_) = self.mode {
            self.buffer(events);
            return true;
        }
        let count = events.len();
        let stored = self.auditor.ask(StoreEvents(events)).await.unwrap_or_else(|error| {
            self.lost(count, error);
            false
        });
        stored || self.mode == Mode::Blocking
    }

    fn buffer(&self, events: Vec<Arc<AuditEvent>>) {
        let count = events.len();
        if let Err(error) = self.auditor.tell(BufferEvents(events)) {
            self.lost(count, error.into());
        }
    }

    fn lost(&self, events: usize, error: AskError) {
        metrics::observe_lost(BUFFERED, events);
        tracing::warn!(plugin = self.plugin, events, %error, "audit events are lost");
    }
}

#[cfg(test)]
mod tests;
