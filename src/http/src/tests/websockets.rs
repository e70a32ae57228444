//! Connections that become WebSockets, as their clients see them.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Bytes, Message, protocol::frame::coding::CloseCode},
};

use super::kit::Server;
use crate::server::ConnectionLimits;

type Socket = WebSocketStream<TlsStream<TcpStream>>;

async fn open(server: &Server, path: &str) -> Socket {
    let stream = server.raw("http/1.1").await.expect("connects");
    let url = format!("wss://localhost{path}");
    client_async(url, stream).await.expect("is upgraded").0
}

async fn next(socket: &mut Socket) -> Message {
    socket.next().await.expect("goes on").expect("is well-formed")
}

async fn close_code(socket: &mut Socket) -> Option<CloseCode> {
    loop {
        match next(socket).await {
            Message::Close(frame) => return frame.map(|frame| frame.code),
            _ => continue,
        }
    }
}

#[tokio::test]
async fn texts_come_as_messages_and_the_end_as_a_close_frame() {
    let server = Server::start().await;
    let mut socket = open(&server, "/socket").await;
    assert_eq!(next(&mut socket).await, Message::text("one"));
    assert_eq!(next(&mut socket).await, Message::text("two"));
    server.gate.open();
    assert_eq!(close_code(&mut socket).await, Some(CloseCode::Normal));
    assert!(socket.next().await.is_none(), "the connection is closed in order");
}

#[tokio::test]
async fn a_source_that_breaks_off_is_no_normal_end() {
    let server = Server::start().await;
    let mut socket = open(&server, "/broken-socket").await;
    assert_eq!(next(&mut socket).await, Message::text("one"));
    assert_eq!(close_code(&mut socket).await, Some(CloseCode::Error));
}

#[tokio::test]
async fn pings_are_answered_and_what_else_a_client_says_is_dropped() {
    let server = Server::start().await;
    let mut socket = open(&server, "/socket").await;
    let ping = Message::Ping(Bytes::from_static(b"there?"));
    for message in [Message::text("hello"), Message::binary(vec![0; 1000]), ping] {
        socket.send(message).await.expect("is taken");
    }
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(next(&mut socket).await);
    }
    assert!(seen.contains(&Message::Pong(Bytes::from_static(b"there?"))), "{seen:?}");
}

#[tokio::test]
async fn what_a_client_sends_with_its_request_is_not_lost() {
    let server = Server::start().await;
    let mut stream = server.raw("http/1.1").await.expect("connects");
    let head = "GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    // A ping with one byte, masked with zeros; and the pong, which is not masked.
    let (ping, pong) = ([0x89, 0x81, 0, 0, 0, 0, b'!'], [0x8a, 1, b'!']);
    stream
        .write_all(&[head.as_bytes(), &ping].concat())
        .await
        .expect("is taken");
    let mut received = Vec::new();
    while !received.ends_with(&pong) && !received.windows(3).any(|bytes| bytes == pong) {
        let read = stream.read_buf(&mut received).await.expect("goes on");
        assert_ne!(read, 0, "it ended after {:?}", String::from_utf8_lossy(&received));
    }
}

#[tokio::test]
async fn a_client_that_closes_ends_the_stream() {
    let server = Server::start().await;
    let mut socket = open(&server, "/socket").await;
    server.gate.wait_for_arrivals(1).await;
    socket.close(None).await.expect("is taken");
    server.gate.wait_for_departures(1).await;
    assert_eq!(close_code(&mut socket).await, None);
}

#[tokio::test]
async fn a_client_that_goes_without_a_word_ends_the_stream() {
    let server = Server::start().await;
    let socket = open(&server, "/socket").await;
    server.gate.wait_for_arrivals(1).await;
    drop(socket);
    server.gate.wait_for_departures(1).await;
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_cut_off() {
    let server = Server::start_with(ConnectionLimits {
        ping_interval: Duration::from_millis(20),
        // Long enough for the one that answers, on a busy machine.
        write_stall_timeout: Duration::from_secs(1),
        ..ConnectionLimits::default()
    })
    .await;
    // The silent one first: the other answers while it is read from, and must not wait for long before that.
    let silent = open(&server, "/socket").await;
    let mut answers = open(&server, "/socket").await;
    server.gate.wait_for_arrivals(2).await;
    let departed = server.gate.wait_for_departures(1);
    tokio::pin!(departed);
    let (mut pings, mut is_cut) = (0, false);
    while pings == 0 || !is_cut {
        tokio::select! {
            () = departed.as_mut(), if !is_cut => is_cut = true,
            message = next(&mut answers) => pings += usize::from(message.is_ping()),
        }
    }
    drop(silent);
    server.gate.open();
    assert_eq!(
        close_code(&mut answers).await,
        Some(CloseCode::Normal),
        "who answers goes on"
    );
}

#[tokio::test]
async fn a_client_that_takes_no_message_is_cut_off() {
    let server = Server::start_with(ConnectionLimits {
        write_stall_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    })
    .await;
    let _socket = open(&server, "/endless-socket").await;
    server.gate.wait_for_departures(1).await;
}

#[tokio::test]
async fn a_client_may_leave_messages_that_last_for_long() {
    let server = Server::start_with(ConnectionLimits {
        ping_interval: Duration::from_millis(20),
        write_stall_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    })
    .await;
    let mut paused = open(&server, "/log-socket").await;
    server.gate.wait_for_arrivals(1).await;
    // Who takes nothing of others is cut off meanwhile, one after the other.
    for round in 1..=3 {
        let _other = open(&server, "/endless-socket").await;
        server.gate.wait_for_departures(round).await;
    }
    for _ in 0..512 {
        next(&mut paused).await;
    }
}

#[tokio::test]
async fn messages_that_last_are_finished_when_the_server_stops() {
    let server = Server::start().await;
    let mut log = open(&server, "/log-socket").await;
    let mut watch = open(&server, "/socket").await;
    server.gate.wait_for_arrivals(2).await;
    let (gate, stopped) = server.shutdown();
    let client = async {
        assert_eq!(close_code(&mut watch).await, Some(CloseCode::Away));
        for _ in 0..64 {
            assert!(next(&mut log).await.is_text(), "it goes on");
        }
        gate.open();
        assert_eq!(close_code(&mut log).await, Some(CloseCode::Normal));
        assert!(log.next().await.is_none(), "the connection is closed in order");
    };
    tokio::join!(client, stopped);
}

#[tokio::test]
async fn a_message_too_large_ends_the_stream_with_its_reason() {
    let server = Server::start().await;
    let mut socket = open(&server, "/socket").await;
    let huge = Message::binary(vec![0; 65 * 1024]);
    socket.send(huge).await.expect("is taken");
    assert_eq!(close_code(&mut socket).await, Some(CloseCode::Size));
}

#[tokio::test]
async fn websockets_get_a_close_frame_when_the_server_stops() {
    let server = Server::start().await;
    let mut socket = open(&server, "/socket").await;
    server.gate.wait_for_arrivals(1).await;
    let (_, stopped) = server.shutdown();
    let (code, ()) = tokio::join!(
        async {
            let code = close_code(&mut socket).await;
            // The client's own close frame goes out as it reads on.
            assert!(socket.next().await.is_none());
            code
        },
        stopped
    );
    assert_eq!(code, Some(CloseCode::Away));
}
