//! Real sockets, real TLS, a tiny application.

mod client;
mod farewell;
mod http2;
mod kit;
mod splice;
mod websockets;

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, StatusCode, Version};
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    client::UpgradedStream,
    server::{ConnectionLimits, Peer},
};
use kit::{Ca, Server, body, get};

/// The bound on what clients must do that are quick in a test, however busy its machine is.
const A_WHILE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn both_protocols_are_spoken_as_the_client_prefers() {
    let server = Server::start().await;
    for (alpn, version) in [("h2", Version::HTTP_2), ("http/1.1", Version::HTTP_11)] {
        let mut client = server.client(alpn).await.expect("connects");
        let response = client.send(get("/hello?x=1")).await.expect("answers");
        assert_eq!((response.status(), response.version()), (StatusCode::OK, version));
        assert_eq!(body(response).await.expect("arrives"), "GET /hello?x=1");
    }
}

#[tokio::test]
async fn bodies_pass_through_in_both_directions() {
    let server = Server::start().await;
    let sent = "0123456789abcdef".repeat(32 * 1024);
    for alpn in ["h2", "http/1.1"] {
        let mut client = server.client(alpn).await.expect("connects");
        let request = Request::post("https://localhost/echo")
            .body(sent.clone())
            .expect("is a request");
        let response = client.send(request).await.expect("answers");
        assert!(body(response).await.expect("arrives") == sent, "{alpn}");
    }
}

#[tokio::test]
async fn a_head_tells_the_length_of_a_body_that_does_not_come() {
    let server = Server::start().await;
    for alpn in ["h2", "http/1.1"] {
        let mut client = server.client(alpn).await.expect("connects");
        for path in ["/hello", "/again"] {
            let request = Request::head(format!("https://localhost{path}")).body(String::new());
            let response = client.send(request.expect("is a request")).await.expect("answers");
            let length = response
                .headers()
                .get("content-length")
                .and_then(|length| length.to_str().ok());
            assert_eq!((response.status(), length), (StatusCode::OK, Some("11")), "{alpn}");
            assert_eq!(body(response).await.expect("nothing comes"), "", "{alpn}");
        }
    }
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_body_is_not_lost() {
    let server = Server::start().await;
    for alpn in ["h2", "http/1.1"] {
        let mut client = server.client(alpn).await.expect("connects");
        let huge = "x".repeat(8 * 1024 * 1024);
        let request = Request::post("https://localhost/whoami")
            .body(huge)
            .expect("is a request");
        let response = client.send(request).await.expect("answers");
        assert_eq!(body(response).await.expect("arrives"), "POST /whoami", "{alpn}");
    }
}

#[tokio::test]
async fn client_certificates_are_asked_for_and_verified() {
    let server = Server::start().await;
    let mut named = server.client_as("h2", &server.ca, "alice").await.expect("connects");
    let response = named.send(get("/whoami")).await.expect("answers");
    assert_eq!(body(response).await.expect("arrives"), "alice of [\"dev\"]");

    let mut nameless = server.client("h2").await.expect("connects");
    let response = nameless.send(get("/whoami")).await.expect("answers");
    assert_eq!(body(response).await.expect("arrives"), "anonymous");

    for alpn in ["h2", "http/1.1"] {
        let mut stranger = server.client_as(alpn, &Ca::new(), "alice").await.expect("connects");
        let response = stranger.send(get("/whoami")).await.expect("answers");
        let message = body(response).await.expect("arrives");
        assert_eq!(message, "the client certificate is not trusted", "{alpn}");
    }
}

#[tokio::test]
async fn shutdown_lets_http2_requests_finish_and_says_goaway() {
    let server = Server::start().await;
    let mut client = server.client("h2").await.expect("connects");
    let slow = client.begin(get("/wait"));
    server.gate.wait_for_arrivals(1).await;

    let (gate, stopped) = server.shutdown();
    client.until_goaway().await;
    gate.open();
    let response = slow
        .await
        .expect("is not cancelled")
        .expect("the running request is answered");
    assert_eq!(body(response).await.expect("arrives"), "done");
    client.closed().await;
    stopped.await;
}

#[tokio::test]
async fn shutdown_closes_http1_connections_after_their_request() {
    let server = Server::start().await;
    let mut client = server.client("http/1.1").await.expect("connects");
    let slow = client.begin(get("/wait"));
    server.gate.wait_for_arrivals(1).await;

    let mut idle = server.client("http/1.1").await.expect("connects");
    assert!(idle.send(get("/hello")).await.is_ok());
    let (gate, stopped) = server.shutdown();
    idle.closed().await;
    gate.open();
    let response = slow
        .await
        .expect("is not cancelled")
        .expect("the running request is answered");
    assert_eq!(
        response.headers().get("connection").and_then(|v| v.to_str().ok()),
        Some("close")
    );
    assert_eq!(body(response).await.expect("arrives"), "done");
    client.closed().await;
    stopped.await;
}

#[tokio::test]
async fn a_stopped_server_listens_no_more() {
    let server = Server::start().await;
    let address = server.address();
    let (_, stopped) = server.shutdown();
    stopped.await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn idle_connections_end_with_the_server() {
    let server = Server::start().await;
    let mut clients = Vec::new();
    for alpn in ["h2", "http/1.1"] {
        let mut client = server.client(alpn).await.expect("connects");
        assert!(client.send(get("/hello")).await.is_ok());
        clients.push(client);
    }
    let (_, stopped) = server.shutdown();
    for client in clients {
        client.closed().await;
    }
    stopped.await;
}

#[tokio::test]
async fn oversize_headers_are_refused() {
    let server = Server::start().await;
    for alpn in ["h2", "http/1.1"] {
        let mut client = server.client(alpn).await.expect("connects");
        let mut request = get("/hello");
        let huge = "x".repeat(70 * 1024).parse().expect("is a header value");
        request.headers_mut().insert("x-huge", huge);
        let response = client.send(request).await.expect("answers");
        assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "{alpn}");
    }
}

#[tokio::test]
async fn clients_that_shake_no_hands_do_not_keep_others_out() {
    let server = Server::start_with(ConnectionLimits {
        pending_handshakes: 2,
        handshake_timeout: Duration::from_secs(3600),
        ..ConnectionLimits::default()
    })
    .await;
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(
            tokio::net::TcpStream::connect(server.address())
                .await
                .expect("connects"),
        );
    }
    let mut client = server.client("h2").await.expect("connects");
    assert!(client.send(get("/hello")).await.is_ok());
    assert!(ends(&mut silent[0]).await, "it made room");
}

