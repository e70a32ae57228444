//! The outbound client against the server of this room, and against one that behaves badly.

#![expect(clippy::disallowed_methods, reason = "the tests' tasks end with their runtime")]

use std::{io, time::Duration};

use bytes::Bytes;
use futures_util::{future::join_all, stream};
use http::{Method, Request, Response, StatusCode, Version};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use trireme_actors::{Clock, ManualClock, Tasks};

use super::kit::{Ca, Server};
use crate::client::{
    BreakerState, Client, ClientError, ClientIdentity, ClientSettings, ClientTls, Connection, ConnectionSettings,
    Endpoint, IncomingBody, OutboundBody, OutboundCall, Protocols, TlsOptions, Trust, UpgradedStream,
};

const BOTH: [Protocols; 2] = [Protocols::Http1, Protocols::Http2];
const SECOND: Duration = Duration::from_secs(1);

fn client_by(clock: impl Into<Clock>) -> Client {
    let clock = clock.into();
    let tasks = Tasks::new(tokio::runtime::Handle::current(), clock.clone());
    Client::new("test", ClientSettings::default(), clock, tasks)
}

fn client() -> Client {
    client_by(Clock::system())
}

fn endpoint_of(server: &Server) -> Endpoint {
    let endpoint = Endpoint::parse("https://localhost:6443").expect("is an address");
    endpoint.dialed_at("127.0.0.1", server.address().port())
}

fn tls_of(ca: &Ca) -> TlsOptions {
    TlsOptions {
        trust: Trust::Ca(ca.pem()),
        ..TlsOptions::default()
    }
}

fn request(method: Method, path: &str, body: impl Into<OutboundBody>) -> Request<OutboundBody> {
    let request = Request::builder().method(method).uri(path);
    request.body(body.into()).expect("is a request")
}

fn call(server: &Server, method: Method, path: &str, body: impl Into<OutboundBody>) -> OutboundCall {
    OutboundCall {
        tls: Some(ClientTls::new(&tls_of(&server.ca)).expect("is a CA")),
        ..OutboundCall::new(endpoint_of(server), request(method, path, body))
    }
}

fn get(server: &Server, path: &str) -> OutboundCall {
    call(server, Method::GET, path, OutboundBody::empty())
}

async fn text(response: Response<IncomingBody>) -> String {
    let body = response.into_body().collect().await.expect("arrives");
    String::from_utf8_lossy(&body).into_owned()
}

#[tokio::test]
async fn calls_in_a_row_share_a_connection_whatever_the_protocol() {
    for (protocols, version) in [
        (Protocols::Any, Version::HTTP_2),
        (Protocols::Http1, Version::HTTP_11),
        (Protocols::Http2, Version::HTTP_2),
    ] {
        let (server, client) = (Server::start().await, client());
        for _ in 0..5 {
            let response = client
                .send(OutboundCall {
                    protocols,
                    ..get(&server, "/hello?a=b")
                })
                .await
                .expect("an answer");
            assert_eq!((response.status(), response.version()), (StatusCode::OK, version));
            assert_eq!(text(response).await, "GET /hello?a=b");
        }
        assert_eq!(server.accepted(), 1, "{protocols:?}");
    }
}

#[tokio::test]
async fn retired_connections_are_not_used_again() {
    for protocols in [Protocols::Any, Protocols::Http1] {
        let (server, client) = (Server::start().await, client());
        let tls = ClientTls::new(&tls_of(&server.ca)).expect("is a CA");
        for connections in 1..=2 {
            for _ in 0..2 {
                let answer = client.send(OutboundCall {
                    protocols,
                    ..get(&server, "/hello")
                });
                text(answer.await.expect("an answer")).await;
            }
            assert_eq!(server.accepted(), connections, "{protocols:?}");
            // Those with other settings are not concerned.
            client.retire_connections(&endpoint_of(&server), None);
            if connections == 1 {
                client.retire_connections(&endpoint_of(&server), Some(&*tls));
            }
        }
    }
}

#[tokio::test]
async fn calls_at_once_share_a_connection_with_http2_only() {
    for (protocols, connections) in [(Protocols::Any, 1), (Protocols::Http1, 4)] {
        let (server, client) = (Server::start().await, client());
        let calls = (0..4).map(|_| {
            client.send(OutboundCall {
                protocols,
                ..get(&server, "/wait")
            })
        });
        let (answers, ()) = tokio::join!(join_all(calls), async {
            server.gate.wait_for_arrivals(4).await;
            server.gate.open();
        });
        assert!(answers.into_iter().all(|answer| answer.is_ok()));
        assert_eq!(server.accepted(), connections, "{protocols:?}");
    }
}

