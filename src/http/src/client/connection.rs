//! One connection to a server: TCP, TLS, and HTTP/1.1 or HTTP/2 on it.
//!
//! The pool is built on these; a caller that must control their number, such as a load generator, uses them directly.

use std::{fmt, io, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response, Uri, header, uri};
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream, lookup_host},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::keepalive::notice_lost_peer;

use super::{
    body::{IncomingBody, OutboundBody},
    certificate_error,
    endpoint::Endpoint,
    error::{ClientError, chain, is_unsent},
    tls::{ClientTls, TlsOptions},
};

/// The protocols that may be spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Protocols {
    /// HTTP/2 if the server takes it, by ALPN; without TLS, HTTP/1.1.
    #[default]
    Any,
    /// HTTP/1.1
    Http1,
    /// HTTP/2, also without TLS.
    Http2,
}

/// Settings of one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// The protocols that may be spoken.
    pub protocols: Protocols,
    /// The receive buffer of the kernel; its own choice if not given.
    pub receive_buffer_bytes: Option<u32>,
    /// HTTP/2: what the server may send ahead on a stream.
    pub stream_window_bytes: Option<u32>,
    /// HTTP/2: what the server may send ahead in all.
    pub connection_window_bytes: Option<u32>,
    /// HTTP/2: the silence after which to ask whether the server is there, and the time to wait for the answer.
    pub ping: Option<(Duration, Duration)>,
}

/// Moves the bytes of a connection; to be run as a task. Ends with the connection.
pub type Driver = BoxFuture<'static, ()>;

/// A connection. Dropped, it ends when its requests have.
pub struct Connection {
    sender: Sender,
    server: Arc<ServerFacts>,
}

/// Facts about the server that requests need.
struct ServerFacts {
    name: Arc<str>,
    scheme: uri::Scheme,
    authority: uri::Authority,
    host: HeaderValue,
}

enum Sender {
    /// One request at a time.
    Http1(http1::SendRequest<OutboundBody>),
    /// Many requests at a time; clones share the connection.
    Http2(http2::SendRequest<OutboundBody>),
}

/// A request that failed on a connection.
pub(super) struct SendFailure {
    pub(super) error: ClientError,
    /// The request, if nothing of it has left.
    pub(super) request: Option<Request<OutboundBody>>,
}

impl Connection {
    /// Connects and shakes hands. Without `tls`, an endpoint of `https` is believed if the machine trusts it.
    ///
    /// # Errors
    /// [`ClientError::Connect`] and [`ClientError::Handshake`].
    pub async fn open(
        endpoint: &Endpoint,
        tls: Option<&ClientTls>,
        settings: &ConnectionSettings,
    ) -> Result<(Self, Driver), ClientError> {
        let socket = dial(endpoint, settings).await?;
        if !endpoint.is_secure() {
            let is_http2 = settings.protocols == Protocols::Http2;
            return Self::over(socket, is_http2, endpoint, settings).await;
        }
        let stream = secure(socket, endpoint, tls, settings.protocols).await?;
        let agreed = stream.get_ref().1.alpn_protocol();
        let is_http2 = agreed == Some(b"h2") || agreed.is_none() && settings.protocols == Protocols::Http2;
        Self::over(stream, is_http2, endpoint, settings).await
    }

    async fn over<T>(
        stream: T,
        is_http2: bool,
        endpoint: &Endpoint,
        settings: &ConnectionSettings,
    ) -> Result<(Self, Driver), ClientError>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let name = Arc::<str>::from(endpoint.to_string());
        let failed = |error: hyper::Error| ClientError::Handshake {
            endpoint: name.to_string(),
            why: chain(&error),
            certificate: None,
        };
        let io = TokioIo::new(stream);
        let (sender, driver): (_, Driver) = if is_http2 {
            let (sender, connection) = http2_builder(settings).handshake(io).await.map_err(failed)?;
            // Its end is seen by the requests on it.
            (Sender::Http2(sender), Box::pin(async move { drop(connection.await) }))
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(failed)?;
            let connection = connection.with_upgrades();
            (Sender::Http1(sender), Box::pin(async move { drop(connection.await) }))
        };
        let host = HeaderValue::from_str(endpoint.authority().as_str())
            .map_err(|_| ClientError::Address(endpoint.to_string()))?;
        let server = Arc::new(ServerFacts {
            name,
            scheme: endpoint.scheme().clone(),
            authority: endpoint.authority().clone(),
            host,
        });
        Ok((Self { sender, server }, driver))
    }

    /// Reports whether HTTP/2 is spoken.
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Reports whether requests can still be sent.
    pub fn is_open(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => !sender.is_closed(),
            Sender::Http2(sender) => !sender.is_closed(),
        }
    }

    /// Another end of the same connection, with HTTP/2.
    pub fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self {
                sender: Sender::Http2(sender.clone()),
                server: Arc::clone(&self.server),
            }),
        }
    }

    /// Sends a request for a path, and waits for the head of the answer. With HTTP/1.1 an answer must be read to its end
    /// before the next request is sent.
    ///
    /// # Errors
    /// [`ClientError::NotSent`] and [`ClientError::Lost`].
    pub async fn send(&mut self, request: Request<OutboundBody>) -> Result<Response<IncomingBody>, ClientError> {
        self.try_send(request).await.map_err(|failure| failure.error)
    }

    /// The same, and gives a request back that has not left.
    pub(super) async fn try_send(
        &mut self,
        mut request: Request<OutboundBody>,
    ) -> Result<Response<IncomingBody>, Box<SendFailure>> {
        if let Err(error) = self.address(&mut request) {
            return Err(Box::new(SendFailure { error, request: None }));
        }
        let ready = match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await,
            Sender::Http2(sender) => sender.ready().await,
        };
        if let Err(error) = ready {
            let error = self.server.not_sent(&error);
            return Err(Box::new(SendFailure {
                error,
                request: Some(request),
            }));
        }
        let sent = match &mut self.sender {
            Sender::Http1(sender) => sender.try_send_request(request).await,
            Sender::Http2(sender) => sender.try_send_request(request).await,
        };
        match sent {
            Ok(response) => Ok(self.server.response(response)),
            Err(failure) => Err(Box::new(self.server.failure(failure))),
        }
    }

    /// HTTP/1.1 wants a path and `Host`, HTTP/2 the whole URL.
    fn address(&self, request: &mut Request<OutboundBody>) -> Result<(), ClientError> {
        match &self.sender {
            Sender::Http1(_) => {
                if let header::Entry::Vacant(entry) = request.headers_mut().entry(header::HOST) {
                    entry.insert(self.server.host.clone());
                }
            }
            Sender::Http2(_) => {
                let mut parts = uri::Parts::default();
                parts.scheme = Some(self.server.scheme.clone());
                parts.authority = Some(self.server.authority.clone());
                let path = request.uri().path_and_query().cloned();
                parts.path_and_query = path.or_else(|| Some(uri::PathAndQuery::from_static("/")));
                *request.uri_mut() =
                    Uri::from_parts(parts).map_err(|_| ClientError::Address(self.server.name.to_string()))?;
            }
        }
        Ok(())
    }
}

