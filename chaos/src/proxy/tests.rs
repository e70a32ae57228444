//! The proxy over real sockets. Times are bounded from below exactly, and from above by what a busy machine may take.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::*;

/// Nothing that works takes longer, on any machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time after which bytes count as held back.
const SILENCE: Duration = Duration::from_millis(150);

/// A server that sends back what it gets, behind a link.
struct Rig {
    link: Link,
    proxy: Proxy,
    server: JoinHandle<()>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Rig {
    async fn new() -> Self {
        let (target, server) = echo().await;
        let link = Link::new("test", 7);
        let proxy = Proxy::start(Ipv4Addr::LOCALHOST, link.clone(), target).expect("a port is free");
        Self { link, proxy, server }
    }

    async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.proxy.address()).await.expect("it listens"))
    }

    /// A connection on which something has passed.
    async fn connected(&self) -> Client {
        let mut client = self.connect().await;
        client.say("hello").await;
        client.hears("hello").await;
        client
    }

    async fn until(&self, what: &str, holds: impl Fn(&Counts) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(&self.link.counts()) {
            assert!(Instant::now() < end, "{what}: {:?}", self.link.counts());
            tokio::task::yield_now().await;
        }
    }
}

async fn echo() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
                let _ = to.shutdown().await;
            });
        }
    });
    (address, server)
}

struct Client(TcpStream);

impl Client {
    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("it can be sent");
    }

    /// The time until the text was here.
    async fn hears(&mut self, text: &str) -> Duration {
        let begun = Instant::now();
        let mut heard = vec![0; text.len()];
        let read = timeout(PATIENCE, self.0.read_exact(&mut heard)).await;
        read.expect("it comes in time").expect("the connection lives");
        assert_eq!(String::from_utf8_lossy(&heard), text);
        begun.elapsed()
    }

    async fn hears_nothing(&mut self) {
        let mut heard = [0];
        let read = timeout(SILENCE, self.0.read(&mut heard)).await;
        assert!(read.is_err(), "something came: {read:?}");
    }

    /// The error that ends the connection: `None` for an orderly end.
    async fn end(&mut self) -> Option<std::io::ErrorKind> {
        let mut rest = Vec::new();
        let read = timeout(PATIENCE, self.0.read_to_end(&mut rest)).await;
        read.expect("it ends in time").err().map(|error| error.kind())
    }

    async fn is_reset(&mut self) {
        assert_eq!(self.end().await, Some(std::io::ErrorKind::ConnectionReset));
    }
}

#[tokio::test]
async fn a_perfect_link_passes_everything_in_order() {
    let rig = Rig::new().await;
    let client = rig.connect().await;
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|number| number.to_be_bytes()[3] ^ number.to_be_bytes()[2])
        .collect();
    let (mut from, mut to) = client.0.into_split();
    let sent = bytes.clone();
    let sender = tokio::spawn(async move {
        to.write_all(&sent).await.expect("it can be sent");
        to.shutdown().await.expect("it can be closed");
    });
    let mut back = Vec::new();
    timeout(PATIENCE, from.read_to_end(&mut back))
        .await
        .expect("in time")
        .expect("in order");
    sender.await.expect("all was sent");
    assert!(
        back == bytes,
        "{} of {} bytes came back, or others",
        back.len(),
        bytes.len()
    );
    rig.until("the connection is over", |counts| counts.open == 0).await;
    let counts = rig.link.counts();
    assert_eq!((counts.bytes_to_server, counts.bytes_to_client), (3_000_000, 3_000_000));
    assert_eq!((counts.connections, counts.touched()), (1, 0), "{counts:?}");
}

#[tokio::test]
async fn a_perfect_link_costs_little() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    let mut times = Vec::new();
    for _ in 0..200 {
        client.say("ping").await;
        times.push(client.hears("ping").await);
    }
    times.sort();
    let median = times[times.len() / 2];
    assert!(
        median < Duration::from_millis(5),
        "the median round trip took {median:?}"
    );
}

#[tokio::test]
async fn a_delay_takes_its_time_in_each_direction() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    let delay = Duration::from_millis(40);
    rig.link
        .set(Conditions::both(LinkConditions::delayed(delay, Duration::ZERO)));
    client.say("there and back").await;
    let took = client.hears("there and back").await;
    assert!(took >= delay * 2, "{took:?}");
    rig.link.set(Conditions::one_way(
        Way::ToClient,
        LinkConditions::delayed(delay, Duration::ZERO),
    ));
    client.say("back").await;
    let took = client.hears("back").await;
    assert!(took >= delay && took < PATIENCE, "{took:?}");
    assert!(rig.link.counts().delayed >= 3, "{:?}", rig.link.counts());
}