#[tokio::test]
async fn other_tls_settings_have_connections_of_their_own() {
    let (server, client) = (Server::start().await, client());
    let (certificate, key) = server.identity("alice");
    let options = TlsOptions {
        identity: Some(ClientIdentity { certificate, key }),
        ..tls_of(&server.ca)
    };
    let tls = Some(ClientTls::new(&options).expect("is a certificate"));
    for _ in 0..2 {
        let anonymous = client.send(get(&server, "/whoami")).await.expect("an answer");
        assert_eq!(text(anonymous).await, "anonymous");
        let call = OutboundCall {
            tls: tls.clone(),
            ..get(&server, "/whoami")
        };
        let alice = client.send(call).await.expect("an answer");
        assert_eq!(text(alice).await, "alice of [\"dev\"]");
    }
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn only_servers_that_are_trusted_are_spoken_to() {
    let (server, client) = (Server::start().await, client());
    let with = |options: TlsOptions| OutboundCall {
        tls: Some(ClientTls::new(&options).expect("usable")),
        ..get(&server, "/hello")
    };
    let other_name = TlsOptions {
        server_name: Some("elsewhere".to_owned()),
        ..tls_of(&server.ca)
    };
    for refused in [tls_of(&Ca::new()), other_name] {
        let error = client.send(with(refused)).await.expect_err("it is not trusted");
        assert!(matches!(error, ClientError::Handshake { .. }), "{error}");
        assert!(error.surely_not_processed());
    }
    let unverified = TlsOptions {
        trust: Trust::Unverified,
        ..TlsOptions::default()
    };
    let response = client.send(with(unverified)).await.expect("an answer");
    assert_eq!(text(response).await, "GET /hello");
}

#[tokio::test]
async fn bodies_stream_both_ways_at_once() {
    for protocols in BOTH {
        let (server, client) = (Server::start().await, client());
        let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(1);
        let pieces = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        sender.send(Ok("one".into())).await.expect("is taken");
        let call = call(&server, Method::POST, "/echo", OutboundBody::stream(pieces));
        let mut body = client
            .send(OutboundCall { protocols, ..call })
            .await
            .expect("an answer")
            .into_body();
        for (seen, next) in [("one", "two"), ("two", "three")] {
            let chunk = body.chunk().await.expect("goes on").expect("has not ended");
            assert_eq!(chunk, seen, "{protocols:?}: before the rest is sent");
            sender.send(Ok(next.into())).await.expect("is taken");
        }
        drop(sender);
        assert_eq!(body.collect().await.expect("arrives"), "three");
    }
}

/// A connection on which everything comes back.
pub(super) async fn switched(server: &Server) -> UpgradedStream {
    let mut call = OutboundCall {
        protocols: Protocols::Http1,
        ..get(server, "/switch")
    };
    let headers = call.request.headers_mut();
    headers.insert("connection", "Upgrade".parse().expect("is a value"));
    headers.insert("upgrade", "echo".parse().expect("is a value"));
    let answer = client().send(call).await.expect("an answer");
    UpgradedStream::of(answer).await.expect("switches")
}

#[tokio::test]
async fn a_connection_can_become_a_stream_of_bytes() {
    let (server, client) = (Server::start().await, client());
    let mut upgraded = switched(&server).await;
    for sent in [b"ping", b"pong"] {
        upgraded.write_all(sent).await.expect("is taken");
        let mut echo = [0; 4];
        upgraded.read_exact(&mut echo).await.expect("comes back");
        assert_eq!(&echo, sent);
    }
    let response = client.send(get(&server, "/hello")).await.expect("an answer");
    let refused = UpgradedStream::of(response).await.expect_err("it does not switch");
    assert!(matches!(refused, ClientError::NotSwitched { .. }), "{refused}");
}

#[tokio::test]
async fn a_deadline_ends_a_call_that_hangs() {
    for protocols in BOTH {
        let (server, clock) = (Server::start().await, ManualClock::new());
        let client = client_by(clock.clone());
        let call = OutboundCall {
            protocols,
            timeout: Some(SECOND),
            ..get(&server, "/wait")
        };
        let (answer, ()) = tokio::join!(client.send(call), async {
            server.gate.wait_for_arrivals(1).await;
            clock.advance(SECOND);
        });
        let error = answer.expect_err("it is too late");
        assert!(matches!(error, ClientError::Timeout { sent: true, .. }), "{error}");
        assert!(!error.surely_not_processed());
    }
}

#[tokio::test]
async fn a_deadline_ends_a_body_that_does_not_end() {
    let (server, clock) = (Server::start().await, ManualClock::new());
    let client = client_by(clock.clone());
    let call = OutboundCall {
        timeout: Some(SECOND),
        ..get(&server, "/endless")
    };
    let mut body = client.send(call).await.expect("an answer").into_body();
    assert!(body.chunk().await.expect("has begun").is_some());
    clock.advance(SECOND);
    let ended = async {
        while body.chunk().await?.is_some() {}
        Ok::<_, ClientError>(())
    };
    assert!(matches!(ended.await, Err(ClientError::Timeout { sent: true, .. })));
}

#[tokio::test]
async fn connecting_has_a_deadline_of_its_own() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("https://{}", silent.local_addr().expect("an address"));
    let clock = ManualClock::new();
    let client = client_by(clock.clone());
    let call = OutboundCall::new(
        Endpoint::parse(&address).expect("is one"),
        request(Method::GET, "/", OutboundBody::empty()),
    );
    let call = OutboundCall {
        tls: Some(ClientTls::new(&tls_of(&Ca::new())).expect("is a CA")),
        ..call
    };
    let (answer, _held) = tokio::join!(client.send(call), async {
        let held = silent.accept().await;
        clock.advance(ClientSettings::default().connect_timeout);
        held
    });
    let error = answer.expect_err("there is no handshake");
    let timed_out = |source: &io::Error| source.kind() == io::ErrorKind::TimedOut;
    assert!(
        matches!(&error, ClientError::Connect { source, .. } if timed_out(source)),
        "{error}"
    );
    assert!(error.surely_not_processed());
}

