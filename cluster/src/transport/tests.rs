//! Tests of access, and of strangers, garbage and silence.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use trireme_actors::{Clock, ManualClock, Tasks};
use trireme_ports::free_address;

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);
/// The time limit of calls whose clock stands still: who does not answer fails the test.
const HANGS_AFTER: Duration = Duration::from_secs(60);
/// Longer than any back-off.
const BACKED_OFF: Duration = Duration::from_millis(200);

/// A CA that signs replicas.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        let issuer = Issuer::new(params, key);
        Self { pem, issuer }
    }

    /// Certificates of a replica of `group`.
    pub(crate) fn replica(&self, group: &str) -> PeerCertificates {
        self.replica_from(group, 1975)
    }

    /// The same, good from a year on.
    fn replica_from(&self, group: &str, year: i32) -> PeerCertificates {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![PeerCertificates::group_name(group)]).expect("parameters");
        params.not_before = rcgen::date_time_ymd(year, 1, 1);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        PeerCertificates {
            ca: self.pem.clone().into_bytes(),
            certificate: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
        }
    }
}

/// Answers with what it was asked, once it may.
#[derive(Clone)]
struct Echo {
    may_answer: watch::Receiver<bool>,
    /// A permit for each question that waits.
    arrived: Arc<Semaphore>,
}