impl ServerFacts {
    fn not_sent(&self, error: &hyper::Error) -> ClientError {
        ClientError::NotSent {
            endpoint: self.name.to_string(),
            why: chain(error),
        }
    }

    fn response(&self, response: Response<Incoming>) -> Response<IncomingBody> {
        response.map(|incoming| IncomingBody::new(incoming, Arc::clone(&self.name)))
    }

    fn failure(&self, mut failure: TrySendError<Request<OutboundBody>>) -> SendFailure {
        let request = failure.take_message();
        let error = failure.into_error();
        let error = match request.is_some() || is_unsent(&error) {
            true => self.not_sent(&error),
            false => ClientError::Lost {
                endpoint: self.name.to_string(),
                why: chain(&error),
            },
        };
        SendFailure { error, request }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.server.name)
    }
}

fn http2_builder(settings: &ConnectionSettings) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(settings.stream_window_bytes)
        .initial_connection_window_size(settings.connection_window_bytes);
    if let Some((interval, patience)) = settings.ping {
        builder
            .keep_alive_interval(interval)
            .keep_alive_timeout(patience)
            .keep_alive_while_idle(true);
    }
    builder
}

/// The bytes of a connection both ways.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for T {}

/// A connection without HTTP on it, for callers that pace every byte themselves.
///
/// # Errors
/// As [`Connection::open`].
pub async fn open_stream(
    endpoint: &Endpoint,
    tls: Option<&ClientTls>,
    settings: &ConnectionSettings,
) -> Result<Box<dyn ByteStream>, ClientError> {
    let socket = dial(endpoint, settings).await?;
    Ok(match endpoint.is_secure() {
        true => Box::new(secure(socket, endpoint, tls, settings.protocols).await?),
        false => Box::new(socket),
    })
}

async fn secure(
    socket: TcpStream,
    endpoint: &Endpoint,
    tls: Option<&ClientTls>,
    protocols: Protocols,
) -> Result<TlsStream<TcpStream>, ClientError> {
    let handshake = |why: String| ClientError::Handshake {
        endpoint: endpoint.to_string(),
        why,
        certificate: None,
    };
    let system;
    let tls = match tls {
        Some(tls) => tls,
        None => {
            system = ClientTls::new(&TlsOptions::default()).map_err(|error| handshake(error.to_string()))?;
            &*system
        }
    };
    let name = match tls.server_name() {
        Some(name) => name.clone(),
        None => {
            ServerName::try_from(endpoint.host().to_owned()).map_err(|_| ClientError::Address(endpoint.to_string()))?
        }
    };
    let connector = TlsConnector::from(tls.config(protocols));
    let stream = connector.connect(name.clone(), socket).await;
    stream.map_err(|error| ClientError::Handshake {
        endpoint: endpoint.to_string(),
        why: error.to_string(),
        certificate: certificate_error::describe(&error, &name.to_str()),
    })
}

async fn dial(endpoint: &Endpoint, settings: &ConnectionSettings) -> Result<TcpStream, ClientError> {
    let dialed = dial_any(endpoint, settings).await;
    dialed.map_err(|source| ClientError::Connect {
        endpoint: endpoint.to_string(),
        source,
    })
}

/// Tries the addresses of a host in turn.
async fn dial_any(endpoint: &Endpoint, settings: &ConnectionSettings) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in lookup_host(endpoint.dial()).await? {
        let socket = match address.is_ipv4() {
            true => TcpSocket::new_v4()?,
            false => TcpSocket::new_v6()?,
        };
        if let Some(bytes) = settings.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        match socket.connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                notice_lost_peer(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
