//! HTTP/2 by hand: frames that no client library would send.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::{
    A_WHILE, ends,
    kit::{Server, get},
};
use crate::server::ConnectionLimits;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;
/// `:method: GET`, `:scheme: https`, and `:path` as a literal.
const GET_HTTPS: &[u8] = &[0x82, 0x87, 0x04];
/// The same of POST.
const POST_HTTPS: &[u8] = &[0x83, 0x87, 0x04];
/// The bytes of a frame of DATA.
const FRAME_BYTES: usize = 16 * 1024;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("frames are small").to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

fn request(stream: u32, path: &str) -> Vec<u8> {
    head(stream, GET_HTTPS, END_STREAM, path)
}

fn head(stream: u32, method: &[u8], flags: u8, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).expect("paths are short");
    let block = [method, &[length], path.as_bytes()].concat();
    frame(HEADERS, flags | END_HEADERS, stream, &block)
}

/// The numbers of the first `count` streams of a client.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

/// A connection, past its preface.
struct Raw {
    reader: ReadHalf<TlsStream<TcpStream>>,
    writer: WriteHalf<TlsStream<TcpStream>>,
}

impl Raw {
    async fn open(server: &Server, settings: &[u8]) -> Self {
        let (reader, mut writer) = tokio::io::split(server.raw("h2").await.expect("connects"));
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, settings)].concat();
        writer.write_all(&hello).await.expect("is taken");
        Self { reader, writer }
    }

    async fn send(&mut self, bytes: &[u8]) {
        // The server may have had enough already; what it says of that is what counts.
        let _ = self.writer.write_all(bytes).await;
    }

    /// Answers every ping until the connection ends. Reports whether GOAWAY came before.
    async fn ponging(&mut self) -> bool {
        let mut is_told = false;
        let mut head = [0; 9];
        while self.reader.read_exact(&mut head).await.is_ok() {
            let length = usize::from(u16::from_be_bytes([head[1], head[2]]));
            let mut payload = vec![0; length];
            if self.reader.read_exact(&mut payload).await.is_err() {
                break;
            }
            is_told |= head[3] == GOAWAY;
            if head[3] == PING && head[4] != ACK {
                self.send(&frame(PING, ACK, 0, &payload)).await;
            }
        }
        is_told
    }

    /// The error code of the next frame of this kind: the last four bytes of a reset, the four before the text of a
    /// GOAWAY. Nothing if the connection ends before.
    async fn code(&mut self, wanted: u8) -> Option<u32> {
        loop {
            let mut head = [0; 9];
            self.reader.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).ok()?];
            self.reader.read_exact(&mut payload).await.ok()?;
            if head[3] == wanted {
                let at = if wanted == GOAWAY { 4 } else { 0 };
                return Some(u32::from_be_bytes(payload.get(at..at + 4)?.try_into().ok()?));
            }
        }
    }
}

/// Reports whether another client is still served.
async fn serves_others(server: &Server) -> bool {
    let mut client = server.client("h2").await.expect("connects");
    client.send(get("/hello")).await.is_ok()
}

/// Waits until the request of a client that has to be quick is there.
async fn wait_for_request(server: &Server) {
    let arrives = timeout(10 * A_WHILE, server.gate.wait_for_arrivals(1));
    assert!(arrives.await.is_ok(), "the client was too slow");
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let server = Server::start().await;
    let mut raw = Raw::open(&server, &[]).await;
    let cancel = 8_u32.to_be_bytes();
    let flood: Vec<u8> = streams(2_000)
        .flat_map(|stream| [request(stream, "/wait"), frame(RST_STREAM, 0, stream, &cancel)].concat())
        .collect();
    raw.send(&flood).await;
    assert_eq!(raw.code(GOAWAY).await, Some(ENHANCE_YOUR_CALM));
    assert!(serves_others(&server).await);
}

#[tokio::test]
async fn endless_continuations_end_the_connection() {
    let server = Server::start().await;
    let mut raw = Raw::open(&server, &[]).await;
    // A literal header that is not kept, again and again.
    let piece = [&[0, 1, b'x', 100][..], &[b'y'; 100]].concat().repeat(150);
    let mut flood = frame(HEADERS, END_STREAM, 1, GET_HTTPS);
    for _ in 0..2_000 {
        flood.extend(frame(CONTINUATION, 0, 1, &piece));
    }
    raw.send(&flood).await;
    let code = raw.code(GOAWAY).await;
    assert!(code.is_none_or(|code| code != 0), "it was ended in peace");
    assert!(serves_others(&server).await);
}

#[tokio::test]
async fn floods_whose_answers_are_not_taken_are_cut_off() {
    let server = Server::start_with(ConnectionLimits {
        write_stall_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    })
    .await;
    for flood in [frame(PING, 0, 0, &[7; 8]), frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0])] {
        let mut raw = Raw::open(&server, &[]).await;
        let many = flood.repeat(10_000);
        while raw.writer.write_all(&many).await.is_ok() {}
        assert!(serves_others(&server).await);
    }
}

#[tokio::test]
async fn an_answer_without_a_window_ends_the_connection() {
    let server = Server::start_with(ConnectionLimits {
        write_stall_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    })
    .await;
    let no_window = [0, 4, 0, 0, 0, 0];
    for path in ["/endless", "/hello"] {
        let mut raw = Raw::open(&server, &no_window).await;
        raw.send(&request(1, path)).await;
        assert!(ends(&mut raw.reader).await, "{path}");
    }
    let mut waits = Raw::open(&server, &[]).await;
    waits.send(&request(1, "/wait")).await;
    server.gate.wait_for_arrivals(2).await;
    let mut other = Raw::open(&server, &no_window).await;
    other.send(&request(1, "/endless")).await;
    assert!(ends(&mut other.reader).await);
    server.gate.open();
    assert_eq!(
        waits.code(0).await.map(u32::to_be_bytes),
        Some(*b"done"),
        "who is waited for is not cut off"
    );
}

