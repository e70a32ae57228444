//! The stages of a server's end.
//!
//! ```text
//! serving ── drain() ──► draining ── stop() ──► stopping ── cut_off() ──► gone
//!            new requests       no new connections,     what still runs
//!            may be refused     watches end, GOAWAY     is dropped
//! ```

use tokio_util::sync::CancellationToken;

/// Tells of the stages; clones are the same server's. Stages only ever advance.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle {
    draining: CancellationToken,
    stopping: CancellationToken,
    gone: CancellationToken,
}

impl Lifecycle {
    /// A server that serves.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on new requests are told to come again elsewhere.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// From now on no connection is accepted and the open ones end after their running requests.
    pub fn stop(&self) {
        self.drain();
        self.stopping.cancel();
    }

    /// Whatever still runs is dropped.
    pub(crate) fn cut_off(&self) {
        self.gone.cancel();
    }

    /// Whether new requests are to be refused.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Fires when open connections shall end: watches end cleanly.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    pub(crate) fn gone(&self) -> &CancellationToken {
        &self.gone
    }
}
