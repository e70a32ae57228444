//! Named tasks: everything that runs beside the actors, under a name, counted, cancellable and joined at shutdown.
//!
//! The only place that spawns onto the runtime. Elections, lease renewals and timers live here and not in an actor's
//! context, because a busy mailbox starves what lives there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::clock::Clock;
use crate::restart::{RestartBudget, RestartPolicy, panic_text};

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

/// The pauses before a task that panics again and again is run anew.
const PAUSES: RestartPolicy = RestartPolicy {
    max_restarts: usize::MAX,
    window: Duration::from_secs(300),
    backoff: Duration::from_secs(1),
    max_backoff: Duration::from_secs(60),
};

impl Inner {
    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Cow<'static, str>>> {
        // The map is whole at any time; a panic of another holder does not change that.
        self.running.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn panicked(&self, name: &str, cause: &str) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("trireme_task_panics_total", "task" => label(name)).increment(1);
        tracing::error!(task = name, cause, "task panicked");
    }
}

/// The name of a task up to the first slash, so that a label has few values.
fn label(name: &str) -> String {
    name.split('/').next().unwrap_or_default().to_owned()
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

    /// Spawns a task that is made anew after a panic: at once the first time, then after growing pauses. What it has in its
    /// hands is lost with the panic, so `make` must start from what is elsewhere.
    pub fn spawn_restarting<F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        mut make: impl FnMut() -> F + Send + 'static,
    ) -> TaskHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (inner, name) = (Arc::clone(&self.0), name.into());
        let mut budget = RestartBudget::new(PAUSES);
        self.spawn_named(name.clone(), async move {
            while let Err(panic) = AssertUnwindSafe(async { make().await }).catch_unwind().await {
                inner.panicked(&name, &panic_text(&*panic));
                let pause = budget.charge(inner.clock.now()).unwrap_or(PAUSES.max_backoff);
                if !pause.is_zero() {
                    inner.clock.sleep(pause).await;
                }
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
                entry.inner.panicked(&entry.name, &panic_text(&*panic));
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
        let (inner, name) = (Arc::clone(&self.0), name.into());
        self.spawn_named(name.clone(), async move {
            let mut next = inner.clock.now() + period;
            loop {
                inner.clock.sleep_until(next).await;
                // A tick that panics is not the last one.
                if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(&mut tick)) {
                    inner.panicked(&name, &panic_text(&*panic));
                }
                next = inner.clock.now().max(next) + period;
            }
        })
    }

    /// The names of all tasks that run.
    pub fn names(&self) -> Vec<String> {
        self.0.running().values().map(|name| name.to_string()).collect()
    }

    /// The number of panics of tasks.
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
    done: CancellationToken,
}

impl RunningTask {
    fn enter(inner: &Arc<Inner>, name: Cow<'static, str>, done: CancellationToken) -> Self {
        let id = inner.next_id.fetch_add(1, Ordering::Relaxed);
        inner.running().insert(id, name.clone());
        metrics::gauge!("trireme_tasks_running", "task" => label(&name)).increment(1.0);
        Self {
            inner: Arc::clone(inner),
            id,
            name,
            done,
        }
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.inner.running().remove(&self.id);
        metrics::gauge!("trireme_tasks_running", "task" => label(&self.name)).decrement(1.0);
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