#[tokio::test]
async fn the_breaker_leaves_an_endpoint_alone_and_finds_out_that_it_is_well() {
    let (server, clock) = (Server::start().await, ManualClock::new());
    let client = client_by(clock.clone());
    let breaker = ClientSettings::default().breaker.expect("there is one");
    let state = || client.snapshot()[0].breaker.map(|breaker| breaker.state);
    for _ in 0..breaker.minimum_calls {
        let response = client.send(get(&server, "/unavailable")).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(state(), Some(BreakerState::Open));
    let error = client.send(get(&server, "/hello")).await.expect_err("it is left alone");
    assert!(matches!(error, ClientError::BreakerOpen { retry_after, .. } if retry_after == breaker.cooldown));
    clock.advance(breaker.cooldown);
    let (probe, ()) = tokio::join!(client.send(get(&server, "/wait")), async {
        server.gate.wait_for_arrivals(1).await;
        assert_eq!(state(), Some(BreakerState::HalfOpen));
        let second = client.send(get(&server, "/hello")).await;
        assert!(matches!(second, Err(ClientError::BreakerOpen { .. })));
        server.gate.open();
    });
    assert!(probe.is_ok());
    assert_eq!(state(), Some(BreakerState::Closed));
    assert!(client.send(get(&server, "/hello")).await.is_ok());
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    let (server, client) = (Server::start().await, client());
    let response = client.send(get(&server, "/redirect")).await.expect("an answer");
    let location = response
        .headers()
        .get("location")
        .map(|value| value.as_bytes().to_vec());
    assert_eq!(
        (response.status(), location),
        (StatusCode::FOUND, Some(b"/hello".to_vec()))
    );
}

#[tokio::test]
async fn a_body_is_read_up_to_its_limit() {
    let (server, client) = (Server::start().await, client());
    let sent = Bytes::from(vec![b'x'; 100_000]);
    for (limit, fits) in [(99_999, false), (100_000, true)] {
        let call = call(&server, Method::POST, "/echo", sent.clone());
        let response = client
            .send(OutboundCall {
                max_body_bytes: Some(limit),
                ..call
            })
            .await
            .expect("an answer");
        match response.into_body().collect().await {
            Ok(body) => assert!(fits && body == sent),
            Err(ClientError::TooLarge { limit_bytes, .. }) => assert!(!fits && limit_bytes == limit),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn an_idle_connection_expires() {
    for protocols in BOTH {
        let (server, clock) = (Server::start().await, ManualClock::new());
        let client = client_by(clock.clone());
        let hello = || OutboundCall {
            protocols,
            ..get(&server, "/hello")
        };
        let response = client.send(hello()).await.expect("an answer");
        text(response).await;
        // It ends by itself, not only when the next call looks.
        while client.snapshot().iter().any(|endpoint| endpoint.open_connections > 0) {
            clock.advance(ClientSettings::default().idle_timeout);
            tokio::task::yield_now().await;
        }
        assert!(client.send(hello()).await.is_ok());
        assert_eq!(server.accepted(), 2, "{protocols:?}");
    }
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_costs_nothing() {
    for protocols in BOTH {
        let server = Server::start().await;
        let client = client();
        let post = || OutboundCall {
            protocols,
            ..call(&server, Method::POST, "/echo", Bytes::from_static(b"x"))
        };
        assert_eq!(text(client.send(post()).await.expect("an answer")).await, "x");
        server.send_all_off().await;
        for _ in 0..20 {
            assert_eq!(
                text(client.send(post()).await.expect("an answer")).await,
                "x",
                "{protocols:?}"
            );
        }
    }
}

/// Answers one request a connection, reads another one, and hangs up. Counts the requests.
async fn answer_every_other(listener: TcpListener, requests: tokio::sync::watch::Sender<usize>) {
    loop {
        let Ok((mut socket, _)) = listener.accept().await else {
            return;
        };
        let requests = requests.clone();
        tokio::spawn(async move {
            read_request(&mut socket).await;
            requests.send_modify(|count| *count += 1);
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
            read_request(&mut socket).await;
            requests.send_modify(|count| *count += 1);
        });
    }
}

async fn read_request(socket: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = socket.read_u8().await else { return };
        head.push(byte);
    }
}

#[tokio::test]
async fn what_may_have_been_processed_is_sent_again_only_if_that_is_safe() {
    for (method, arrivals) in [(Method::GET, Some(3)), (Method::DELETE, None)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = tokio::sync::watch::Sender::new(0);
        tokio::spawn(answer_every_other(listener, requests.clone()));
        let client = client();
        let send = async || {
            let mut request = request(method.clone(), "/?token=hidden", OutboundBody::empty());
            request
                .headers_mut()
                .insert("authorization", "Bearer hidden".parse().expect("is a value"));
            let call = OutboundCall::new(Endpoint::parse(&address).expect("is an address"), request);
            assert!(!format!("{call:?}").contains("hidden"));
            client.send(call).await
        };
        text(send().await.expect("the first is answered")).await;
        let second = send().await;
        assert_eq!(second.is_ok(), arrivals.is_some(), "{method}");
        assert_eq!(*requests.borrow(), arrivals.unwrap_or(2), "{method}");
        if let Err(error) = second {
            assert!(
                matches!(error, ClientError::Lost { .. }) && !error.surely_not_processed(),
                "{error}"
            );
            assert!(!format!("{error} {error:?}").contains("hidden"));
        }
    }
}

#[tokio::test]
async fn a_single_connection_is_used_without_a_pool() {
    for protocols in BOTH {
        let server = Server::start().await;
        let tls = ClientTls::new(&tls_of(&server.ca)).expect("is a CA");
        let settings = ConnectionSettings {
            protocols,
            stream_window_bytes: Some(1 << 20),
            receive_buffer_bytes: Some(64 * 1024),
            ..ConnectionSettings::default()
        };
        let opened = Connection::open(&endpoint_of(&server), Some(&tls), &settings).await;
        let (mut connection, driver) = opened.expect("connects");
        let driving = tokio::spawn(driver);
        for _ in 0..2 {
            let response = connection
                .send(request(Method::GET, "/hello", OutboundBody::empty()))
                .await;
            assert_eq!(text(response.expect("an answer")).await, "GET /hello");
        }
        assert_eq!(connection.share().is_some(), protocols == Protocols::Http2);
        drop(connection);
        driving.await.expect("ends with the last who may use it");
        assert_eq!(server.accepted(), 1);
    }
}

#[tokio::test]
async fn a_refused_connection_is_reported_as_such() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    let call = OutboundCall::new(
        Endpoint::parse(&address).expect("is one"),
        request(Method::GET, "/", OutboundBody::empty()),
    );
    let error = client().send(call).await.expect_err("nothing listens");
    let refused = |source: &io::Error| source.kind() == io::ErrorKind::ConnectionRefused;
    assert!(
        matches!(&error, ClientError::Connect { source, .. } if refused(source)),
        "{error}"
    );
}
