//! One connection, from the TLS handshake to its end.

use std::{convert::Infallible, net::SocketAddr, pin::Pin, rc::Rc, sync::Arc};

use hyper::{
    rt::Executor,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use trireme_auth::CertificateIdentity;

use super::{
    ConnectionLimits,
    bridge::{self, BadHead},
    cork::Corked,
    guarded_io::{GuardedIo, Phase},
    handler::Handler,
    lifecycle::Lifecycle,
    stalls::Stalls,
    tls::{ALPN_HTTP2, TlsProvider},
    upgrade::{Upgrade, UpgradeSlot, Upgraded},
    worker::Accepted,
};

/// Who is at the other end of a connection; an extension of every request.
#[derive(Debug)]
pub struct Peer {
    /// The address: of the client or of the last proxy.
    pub address: SocketAddr,
    /// The client certificate, if one was given. Its chain has been verified.
    pub certificate: Option<CertificateIdentity>,
}

/// What all connections of a worker share.
pub(super) struct Settings {
    pub(super) tls: Arc<dyn TlsProvider>,
    pub(super) limits: ConnectionLimits,
    pub(super) lifecycle: Lifecycle,
}

/// Serves a connection to its end.
pub(super) async fn serve<H: Handler>(accepted: Accepted, settings: Rc<Settings>, handler: Rc<H>) {
    let Accepted { socket, peer, permit } = accepted;
    let handshake = tokio::time::timeout(settings.limits.handshake_timeout, shake_hands(socket, &settings));
    let gone = settings.lifecycle.gone();
    let stream = tokio::select! {
        biased;
        () = gone.cancelled() => return,
        result = handshake => match result {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake failed"),
            Err(_) => return tracing::debug!(%peer, "TLS handshake timed out"),
        },
    };
    drop(permit);
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(ALPN_HTTP2);
    let certificate = match session.peer_certificates().and_then(<[_]>::first) {
        None => None,
        Some(der) => match CertificateIdentity::from_der(der) {
            Ok(identity) => Some(identity),
            Err(error) => return tracing::debug!(%peer, %error, "client certificate refused"),
        },
    };
    let peer = Rc::new(Peer {
        address: peer,
        certificate,
    });
    let ended = if http2 {
        serve_http2(stream, &settings, handler, peer).await
    } else {
        serve_http1(stream, &settings, handler, peer).await
    };
    if let Err(error) = ended {
        tracing::debug!(error = &error as &dyn std::error::Error, "connection ended");
    }
}

async fn shake_hands(socket: std::net::TcpStream, settings: &Settings) -> std::io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::from_std(socket)?;
    // Without it, every HTTP/2 answer waits for the client's delayed acknowledgement: 44 ms.
    socket.set_nodelay(true)?;
    TlsAcceptor::from(Arc::clone(&settings.tls).current())
        .accept(socket)
        .await
}