#[tokio::test]
async fn a_stream_may_be_without_a_window_for_long() {
    let server = Server::start_with(ConnectionLimits {
        write_stall_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    })
    .await;
    let no_window = [0, 4, 0, 0, 0, 0];
    let mut paused = Raw::open(&server, &no_window).await;
    paused.send(&request(1, "/log")).await;
    server.gate.wait_for_arrivals(1).await;
    for _ in 0..3 {
        let mut other = Raw::open(&server, &no_window).await;
        other.send(&request(1, "/endless")).await;
        assert!(ends(&mut other.reader).await);
    }
    server.gate.wait_for_departures(3).await;
    let update = 1024_u32.to_be_bytes();
    paused.send(&frame(WINDOW_UPDATE, 0, 1, &update)).await;
    let bytes = paused.code(DATA).await;
    assert_eq!(bytes.map(u32::to_be_bytes), Some(*b"xxxx"), "the stream goes on");
}

#[tokio::test]
async fn streams_past_the_limit_are_refused() {
    let server = Server::start_with(ConnectionLimits {
        concurrent_streams: 3,
        ..ConnectionLimits::default()
    })
    .await;
    let mut raw = Raw::open(&server, &[]).await;
    let requests: Vec<u8> = streams(4).flat_map(|stream| request(stream, "/wait")).collect();
    raw.send(&requests).await;
    assert_eq!(raw.code(RST_STREAM).await, Some(REFUSED_STREAM));
    server.gate.wait_for_arrivals(3).await;
    assert!(serves_others(&server).await);
}

#[tokio::test]
async fn what_is_no_http2_ends_the_connection() {
    let server = Server::start().await;
    let many = [b'A'; 100];
    let broken: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &[0; 100],
        &many,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    for bytes in broken {
        let mut stream = server.raw("h2").await.expect("connects");
        stream.write_all(bytes).await.expect("is taken");
        assert!(ends(&mut stream).await, "{bytes:?}");
    }
    assert!(serves_others(&server).await);
}

#[tokio::test]
async fn a_preface_that_does_not_arrive_ends_the_connection() {
    let server = Server::start_with(ConnectionLimits {
        header_timeout: A_WHILE,
        ..ConnectionLimits::default()
    })
    .await;
    let mut slow = Raw::open(&server, &[]).await;
    slow.send(&request(1, "/wait")).await;
    wait_for_request(&server).await;
    for sent in [&[][..], &PREFACE[..10]] {
        let mut stream = server.raw("h2").await.expect("connects");
        stream.write_all(sent).await.expect("is taken");
        assert!(ends(&mut stream).await, "{sent:?}");
    }
    server.gate.open();
    assert_eq!(
        slow.code(DATA).await.map(u32::to_be_bytes),
        Some(*b"done"),
        "only the preface has to be fast"
    );
}

#[tokio::test]
async fn a_connection_over_which_nothing_runs_is_ended() {
    let server = Server::start_with(ConnectionLimits {
        header_timeout: A_WHILE,
        idle_timeout: Duration::from_millis(200),
        ping_interval: Duration::from_millis(20),
        ..ConnectionLimits::default()
    })
    .await;
    let mut waits = Raw::open(&server, &[]).await;
    waits.send(&request(1, "/wait")).await;
    wait_for_request(&server).await;
    for requests in [&[][..], &request(1, "/hello")] {
        let mut idle = Raw::open(&server, &[]).await;
        idle.send(requests).await;
        assert!(idle.ponging().await, "it is told that it has to go");
    }
    server.gate.open();
    assert_eq!(
        waits.code(DATA).await.map(u32::to_be_bytes),
        Some(*b"done"),
        "what runs is not idle"
    );
}

#[tokio::test]
async fn an_idle_client_that_does_not_heed_goaway_is_cut_off() {
    let server = Server::start_with(ConnectionLimits {
        header_timeout: A_WHILE,
        write_stall_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    })
    .await;
    let mut raw = Raw::open(&server, &[]).await;
    assert_eq!(raw.code(GOAWAY).await, Some(0));
    assert!(
        ends(&mut raw.reader).await,
        "without an answer to the ping that follows"
    );
}

#[tokio::test]
async fn bodies_that_are_not_read_do_not_hold_up_others() {
    let server = Server::start().await;
    let mut raw = Raw::open(&server, &[]).await;
    let unread: Vec<u8> = streams(8)
        .flat_map(|stream| head(stream, POST_HTTPS, 0, "/wait"))
        .collect();
    raw.send(&unread).await;
    server.gate.wait_for_arrivals(8).await;
    // As much as each of them may send, and more than the connection could without a larger window.
    let piece = [0; FRAME_BYTES];
    for stream in streams(8) {
        raw.send(&frame(DATA, 0, stream, &piece).repeat(256 * 1024 / FRAME_BYTES))
            .await;
    }
    raw.send(&[head(17, POST_HTTPS, 0, "/echo"), frame(DATA, END_STREAM, 17, b"more")].concat())
        .await;
    assert_eq!(raw.code(DATA).await.map(u32::to_be_bytes), Some(*b"more"));
}
