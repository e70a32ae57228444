//! Connections that have become those to another server, which sends everything back.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, split},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use super::{
    client,
    kit::{Server, get},
};
use crate::server::ConnectionLimits;

/// More than all that is between a client and what it reads.
const MUCH: usize = 64 * 1024 * 1024;

async fn connect(front: &Server, back: &Server) -> TlsStream<TcpStream> {
    front.gate.lead_to(client::switched(back).await);
    let mut stream = front.raw("http/1.1").await.expect("connects");
    let head = b"GET /spliced HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    stream.write_all(head).await.expect("is taken");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.expect("there is an answer"));
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "));
    stream
}

async fn echo(stream: &mut TlsStream<TcpStream>) {
    stream.write_all(b"ping").await.expect("is taken");
    let mut heard = [0; 4];
    stream.read_exact(&mut heard).await.expect("comes back");
    assert_eq!(&heard, b"ping");
}

#[tokio::test]
async fn a_client_may_take_nothing_for_long() {
    let limits = ConnectionLimits {
        write_stall_timeout: Duration::from_millis(50),
        ..ConnectionLimits::default()
    };
    let (front, back) = (Server::start_with(limits).await, Server::start().await);
    let (mut reader, mut writer) = split(connect(&front, &back).await);
    let writes = async {
        let much = vec![b'x'; MUCH];
        writer.write_all(&much).await.expect("is taken in the end");
        // What the socket did not take at once is held by the TLS of this end.
        writer.flush().await.expect("is taken in the end");
    };
    let pauses = async {
        // Who takes nothing of an answer is cut off meanwhile, one after the other.
        for round in 1..=10 {
            let mut other = front.raw("http/1.1").await.expect("connects");
            let head = b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n";
            other.write_all(head).await.expect("is taken");
            front.gate.wait_for_departures(round).await;
        }
        let mut piece = vec![0; 1024 * 1024];
        for _ in 0..MUCH / piece.len() {
            reader.read_exact(&mut piece).await.expect("comes back");
        }
    };
    tokio::join!(writes, pauses);
}

#[tokio::test]
async fn a_client_is_not_sent_off_and_breaks_off_last() {
    let (front, back) = (Server::start().await, Server::start().await);
    let mut stream = connect(&front, &back).await;
    front.send_all_off().await;
    echo(&mut stream).await;
    let mut busy = front.client("http/1.1").await.expect("connects");
    let slow = busy.begin(get("/wait"));
    front.gate.wait_for_arrivals(1).await;
    front.stop();
    echo(&mut stream).await;
    let (gate, stopped) = front.shutdown();
    let ended = async {
        assert!(stream.read_u8().await.is_err());
        gate.open();
        assert!(slow.await.expect("is not cancelled").is_ok());
    };
    tokio::join!(stopped, ended);
}