#[tokio::test]
async fn a_body_of_an_uncertain_length_is_the_last_of_its_connection() {
    let server = Server::start().await;
    let both = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let first = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    // What follows such a head is taken for no request.
    for (before, codes) in [("", "400"), ("\r\n", "400"), (first, "200 200")] {
        let mut stream = server.raw("http/1.1").await.expect("connects");
        let sent = format!("{before}{both}{first}");
        stream.write_all(sent.as_bytes()).await.expect("is taken");
        let mut answers = Vec::new();
        // The end may be a reset, as not all was read.
        let _ = stream.read_to_end(&mut answers).await;
        let answers = String::from_utf8_lossy(&answers).into_owned();
        let seen: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
        assert_eq!(seen.join(" "), codes, "{before:?}");
        assert!(answers.contains("connection: close"), "{before:?}");
    }
}

#[tokio::test]
async fn a_head_that_does_not_arrive_ends_the_connection() {
    let server = Server::start_with(ConnectionLimits {
        header_timeout: A_WHILE,
        ..ConnectionLimits::default()
    })
    .await;
    for sent in ["", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut stream = server.raw("http/1.1").await.expect("connects");
        stream.write_all(sent.as_bytes()).await.expect("is taken");
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer).await.map_err(|error| error.kind());
        assert!(
            matches!(ended, Ok(_) | Err(io::ErrorKind::UnexpectedEof)),
            "after {sent:?}: {ended:?}"
        );
        let begun = if sent.is_empty() { &b""[..] } else { b"HTTP/1.1 408 " };
        assert!(
            answer.starts_with(begun) && answer.is_empty() == sent.is_empty(),
            "after {sent:?}"
        );
    }
}

#[tokio::test]
async fn a_connection_may_idle_for_longer_than_a_head_may_take() {
    let server = Server::start_with(ConnectionLimits {
        header_timeout: A_WHILE,
        ..ConnectionLimits::default()
    })
    .await;
    let mut client = server.client("http/1.1").await.expect("connects");
    assert!(client.send(get("/hello")).await.is_ok());
    // A second connection outlives the time that the first one would have had.
    let mut other = server.raw("http/1.1").await.expect("connects");
    assert!(ends(&mut other).await);
    assert!(client.send(get("/hello")).await.is_ok());
}

#[tokio::test]
async fn a_handshake_that_does_not_happen_ends_the_connection() {
    let server = Server::start_with(ConnectionLimits {
        handshake_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    })
    .await;
    let mut socket = tokio::net::TcpStream::connect(server.address())
        .await
        .expect("connects");
    assert!(ends(&mut socket).await);
}

#[tokio::test]
async fn handshakes_that_fail_are_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = || recorder.handle().render();
    // The server takes its counter when it starts.
    let recording = metrics::set_default_local_recorder(&recorder);
    let server = Server::start_with(ConnectionLimits {
        handshake_timeout: A_WHILE,
        ..ConnectionLimits::default()
    })
    .await;
    drop(recording);
    server.raw("http/1.1").await.expect("connects");
    assert!(page().contains("apiserver_tls_handshake_errors_total 0"), "{}", page());
    for sent in [&b"GET / HTTP/1.1\r\n\r\n"[..], b""] {
        let socket = tokio::net::TcpStream::connect(server.address()).await;
        let mut socket = socket.expect("connects");
        socket.write_all(sent).await.expect("is taken");
        assert!(ends(&mut socket).await);
    }
    // The one worker has counted them before it takes the next connection.
    server.raw("http/1.1").await.expect("connects");
    assert!(page().contains("apiserver_tls_handshake_errors_total 2"), "{}", page());
}

