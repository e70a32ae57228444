//! The sources of connections.

use std::io;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection whose other end is a member of the group.
pub(crate) trait PeerStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> PeerStream for T {}

pub(crate) type BoxStream = Box<dyn PeerStream>;

/// Makes connections. The caller sets the time limits.
pub(crate) trait Wire: Send + Sync + 'static {
    /// Connects to the peer at `address` and makes sure that it is a member of the group.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxStream>>;

    /// Binds the peer port at `address`.
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;
}

/// A bound peer port.
pub(crate) trait Listener: Send {
    /// Takes the next connection. What it gives makes sure that the other end is a member, which takes as long as the
    /// other end likes.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<BoxFuture<'static, io::Result<BoxStream>>>>;
}
