//! Notices clients of HTTP/2 that ask and give no window for the answer.
//!
//! Such a client takes what the connection itself has to say, so [`super::guarded_io`] sees nothing wrong, while its
//! requests hold their seats. An answer counts as stalled while there is something of it that hyper does not fetch.
//! Data that hyper has fetched is out of reach: of an answer in one piece only the very beginning is waited for here.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{ConnectionLimits, open_streams::OpenStream};

/// Marks, as an extension of an answer, one that is as long as its source goes on, which its client may leave for long: a log.
#[derive(Debug, Clone, Copy)]
pub struct StreamedAnswer;

/// The answers of a connection that have not been fetched.
#[derive(Debug)]
pub(super) struct Stalls {
    due: RefCell<BTreeMap<u64, Instant>>,
    next: RefCell<u64>,
    patience: Duration,
    stream_patience: Duration,
}

impl Stalls {
    /// Has limits on the time for which an answer may not be fetched.
    pub(super) fn new(limits: &ConnectionLimits) -> Self {
        Self {
            due: RefCell::default(),
            next: RefCell::default(),
            patience: limits.write_stall_timeout,
            stream_patience: limits.stream_stall_timeout,
        }
    }

    /// Begins to watch the answer to a request.
    pub(super) fn watch(stalls: &Rc<Self>, open: OpenStream) -> Fetching {
        let mut next = stalls.next.borrow_mut();
        *next += 1;
        let fetching = Fetching {
            stalls: Rc::clone(stalls),
            id: *next,
            patience: Cell::new(stalls.patience),
            _open: open,
        };
        fetching.waits();
        fetching
    }

    /// Waits until an answer has not been fetched for too long.
    pub(super) async fn too_long(&self) {
        // Each look finds what has waited for between one and one and a half times as long.
        while !self.is_due() {
            sleep(self.patience / 2).await;
        }
    }

    fn is_due(&self) -> bool {
        let now = Instant::now();
        self.due.borrow().values().any(|due| now >= *due)
    }
}

/// Learns how an answer is fetched.
pub(super) trait Fetched {
    /// A piece has been fetched, and there is more.
    fn waits(&self) {}
    /// There is nothing to be fetched now.
    fn idles(&self) {}
    /// The answer is a [`StreamedAnswer`].
    fn begins_stream(&self) {}
}

/// An answer that is watched until this is dropped.
#[derive(Debug)]
pub(super) struct Fetching {
    stalls: Rc<Stalls>,
    id: u64,
    patience: Cell<Duration>,
    _open: OpenStream,
}

impl Fetched for Fetching {
    fn waits(&self) {
        let due = Instant::now() + self.patience.get();
        self.stalls.due.borrow_mut().insert(self.id, due);
    }

    fn idles(&self) {
        self.stalls.due.borrow_mut().remove(&self.id);
    }

    fn begins_stream(&self) {
        self.patience.set(self.stalls.stream_patience);
        self.waits();
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.idles();
    }
}
