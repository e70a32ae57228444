//! What a request costs before anything is done for it: serves a constant body of 6.7 KB over TLS.
//!
//! `floor hyper` serves through this room's connection layer, `floor actix` through actix-web's own server; both print
//! their process id and address. `floor load h2|http1 ADDRESS PID` sends requests to one of them for some seconds and
//! prints the CPU time that the server used per request. Build it in release mode: see `docs/adr/0001-http-connections.md`.

use std::{error::Error, fs, io, net::SocketAddr, sync::Arc, time::Duration};

use actix_service::{IntoServiceFactory, ServiceFactory, map_config};
use actix_web::{App, HttpResponse, HttpServer, dev::AppConfig, web, web::Bytes};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{net::TcpStream, time::Instant};
use trireme_edge::server::{AppHandler, ConnectionLimits, Lifecycle, ServerConfig, start, tls_from_pem};

const BODY_BYTES: usize = 6_700;
const CONNECTIONS: usize = 4;
const REQUESTS_IN_FLIGHT: usize = 8;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["hyper"] => serve_with_hyper(),
        ["actix"] => serve_with_actix(),
        ["load", protocol, address, pid] => load(protocol, address.parse()?, pid),
        _ => Err("usage: floor hyper | floor actix | floor load h2|http1 ADDRESS PID".into()),
    }
}

fn tls() -> Outcome<rustls::ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    Ok(tls_from_pem(
        made.cert.pem().as_bytes(),
        made.signing_key.serialize_pem().as_bytes(),
        None,
    )?)
}

fn body() -> Bytes {
    Bytes::from(vec![b'x'; BODY_BYTES])
}

fn announce(address: SocketAddr) {
    println!("{address} {}", std::process::id());
}

fn serve_with_hyper() -> Outcome<()> {
    let config = ServerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        workers: 2,
        tls: Arc::new(tls()?),
        limits: ConnectionLimits::default(),
    };
    let running = start(&config, Lifecycle::new(), || async {
        let body = body();
        let app = App::new().route(
            "/",
            web::get().to(move || std::future::ready(HttpResponse::Ok().body(body.clone()))),
        );
        let factory = map_config(app.into_factory(), |()| AppConfig::default());
        AppHandler(factory.new_service(()).await.expect("the application is in order"))
    })?;
    announce(running.local_addr());
    loop {
        std::thread::park();
    }
}

fn serve_with_actix() -> Outcome<()> {
    actix_rt::System::new().block_on(async {
        let body = body();
        let server = HttpServer::new(move || {
            let body = body.clone();
            App::new().route(
                "/",
                web::get().to(move || std::future::ready(HttpResponse::Ok().body(body.clone()))),
            )
        })
        .workers(2)
        .tcp_nodelay(true)
        .bind_rustls_0_23(("127.0.0.1", 0), tls()?)?;
        if let Some(address) = server.addrs().first() {
            announce(*address);
        }
        Ok(server.run().await?)
    })
}

/// Sends requests and reads the server's CPU time before and after.
fn load(protocol: &str, address: SocketAddr, pid: &str) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let senders = REQUESTS_IN_FLIGHT * CONNECTIONS;
        let uri = if protocol == "h2" { "https://localhost/" } else { "/" };
        let begin = Instant::now() + WARM_UP;
        let end = begin + MEASURED;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..CONNECTIONS {
            if protocol == "h2" {
                let (sender, connection) =
                    http2::handshake(TokioExecutor::new(), TokioIo::new(connect("h2", address).await?)).await?;
                tasks.spawn_local(async move { connection.await.map(|()| 0) });
                for _ in 0..REQUESTS_IN_FLIGHT {
                    let mut sender = sender.clone();
                    tasks.spawn_local(async move {
                        send(begin, end, async || sender.send_request(request(uri)).await).await
                    });
                }
            } else {
                for _ in 0..REQUESTS_IN_FLIGHT {
                    let (mut sender, connection) =
                        http1::handshake(TokioIo::new(connect("http/1.1", address).await?)).await?;
                    tasks.spawn_local(async move { connection.await.map(|()| 0) });
                    tasks.spawn_local(async move {
                        send(begin, end, async || {
                            sender.ready().await?;
                            sender.send_request(request(uri)).await
                        })
                        .await
                    });
                }
            }
        }
        tokio::time::sleep_until(begin).await;
        let before = cpu_micros(pid)?;
        tokio::time::sleep_until(end).await;
        let used = cpu_micros(pid)? - before;
        let mut requests = 0_u64;
        while let Some(sent) = tasks.join_next().await {
            requests += sent??;
        }
        let each = used / requests.max(1);
        println!("{protocol}: {senders} requests in flight, {requests} requests, {each} us of server CPU a request");
        Ok(())
    })
}

fn request(uri: &'static str) -> http::Request<Empty<Bytes>> {
    let mut request = http::Request::new(Empty::new());
    *request.uri_mut() = http::Uri::from_static(uri);
    request
        .headers_mut()
        .insert("host", http::HeaderValue::from_static("localhost"));
    request
        .headers_mut()
        .insert("accept", http::HeaderValue::from_static("application/json"));
    request
        .headers_mut()
        .insert("user-agent", http::HeaderValue::from_static("floor"));
    request
}

/// Sends one request after the other; counts those that are answered between `begin` and `end`.
async fn send<F>(begin: Instant, end: Instant, mut send: F) -> hyper::Result<u64>
where
    F: AsyncFnMut() -> hyper::Result<http::Response<hyper::body::Incoming>>,
{
    let mut counted = 0;
    while Instant::now() < end {
        let response = send().await?;
        response.into_body().collect().await?;
        counted += u64::from(Instant::now() >= begin);
    }
    Ok(counted)
}

async fn connect(alpn: &str, address: SocketAddr) -> Outcome<tokio_rustls::client::TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let name = ServerName::try_from("localhost")?;
    Ok(tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await?)
}

/// User and system time of a process, as the kernel counts it in hundredths of a second.
fn cpu_micros(pid: &str) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<u64>().ok())
            .unwrap_or_default()
    };
    Ok((ticks(11) + ticks(12)) * 10_000)
}

/// The server is a process of ours, with a certificate that it has just made.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
