//! One connection through a link, from its opening to its end.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::link::{Strikes, add};
use super::pump::{PumpEnd, pump, wait_for_passage};
use super::{Link, Opening, Way};

/// The end that the client sees.
enum LinkOutcome {
    /// Both directions were closed in order.
    Closed,
    /// It broke at one end, which the other end has to learn.
    Broken,
    /// The nemesis resets it.
    Reset,
    /// The nemesis makes the server forget it.
    Forgotten,
}

/// Counts a connection as closed however it ends.
struct OpenLink<'a>(&'a Link);

impl Drop for OpenLink<'_> {
    fn drop(&mut self) {
        add(&self.0.tally().closed, 1);
    }
}

/// Serves a connection that was accepted.
pub(super) async fn serve(client: TcpStream, target: SocketAddr, link: Link) {
    add(&link.tally().connections, 1);
    let _open = OpenLink(&link);
    // Taken before anything else, so that a strike during the opening is not missed.
    let mut strikes = link.watch_strikes();
    let seen = *strikes.borrow_and_update();
    let Some(server) = open(&client, target, &link).await else {
        reset(&client);
        return;
    };
    carry(client, server, &link, strikes, seen).await;
}

/// The connection to the server; `None` if the client is not to get one.
async fn open(client: &TcpStream, target: SocketAddr, link: &Link) -> Option<TcpStream> {
    let mut conditions = link.watch_conditions();
    let now = *conditions.borrow_and_update();
    if matches!(now.opening, Opening::Refuse | Opening::Reset) {
        add(&link.tally().turned_away, 1);
        return None;
    }
    if now.holds_openings() {
        add(&link.tally().hung, 1);
        conditions
            .wait_for(|conditions| !conditions.holds_openings())
            .await
            .ok()?;
    }
    let Ok(server) = TcpStream::connect(target).await else {
        add(&link.tally().unreachable, 1);
        return None;
    };
    // Both ends see what they would see without us between them.
    let is_quick = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    is_quick.is_ok().then_some(server)
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    link: &Link,
    mut strikes: watch::Receiver<Strikes>,
    seen: Strikes,
) {
    let outcome = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let up = pump(from_client, to_server, link, Way::ToServer);
        let down = pump(from_server, to_client, link, Way::ToClient);
        tokio::select! {
            outcome = both(up, down) => outcome,
            outcome = strike(&mut strikes, seen) => outcome,
        }
    };
    match outcome {
        LinkOutcome::Closed => {}
        LinkOutcome::Broken => {
            tokio::join!(
                reset_when_heard(server, link, Way::ToServer),
                reset_when_heard(client, link, Way::ToClient)
            );
        }
        LinkOutcome::Reset => {
            add(&link.tally().resets, 1);
            reset(&client);
            reset(&server);
        }
        LinkOutcome::Forgotten => {
            add(&link.tally().half_opened, 1);
            reset(&server);
            drop(server);
            swallow(client, link, &mut strikes, seen).await;
        }
    }
}

/// Ends with the connection: at once if it breaks in one direction, else when both are closed.
async fn both(up: impl Future<Output = PumpEnd>, down: impl Future<Output = PumpEnd>) -> LinkOutcome {
    tokio::pin!(up, down);
    let (first, other) = tokio::select! {
        end = &mut up => (end, futures_util::future::Either::Left(down)),
        end = &mut down => (end, futures_util::future::Either::Right(up)),
    };
    if first == PumpEnd::Broken || other.await == PumpEnd::Broken {
        LinkOutcome::Broken
    } else {
        LinkOutcome::Closed
    }
}

async fn strike(strikes: &mut watch::Receiver<Strikes>, seen: Strikes) -> LinkOutcome {
    let hit = strikes.wait_for(|now| now.resets != seen.resets || now.forgets != seen.forgets);
    match hit.await {
        Ok(now) if now.resets == seen.resets => LinkOutcome::Forgotten,
        _ => LinkOutcome::Reset,
    }
}

/// Keeps the client's end open and silent until the link is healed or the client goes.
async fn swallow(mut client: TcpStream, link: &Link, strikes: &mut watch::Receiver<Strikes>, seen: Strikes) {
    let drain = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read @ 1..) = client.read(&mut buffer).await {
            add(&link.tally().swallowed_bytes, read);
        }
    };
    tokio::select! {
        () = drain => {}
        _ = strikes.wait_for(|now| now.mends != seen.mends || now.resets != seen.resets) => {}
    }
    reset(&client);
}

/// A reset passes a blackhole no more than data does.
async fn reset_when_heard(stream: TcpStream, link: &Link, way: Way) {
    wait_for_passage(&mut link.watch_conditions(), way).await;
    reset(&stream);
}

/// Makes the end of `stream` a reset instead of an orderly close, once it is dropped.
fn reset(stream: &TcpStream) {
    // Fails only on a socket that is gone.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
