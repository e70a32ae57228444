//! Runs a duty for as long as the process lives.

use std::{pin::pin, time::Duration};

use futures_util::future::{self, BoxFuture};
use trireme_actors::{ActorSystem, Clock};
use trireme_cluster::{Duty, HeldLease};
use trireme_machinery::ApiError;
use trireme_registry::{
    RegistryHandle, Watcher,
    request::{Freshness, Selection, Target, WatchRequest, WatchStart},
    subresource::own_user,
};

/// How soon a duty is tried again after it failed; each further failure doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// The longest wait after failures, from which on they are told loudly.
const LAST_RETRY: Duration = Duration::from_secs(10);

/// A state of the cluster that somebody has to bring about and keep.
///
/// Level-triggered: [`run`](Self::run) looks at what is there and changes what is not as it should be, so that it does
/// not matter how often it is called or what was missed in between.
pub trait Reconciler: Send + Sync + 'static {
    /// What the lease is for.
    fn duty(&self) -> Duty;

    /// After what time to look again when nothing has happened.
    fn period(&self) -> Duration;

    /// The resources whose changes call for a look before the period is over.
    fn watched(&self) -> Vec<RegistryHandle> {
        Vec::new()
    }

    /// Brings the state about. Only the holder of the lease can call it.
    fn run<'a>(&'a self, lease: &'a HeldLease) -> BoxFuture<'a, Result<(), ApiError>>;
}

/// Spawns the task that does a duty under a lease that is held.
pub fn keep(system: &ActorSystem, lease: HeldLease, duty: impl Reconciler) {
    let clock = system.clock().clone();
    let name = format!("duty/{}", duty.duty());
    let _ = system.tasks().spawn_named(name, async move {
        let mut retry = FIRST_RETRY;
        loop {
            let period = duty.period();
            // Opened before the look, so that what happens during it is not missed.
            let watchers = watchers(&duty.watched(), period).await;
            match duty.run(&lease).await {
                Ok(()) => {
                    retry = FIRST_RETRY;
                    wait(&clock, period, watchers).await;
                }
                Err(error) => {
                    tell(&duty, &error, retry);
                    clock.sleep(retry).await;
                    retry = (retry * 2).min(LAST_RETRY);
                }
            }
        }
    });
}

/// At the start the caches may not have loaded yet, which is no reason to speak up.
fn tell(duty: &impl Reconciler, error: &ApiError, retry: Duration) {
    if retry < LAST_RETRY {
        tracing::debug!(duty = %duty.duty(), %error, "a duty could not be done yet");
    } else {
        tracing::warn!(duty = %duty.duty(), %error, "a duty cannot be done");
    }
}

/// Watches on what is ready to be watched; of what is not, the period takes care.
async fn watchers(registries: &[RegistryHandle], period: Duration) -> Vec<Watcher> {
    let mut watchers = Vec::new();
    for registry in registries {
        let request = WatchRequest {
            target: Target {
                user: own_user(),
                ..Target::default()
            },
            selection: Selection::default(),
            start: WatchStart::Now(Freshness::Any),
            bookmarks: false,
            initial_events_end: false,
            timeout: period,
        };
        watchers.extend(registry.watch(request).await);
    }
    watchers
}

/// Returns after the period or as soon as a watcher has something to tell.
async fn wait(clock: &Clock, period: Duration, mut watchers: Vec<Watcher>) {
    let period = clock.sleep(period);
    if watchers.is_empty() {
        return period.await;
    }
    let changes = watchers.iter_mut().map(|watcher| Box::pin(watcher.next()));
    future::select(future::select_all(changes), pin!(period)).await;
}
