//! Fault 20: watchers that read slowly, or have nothing to read, and changes for the slow ones.
//!
//! The changes themselves cost others something, so they are made for a while without watchers first, to be compared with.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use trireme_http::client::ByteStream;

use super::task::{Stop, Task};
use super::{ActiveFault, Observation, Refusal};
use crate::world::{ADMIN_TOKEN, Probe, World, WorldError};

/// The namespace in which the nemesis makes changes of its own. Comparisons of histories must leave it out.
pub const NAMESPACE: &str = "nemesis";
const OBJECT: &str = "loud";
const PATIENCE: Duration = Duration::from_secs(10);
/// A thousand TLS handshakes take a debug build many seconds.
const OPEN_PATIENCE: Duration = Duration::from_secs(60);
const OPEN_ATTEMPTS: usize = 10;
/// So many handshakes at a time.
const MOST_OPENING: usize = 32;
/// The rate of a slow watcher: 1 kB a second.
const SIP_BYTES: usize = 100;
const SIP_PERIOD: Duration = Duration::from_millis(100);
/// Small, so that what a slow watcher does not read is soon the server's concern.
const RECEIVE_BUFFER_BYTES: u32 = 4096;
/// Of each change.
const CHANGE_BYTES: usize = 64 * 1024;
const CHANGE_PERIOD: Duration = Duration::from_millis(50);
/// The time for which changes are made without watchers: that of the fault.
const CONTROL: Duration = Duration::from_secs(8);

#[derive(Debug, Default)]
struct ConsumerProgress {
    opened: AtomicU64,
    failed: AtomicU64,
    /// Streams of slow watchers that the server has ended.
    cut: AtomicU64,
    changes: AtomicU64,
}

#[derive(Debug)]
struct Consumers {
    wanted: usize,
    control: Range<std::time::Instant>,
    began: std::time::Instant,
    progress: Arc<ConsumerProgress>,
    watchers: Task<()>,
    changes: Task<()>,
}

pub(super) async fn begin(world: &World, slow: usize, idle: usize) -> Result<Box<dyn ActiveFault>, Refusal> {
    let (probe, address) = (world.probe().clone(), world.address());
    make_namespace(&probe, address).await?;
    make_object(&probe, address).await?;
    let control = change_without_watchers(&probe, address).await;
    let progress = Arc::<ConsumerProgress>::default();
    let (watching, changing) = (Arc::clone(&progress), Arc::clone(&progress));
    let watcher = probe.clone();
    let watchers = Task::spawn(|stop| watch_all(watcher, address, slow, idle, watching, stop));
    let wanted = slow + idle;
    wait_until_open(wanted, &progress).await;
    // What a thousand handshakes cost is not what slow watchers cost.
    let began = std::time::Instant::now();
    let changes = Task::spawn(|stop| change(probe, address, changing, stop));
    Ok(Box::new(Consumers {
        wanted,
        control,
        began,
        progress,
        watchers,
        changes,
    }))
}

/// Gives when that was.
async fn change_without_watchers(probe: &Probe, address: SocketAddr) -> Range<std::time::Instant> {
    let began = std::time::Instant::now();
    let mut changes = Task::spawn(|stop| change(probe.clone(), address, Arc::default(), stop));
    sleep(CONTROL).await;
    let ended = std::time::Instant::now();
    changes.end().await;
    began..ended
}

/// Waits until all watches are open or failed; failures are reported when they are looked at.
async fn wait_until_open(wanted: usize, progress: &ConsumerProgress) {
    let end = Instant::now() + OPEN_PATIENCE;
    let tried = || progress.opened.load(Ordering::Relaxed) + progress.failed.load(Ordering::Relaxed);
    while usize::try_from(tried()).is_ok_and(|tried| tried < wanted) && Instant::now() < end {
        sleep(Duration::from_millis(20)).await;
    }
}

/// The namespace that faults make changes of their own in.
pub(super) async fn make_namespace(probe: &Probe, address: SocketAddr) -> Result<(), WorldError> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    make(probe, address, "/api/v1/namespaces", &namespace).await
}

/// The object that is changed.
async fn make_object(probe: &Probe, address: SocketAddr) -> Result<(), WorldError> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OBJECT}});
    make(
        probe,
        address,
        &format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
        &object,
    )
    .await
}

