//! One connection, from the TLS handshake to its end.

use std::{
    any::Any, cell::OnceCell, convert::Infallible, mem::MaybeUninit, net::SocketAddr, pin::Pin, rc::Rc, sync::Arc,
};

use actix_web::http::header;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics::Counter;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::keepalive::notice_lost_peer;

use super::{
    ConnectionLimits,
    bridge::{self, BadHead},
    client_certificate::ClientCertificate,
    cork::Corked,
    drive::{self, Http2Streams, LocalExecutor},
    guarded_io::{ConnectionPhase, GuardedIo, Serving},
    handler::Handler,
    handshakes::PendingHandshake,
    lifecycle::{ConnectionEnding, ServerLifecycle},
    open_streams::OpenStreams,
    pace::WriteTurns,
    stalls::{Fetched, Stalls, StreamedAnswer},
    tls::{ALPN_HTTP2, TlsProvider},
    upgrade::{Upgrade, UpgradeSlot, Upgraded},
    worker::Accepted,
};

/// HTTP/2: the bytes of a request's body that may come before its handler reads them, which is most bodies as a whole.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The same of all requests of a connection: those of 64 streams as a whole, and of far more of usual size. It is what a client can
/// have kept for it with one connection.
const MOST_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// The other end of a connection; an extension of every request.
#[derive(Debug)]
pub struct Peer {
    /// The address: of the client or of the last proxy.
    pub address: SocketAddr,
    /// The client certificate, if one was given.
    pub certificate: Option<ClientCertificate>,
    /// The order to end the connection.
    pub ending: ConnectionEnding,
    /// The bound on all connections, if this one is beyond it: the handler ends it, unless it is for someone who must get in.
    pub surplus_over: Option<usize>,
    /// State that the handler keeps for as long as the connection is open.
    pub kept: OnceCell<Box<dyn Any>>,
}

/// State that all connections of a worker share.
pub(super) struct ServingSettings {
    pub(super) tls: Arc<dyn TlsProvider>,
    pub(super) limits: ConnectionLimits,
    pub(super) lifecycle: ServerLifecycle,
    pub(super) turns: Rc<WriteTurns>,
    pub(super) handshake_errors: Counter,
}

