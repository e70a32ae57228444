//! The stages of a server's end, and the signals that a single connection gets.
//!
//! ```text
//! serving ── leave() ──► leaving ── stop() ──► stopping ── close() ──► closing ── cut_off() ──► gone
//!            every answer ends      watches end, and        no new        what still runs
//!            its connection         what is quiet           connections   is dropped
//! ```
//!
//! From `leave` on clients learn with their next answer (HTTP/1.1) or at once (HTTP/2) that they should come again by
//! another connection. Until `close` the server takes connections and answers every request, also those of health
//! checks: a balancer that found the port closed would cut what still runs. Connections that have become those to another
//! server (`exec`, `portforward`) are told nothing and not waited for: they break off at `close`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio_util::sync::CancellationToken;

/// The signals of the stages; clones are the same server's. Stages only ever advance.
#[derive(Debug, Clone, Default)]
pub struct ServerLifecycle {
    leaving: CancellationToken,
    refusing: CancellationToken,
    stopping: CancellationToken,
    closing: CancellationToken,
    gone: CancellationToken,
    running: Arc<AtomicUsize>,
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub struct RunningRequest(Arc<AtomicUsize>);

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServerLifecycle {
    /// A server that serves.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on answers say `Connection: close`, and HTTP/2 connections are sent GOAWAY.
    pub fn leave(&self) {
        self.leaving.cancel();
    }

    /// From now on new requests are refused, to be sent again to another server.
    pub fn refuse(&self) {
        self.leave();
        self.refusing.cancel();
    }

    /// From now on open connections end: watches in order, the others when nothing has come for a while.
    pub fn stop(&self) {
        self.leave();
        self.stopping.cancel();
    }

    /// From now on no connection is accepted.
    pub(crate) fn close(&self) {
        self.stop();
        self.closing.cancel();
    }

    /// Whatever still runs is dropped.
    pub(super) fn cut_off(&self) {
        self.gone.cancel();
    }

    /// Reports whether new requests are to be refused.
    pub fn is_refusing(&self) -> bool {
        self.refusing.is_cancelled()
    }

    /// Counts a request that is to be answered before the end.
    pub fn begin_request(&self) -> RunningRequest {
        self.running.fetch_add(1, Ordering::Relaxed);
        RunningRequest(Arc::clone(&self.running))
    }

    /// The number of requests being answered, those aside that last as long as they like.
    pub fn running_requests(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Fires when open connections shall end.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Fires when no more connections are to be accepted.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    pub(super) fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// The order that a new connection gets.
    pub(super) fn ending(&self) -> ConnectionEnding {
        let ending = ConnectionEnding {
            leave: self.leaving.child_token(),
            watches: CancellationToken::new(),
            quiet: self.stopping.child_token(),
            closing: self.closing.child_token(),
            passed_on: Arc::default(),
        };
        if self.stopping.is_cancelled() {
            ending.end_watches();
        }
        ending
    }
}

/// The order to one connection to end. Clones are the same connection's.
#[derive(Debug, Clone, Default)]
pub struct ConnectionEnding {
    leave: CancellationToken,
    watches: CancellationToken,
    quiet: CancellationToken,
    closing: CancellationToken,
    passed_on: Arc<AtomicBool>,
}

impl ConnectionEnding {
    /// Asks for the client's next requests to come by another connection. What runs goes on.
    pub(super) fn leave(&self) {
        self.leave.cancel();
    }

    /// Ends the connection's watches; a watch that begins later ends at once.
    pub(super) fn end_watches(&self) {
        self.leave.cancel();
        self.watches.cancel();
    }

    /// Ends watches and, once nothing comes over it, the connection itself: its client would fare badly if it stayed.
    pub(super) fn send_off(&self) {
        self.end_watches();
        self.quiet.cancel();
    }

    /// Reports whether the client is to be asked to leave.
    pub(super) fn is_leaving(&self) -> bool {
        self.leave.is_cancelled()
    }

    /// Fires when the client is to be asked to leave.
    pub(super) fn leaving(&self) -> &CancellationToken {
        &self.leave
    }

    /// Fires when the connection is to be closed as soon as nothing comes over it.
    pub(super) fn closing_when_quiet(&self) -> &CancellationToken {
        &self.quiet
    }

    /// Fires when watches are to end, in order and at any event.
    pub fn watches(&self) -> &CancellationToken {
        &self.watches
    }

    /// Fires when the server has no other requests left, and takes no connections.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Notes that the connection has become one to another server: it cannot come again elsewhere, and lasts until the server closes.
    pub(crate) fn pass_on(&self) {
        self.passed_on.store(true, Ordering::Relaxed);
    }

    /// Reports whether the connection has become one to another server.
    pub(super) fn is_passed_on(&self) -> bool {
        self.passed_on.load(Ordering::Relaxed)
    }
}
