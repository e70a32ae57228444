//! Runs duties: each in a task of its own, for as long as its lease is held.
//!
//! ```text
//!  watched resources ──changes──► concerned() ──keys──► work queue ──► run(), a bounded number at a time
//!          ▲                                              ▲   │
//!          └── everything again: at the start, every      │   └─ failed: again later, each time later
//!              period, and when something was missed      └───── waits, or names other keys
//! ```
//! A duty that watches whatever is served follows a resource that is new from all that is there, beside the others.
//! Before the first write under a lease the duty's fence is raised to the lease's token, and every write carries the
//! fence. A lease that is lost, or a write that the fence refuses, ends the run at once, wherever it is; when the lease is
//! won again the duty starts from the beginning, with an empty queue and all that is there.

use std::{
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{self, BoxFuture},
    stream::FuturesUnordered,
};
use metrics::Gauge;
use tokio::sync::watch;
use trireme_actors::{ActorSystem, Clock};
use trireme_cluster::{Duty, FencingToken, HeldLease, LeaseWatch, Tenure};
use trireme_machinery::ApiError;
use trireme_registry::{FenceError, Fences, RegistryHandle};

use crate::{
    controller::{Controller, ObjectChange, ReconcileResult},
    follow::{FollowEvent, Followed},
    queue::{Again, CAPACITY, FIRST_RETRY, LAST_RETRY, WorkQueue},
    tenure::LeaseTenure,
};

/// The delay of a full pass when changes may have been missed.
const AFTER_LOSS: Duration = Duration::from_secs(1);

/// A duty that looks at all that it keeps in one go.
pub trait Reconciler: Send + Sync + 'static {
    /// The duty that the lease is for.
    fn duty(&self) -> Duty;

    /// After what time to look again when nothing has happened.
    fn period(&self) -> Duration;

    /// The resources whose changes call for a look before the period is over.
    fn watched(&self) -> Vec<RegistryHandle> {
        Vec::new()
    }

    /// Brings the state about. Only the holder of the lease can call it.
    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>>;
}

/// A [`Reconciler`] as a [`Controller`] of one key.
pub struct SingleKeyController<R>(pub R);

/// The one key of a duty that looks at all in one go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SingleKey;

impl<R: Reconciler> Controller for SingleKeyController<R> {
    type Key = SingleKey;

    fn duty(&self) -> Duty {
        self.0.duty()
    }

    fn period(&self) -> Duration {
        self.0.period()
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        self.0.watched()
    }

    fn always(&self) -> Vec<SingleKey> {
        vec![SingleKey]
    }

    fn concerned(&self, _change: &ObjectChange) -> Vec<SingleKey> {
        vec![SingleKey]
    }

    fn run<'a>(
        &'a self,
        _key: &'a SingleKey,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<SingleKey>, ApiError>> {
        Box::pin(async move { self.0.run(term).await.map(|()| ReconcileResult::done()) })
    }
}

/// Spawns the task that does a duty whenever its lease is held. It ends when no more leases are given out.
pub fn keep(system: &ActorSystem, fences: Fences, mut leases: LeaseWatch, duty: impl Controller) {
    let clock = system.clock().clone();
    let name = format!("duty/{}", duty.duty());
    let _ = system.tasks().spawn_named(name, async move {
        while let Some(tenure) = leases.held().await {
            let lease = tenure.lease();
            let until_deposed = async {
                while let Some(term) = begin(&fences, &tenure, &clock).await {
                    let _shown = Shown::of(lease);
                    let _released = ReleaseAtEnd(&duty);
                    tokio::select! {
                        biased;
                        () = term.fence().refused() => {}
                        () = do_duty(&duty, &term, &clock) => {}
                    }
                }
                // Another replica has a later lease: this one will be found to be over.
                future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = leases.over(&tenure) => tracing::info!(duty = %lease.duty, "the lease is lost"),
                () = until_deposed => {}
            }
        }
    });
}

/// Raises the duty's fence; `None` if a later holder was there first.
async fn begin(fences: &Fences, tenure: &Tenure, clock: &Clock) -> Option<LeaseTenure> {
    let lease = tenure.lease();
    let mut wait = FIRST_RETRY;
    loop {
        match fences.raise(lease.duty.name(), lease.token.0).await {
            Ok(fence) => return Some(LeaseTenure::new(lease, fence)),
            Err(error @ (FenceError::Deposed { .. } | FenceError::Unreadable(_))) => {
                tracing::error!(duty = %lease.duty, %error, "a duty is not done here any more");
                if let FenceError::Deposed { stored, .. } = error {
                    tenure.outbid(FencingToken(stored));
                }
                return None;
            }
            Err(error) => {
                tracing::debug!(duty = %lease.duty, %error, "a duty cannot begin yet");
                clock.sleep(wait).await;
                wait = (wait * 2).min(LAST_RETRY);
            }
        }
    }
}

/// The token under which a duty is done, as a metric; 0 when it is not done here.
struct Shown(Gauge);

