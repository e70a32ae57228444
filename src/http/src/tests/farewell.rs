//! Shutdown of a server as its clients see it: they lose nothing.

use std::{cell::Cell, time::Duration};

use futures_util::future::join_all;
use http::{StatusCode, Version};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::kit::{Client, Server, body, get};
use crate::server::ConnectionLimits;

const GET: &[u8] = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A server whose connections have all the time of the test for their next request.
async fn patient() -> Server {
    Server::start_with(ConnectionLimits {
        linger: Duration::from_secs(600),
        ..ConnectionLimits::default()
    })
    .await
}

fn says_close(response: &http::Response<hyper::body::Incoming>) -> bool {
    response
        .headers()
        .get("connection")
        .is_some_and(|value| value == "close")
}

/// Sends a request; whether the answer says that it is the last one.
async fn is_last(client: &mut Client) -> bool {
    let response = client.send(get("/hello")).await.expect("is answered");
    assert_eq!(response.status(), StatusCode::OK);
    says_close(&response)
}

#[tokio::test]
async fn every_answer_of_a_leaving_server_ends_its_http1_connection() {
    let server = patient().await;
    let mut open = server.client("http/1.1").await.expect("connects");
    assert!(!is_last(&mut open).await);
    let mut busy = server.client("http/1.1").await.expect("connects");
    let slow = busy.begin(get("/wait"));
    server.gate.wait_for_arrivals(1).await;
    server.leave();
    assert!(is_last(&mut open).await);
    open.closed().await;
    let mut new = server.client("http/1.1").await.expect("the server still listens");
    assert!(is_last(&mut new).await);
    new.closed().await;
    server.gate.open();
    let response = slow.await.expect("is not cancelled").expect("is answered");
    assert!(says_close(&response), "it began before and is answered after");
    busy.closed().await;
}

#[tokio::test]
async fn a_leaving_server_sends_goaway_and_answers_what_runs() {
    let server = patient().await;
    let mut open = server.client("h2").await.expect("connects");
    assert!(!is_last(&mut open).await);
    let mut busy = server.client("h2").await.expect("connects");
    let slow = busy.begin(get("/wait"));
    server.gate.wait_for_arrivals(1).await;
    server.leave();
    open.closed().await;
    busy.until_goaway().await;
    server.gate.open();
    let response = slow.await.expect("is not cancelled").expect("is answered");
    assert_eq!(body(response).await.expect("arrives"), "done");
    busy.closed().await;
}

#[tokio::test]
async fn who_is_sent_off_loses_nothing_and_may_come_again() {
    for alpn in ["h2", "http/1.1"] {
        let server = Server::start().await;
        let mut busy = server.client(alpn).await.expect("connects");
        let slow = busy.begin(get("/wait"));
        server.gate.wait_for_arrivals(1).await;
        let mut idle = server.client(alpn).await.expect("connects");
        assert!(!is_last(&mut idle).await);
        server.send_all_off().await;
        idle.closed().await;
        let mut new = server.client(alpn).await.expect("the server goes on");
        assert!(!is_last(&mut new).await, "over {alpn}");
        server.gate.open();
        let response = slow.await.expect("is not cancelled").expect("is answered");
        assert_eq!(says_close(&response), alpn != "h2");
        busy.closed().await;
        assert!(!is_last(&mut new).await, "only who was there is sent off");
    }
}

#[tokio::test]
async fn who_comes_to_a_leaving_server_gets_an_answer_before_goaway() {
    let server = patient().await;
    server.leave();
    for _ in 0..20 {
        let mut client = server.client("h2").await.expect("the server still listens");
        let response = client.send(get("/hello")).await.expect("is answered");
        assert_eq!(
            (response.status(), response.version()),
            (StatusCode::OK, Version::HTTP_2)
        );
        assert!(!says_close(&response), "HTTP/2 has no such header");
        client.closed().await;
    }
}

