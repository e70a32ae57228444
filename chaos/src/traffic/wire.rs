//! One caller's connection to one address, and what became of each request on it.
//!
//! What matters here is the truth about a request that got no answer: one that was surely never sent may be sent
//! again on a fresh connection, as every client library does; of one that may have been sent nothing is known.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

/// How long a client waits for a whole answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How often a request that was surely not sent is tried on a fresh connection.
const FRESH_ATTEMPTS: usize = 3;
/// How long a connection may take to be made before the next attempt.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// The protocol that a caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 with keep-alive.
    Http1,
    /// HTTP/2.
    Http2,
}

/// An address of the group: a replica's own, or the balancer's.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// What it is called in a history.
    pub(crate) name: String,
    authority: String,
    server_name: ServerName<'static>,
    authorization: HeaderValue,
    over_http1: Arc<ClientConfig>,
    over_http2: Arc<ClientConfig>,
    receive_buffer_bytes: Option<u32>,
}

impl Address {
    /// `authority` is `host:port`; `ca_pem` signed its certificate.
    pub(crate) fn new(name: &str, authority: &str, ca_pem: &[u8], token: &str) -> Result<Self, String> {
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let server_name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| error.to_string())?;
        authorization.set_sensitive(true);
        Ok(Self {
            name: name.to_owned(),
            authority: authority.to_owned(),
            server_name,
            authorization,
            over_http1: Arc::new(tls(ca_pem, b"http/1.1")?),
            over_http2: Arc::new(tls(ca_pem, b"h2")?),
            receive_buffer_bytes: None,
        })
    }

    /// The same address, for a reader whose kernel holds so little for it that the server notices how slow it is.
    pub(crate) fn with_small_buffer(&self, bytes: u32) -> Self {
        Self {
            receive_buffer_bytes: Some(bytes),
            ..self.clone()
        }
    }

    async fn connect(&self, protocol: Protocol) -> Result<Sender, String> {
        let failed = |error: &dyn std::fmt::Display| format!("connect: {error}");
        let address = tokio::net::lookup_host(&self.authority).await;
        let address = address
            .map_err(|error| failed(&error))?
            .next()
            .ok_or("connect: no address")?;
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        };
        let socket = socket.map_err(|error| failed(&error))?;
        if let Some(bytes) = self.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes).map_err(|error| failed(&error))?;
        }
        let stream: TcpStream = socket.connect(address).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let tls = match protocol {
            Protocol::Http1 => &self.over_http1,
            Protocol::Http2 => &self.over_http2,
        };
        let stream = TlsConnector::from(tls.clone())
            .connect(self.server_name.clone(), stream)
            .await;
        let io = TokioIo::new(stream.map_err(|error| failed(&error))?);
        match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(io).await.map_err(|error| failed(&error))?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(Sender::Http1(sender))
            }
            Protocol::Http2 => {
                let handshake = http2::handshake(TokioExecutor::new(), io).await;
                let (sender, connection) = handshake.map_err(|error| failed(&error))?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(Sender::Http2(sender))
            }
        }
    }
}

fn tls(ca_pem: &[u8], protocol: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(ca_pem) {
        let certificate = certificate.map_err(|error| format!("the CA: {error}"))?;
        roots.add(certificate).map_err(|error| format!("the CA: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    fn is_open(&self) -> bool {
        match self {
            Self::Http1(sender) => !sender.is_closed(),
            Self::Http2(sender) => !sender.is_closed(),
        }
    }
}

/// A request that can be sent again.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) body: Option<(&'static str, Bytes)>,
}

impl Call {
    /// `GET`.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
        }
    }

    /// A request with a JSON body of this media type.
    pub(crate) fn with_body(
        method: Method,
        path: impl Into<String>,
        media: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self {
            method,
            path: path.into(),
            body: Some((media, body.into())),
        }
    }
}

/// What became of a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// An answer came, whole.
    Answer {
        /// Its status code.
        code: u16,
        /// Its body.
        body: Bytes,
    },
    /// It surely never reached a server.
    NotSent(String),
    /// It may have reached a server, and no whole answer came.
    Lost(String),
}

