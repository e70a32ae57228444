//! A server with a tiny application, certificates for it, and a client.

#![expect(
    clippy::disallowed_methods,
    reason = "the client's tasks end with the test's runtime"
)]

use std::{convert::Infallible, io, net::SocketAddr, pin::Pin, rc::Rc, sync::Arc, time::Duration};

use actix_service::{IntoServiceFactory, ServiceFactory, map_config};
use actix_web::{
    App, HttpMessage, HttpRequest, HttpResponse,
    dev::AppConfig,
    web::{self, Bytes},
};
use futures_util::{Stream, StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::watch};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{Gate, describe};
use crate::{
    SplicedUntil,
    server::{
        AppHandler, ConnectionEnding, ConnectionLimits, Peer, RunningServer, ServerConfig, ServerLifecycle,
        StreamedAnswer, TlsChoice, TrustedCas, Upgrade, start, tls_from_pem,
    },
    splice,
    websocket::{self, Handshake, MessagesUntil, Subprotocols},
};

/// A certificate authority.
pub(super) struct Ca {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test CA");
        let certificate = params.self_signed(&key).expect("it can sign itself");
        Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(super) fn pem(&self) -> Vec<u8> {
        self.pem.clone().into_bytes()
    }

    fn issue(&self, name: &str, hosts: Vec<String>) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(hosts).expect("these are names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, "dev");
        let certificate = params.signed_by(&key, &self.issuer).expect("it can be signed");
        (certificate, key)
    }
}

pub(super) struct Server {
    pub(super) ca: Ca,
    pub(super) gate: Gate,
    running: RunningServer,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::start_with(ConnectionLimits::default()).await
    }

    pub(super) async fn start_with(limits: ConnectionLimits) -> Self {
        let ca = Ca::new();
        let (certificate, key) = ca.issue("server", vec!["localhost".to_owned()]);
        let tls = tls_from_pem(
            certificate.pem().as_bytes(),
            key.serialize_pem().as_bytes(),
            TrustedCas {
                clients: &[&ca.pem],
                ..TrustedCas::default()
            },
            &TlsChoice::default(),
        );
        let config = ServerConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            // One, so that what it has done with one connection shows what it has done with those before.
            workers: 1,
            tls: Arc::new(tls.expect("these are PEM texts")),
            limits,
            watch_grace: Duration::ZERO,
        };
        let gate = Gate::default();
        let app_gate = gate.clone();
        let running =
            start(&config, ServerLifecycle::new(), move || build(app_gate.clone())).expect("the server starts");
        Self { ca, gate, running }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.running.local_addr()
    }

    /// The connections that were ever accepted.
    pub(super) fn accepted(&self) -> u64 {
        self.running.connections().next()
    }

    /// A certificate of the server's CA and its key, PEM.
    pub(super) fn identity(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let (certificate, key) = self.ca.issue(name, Vec::new());
        (certificate.pem().into_bytes(), key.serialize_pem().into_bytes())
    }

    /// The server is about to stop and says so.
    pub(super) fn leave(&self) {
        self.running.lifecycle().leave();
    }

    /// The server goes on, but not with those who are connected.
    pub(super) async fn send_all_off(&self) {
        let all = self.running.connections();
        all.send_all_off(Duration::ZERO, Duration::ZERO, |_| {}).await;
    }

    /// The server ends its connections.
    pub(super) fn stop(&self) {
        self.running.lifecycle().stop();
    }

    /// The server takes no new connections.
    pub(super) fn close(&self) {
        self.running.lifecycle().close();
    }

    /// Begins to stop; the second part is done when the server is.
    pub(super) fn shutdown(self) -> (Gate, impl Future<Output = ()>) {
        self.running.lifecycle().close();
        (self.gate, self.running.shutdown(Duration::from_secs(30)))
    }

    pub(super) async fn raw(&self, alpn: &str) -> io::Result<TlsStream<TcpStream>> {
        self.connect(alpn, None).await
    }

    pub(super) async fn client(&self, alpn: &str) -> io::Result<Client> {
        Client::new(alpn, self.connect(alpn, None).await?).await
    }

    pub(super) async fn client_as(&self, alpn: &str, ca: &Ca, name: &str) -> io::Result<Client> {
        Client::new(alpn, self.connect(alpn, Some(ca.issue(name, Vec::new()))).await?).await
    }

    async fn connect(
        &self,
        alpn: &str,
        identity: Option<(rcgen::Certificate, KeyPair)>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.der.clone()).expect("it is a CA");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the defaults fit")
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::try_from(key.serialize_der()).expect("it is a key");
                builder
                    .with_client_auth_cert(vec![certificate.der().clone()], key)
                    .expect("they fit")
            }
        };
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let name = ServerName::try_from("localhost").expect("it is a name");
        let socket = TcpStream::connect(self.address()).await?;
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }
}