#[tokio::test]
async fn the_next_request_of_an_open_connection_is_answered_after_the_stop() {
    let server = patient().await;
    let mut used = server.client("http/1.1").await.expect("connects");
    assert!(!is_last(&mut used).await);
    let mut unused = server.client("http/1.1").await.expect("connects");
    let mut half = server.raw("http/1.1").await.expect("connects");
    half.write_all(&GET[..20]).await.expect("is taken");
    let (_, stopped) = server.shutdown();
    let clients = async {
        assert!(is_last(&mut used).await);
        assert!(is_last(&mut unused).await);
        half.write_all(&GET[20..]).await.expect("is taken");
        let mut answer = String::new();
        half.read_to_string(&mut answer).await.expect("is answered to the end");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
    };
    tokio::join!(clients, stopped);
}

#[tokio::test]
async fn a_stopping_server_answers_new_requests_until_none_is_running() {
    let server = patient().await;
    let mut busy = server.client("http/1.1").await.expect("connects");
    let slow = busy.begin(get("/wait"));
    server.gate.wait_for_arrivals(1).await;
    server.stop();
    for alpn in ["h2", "http/1.1"] {
        // As a balancer does that looks whether the server is ready.
        let mut probe = server.client(alpn).await.expect("the server still listens");
        assert_eq!(is_last(&mut probe).await, alpn != "h2");
        probe.closed().await;
    }
    server.gate.open();
    assert!(slow.await.expect("is not cancelled").is_ok());
    server.shutdown().1.await;
}

#[tokio::test]
async fn a_connection_that_was_not_accepted_yet_is_served_after_the_stop() {
    let server = Server::start_with(ConnectionLimits {
        pending_handshakes: 1,
        linger: Duration::from_secs(600),
        ..ConnectionLimits::default()
    })
    .await;
    // It has the one permit for handshakes, so that the next one stays in the kernel's queue.
    let blocker = TcpStream::connect(server.address()).await.expect("connects");
    let late = async {
        let mut client = server.client("http/1.1").await.expect("connects");
        assert!(is_last(&mut client).await);
    };
    let stop = async {
        // The client's connection is there before it has been accepted.
        tokio::task::yield_now().await;
        server.close();
        drop(blocker);
    };
    tokio::join!(late, stop);
    server.shutdown().1.await;
}

#[tokio::test]
async fn an_answer_that_ends_its_connection_ends_it_over_http2_too() {
    let server = Server::start().await;
    for alpn in ["h2", "http/1.1"] {
        let mut client = server.client(alpn).await.expect("connects");
        let response = client.send(get("/last")).await.expect("is answered");
        assert_eq!(says_close(&response), alpn != "h2");
        client.closed().await;
    }
}

#[tokio::test]
async fn busy_clients_lose_nothing_by_a_stop() {
    for round in 0..4 {
        for alpn in ["h2", "http/1.1"] {
            let server = patient().await;
            let done = Cell::new(0_usize);
            let clients = join_all((0..6).map(|_| use_until_gone(&server, alpn, &done)));
            let stop = async {
                wait_for(&done, 100).await;
                // With a delay between the two, and without one.
                if round % 2 == 0 {
                    server.leave();
                    wait_for(&done, 200).await;
                }
                server.close();
            };
            let (lost, ()) = tokio::join!(clients, stop);
            assert_eq!(
                lost.concat(),
                Vec::<String>::new(),
                "over {alpn}, after {} answers",
                done.get()
            );
            server.shutdown().1.await;
        }
    }
}

/// Sends one request after the other, over a new connection whenever the old one ends, until there is no server any more.
/// Says what has been lost.
async fn use_until_gone(server: &Server, alpn: &str, done: &Cell<usize>) -> Vec<String> {
    let mut lost = Vec::new();
    while let Ok(mut client) = server.client(alpn).await {
        while client.is_open() {
            match client.send(get("/hello")).await {
                Ok(response) => {
                    let last = says_close(&response);
                    match body(response).await {
                        Ok(_) => done.set(done.get() + 1),
                        Err(error) => lost.push(format!("{error:?}")),
                    }
                    if last {
                        break;
                    }
                }
                // It was not sent: a client with a pool takes another connection.
                Err(error) if error.is_canceled() => break,
                Err(error) => lost.push(format!("{error:?}")),
            }
        }
    }
    lost
}

async fn wait_for(done: &Cell<usize>, count: usize) {
    while done.get() < count {
        tokio::task::yield_now().await;
    }
}