#[tokio::test]
async fn a_delay_lets_many_pieces_travel_at_once() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    let delay = Duration::from_millis(100);
    rig.link.set(Conditions::one_way(
        Way::ToServer,
        LinkConditions::delayed(delay, Duration::ZERO),
    ));
    let begun = Instant::now();
    for number in 10..60 {
        client.say(&format!("{number}")).await;
        // So that they are not sent as one.
        tokio::task::yield_now().await;
    }
    let all: String = (10..60).map(|number| number.to_string()).collect();
    client.hears(&all).await;
    let took = begun.elapsed();
    assert!(took >= delay && took < delay * 25, "one after the other: {took:?}");
}

#[tokio::test]
async fn jitter_keeps_the_order() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    let half = Duration::from_millis(10);
    rig.link.set(Conditions::both(LinkConditions::delayed(half, half)));
    let mut all = String::new();
    for number in 100..160 {
        let text = number.to_string();
        client.say(&text).await;
        tokio::task::yield_now().await;
        all.push_str(&text);
    }
    client.hears(&all).await;
    assert!(rig.link.counts().delayed > 0);
}

#[tokio::test]
async fn bandwidth_is_kept() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    let narrow = LinkConditions {
        bytes_per_second: Some(100_000),
        ..LinkConditions::CLEAN
    };
    rig.link.set(Conditions::one_way(Way::ToServer, narrow));
    let text = "x".repeat(30_000);
    let begun = Instant::now();
    client.say(&text).await;
    client.hears(&text).await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(290), "30 kB at 100 kB/s took {took:?}");
}

#[tokio::test]
async fn a_loss_stalls_for_a_retransmission() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    rig.link.set(Conditions::one_way(
        Way::ToServer,
        LinkConditions::lossy(0.5, OnLoss::Stall),
    ));
    let begun = Instant::now();
    let text = "y".repeat(8 * 1448);
    client.say(&text).await;
    client.hears(&text).await;
    let counts = rig.link.counts();
    assert!(
        counts.losses > 0,
        "one of 8 segments at least, with this seed: {counts:?}"
    );
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    assert_eq!(counts.resets, 0);
}

#[tokio::test]
async fn a_loss_may_break_the_connection() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    rig.link.set(Conditions::one_way(
        Way::ToServer,
        LinkConditions::lossy(1.0, OnLoss::Reset),
    ));
    client.say("lost").await;
    client.is_reset().await;
    assert!(rig.link.counts().losses > 0);
}

#[tokio::test]
async fn a_blackhole_holds_and_then_delivers() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    rig.link.set(Conditions::both(LinkConditions::blackhole()));
    client.say("held").await;
    client.hears_nothing().await;
    rig.until("the bytes are counted", |counts| counts.held_bytes == 4)
        .await;
    rig.link.heal();
    client.hears("held").await;
}

#[tokio::test]
async fn a_trap_holds_what_is_meant_and_all_behind_it() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    rig.link.set_trap(vec![b"never".to_vec(), b"meant".to_vec()]);
    client.say("passes").await;
    client.hears("passes").await;
    client.say("is meant!").await;
    assert_eq!(rig.link.caught().await, "is meant!".as_bytes());
    client.say("behind").await;
    client.hears_nothing().await;
    rig.link.disarm();
    assert_eq!(rig.link.caught().await, "is meant!".as_bytes(), "it has sprung");
    rig.link.heal();
    client.hears("is meant!behind").await;
    client.say("is meant").await;
    client.hears("is meant").await;
}

#[tokio::test]
async fn a_trap_that_is_taken_away_holds_nothing() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    rig.link.set_trap(vec![b"meant".to_vec()]);
    rig.link.disarm();
    client.say("is meant").await;
    client.hears("is meant").await;
}

#[tokio::test]
async fn a_blackhole_may_be_one_way() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    let passed = rig.link.counts().bytes_to_server;
    rig.link
        .set(Conditions::one_way(Way::ToClient, LinkConditions::blackhole()));
    client.say("asked").await;
    rig.until("the server got it", |counts| counts.bytes_to_server == passed + 5)
        .await;
    client.hears_nothing().await;
    rig.link.heal();
    client.hears("asked").await;
}

#[tokio::test]
async fn an_end_does_not_pass_a_blackhole() {
    let rig = Rig::new().await;
    let client = rig.connected().await;
    rig.link
        .set(Conditions::one_way(Way::ToServer, LinkConditions::blackhole()));
    drop(client);
    // Had the server heard of it, it would have closed too.
    tokio::time::sleep(SILENCE).await;
    assert_eq!(rig.link.counts().open, 1);
    rig.link.heal();
    rig.until("both have closed", |counts| counts.open == 0).await;
}

#[tokio::test]
async fn a_new_connection_into_a_cut_waits_for_its_healing() {
    let rig = Rig::new().await;
    rig.link.set(Conditions::cut());
    let mut client = rig.connect().await;
    client.say("hello?").await;
    client.hears_nothing().await;
    assert_eq!(rig.link.counts().hung, 1);
    rig.link.heal();
    client.hears("hello?").await;
}