/// The tiny application.
async fn build(
    gate: Gate,
) -> AppHandler<
    impl actix_service::Service<actix_http::Request, Response = actix_web::dev::ServiceResponse, Error = actix_web::Error>,
> {
    let app = App::new()
        .app_data(web::Data::new(gate))
        .route("/socket", web::get().to(socket))
        .route("/switch", web::get().to(switch_to_echo))
        .route("/spliced", web::get().to(spliced))
        .route(
            "/redirect",
            web::get().to(|| async { HttpResponse::Found().insert_header(("location", "/hello")).finish() }),
        )
        .route("/unavailable", web::get().to(HttpResponse::ServiceUnavailable))
        .route("/endless-socket", web::get().to(endless_socket))
        .route("/log-socket", web::get().to(log_socket))
        .route("/broken-socket", web::get().to(broken_socket))
        .route(
            "/echo",
            web::post().to(|payload: web::Payload| async { HttpResponse::Ok().streaming(payload) }),
        )
        .route("/whoami", web::get().to(whoami))
        .route(
            "/last",
            web::get().to(|| async { HttpResponse::Ok().insert_header(("connection", "close")).finish() }),
        )
        .route("/endless", web::get().to(endless))
        .route("/log", web::get().to(log))
        .route(
            "/wait",
            web::get().to(|gate: web::Data<Gate>| async move {
                gate.pass().await;
                "done"
            }),
        )
        .route(
            "/wait",
            web::post().to(|gate: web::Data<Gate>, _unread: web::Payload| async move {
                gate.pass().await;
                "done"
            }),
        )
        .default_service(web::to(|request: HttpRequest| async move {
            format!("{} {}", request.method(), request.uri())
        }));
    let factory = map_config(app.into_factory(), |()| AppConfig::default());
    AppHandler(factory.new_service(()).await.expect("the application is in order"))
}

async fn whoami(request: HttpRequest) -> String {
    request
        .extensions()
        .get::<Rc<Peer>>()
        .map_or_else(String::new, |peer| describe(peer))
}

/// Sends everything back that comes after the switch.
async fn switch_to_echo() -> HttpResponse {
    let mut response = HttpResponse::SwitchingProtocols()
        .insert_header(("connection", "Upgrade"))
        .insert_header(("upgrade", "echo"))
        .finish();
    response.extensions_mut().insert(Upgrade::new(async |mut upgraded| {
        let read_ahead = upgraded.read_ahead.clone();
        upgraded.io.write_all(&read_ahead).await.expect("is taken");
        let (mut from, mut to) = tokio::io::split(upgraded.io);
        tokio::io::copy(&mut from, &mut to).await.unwrap_or_default()
    }));
    response
}

/// Goes on as the connection to another server.
async fn spliced(request: HttpRequest, gate: web::Data<Gate>) -> HttpResponse {
    let (backend, ending) = (gate.backend(), ending(&request));
    let mut response = HttpResponse::SwitchingProtocols()
        .insert_header(("connection", "Upgrade"))
        .insert_header(("upgrade", "echo"))
        .finish();
    let upgrade = Upgrade::new(move |client| splice(client, backend, ending, SplicedUntil::ServerCloses));
    response.extensions_mut().insert(upgrade);
    response
}

async fn endless(gate: web::Data<Gate>) -> HttpResponse {
    let arrival = gate.arrive();
    let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
    HttpResponse::Ok().streaming(stream::repeat_with(move || {
        let _held = &arrival;
        Ok::<_, Infallible>(chunk.clone())
    }))
}

/// The same as an answer that a client may leave for long.
async fn log(gate: web::Data<Gate>) -> HttpResponse {
    let mut answer = endless(gate).await;
    answer.extensions_mut().insert(StreamedAnswer);
    answer
}