/// Serves a connection to its end.
pub(super) async fn serve<H: Handler>(
    accepted: Accepted,
    ending: ConnectionEnding,
    settings: Rc<ServingSettings>,
    handler: Rc<H>,
) {
    let Accepted {
        socket,
        peer,
        handshake,
        surplus_over,
    } = accepted;
    let Some((stream, certificate)) = connected(socket, peer, &handshake, &settings).await else {
        return;
    };
    drop(handshake);
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(ALPN_HTTP2);
    let peer = Rc::new(Peer {
        address: peer,
        certificate,
        ending,
        surplus_over,
        kept: OnceCell::new(),
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

/// The connection once hands have been shaken; `None` if that fails, takes too long or has to make room.
async fn connected(
    socket: std::net::TcpStream,
    peer: SocketAddr,
    handshake: &PendingHandshake,
    settings: &ServingSettings,
) -> Option<Connected> {
    let limits = &settings.limits;
    let too_late = async {
        settings.lifecycle.closing().cancelled().await;
        tokio::time::sleep(limits.linger).await;
    };
    let failed = tokio::select! {
        biased;
        result = tokio::time::timeout(limits.handshake_timeout, shake_hands(socket, handshake, settings)) => match result {
            Ok(Ok(connected)) => return Some(connected),
            Ok(Err(error)) => error,
            Err(_) => std::io::ErrorKind::TimedOut.into(),
        },
        () = too_late => return None,
    };
    settings.handshake_errors.increment(1);
    tracing::debug!(%peer, error = %failed, "TLS handshake failed");
    None
}

/// The connection, and the client's certificate.
type Connected = (TlsStream<TcpStream>, Option<ClientCertificate>);

async fn shake_hands(
    socket: std::net::TcpStream,
    handshake: &PendingHandshake,
    settings: &ServingSettings,
) -> std::io::Result<Connected> {
    let socket = TcpStream::from_std(socket)?;
    // Without it, every HTTP/2 answer waits for the client's delayed acknowledgement: 44 ms.
    socket.set_nodelay(true)?;
    notice_lost_peer(&socket)?;
    let tls = Arc::clone(&settings.tls).current();
    let accept = TlsAcceptor::from(Arc::clone(tls.config())).accept(socket);
    let outcome = handshake
        .run(accept, |accept| accept.get_ref().is_some_and(has_unread))
        .await;
    let stream = outcome.unwrap_or_else(|| Err(std::io::Error::other("others had to wait for it")))?;
    let (_, session) = stream.get_ref();
    let shown = session.peer_certificates();
    let certificate = shown.and_then(|chain| ClientCertificate::shown(chain, tls, &settings.tls));
    Ok((stream, certificate))
}

/// Reports whether the client has sent something that was not read yet: the event loop need not have heard of it.
fn has_unread(socket: &TcpStream) -> bool {
    let mut byte = [MaybeUninit::uninit()];
    SockRef::from(socket).peek(&mut byte).is_ok_and(|bytes| bytes > 0)
}

async fn serve_http1<H: Handler>(
    stream: TlsStream<TcpStream>,
    settings: &ServingSettings,
    handler: Rc<H>,
    peer: Rc<Peer>,
) -> hyper::Result<()> {
    let limits = &settings.limits;
    let phase = Rc::new(ConnectionPhase::default());
    let io = GuardedIo::new(WriteTurns::pace(&settings.turns, stream), limits.write_stall_timeout);
    let io = io.with_phase(&phase, limits);
    let slot = Rc::new(UpgradeSlot::default());
    let ending = peer.ending.clone();
    let (upgrades, served) = (Rc::clone(&slot), Rc::clone(&phase));
    let service = service_fn(move |request| begin_http1(&handler, request, &peer, &served, &upgrades));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // hyper's timeout also runs between requests, so it is the one for idle connections; `GuardedIo` has the other.
        .header_read_timeout(limits.idle_timeout)
        .max_header_size(usize::try_from(limits.header_bytes).unwrap_or(usize::MAX))
        .serve_connection(TokioIo::new(io), service);
    let connected = Pin::new(&mut connection);
    drive::http1(connected, &phase, &ending, &settings.lifecycle, limits.linger).await?;
    let Some(upgrade) = slot.take() else { return Ok(()) };
    // hyper's own upgrades need a stream that may change threads, which those of a worker may not.
    let parts = connection.into_parts();
    let upgraded = Upgraded {
        io: parts.io.into_inner().without_head_timeout(),
        read_ahead: parts.read_buf,
        limits: limits.clone(),
    };
    serve_upgraded(upgrade, upgraded, &settings.lifecycle).await;
    Ok(())
}

/// Begins to answer a request of HTTP/1.1.
fn begin_http1<H: Handler>(
    handler: &Rc<H>,
    request: http::Request<Incoming>,
    peer: &Rc<Peer>,
    phase: &Rc<ConnectionPhase>,
    upgrades: &Rc<UpgradeSlot>,
) -> impl Future<Output = Result<http::Response<bridge::ResponseBody<Serving>>, Infallible>> + use<H> {
    let serving = ConnectionPhase::serving(phase);
    let two_lengths = phase.has_two_lengths();
    let is_last = !phase.take_looked_at() && request.headers().contains_key(http::header::TRANSFER_ENCODING);
    let (handler, peer, upgrades) = (Rc::clone(handler), Rc::clone(peer), Rc::clone(upgrades));
    async move {
        if two_lengths {
            return Ok(bridge::refusal(&*handler, BadHead::TwoLengths, serving));
        }
        let Ok(mut response) = answer(handler, request, peer, || serving, Some(upgrades)).await;
        if is_last {
            bridge::end_connection(&mut response);
        }
        Ok(response)
    }
}

async fn serve_upgraded(upgrade: Upgrade, upgraded: Upgraded, lifecycle: &ServerLifecycle) {
    tokio::select! {
        biased;
        () = lifecycle.gone().cancelled() => {}
        _ = upgrade.run(upgraded) => {}
    }
}

async fn serve_http2<H: Handler>(
    stream: TlsStream<TcpStream>,
    settings: &ServingSettings,
    handler: Rc<H>,
    peer: Rc<Peer>,
) -> hyper::Result<()> {
    let limits = &settings.limits;
    let stream = WriteTurns::pace(&settings.turns, stream);
    let stream = GuardedIo::new(stream, limits.write_stall_timeout).with_preface_timeout(limits.header_timeout);
    let stream = Corked::new(stream);
    let (stalls, streams) = (Rc::new(Stalls::new(limits)), Http2Streams::default());
    let (watched, open, first) = (Rc::clone(&stalls), Rc::clone(&streams.open), Rc::clone(&streams.first));
    let ending = peer.ending.clone();
    let service = service_fn(move |request| {
        first.notify_one();
        let (handler, peer, stalls) = (Rc::clone(&handler), Rc::clone(&peer), Rc::clone(&watched));
        let open = OpenStreams::open(&open);
        // In a box, as hyper keeps the place that it takes for as long as the answer's body lasts: a watch.
        Box::pin(answer(
            handler,
            request,
            peer,
            move || Stalls::watch(&stalls, open),
            None,
        ))
    });
    let connection = http2::Builder::new(LocalExecutor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.concurrent_streams)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(connection_window(limits.concurrent_streams))
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
        ended = drive::http2(turns, &streams, &ending, &settings.lifecycle, limits) => ended,
        () = stalls.too_long() => {
            tracing::debug!("the client gives no window for its answers");
            Ok(())
        }
    }
}

/// The window of a connection over which so many requests may come at once: a body that is not read, because its request waits for
/// a seat, must not hold up the others.
fn connection_window(streams: u32) -> u32 {
    STREAM_WINDOW_BYTES
        .saturating_mul(streams.max(1))
        .min(MOST_WINDOW_BYTES)
}

/// Answers a request; `in_progress` makes what is held until the answer has been fetched.
async fn answer<H: Handler, G: Fetched + Unpin>(
    handler: Rc<H>,
    request: http::Request<Incoming>,
    peer: Rc<Peer>,
    in_progress: impl FnOnce() -> G,
    upgrades: Option<Rc<UpgradeSlot>>,
) -> Result<http::Response<bridge::ResponseBody<G>>, Infallible> {
    Ok(match bridge::request(request, &peer) {
        Ok((request, unread)) => {
            let http2 = request.version() == actix_web::http::Version::HTTP_2;
            let wants_head = request.method() == actix_web::http::Method::HEAD;
            let mut response = handler.handle(request).await;
            // A stream of HTTP/2 can be reset without its answer being lost.
            if !http2 {
                unread.discard().await;
            }
            let upgrade = response.extensions_mut().remove::<Upgrade>();
            match (upgrade, upgrades) {
                (Some(upgrade), Some(slot)) => slot.put(upgrade),
                _ => say_whether_it_ends(&peer.ending, http2, response.headers_mut()),
            }
            let in_progress = in_progress();
            if response.extensions_mut().remove::<StreamedAnswer>().is_some() {
                in_progress.begins_stream();
            }
            let response = bridge::response(response, in_progress);
            match http2 && wants_head {
                true => bridge::head_of(response),
                false => response,
            }
        }
        Err(error) => bridge::refusal(&*handler, error, in_progress()),
    })
}

/// HTTP/1.1 says in an answer that the connection ends, HTTP/2 says it beside them. Handlers need not know: an answer that
/// says `Connection: close` ends either.
fn say_whether_it_ends(ending: &ConnectionEnding, http2: bool, headers: &mut header::HeaderMap) {
    if http2 && headers.remove(header::CONNECTION).next().is_some() {
        ending.leave();
    } else if !http2 && ending.is_leaving() {
        headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    }
}