impl Shown {
    fn of(lease: HeldLease) -> Self {
        let shown = metrics::gauge!("trireme_duty_fencing_token", "duty" => lease.duty.name());
        // Exact below 2^53. A group's tokens begin at the milliseconds of its founding, which is a third of 2^42.
        shown.set(lease.token.0 as f64);
        Self(shown)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.set(0.0);
    }
}

/// Tells a duty when it is no longer done here.
struct ReleaseAtEnd<'d, C: Controller>(&'d C);

impl<C: Controller> Drop for ReleaseAtEnd<'_, C> {
    fn drop(&mut self) {
        self.0.release();
    }
}

async fn do_duty<C: Controller>(duty: &C, term: &LeaseTenure, clock: &Clock) {
    let mut run = TenureRun::new(duty, clock);
    let mut working = FuturesUnordered::new();
    let mut followed = Followed::default();
    let mut watched = duty.watched_changes();
    loop {
        if run.next_pass <= clock.now() || run.queue.wants_full_pass() {
            followed = run.start_pass();
        }
        let at_once = duty.at_once();
        while working.len() < at_once
            && let Some(key) = run.queue.take(clock.now())
        {
            working.push(async move { (look(duty, &key, term).await, key) });
        }
        // A key that is due while all workers are busy waits for one of them, not for a time that is over.
        let due = run.queue.next_due().filter(|_| working.len() < at_once);
        let wake_at = due.map_or(run.next_pass, |due| due.min(run.next_pass));
        tokio::select! {
            Some((result, key)) = working.next() => run.finish(&key, result),
            Some(event) = followed.next() => run.hear(event),
            () = changed(&mut watched) => run.follow_others(&mut followed),
            () = clock.sleep_until(wake_at) => {}
        }
    }
}

/// Waits until the duty may watch other resources.
async fn changed(watched: &mut Option<watch::Receiver<u64>>) {
    let has_changed = match watched {
        Some(changes) => changes.changed().await.is_ok(),
        None => false,
    };
    if !has_changed {
        future::pending::<()>().await;
    }
}

/// A panic in a look at one key is a failure of that look.
async fn look<C: Controller>(duty: &C, key: &C::Key, term: &LeaseTenure) -> Result<ReconcileResult<C::Key>, ApiError> {
    let looked = AssertUnwindSafe(duty.run(key, term)).catch_unwind().await;
    looked.unwrap_or_else(|_| {
        tracing::error!(duty = %duty.duty(), ?key, "a duty panicked");
        Err(ApiError::internal("a duty panicked"))
    })
}

/// The work during a tenure.
struct TenureRun<'d, C: Controller> {
    duty: &'d C,
    clock: &'d Clock,
    queue: WorkQueue<C::Key>,
    next_pass: Instant,
}

impl<'d, C: Controller> TenureRun<'d, C> {
    fn new(duty: &'d C, clock: &'d Clock) -> Self {
        Self {
            duty,
            clock,
            queue: WorkQueue::new(duty.duty().name(), CAPACITY),
            next_pass: clock.now(),
        }
    }

    fn start_pass(&mut self) -> Followed {
        let now = self.clock.now();
        self.next_pass = now + self.duty.period();
        for key in self.duty.always() {
            self.queue.add(key, now);
        }
        Followed::of(self.duty.watched())
    }

    /// Follows what is watched from now on.
    fn follow_others(&mut self, followed: &mut Followed) {
        if !followed.become_those_of(self.duty.watched()) {
            self.hear(FollowEvent::Lost);
        }
    }

    fn hear(&mut self, event: FollowEvent) {
        let now = self.clock.now();
        match event {
            FollowEvent::Changed(changes) => {
                for key in changes.iter().flat_map(|change| self.duty.concerned(change)) {
                    self.queue.add(key, now);
                }
            }
            FollowEvent::Lost => self.next_pass = self.next_pass.min(now + AFTER_LOSS),
        }
    }

    fn finish(&mut self, key: &C::Key, result: Result<ReconcileResult<C::Key>, ApiError>) {
        let now = self.clock.now();
        match result {
            Ok(looked) => {
                let again = looked.again.map_or(Again::No, Again::After);
                self.queue.done(key, again, now);
                for other in looked.others {
                    self.queue.add(other, now);
                }
            }
            Err(error) => {
                let wait = self.queue.done(key, Again::Retry, now);
                self.log_failure(key, &error, wait);
            }
        }
    }

    /// At the start the caches may not have loaded yet, and another writer may be faster now and then: no reason to
    /// speak up.
    fn log_failure(&self, key: &C::Key, error: &ApiError, wait: Option<Duration>) {
        let duty = self.duty.duty();
        if wait.is_some_and(|wait| wait < LAST_RETRY) {
            tracing::debug!(%duty, ?key, %error, "a duty could not be done yet");
        } else {
            tracing::warn!(%duty, ?key, %error, "a duty cannot be done");
        }
    }
}

#[cfg(test)]
mod tests;