/// Sends two messages at once, and ends when the gate opens or the server stops.
async fn socket(request: HttpRequest, gate: web::Data<Gate>) -> HttpResponse {
    let ended = ending(&request).watches().clone();
    let last = async move {
        tokio::select! {
            () = gate.pass() => {}
            () = ended.cancelled() => {}
        }
        Ok(Vec::new())
    };
    let first = Ok(vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
    let messages = stream::iter([first]).chain(stream::once(last));
    switch(&request, messages)
}

async fn endless_socket(request: HttpRequest, gate: web::Data<Gate>) -> HttpResponse {
    let arrival = gate.arrive();
    let message = Bytes::from(vec![b'x'; 64 * 1024]);
    let messages = stream::repeat_with(move || {
        let _held = &arrival;
        Ok(vec![message.clone()])
    });
    switch(&request, messages)
}

/// The same as messages that a client may leave for long, until the gate opens.
async fn log_socket(request: HttpRequest, gate: web::Data<Gate>) -> HttpResponse {
    let message = Bytes::from(vec![b'x'; 64 * 1024]);
    let messages = stream::repeat_with(move || Ok(vec![message.clone()]));
    let messages = messages.take_until(async move { gate.pass().await });
    switch_until(&request, messages, MessagesUntil::SourceEnds)
}

/// Sends a message, after which no more can be had.
async fn broken_socket(request: HttpRequest) -> HttpResponse {
    let messages = [
        Ok(vec![Bytes::from_static(b"one")]),
        Err(io::ErrorKind::UnexpectedEof.into()),
    ];
    switch(&request, stream::iter(messages))
}

fn ending(request: &HttpRequest) -> ConnectionEnding {
    let peer = request.extensions().get::<Rc<Peer>>().cloned();
    peer.expect("every request has a peer").ending.clone()
}

fn switch(request: &HttpRequest, messages: impl Stream<Item = io::Result<Vec<Bytes>>> + 'static) -> HttpResponse {
    let ended = ending(request).watches().clone();
    switch_until(request, messages, MessagesUntil::WatchesEnd(ended))
}

fn switch_until(
    request: &HttpRequest,
    messages: impl Stream<Item = io::Result<Vec<Bytes>>> + 'static,
    until: MessagesUntil,
) -> HttpResponse {
    let handshake = Handshake::of(request, Subprotocols::Any, |_| false).ok().flatten();
    let serve = |connection| websocket::serve(connection, websocket::MessageFormat::Text, messages, until);
    handshake.expect("a WebSocket is asked for").switch(serve)
}

pub(super) fn get(path: &str) -> Request<String> {
    let uri = format!("https://localhost{path}");
    Request::get(uri).body(String::new()).expect("is a request")
}

/// HTTP/1.1 must say for which host a request is; a bare connection does not do that by itself.
fn with_host(mut request: Request<String>) -> Request<String> {
    let host = http::HeaderValue::from_static("localhost");
    request.headers_mut().insert(http::header::HOST, host);
    request
}

pub(super) async fn body(response: Response<Incoming>) -> Result<String, hyper::Error> {
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

type Sent = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>>>>;

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// A client with one connection.
pub(super) struct Client {
    sender: Sender,
    closed: watch::Receiver<bool>,
}

impl Client {
    async fn new(alpn: &str, stream: TlsStream<TcpStream>) -> io::Result<Self> {
        let (ended, closed) = watch::channel(false);
        let io = TokioIo::new(stream);
        let sender = if alpn == "h2" {
            let builder = http2::Builder::new(hyper_util::rt::TokioExecutor::new());
            let (sender, connection) = builder.handshake(io).await.map_err(io::Error::other)?;
            tokio::spawn(async move {
                let _ = connection.await;
                ended.send_replace(true);
            });
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(io::Error::other)?;
            tokio::spawn(async move {
                let _ = connection.await;
                ended.send_replace(true);
            });
            Sender::Http1(sender)
        };
        Ok(Self { sender, closed })
    }

    /// Sends a request; the answer comes when the result is awaited.
    pub(super) fn begin(
        &mut self,
        request: Request<String>,
    ) -> tokio::task::JoinHandle<hyper::Result<Response<Incoming>>> {
        let request = with_host(request).map(|body| Full::new(Bytes::from(body)));
        match &mut self.sender {
            Sender::Http1(sender) => tokio::spawn(sender.send_request(request)),
            Sender::Http2(sender) => tokio::spawn(sender.send_request(request)),
        }
    }

    pub(super) async fn send(&mut self, request: Request<String>) -> hyper::Result<Response<Incoming>> {
        let request = with_host(request).map(|body| Full::new(Bytes::from(body)));
        let sent: Sent = match &mut self.sender {
            Sender::Http1(sender) => Box::pin(sender.send_request(request)),
            Sender::Http2(sender) => Box::pin(sender.send_request(request)),
        };
        sent.await
    }

    /// Sends requests until the client gets GOAWAY.
    pub(super) async fn until_goaway(&mut self) {
        while self.send(get("/hello")).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    /// Waits for the end of the connection.
    pub(super) async fn closed(mut self) {
        let _ = self.closed.wait_for(|closed| *closed).await;
    }

    /// Reports whether the connection can still be used.
    pub(super) fn is_open(&self) -> bool {
        !*self.closed.borrow()
    }
}
