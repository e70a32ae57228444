//! Named tasks: everything that runs beside the actors, under a name, counted, cancellable and joined at shutdown.
//!
//! The only place that spawns onto the runtime. Elections, lease renewals and timers live here and not in an actor's
//! context, because a busy mailbox starves what lives there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::clock::Clock;
use crate::restart::panic_text;

/// The named tasks of one process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tasks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runtime: tokio::runtime::Handle,
    clock: Clock,
    tracker: TaskTracker,
    cancelled: CancellationToken,
    next_id: AtomicU64,
    running: Mutex<BTreeMap<u64, Cow<'static, str>>>,
    panics: AtomicU64,
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Cow<'static, str>>> {
        // The map is whole at any time; a panic of another holder does not change that.
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Tasks {
    /// Tasks on `runtime`, with timers by `clock`.
    pub fn new(runtime: tokio::runtime::Handle, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            runtime,
            clock,
            tracker: TaskTracker::new(),
            cancelled: CancellationToken::new(),
            next_id: AtomicU64::new(0),
            running: Mutex::new(BTreeMap::new()),
            panics: AtomicU64::new(0),
        }))
    }

    /// Spawns a task. When it is cancelled it ends at its next await.
    pub fn spawn_named<F>(&self, name: impl Into<Cow<'static, str>>, future: F) -> TaskHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_graceful(name, |cancelled| async move {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => {}
                () = future => {}
            }
        })
    }

    /// Spawns a task that watches its token and winds itself down.
    pub fn spawn_graceful<F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        task: impl FnOnce(CancellationToken) -> F,
    ) -> TaskHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = name.into();
        let cancelled = self.0.cancelled.child_token();
        let done = CancellationToken::new();
        let entry = RunningTask::enter(&self.0, name.clone(), done.clone());
        let span = tracing::info_span!("task", %name);
        let work = AssertUnwindSafe(task(cancelled.clone())).catch_unwind();
        let reported = async move {
            if let Err(panic) = work.await {
                entry.panicked(&panic_text(&*panic));
            }
        };
        self.0.tracker.spawn_on(reported.instrument(span), &self.0.runtime);
        TaskHandle { name, cancelled, done }
    }

    /// Calls `tick` every `period`, the first time after one period. A late tick is not made up for. `tick` must not
    /// block; an actor has its timers from [`Owned::start_timer`](crate::Owned::start_timer).
    pub fn every(
        &self,
        name: impl Into<Cow<'static, str>>,
        period: Duration,
        mut tick: impl FnMut() + Send + 'static,
    ) -> TaskHandle {
        let clock = self.0.clock.clone();
        self.spawn_named(name, async move {
            let mut next = clock.now() + period;
            loop {
                clock.sleep_until(next).await;
                tick();
                next = clock.now().max(next) + period;
            }
        })
    }

    /// The names of all tasks that run.
    pub fn names(&self) -> Vec<String> {
        self.0.running().values().map(|name| name.to_string()).collect()
    }

    /// The number of tasks that have panicked.
    pub fn panics(&self) -> u64 {
        self.0.panics.load(Ordering::Relaxed)
    }

    /// Cancels all tasks and waits for them; returns the names of those that were not done after `patience` of the
    /// machine's time.
    pub async fn shutdown(&self, patience: Duration) -> Vec<String> {
        self.0.cancelled.cancel();
        self.0.tracker.close();
        match tokio::time::timeout(patience, self.0.tracker.wait()).await {
            Ok(()) => Vec::new(),
            Err(_) => self.names(),
        }
    }
}

/// A task's entry among the running ones, from before its first poll until after its last.
struct RunningTask {
    inner: Arc<Inner>,
    id: u64,
    name: Cow<'static, str>,
    /// The name up to the first slash, so that a label has few values.
    label: String,
    done: CancellationToken,
}

impl RunningTask {
    fn enter(inner: &Arc<Inner>, name: Cow<'static, str>, done: CancellationToken) -> Self {
        let id = inner.next_id.fetch_add(1, Ordering::Relaxed);
        inner.running().insert(id, name.clone());
        let label = name.split('/').next().unwrap_or_default().to_owned();
        metrics::gauge!("trireme_tasks_running", "task" => label.clone()).increment(1.0);
        Self {
            inner: Arc::clone(inner),
            id,
            name,
            label,
            done,
        }
    }

    fn panicked(&self, cause: &str) {
        self.inner.panics.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("trireme_task_panics_total", "task" => self.label.clone()).increment(1);
        tracing::error!(task = %self.name, cause, "task panicked");
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.inner.running().remove(&self.id);
        metrics::gauge!("trireme_tasks_running", "task" => self.label.clone()).decrement(1.0);
        self.done.cancel();
    }
}

/// One task. Dropping it lets the task run on.
#[derive(Clone, Debug)]
pub struct TaskHandle {
    name: Cow<'static, str>,
    cancelled: CancellationToken,
    done: CancellationToken,
}

impl TaskHandle {
    /// The task's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks the task to end.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Reports whether it has ended.
    pub fn is_done(&self) -> bool {
        self.done.is_cancelled()
    }

    /// Waits until it has ended, also by a panic.
    pub async fn done(&self) {
        self.done.cancelled().await;
    }
}