async fn serve_http1<H: Handler>(
    stream: TlsStream<TcpStream>,
    settings: &Settings,
    handler: Rc<H>,
    peer: Rc<Peer>,
) -> hyper::Result<()> {
    let limits = &settings.limits;
    let phase = Rc::new(Phase::default());
    let io = GuardedIo::new(stream, limits.write_stall_timeout).with_head_timeout(&phase, limits.header_timeout);
    let slot = Rc::new(UpgradeSlot::default());
    let upgrades = Rc::clone(&slot);
    let service = service_fn(move |request| {
        let serving = Phase::serving(&phase);
        let (handler, peer, two_lengths) = (Rc::clone(&handler), Rc::clone(&peer), phase.has_two_lengths());
        let upgrades = Rc::clone(&upgrades);
        async move {
            if two_lengths {
                return Ok(bridge::refusal(BadHead::TwoLengths, serving));
            }
            answer(handler, request, peer, || serving, Some(upgrades)).await
        }
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // hyper's timeout also runs between requests, so it is the one for idle connections; `GuardedIo` has the other.
        .header_read_timeout(limits.idle_timeout)
        .max_header_size(usize::try_from(limits.header_bytes).unwrap_or(usize::MAX))
        .serve_connection(TokioIo::new(io), service);
    drive(Pin::new(&mut connection), &settings.lifecycle).await?;
    let Some(upgrade) = slot.take() else { return Ok(()) };
    // hyper's own upgrades need a stream that may change threads, which those of a worker may not.
    let parts = connection.into_parts();
    let upgraded = Upgraded {
        io: parts.io.into_inner().without_head_timeout(),
        read_ahead: parts.read_buf,
        limits: limits.clone(),
    };
    tokio::select! {
        biased;
        () = settings.lifecycle.gone().cancelled() => {}
        _ = upgrade.run(upgraded) => {}
    }
    Ok(())
}

async fn serve_http2<H: Handler>(
    stream: TlsStream<TcpStream>,
    settings: &Settings,
    handler: Rc<H>,
    peer: Rc<Peer>,
) -> hyper::Result<()> {
    let limits = &settings.limits;
    let stream = Corked::new(GuardedIo::new(stream, limits.write_stall_timeout));
    let stalls = Rc::new(Stalls::default());
    let watched = Rc::clone(&stalls);
    let service = service_fn(move |request| {
        let (handler, peer, stalls) = (Rc::clone(&handler), Rc::clone(&peer), Rc::clone(&watched));
        // In a box, as hyper keeps the place that it takes for as long as the answer's body lasts: a watch.
        Box::pin(answer(handler, request, peer, move || Stalls::watch(&stalls), None))
    });
    let connection = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.concurrent_streams)
        .max_header_list_size(limits.header_bytes)
        .max_pending_accept_reset_streams(limits.pending_reset_streams)
        .max_local_error_reset_streams(limits.pending_reset_streams)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout)
        .serve_connection(TokioIo::new(stream.handle()), service);
    tokio::pin!(connection);
    let turns = stream.turns(connection);
    tokio::pin!(turns);
    tokio::select! {
        ended = drive(turns, &settings.lifecycle) => ended,
        () = stalls.too_long(limits.write_stall_timeout) => {
            tracing::debug!("the client gives no window for its answers");
            Ok(())
        }
    }
}

/// Answers a request; `in_progress` makes what is held until the answer has been fetched.
async fn answer<H: Handler, G>(
    handler: Rc<H>,
    request: http::Request<hyper::body::Incoming>,
    peer: Rc<Peer>,
    in_progress: impl FnOnce() -> G,
    upgrades: Option<Rc<UpgradeSlot>>,
) -> Result<http::Response<bridge::ResponseBody<G>>, Infallible> {
    Ok(match bridge::request(request, &peer) {
        Ok((request, unread)) => {
            let http2 = request.version() == actix_web::http::Version::HTTP_2;
            let mut response = handler.handle(request).await;
            // A stream of HTTP/2 can be reset without its answer being lost.
            if !http2 {
                unread.discard().await;
            }
            let upgrade = response.extensions_mut().remove::<Upgrade>();
            if let (Some(upgrade), Some(slot)) = (upgrade, upgrades) {
                slot.put(upgrade);
            }
            bridge::response(response, in_progress())
        }
        Err(error) => bridge::refusal(error, in_progress()),
    })
}

/// Runs a connection; once the server stops, lets its requests finish.
async fn drive<C: Graceful>(mut connection: Pin<&mut C>, lifecycle: &Lifecycle) -> hyper::Result<()> {
    tokio::select! {
        biased;
        () = lifecycle.stopping().cancelled() => {}
        ended = connection.as_mut() => return ended,
    }
    connection.as_mut().finish();
    tokio::select! {
        ended = connection => ended,
        () = lifecycle.gone().cancelled() => Ok(()),
    }
}

/// A connection that can be told to end after its running requests.
pub(super) trait Graceful: Future<Output = hyper::Result<()>> {
    /// Takes no new requests from here on.
    fn finish(self: Pin<&mut Self>);
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