#[tokio::test]
async fn a_client_that_takes_no_answer_is_cut_off() {
    let server = Server::start_with(ConnectionLimits {
        write_stall_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    })
    .await;
    let mut stream = server.raw("http/1.1").await.expect("connects");
    stream
        .write_all(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .expect("is taken");
    server.gate.wait_for_arrivals(1).await;
    server.gate.wait_for_departures(1).await;
}

#[tokio::test]
async fn a_client_may_leave_a_stream_for_long() {
    let server = Server::start_with(ConnectionLimits {
        write_stall_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    })
    .await;
    let begin = async |path: &str, arrivals| {
        let mut stream = server.raw("http/1.1").await.expect("connects");
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("is taken");
        server.gate.wait_for_arrivals(arrivals).await;
        stream
    };
    let mut paused = begin("/log", 1).await;
    // Who takes nothing of another answer is cut off meanwhile, one after the other.
    for round in 1..=3 {
        let _other = begin("/endless", round + 1).await;
        server.gate.wait_for_departures(round).await;
    }
    let mut piece = vec![0; 1024 * 1024];
    for _ in 0..32 {
        paused.read_exact(&mut piece).await.expect("the stream goes on");
    }
}

#[tokio::test]
async fn a_refused_head_is_answered_however_much_follows() {
    let server = Server::start().await;
    for _ in 0..5 {
        let mut stream = server.raw("http/1.1").await.expect("connects");
        let huge = "x".repeat(2 * 1024 * 1024);
        let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {huge}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("is taken");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("there is an answer");
        assert_eq!(&answer, b"HTTP/1.1 431");
    }
}

#[test]
fn clients_have_a_bounded_time() {
    let limits = ConnectionLimits::default();
    let seconds = [
        limits.handshake_timeout,
        limits.header_timeout,
        limits.write_stall_timeout,
        limits.idle_timeout,
    ];
    assert_eq!(seconds.map(|limit| limit.as_secs()), [10, 10, 60, 90]);
    assert_eq!((limits.header_bytes, limits.concurrent_streams), (64 * 1024, 250));
}

/// Reports whether the server closes the connection.
async fn ends(stream: &mut (impl AsyncReadExt + Unpin)) -> bool {
    let mut rest = Vec::new();
    matches!(
        stream.read_to_end(&mut rest).await.map_err(|error| error.kind()),
        Ok(_) | Err(io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
    )
}

/// The tiny application's account of the other end.
fn describe(peer: &Peer) -> String {
    let Some(certificate) = &peer.certificate else {
        return "anonymous".to_owned();
    };
    match certificate.verdict() {
        None => "anonymous".to_owned(),
        Some(Ok(())) => subject(certificate.der()),
        Some(Err(error)) => error.to_string(),
    }
}

/// The common name and the organizations of a certificate.
fn subject(der: &[u8]) -> String {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).expect("it was verified");
    let subject = certificate.subject();
    let names = |names: &mut dyn Iterator<Item = &x509_parser::x509::AttributeTypeAndValue<'_>>| {
        let names = names.map(|name| name.as_str().expect("it is text").to_owned());
        names.collect::<Vec<_>>()
    };
    let common_names = names(&mut subject.iter_common_name());
    let organizations = names(&mut subject.iter_organization());
    format!("{} of {organizations:?}", common_names.join(" "))
}

/// Lets requests wait in the application until a test has seen them.
#[derive(Clone, Default)]
struct Gate(Arc<GateState>);

#[derive(Default)]
struct GateState {
    arrived: tokio::sync::watch::Sender<usize>,
    departed: tokio::sync::watch::Sender<usize>,
    opened: tokio::sync::watch::Sender<bool>,
    /// The connection that the next one to `/spliced` becomes.
    backend: Mutex<Option<UpgradedStream>>,
}

/// A request that waits.
struct Arrival(Gate);

impl Gate {
    fn open(&self) {
        self.0.opened.send_replace(true);
    }

    fn arrive(&self) -> Arrival {
        self.0.arrived.send_modify(|count| *count += 1);
        Arrival(self.clone())
    }

    fn lead_to(&self, backend: UpgradedStream) {
        *self.0.backend.lock().expect("nobody panicked") = Some(backend);
    }

    fn backend(&self) -> UpgradedStream {
        let mut backend = self.0.backend.lock().expect("nobody panicked");
        backend.take().expect("there is one")
    }

    async fn pass(&self) {
        let _arrival = self.arrive();
        let _ = self.0.opened.subscribe().wait_for(|opened| *opened).await;
    }

    async fn wait_for_arrivals(&self, count: usize) {
        let _ = self.0.arrived.subscribe().wait_for(|arrived| *arrived >= count).await;
    }

    async fn wait_for_departures(&self, count: usize) {
        let _ = self
            .0
            .departed
            .subscribe()
            .wait_for(|departed| *departed >= count)
            .await;
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.0.0.departed.send_modify(|count| *count += 1);
    }
}