/// One caller: one request at a time, on a connection that is kept while it lasts.
pub(crate) struct Caller {
    pub(crate) address: Address,
    protocol: Protocol,
    sender: Option<Sender>,
    /// Connections made so far, the current one included.
    pub(crate) connections: u64,
}

impl Caller {
    /// Connects when the first request is sent.
    pub(crate) fn new(address: Address, protocol: Protocol) -> Self {
        Self {
            address,
            protocol,
            sender: None,
            connections: 0,
        }
    }

    /// Sends, and waits for the whole answer for at most [`PATIENCE`].
    pub(crate) async fn call(&mut self, call: &Call) -> Reply {
        let end = Instant::now() + PATIENCE;
        let reply = self.call_until(call, end).await;
        if matches!(reply, Reply::Lost(_) | Reply::NotSent(_)) {
            self.sender = None;
        }
        reply
    }

    async fn call_until(&mut self, call: &Call, end: Instant) -> Reply {
        let response = match self.head_until(call, end).await {
            Ok(response) => response,
            Err(reply) => return reply,
        };
        let code = response.status().as_u16();
        match timeout_at(end, response.into_body().collect()).await {
            Ok(Ok(body)) => Reply::Answer {
                code,
                body: body.to_bytes(),
            },
            Ok(Err(error)) => Reply::Lost(format!("the answer broke off: {}", chain(&error))),
            Err(_) => Reply::Lost("timeout within the answer".to_owned()),
        }
    }

    /// Sends, and waits for the head of the answer; its body streams as long as this caller lives.
    pub(crate) async fn open(&mut self, call: &Call) -> Result<(StatusCode, Incoming), Reply> {
        let response = self.head_until(call, Instant::now() + PATIENCE).await;
        let response = response.inspect_err(|_| self.sender = None)?;
        Ok((response.status(), response.into_body()))
    }

    async fn head_until(&mut self, call: &Call, end: Instant) -> Result<Response<Incoming>, Reply> {
        let mut last = String::new();
        for _ in 0..FRESH_ATTEMPTS {
            self.ensure_connected(end).await.map_err(Reply::NotSent)?;
            match timeout_at(end, self.send(call)).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) if was_not_sent(&error) => last = chain(&error),
                Ok(Err(error)) => return Err(Reply::Lost(chain(&error))),
                Err(_) => return Err(Reply::Lost("timeout".to_owned())),
            }
            self.sender = None;
        }
        Err(Reply::NotSent(last))
    }

    async fn ensure_connected(&mut self, end: Instant) -> Result<(), String> {
        if self.sender.as_ref().is_some_and(Sender::is_open) {
            return Ok(());
        }
        let patience = CONNECT_PATIENCE.min(end.saturating_duration_since(Instant::now()));
        let sender = timeout(patience, self.address.connect(self.protocol)).await;
        self.sender = Some(sender.map_err(|_| "connect: timeout".to_owned())??);
        self.connections += 1;
        Ok(())
    }

    async fn send(&mut self, call: &Call) -> hyper::Result<Response<Incoming>> {
        let request = self.request(call);
        match self.sender.as_mut().expect("it was connected above") {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        let authority = &self.address.authority;
        let builder = Request::builder().method(call.method.clone());
        let builder = match self.protocol {
            Protocol::Http1 => builder.uri(&call.path).header(HOST, authority),
            Protocol::Http2 => builder.uri(format!("https://{authority}{}", call.path)),
        };
        let builder = builder
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, "trireme-chaos")
            .header(AUTHORIZATION, self.address.authorization.clone());
        match &call.body {
            Some((media, body)) => builder.header(CONTENT_TYPE, *media).body(Full::new(body.clone())),
            None => builder.body(Full::default()),
        }
        .expect("paths are made here, of letters that a URL may have")
    }
}

/// Whether a server surely has not seen the request: it was still in the sender's queue, or the server said so.
fn was_not_sent(error: &hyper::Error) -> bool {
    let refused = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<h2::Error>())
        .is_some_and(|error| error.reason() == Some(h2::Reason::REFUSED_STREAM) || error.is_go_away());
    error.is_canceled() || error.is_closed() || refused
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
