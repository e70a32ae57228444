//! Connections that stop being HTTP: what a handler does with one after it has answered 101.
//!
//! The handler puts an [`Upgrade`] into the extensions of its answer. When hyper has written the answer, the connection's
//! task takes the stream back and runs it. So a connection keeps its worker, its place in the count of open
//! connections and its end with the server, whatever it speaks.

use std::cell::Cell;

use bytes::Bytes;
use futures_util::{FutureExt, future::LocalBoxFuture};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::{ConnectionLimits, guarded_io::GuardedIo, pace::PacedIo};

/// A connection that hyper has given back.
pub struct Upgraded {
    /// The bytes, still bounded by how long a client may take none of them.
    pub(crate) io: GuardedIo<PacedIo<TlsStream<TcpStream>>>,
    /// Bytes that the client sent after its request and hyper has read already.
    pub(crate) read_ahead: Bytes,
    /// The time to wait for the client.
    pub(crate) limits: ConnectionLimits,
}

/// The use of the connection after a 101. Its future comes to the bytes that were sent.
pub struct Upgrade(Box<dyn FnOnce(Upgraded) -> LocalBoxFuture<'static, u64>>);

impl Upgrade {
    /// Runs `serve` on the connection.
    pub fn new<F: Future<Output = u64> + 'static>(serve: impl FnOnce(Upgraded) -> F + 'static) -> Self {
        Self(Box::new(move |upgraded| serve(upgraded).boxed_local()))
    }

    /// The same, and `then` with the bytes that were sent.
    pub fn then(self, then: impl FnOnce(u64) + 'static) -> Self {
        Self::new(async move |upgraded| {
            let bytes = self.run(upgraded).await;
            then(bytes);
            bytes
        })
    }

    /// Serves the connection to its end.
    pub(super) async fn run(self, upgraded: Upgraded) -> u64 {
        (self.0)(upgraded).await
    }
}

/// The upgrade that the last request of an HTTP/1.1 connection was answered with.
#[derive(Default)]
pub(super) struct UpgradeSlot(Cell<Option<Upgrade>>);

impl UpgradeSlot {
    pub(super) fn put(&self, upgrade: Upgrade) {
        self.0.set(Some(upgrade));
    }

    pub(super) fn take(&self) -> Option<Upgrade> {
        self.0.take()
    }
}
