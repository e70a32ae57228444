//! Notices clients of HTTP/2 that ask and give no window for the answer.
//!
//! Such a client takes what the connection itself has to say, so [`super::guarded_io`] sees nothing wrong, while its
//! requests hold their seats. An answer counts as stalled while there is something of it that hyper does not fetch.
//! Data that hyper has fetched is out of reach: of an answer in one piece only the very beginning is waited for here.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use tokio::time::{Instant, sleep};

use super::open_streams::OpenStream;

/// The answers of a connection that have not been fetched.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    since: RefCell<BTreeMap<u64, Instant>>,
    next: RefCell<u64>,
}

impl Stalls {
    /// Begins to watch the answer to a request.
    pub(super) fn watch(stalls: &Rc<Self>, open: OpenStream) -> Fetching {
        let mut next = stalls.next.borrow_mut();
        *next += 1;
        let fetching = Fetching {
            stalls: Rc::clone(stalls),
            id: *next,
            _open: open,
        };
        fetching.waits();
        fetching
    }

    /// Waits until an answer has not been fetched for `patience`.
    pub(super) async fn too_long(&self, patience: Duration) {
        // Each look finds what has waited for between one and one and a half times as long.
        while !self.waited(patience) {
            sleep(patience / 2).await;
        }
    }

    fn waited(&self, patience: Duration) -> bool {
        let now = Instant::now();
        let since = self.since.borrow();
        since.values().any(|since| now.duration_since(*since) >= patience)
    }
}

/// Learns how an answer is fetched.
pub(super) trait Fetched {
    /// A piece has been fetched, and there is more.
    fn waits(&self) {}
    /// There is nothing to be fetched now.
    fn idles(&self) {}
}

/// An answer that is watched until this is dropped.
#[derive(Debug)]
pub(super) struct Fetching {
    stalls: Rc<Stalls>,
    id: u64,
    _open: OpenStream,
}

impl Fetched for Fetching {
    fn waits(&self) {
        self.stalls.since.borrow_mut().insert(self.id, Instant::now());
    }

    fn idles(&self) {
        self.stalls.since.borrow_mut().remove(&self.id);
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.idles();
    }
}