async fn make(probe: &Probe, address: SocketAddr, path: &str, body: &Value) -> Result<(), WorldError> {
    let made = probe.send(address, "POST", path, Some(body), PATIENCE).await;
    // It may be there from an earlier time.
    if matches!(made, Ok((201 | 409, _))) {
        return Ok(());
    }
    Err(WorldError::Answer {
        part: "the load balancer".to_owned(),
        what: "that it has made the objects of a fault",
        why: format!("{path}: {made:?}"),
    })
}

async fn change(probe: Probe, address: SocketAddr, progress: Arc<ConsumerProgress>, mut stop: Stop) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{OBJECT}");
    let mut number = 0_u64;
    while stop.pause(CHANGE_PERIOD).await {
        number += 1;
        let text = format!("{number} {}", "x".repeat(CHANGE_BYTES));
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OBJECT}, "data": {"text": text}});
        if let Ok((200, _)) = probe.send(address, "PUT", &path, Some(&body), PATIENCE).await {
            progress.changes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn watch_all(
    probe: Probe,
    address: SocketAddr,
    slow: usize,
    idle: usize,
    progress: Arc<ConsumerProgress>,
    mut stop: Stop,
) {
    let mut watchers = JoinSet::new();
    let opening = Arc::new(Semaphore::new(MOST_OPENING));
    for number in 0..slow + idle {
        let (probe, progress, opening) = (probe.clone(), Arc::clone(&progress), Arc::clone(&opening));
        let object = if number < slow { OBJECT } else { "nothing" };
        watchers.spawn(async move {
            let permit = opening.acquire().await;
            let opened = open_patiently(&probe, address, object).await;
            drop(permit);
            match opened {
                Some(stream) => {
                    progress.opened.fetch_add(1, Ordering::Relaxed);
                    sip(stream).await;
                    progress.cut.fetch_add(1, Ordering::Relaxed);
                }
                None => {
                    progress.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    // Dropped with this, and with them their connections.
    stop.asked().await;
}

/// So many openings at once may drive the load balancer to take a replica out for a while.
async fn open_patiently(probe: &Probe, address: SocketAddr, object: &str) -> Option<Box<dyn ByteStream>> {
    for _ in 0..OPEN_ATTEMPTS {
        if let Ok(Ok(stream)) = timeout(PATIENCE, open(probe, address, object)).await {
            return Some(stream);
        }
        sleep(SIP_PERIOD).await;
    }
    None
}

/// A watch whose answer has begun well.
async fn open(probe: &Probe, address: SocketAddr, object: &str) -> Result<Box<dyn ByteStream>, String> {
    let text_of = |error: io::Error| error.to_string();
    let mut stream = probe.stream(address, RECEIVE_BUFFER_BYTES).await?;
    let request = format!(
        "GET /api/v1/namespaces/{NAMESPACE}/configmaps?watch=1&fieldSelector=metadata.name={object} HTTP/1.1\r\n\
         Host: {address}\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(text_of)?;
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.map_err(text_of)?;
    match &begin {
        b"HTTP/1.1 200" => Ok(stream),
        other => Err(String::from_utf8_lossy(other).into_owned()),
    }
}

/// Reads a little now and then, until the server ends the stream.
async fn sip(mut stream: Box<dyn ByteStream>) {
    let mut buffer = [0; SIP_BYTES];
    while let Ok(1..) = stream.read(&mut buffer).await {
        sleep(SIP_PERIOD).await;
    }
}

impl ActiveFault for Consumers {
    fn targets(&self) -> Vec<String> {
        vec!["watches".to_owned()]
    }

    fn began(&self) -> Option<std::time::Instant> {
        Some(self.began)
    }

    fn control(&self) -> Option<Range<std::time::Instant>> {
        Some(self.control.clone())
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let progress = &self.progress;
        let (opened, changes) = (count(&progress.opened), count(&progress.changes));
        let evidence = format!(
            "{opened} of {} watches were opened, {} failed; {changes} changes of {CHANGE_BYTES} bytes",
            self.wanted,
            count(&progress.failed)
        );
        let all = usize::try_from(opened).is_ok_and(|opened| opened >= self.wanted);
        Box::pin(async move { Observation::of(all && changes > 0, evidence) })
    }

    fn heal<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            self.changes.end().await;
            let cut = self.progress.cut.load(Ordering::Relaxed);
            self.watchers.end().await;
            Ok(vec![format!(
                "{cut} of {} watches were ended by the server",
                self.wanted
            )])
        })
    }
}
