//! Notices connections of HTTP/2 over which nothing runs.
//!
//! hyper has a timeout for idle connections of HTTP/1.1 only. A client that answers the pings of HTTP/2 would otherwise keep
//! its connection for as long as it likes, without a request and before anything is known of its user.

use std::{cell::Cell, rc::Rc, time::Duration};

use tokio::time::{Instant, sleep_until};

/// The requests of a connection that are being answered.
#[derive(Debug, Default)]
pub(super) struct OpenStreams {
    count: Cell<usize>,
    /// The time at which the last answer had been fetched.
    last_end: Cell<Option<Instant>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenStream(Rc<OpenStreams>);

impl OpenStreams {
    /// Enters a request.
    pub(super) fn open(streams: &Rc<Self>) -> OpenStream {
        streams.count.set(streams.count.get().saturating_add(1));
        OpenStream(Rc::clone(streams))
    }

    /// Waits until nothing has run for `between`, or no request has come for `first`, counted from now.
    pub(super) async fn idle(&self, first: Duration, between: Duration) {
        let begun = Instant::now();
        loop {
            let (since, patience) = match (self.count.get(), self.last_end.get()) {
                (0, None) => (begun, first),
                (0, Some(end)) => (begun.max(end), between),
                _ => (Instant::now(), between),
            };
            if since.elapsed() >= patience {
                return;
            }
            sleep_until(since + patience).await;
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get().saturating_sub(1));
        self.0.last_end.set(Some(Instant::now()));
    }
}
