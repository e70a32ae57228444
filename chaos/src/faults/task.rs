//! The background task of a fault until it is healed.

use std::future::Future;

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A loop that is asked to end, and waited for. Dropping it ends it where it is.
#[derive(Debug)]
pub(super) struct Task<T> {
    stop: watch::Sender<bool>,
    running: Option<JoinHandle<T>>,
    result: Option<T>,
}

/// The signal to a loop that it should end.
#[derive(Debug, Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Returns when it should end.
    pub(super) async fn asked(&mut self) {
        // A task that is dropped is asked too.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Waits for `time`, or until it should end. Says whether to go on.
    pub(super) async fn pause(&mut self, time: std::time::Duration) -> bool {
        tokio::time::timeout(time, self.asked()).await.is_err()
    }
}

impl<T: Send + 'static> Task<T> {
    pub(super) fn spawn<F>(work: impl FnOnce(Stop) -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let stop = watch::Sender::new(false);
        let running = tokio::spawn(work(Stop(stop.subscribe())));
        Self {
            stop,
            running: Some(running),
            result: None,
        }
    }

    /// Waits until it has ended by itself.
    pub(super) async fn done(&mut self) {
        if let Some(running) = self.running.as_mut() {
            let joined = running.await;
            self.running = None;
            self.result = joined.ok();
        }
    }

    /// Asks it to end, waits for that, and gives its result; `None` if it panicked.
    pub(super) async fn end(&mut self) -> Option<&T> {
        self.stop.send_replace(true);
        self.done().await;
        self.result.as_ref()
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}
