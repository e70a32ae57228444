//! Helpers of the tests of real worlds.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

/// Generous: machines that compile beside the test are slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Worlds one after the other: each is eight processes, and a test machine may have two cores.
pub(crate) async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

pub(crate) async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    assert!(comes_in_time(holds).await, "not within {PATIENCE:?}: {what}");
}

/// Waits for a condition; false if it does not hold within [`PATIENCE`].
pub(crate) async fn comes_in_time(mut holds: impl AsyncFnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        if Instant::now() > end {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
    true
}
