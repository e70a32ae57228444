//! True if requests would be answered, looked at in the background so that probes of health never wait.
//!
//! A look takes the way of a consistent read: it asks the store's leader, which asks a quorum, how far the store is, and
//! waits until every watch cache is there. A quorum that answers would also take a write. A check fails as soon as the
//! last look that went well began too long ago, so it also fails when looks end no more, for whatever reason.
//!
//! ```text
//!  looks   ok ─ 0.25 s ─ ok ─ 0.25 s ─ ok ──X the store freezes
//!  check   well ───────────────────────┤ 1.5 s later: failed
//! ```
//! An outage that lasts is noticed well within 2 s of its beginning, also by a machine that is busy. An election of etcd takes 1 to 2 s,
//! in which no replica can write: many pass unnoticed, and the others cost no client a connection (see `outage`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use trireme_actors::{ActorSystem, Clock};
use trireme_registry::DirectorHandle;
use trireme_storage::Revision;

const INTERVAL: Duration = Duration::from_millis(250);
/// The time limit of a probe: a client's write would take as long.
const DEADLINE: Duration = Duration::from_secs(1);
/// So old may the beginning of the last good look be.
const STALE: Duration = Duration::from_millis(1_500);

/// The results of the probes. Cheap to clone.
#[derive(Clone)]
pub(crate) struct StoreProbe {
    clock: Clock,
    good: Arc<Mutex<Good>>,
}

/// The times at which the last successful looks began, and their results.
#[derive(Debug, Clone, Copy, Default)]
struct Good {
    store: Option<Instant>,
    caches: Option<Instant>,
    /// The store's revision.
    revision: Option<Revision>,
}

impl StoreProbe {
    /// Starts looking; until the first answer the store counts as away.
    pub(crate) fn start(system: &ActorSystem, director: DirectorHandle) -> Self {
        let probe = Self {
            clock: system.clock().clone(),
            good: Arc::default(),
        };
        let looking = probe.clone();
        let look = move || looking.clone().look_for_ever(director.clone());
        let _ = system.tasks().spawn_restarting("store probe", look);
        probe
    }

    /// The store's revision when it answered last; `None` if it has not yet.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.good().revision
    }

    /// Returns true if the store answers and the watch caches keep up with it; says what does not.
    pub(crate) fn check_all(&self) -> Result<(), String> {
        self.check_store().and_then(|()| self.check_caches())
    }

    /// Returns true if the store answers.
    pub(crate) fn check_store(&self) -> Result<(), String> {
        self.check(self.good().store, "the store does not answer")
    }

    /// Returns true if the watch caches keep up with the store. They cannot be blamed while it does not answer.
    pub(crate) fn check_caches(&self) -> Result<(), String> {
        let good = self.good();
        if good.caches.is_some() && self.check(good.store, "").is_err() {
            return Ok(());
        }
        self.check(good.caches, "a watch cache is not loaded or lags behind the store")
    }

    fn check(&self, good: Option<Instant>, what: &str) -> Result<(), String> {
        match good {
            Some(began) if self.clock.now().saturating_duration_since(began) < STALE => Ok(()),
            _ => Err(what.to_owned()),
        }
    }

    fn good(&self) -> std::sync::MutexGuard<'_, Good> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_for_ever(self, director: DirectorHandle) {
        loop {
            self.look(&director).await;
            self.clock.sleep(INTERVAL).await;
        }
    }

    async fn look(&self, director: &DirectorHandle) {
        let began = self.clock.now();
        let deadline = began + DEADLINE;
        let Ok(revision) = director.read_index().revision(deadline).await else {
            return;
        };
        {
            let mut good = self.good();
            good.store = Some(began);
            good.revision = Some(revision);
        }
        if director.reaches(revision, deadline).await {
            self.good().caches = Some(began);
        }
    }
}