impl Echo {
    fn new(may_answer: watch::Receiver<bool>) -> Self {
        Self {
            may_answer,
            arrived: Arc::new(Semaphore::new(0)),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Question {
    text: String,
    /// Is not answered before its time.
    waits: bool,
}

fn question(text: &str) -> Question {
    let text = text.to_owned();
    Question { text, waits: false }
}

impl Service for Echo {
    type Request = Question;
    type Answer = String;

    async fn answer(&self, request: Question) -> String {
        let mut may_answer = self.may_answer.clone();
        if request.waits {
            self.arrived.add_permits(1);
            may_answer
                .wait_for(|may_answer| *may_answer)
                .await
                .expect("the test goes on");
        }
        request.text
    }
}

fn wire(group: &str, certificates: &PeerCertificates) -> Arc<dyn Wire> {
    Arc::new(TlsWire::new(group, certificates).expect("the certificates fit"))
}

/// An echo service of `group`; gives its address.
async fn start(authority: &Authority, group: &str) -> SocketAddr {
    start_on(&*wire(group, &authority.replica(group))).await
}

async fn start_on(wire: &dyn Wire) -> SocketAddr {
    start_echo(wire, Echo::new(watch::Sender::new(true).subscribe())).await
}

async fn start_echo(wire: &dyn Wire, echo: Echo) -> SocketAddr {
    let address = free_address();
    let listener = wire.listen(&address.to_string()).await.expect("the port is free");
    let clock = Clock::system();
    let tasks = Tasks::new(tokio::runtime::Handle::current(), clock.clone());
    let _ = tasks.spawn_named("echo", serve(listener, echo, tasks.clone(), clock));
    address
}

/// A caller whose clock stands still: a machine that is slow does not change what it is answered.
fn caller(group: &str, certificates: &PeerCertificates) -> PeerCaller {
    PeerCaller::new(wire(group, certificates), ManualClock::new().into())
}

async fn ask(caller: &PeerCaller, address: SocketAddr, text: &str) -> Result<String, CallError> {
    let (address, question) = (address.to_string(), question(text));
    let call = caller.call(&address, &question, PATIENCE);
    tokio::time::timeout(HANGS_AFTER, call)
        .await
        .expect("an answer or an error")
}

#[tokio::test]
async fn members_of_one_group_talk() {
    let authority = Authority::new();
    let address = start(&authority, "one").await;
    let caller = caller("one", &authority.replica("one"));
    for text in ["first", "second"] {
        assert_eq!(ask(&caller, address, text).await.expect("an answer"), text);
    }
}

#[tokio::test]
async fn another_ca_and_another_group_are_kept_out_on_both_sides() {
    let (authority, other) = (Authority::new(), Authority::new());
    let address = start(&authority, "one").await;
    // The client trusts the server's CA and has a certificate of another.
    let mixed = PeerCertificates {
        ca: authority.pem.clone().into_bytes(),
        ..other.replica("one")
    };
    // It has the right CA, and a name of another group; as such it must not even be taken for a server.
    let stranger = authority.replica("two");
    let refused = TlsWire::new("one", &stranger).err().expect("its name does not fit");
    assert!(refused.to_string().contains("replica.one.trireme"), "{refused}");
    for caller in [
        caller("one", &mixed),
        caller("one", &other.replica("one")),
        caller("two", &stranger),
    ] {
        let error = ask(&caller, address, "let me in").await.expect_err("it is kept out");
        assert!(
            matches!(error, CallError::Unreachable { .. } | CallError::Lost { .. }),
            "{error}"
        );
    }
    // The server side of the name: a client that does not look at the server's name, but shows a foreign one.
    let config = super::tls::testing::client_config(&stranger).expect("the certificates fit");
    let name = PeerCertificates::group_name("one").try_into().expect("a name");
    let stream = TcpStream::connect(address).await.expect("the port is open");
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await;
    let mut stream = stream.expect("the server shows its name");
    let _ = frame::write(&mut stream, &question("let me in")).await;
    let answer = frame::read::<String>(&mut stream).await;
    assert!(!matches!(answer, Ok(Some(_))), "{answer:?}");
}

/// As to a replica whose clock is back behind the certificates of its peers, and to them.
#[tokio::test]
async fn certificates_that_have_not_begun_are_kept_out_on_both_sides_and_why_is_said() {
    let authority = Authority::new();
    let late = authority.replica_from("one", 2990);
    let address = start_on(&*wire("one", &late)).await;
    let refused = ask(&caller("one", &authority.replica("one")), address, "hello").await;
    let refused = refused.expect_err("the server's has not begun").to_string();
    assert!(refused.contains("not valid yet"), "{refused}");

    let address = start(&authority, "one").await;
    let refused = ask(&caller("one", &late), address, "hello").await;
    assert!(
        matches!(refused, Err(CallError::Lost { .. })),
        "the client's has not begun: {refused:?}"
    );
}

#[tokio::test]
async fn garbage_and_silence_on_the_port_do_no_harm() {
    let authority = Authority::new();
    let address = start(&authority, "one").await;
    let mut silent = Vec::new();
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 4_096],
        &[0x16, 0x03, 0x01, 0xff, 0xff],
        b"",
    ] {
        let mut stream = TcpStream::connect(address).await.expect("the port is open");
        let _ = stream.write_all(garbage).await;
        silent.push(stream);
    }
    let caller = caller("one", &authority.replica("one"));
    assert_eq!(
        ask(&caller, address, "still there").await.expect("an answer"),
        "still there"
    );
    // And they are cut off, each after the time that a handshake may take.
    for mut stream in silent {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        closed.expect("the connection is closed").ok();
    }
}

#[tokio::test]
async fn a_frame_that_is_none_costs_its_connection_only() {
    let authority = Authority::new();
    let address = start(&authority, "one").await;
    let wire = wire("one", &authority.replica("one"));
    let huge = [&[1][..], &u32::MAX.to_be_bytes(), b"{}"].concat();
    for bytes in [
        b"\x02\0\0\0\x02{}".to_vec(),
        huge,
        b"\x01\0\0\0\x03{}}".to_vec(),
        b"\x01\0\0\0\x02[]".to_vec(),
    ] {
        let mut stream = wire.connect(&address.to_string()).await.expect("a member");
        stream.write_all(&bytes).await.expect("it is sent");
        let answer = frame::read::<String>(&mut stream).await;
        assert!(!matches!(answer, Ok(Some(_))), "{answer:?} to {bytes:?}");
    }
    let caller = PeerCaller::new(wire, ManualClock::new().into());
    assert_eq!(
        ask(&caller, address, "still there").await.expect("an answer"),
        "still there"
    );
}

#[tokio::test]
async fn an_answer_that_comes_too_late_goes_to_no_other_call() {
    let authority = Authority::new();
    let may_answer = watch::Sender::new(false);
    let echo = Echo::new(may_answer.subscribe());
    let arrived = echo.arrived.clone();
    let address = start_echo(&*wire("one", &authority.replica("one")), echo).await;
    let clock = ManualClock::new();
    let caller = PeerCaller::new(wire("one", &authority.replica("one")), clock.clone().into());
    let slow = Question {
        waits: true,
        ..question("slow")
    };
    let address_of = address.to_string();
    let late = caller.call::<_, String>(&address_of, &slow, Duration::from_millis(100));
    let time_is_over = async {
        arrived.acquire().await.expect("the service goes on").forget();
        clock.advance(Duration::from_millis(100));
    };
    let (late, ()) = tokio::join!(late, time_is_over);
    assert!(matches!(late, Err(CallError::Timeout { .. })), "{late:?}");
    may_answer.send_replace(true);
    assert_eq!(ask(&caller, address, "fast").await.expect("an answer"), "fast");
}

#[tokio::test]
async fn a_peer_that_cannot_be_reached_is_not_dialled_at_once_again() {
    let authority = Authority::new();
    let address = free_address();
    let clock = ManualClock::new();
    let caller = PeerCaller::new(wire("one", &authority.replica("one")), clock.clone().into());
    let first = ask(&caller, address, "any").await.expect_err("nothing listens there");
    assert!(matches!(first, CallError::Unreachable { .. }), "{first}");
    let second = ask(&caller, address, "any").await.expect_err("nothing listens there");
    assert!(second.to_string().contains("waiting"), "{second}");
    clock.advance(BACKED_OFF);
    let third = ask(&caller, address, "any").await.expect_err("nothing listens there");
    assert!(!third.to_string().contains("waiting"), "{third}");
}

#[tokio::test]
async fn new_connections_are_made_with_the_certificates_of_now() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = TlsWire::new("blue", &old.replica("blue")).expect("the certificates fit");
    let address = start_on(&server).await;
    let kept = caller("blue", &old.replica("blue"));
    ask(&kept, address, "before").await.expect("it is the group's CA");
    server.exchange(&new.replica("blue")).expect("the certificates fit");
    ask(&kept, address, "kept").await.expect("open connections stay");
    let mut broken = new.replica("blue");
    broken.key = b"no key".to_vec();
    assert!(server.exchange(&broken).is_err());
    let newcomer = caller("blue", &new.replica("blue"));
    ask(&newcomer, address, "after")
        .await
        .expect("it is the group's CA now");
    let late = caller("blue", &old.replica("blue"));
    assert!(ask(&late, address, "late").await.is_err(), "it was the group's CA");
}
