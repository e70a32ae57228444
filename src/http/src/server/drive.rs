//! Runs a connection to its end, and ends it so that no request is lost on the way.
//!
//! * Over HTTP/2, GOAWAY says which requests will still be answered, so a connection can be ended at any time. hyper says
//!   first that there will be an end, and only after the client has heard of it which request was the last.
//! * Over HTTP/1.1 a server can only say so in an answer. A connection that has just been used may have its next request
//!   on the way; if it were closed now, the client could not know whether that one was taken. So it is closed after an
//!   answer with `Connection: close`, or when nothing has come for a while.

use std::{pin::Pin, rc::Rc, time::Duration};

use hyper::{
    rt::Executor,
    server::conn::{http1, http2},
};
use tokio::{sync::Notify, time::timeout};

use super::{
    ConnectionLimits,
    guarded_io::ConnectionPhase,
    lifecycle::{ConnectionEnding, ServerLifecycle},
    open_streams::OpenStreams,
};

/// The requests of a connection of HTTP/2.
#[derive(Default)]
pub(super) struct Http2Streams {
    /// Those that are being answered.
    pub(super) open: Rc<OpenStreams>,
    /// Knows of the first one.
    pub(super) first: Rc<Notify>,
}

/// A connection that can be asked to end after its running requests.
pub(super) trait Graceful: Future<Output = hyper::Result<()>> {
    /// Takes no new requests from here on.
    fn finish(self: Pin<&mut Self>);
}

/// Runs a connection of HTTP/1.1. When the server stops or it is sent off, it is closed once it has been quiet for
/// `linger`; answers on it say `Connection: close` from then on.
pub(super) async fn http1<C: Graceful>(
    mut connection: Pin<&mut C>,
    phase: &ConnectionPhase,
    ending: &ConnectionEnding,
    lifecycle: &ServerLifecycle,
    linger: Duration,
) -> hyper::Result<()> {
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = ending.leaving().cancelled() => {}
    }
    let quiet = async {
        ending.closing_when_quiet().cancelled().await;
        phase.quiet(linger).await;
    };
    tokio::select! {
        biased;
        // Before anything else, so that what has come by now is looked at.
        ended = connection.as_mut() => return ended,
        () = lifecycle.gone().cancelled() => return Ok(()),
        () = quiet => {}
    }
    finish(connection, lifecycle).await
}

/// Runs a connection of HTTP/2; it gets GOAWAY when it is to leave, or when nothing has run over it for long. One that has
/// only just come gets the answer to its first request before it is to leave: while a balancer does not know yet, its next
/// connection may come here again.
pub(super) async fn http2<C: Graceful>(
    mut connection: Pin<&mut C>,
    streams: &Http2Streams,
    ending: &ConnectionEnding,
    lifecycle: &ServerLifecycle,
    limits: &ConnectionLimits,
) -> hyper::Result<()> {
    let leaving = async {
        ending.leaving().cancelled().await;
        // Whichever is first.
        let _ = timeout(limits.linger, streams.first.notified()).await;
    };
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = lifecycle.gone().cancelled() => return Ok(()),
        () = leaving => {}
        () = streams.open.idle(limits.header_timeout, limits.idle_timeout) => {}
    }
    tokio::select! {
        biased;
        ended = finish(connection, lifecycle) => ended,
        // A client need not heed GOAWAY, nor the ping that goes with it.
        () = streams.open.idle(limits.write_stall_timeout, limits.write_stall_timeout) => Ok(()),
    }
}

async fn finish<C: Graceful>(mut connection: Pin<&mut C>, lifecycle: &ServerLifecycle) -> hyper::Result<()> {
    connection.as_mut().finish();
    tokio::select! {
        ended = connection => ended,
        () = lifecycle.gone().cancelled() => Ok(()),
    }
}

impl<I, B, S> Graceful for http1::Connection<I, S>
where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, B, S> Graceful for http2::Connection<I, S, LocalExecutor>
where
    S: hyper::service::HttpService<hyper::body::Incoming, ResBody = B>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::Future: 'static,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    LocalExecutor: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// Runs HTTP/2 streams on the worker that has the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalExecutor;

impl<F: Future + 'static> Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