#[tokio::test]
async fn a_refusal_is_real_and_spares_open_connections() {
    let rig = Rig::new().await;
    let mut old = rig.connected().await;
    rig.link.set(Conditions::opening(Opening::Refuse));
    let end = Instant::now() + PATIENCE;
    // Until the listener is closed it still accepts, and one that comes in that moment is reset.
    loop {
        let refused = TcpStream::connect(rig.proxy.address())
            .await
            .err()
            .map(|error| error.kind());
        if refused == Some(std::io::ErrorKind::ConnectionRefused) {
            break;
        }
        assert!(Instant::now() < end, "it is not refused: {refused:?}");
    }
    old.say("still here").await;
    old.hears("still here").await;
    rig.link.heal();
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(rig.proxy.address()).await.is_err() {
        assert!(Instant::now() < end, "it does not accept again");
        tokio::task::yield_now().await;
    }
    rig.connected().await;
}

#[tokio::test]
async fn a_reset_at_the_opening() {
    let rig = Rig::new().await;
    rig.link.set(Conditions::opening(Opening::Reset));
    rig.connect().await.is_reset().await;
    assert_eq!(rig.link.counts().turned_away, 1);
}

#[tokio::test]
async fn resets_hit_all_that_are_open_and_no_later_ones() {
    let rig = Rig::new().await;
    let (mut one, mut two) = (rig.connected().await, rig.connected().await);
    rig.link.reset_connections();
    one.is_reset().await;
    two.is_reset().await;
    rig.connected().await;
    assert_eq!(rig.link.counts().resets, 2);
}

#[tokio::test]
async fn a_half_open_connection_swallows_until_it_is_healed() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    rig.link.half_open_connections();
    rig.until("the server has forgotten it", |counts| counts.half_opened == 1)
        .await;
    client.say("hello?").await;
    client.hears_nothing().await;
    rig.until("it went nowhere", |counts| counts.swallowed_bytes == 6).await;
    rig.link.heal();
    client.is_reset().await;
}

#[tokio::test]
async fn what_breaks_at_one_end_breaks_at_the_other() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let target = listener.local_addr().expect("it is bound");
    let link = Link::new("test", 7);
    let proxy = Proxy::start(Ipv4Addr::LOCALHOST, link.clone(), target).expect("a port is free");
    let mut client = Client(TcpStream::connect(proxy.address()).await.expect("it listens"));
    let (mut server, _) = listener.accept().await.expect("it comes through");
    client.say("hello").await;
    server.read_exact(&mut [0; 5]).await.expect("it arrives");
    socket2::SockRef::from(&server)
        .set_linger(Some(Duration::ZERO))
        .expect("it is open");
    drop(server);
    client.is_reset().await;
    assert_eq!(link.counts().resets, 0, "the proxy did not do it");

    drop(listener);
    let mut client = Client(TcpStream::connect(proxy.address()).await.expect("the proxy listens"));
    client.is_reset().await;
    assert_eq!(link.counts().unreachable, 1);
}

#[tokio::test]
async fn a_proxy_may_be_there_before_its_address() {
    let gateway = Ipv4Addr::new(192, 0, 2, 7);
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let proxy = Proxy::start(gateway, Link::new("early", 1), target).expect("a port of what is no address yet");
    assert_eq!(proxy.address().ip(), gateway);
    assert_ne!(proxy.address().port(), 0);
}

#[tokio::test]
async fn a_port_may_lead_over_several_links() {
    let (target, server) = echo().await;
    let links = [Link::new("even", 1), Link::new("odd", 2)];
    let sorted = links.clone();
    let proxy = Proxy::start_sorted(Ipv4Addr::LOCALHOST, target, move |client, _| {
        sorted[usize::from(client.port() % 2)].clone()
    });
    let proxy = proxy.expect("a port is free");
    links[0].set(Conditions::opening(Opening::Reset));
    for _ in 0..20 {
        let stream = TcpStream::connect(proxy.address()).await.expect("it listens");
        let is_even = stream.local_addr().expect("it has one").port() % 2 == 0;
        let mut client = Client(stream);
        if is_even {
            client.is_reset().await;
        } else {
            client.say("hello").await;
            client.hears("hello").await;
        }
    }
    assert_eq!(links[0].counts().turned_away + links[1].counts().connections, 20);
    server.abort();
}

#[tokio::test]
async fn a_dropped_proxy_closes_everything() {
    let rig = Rig::new().await;
    let mut client = rig.connected().await;
    let (link, address) = (rig.link.clone(), rig.proxy.address());
    drop(rig);
    client.end().await;
    let end = Instant::now() + PATIENCE;
    while link.counts().open > 0 || TcpStream::connect(address).await.is_ok() {
        assert!(Instant::now() < end, "it goes on: {:?}", link.counts());
        tokio::task::yield_now().await;
    }
}
