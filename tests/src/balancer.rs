//! A TCP load balancer as it stands before replicas: connections go to a replica that says it is ready.
//!
//! It knows nothing of HTTP beyond its health checks, as HAProxy in TCP mode. A replica that is not ready gets no new
//! connections, unless none is; those that it has stay with it.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::http::Client;
use crate::wire;

/// Between two health checks of a replica.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A balancer that runs until this is dropped.
#[derive(Debug)]
pub struct Balancer {
    port: u16,
    replicas: Arc<[Replica]>,
    astray: Arc<AtomicUsize>,
    ended: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Replica {
    port: u16,
    ready: AtomicBool,
    open: AtomicUsize,
}

impl Balancer {
    /// Balances over the replicas on these ports, each with the CA that signed its serving certificate.
    pub fn start(replicas: &[(u16, &Path)]) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        let ended = Arc::new(AtomicBool::new(false));
        let clients: Result<Vec<Client>, String> = replicas.iter().map(|(port, ca)| Client::new(*port, ca)).collect();
        let replicas: Arc<[Replica]> = replicas.iter().map(|(port, _)| Replica::new(*port)).collect();
        for (index, client) in clients?.into_iter().enumerate() {
            let (replicas, ended) = (Arc::clone(&replicas), Arc::clone(&ended));
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let is_ready = client.get("/readyz").is_ok_and(|answer| answer.code == 200);
                    replicas[index].ready.store(is_ready, Ordering::Relaxed);
                    thread::sleep(CHECK_INTERVAL);
                }
            });
        }
        let astray = Arc::new(AtomicUsize::new(0));
        let (serving, gone, led_astray) = (Arc::clone(&replicas), Arc::clone(&ended), Arc::clone(&astray));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if gone.load(Ordering::Relaxed) {
                    return;
                }
                let (replicas, astray) = (Arc::clone(&serving), Arc::clone(&led_astray));
                thread::spawn(move || forward(&replicas, &astray, client));
            }
        });
        Ok(Self {
            port,
            replicas,
            astray,
            ended,
        })
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns true if the replica on this port gets new connections.
    pub fn uses(&self, port: u16) -> bool {
        let replica = self.replicas.iter().find(|replica| replica.port == port);
        replica.is_some_and(|replica| replica.ready.load(Ordering::Relaxed))
    }

    /// The number of connections the replica on this port has from here.
    pub fn open(&self, port: u16) -> usize {
        let replica = self.replicas.iter().find(|replica| replica.port == port);
        replica.map_or(0, |replica| replica.open.load(Ordering::Relaxed))
    }

    /// The number of connections so far that came while no replica was ready.
    pub fn astray(&self) -> usize {
        self.astray.load(Ordering::Relaxed)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Replica {
    fn new(port: u16) -> Self {
        Self {
            port,
            // Until the first check, as with HAProxy.
            ready: AtomicBool::new(true),
            open: AtomicUsize::new(0),
        }
    }
}

/// Brings a client to the ready replica with the fewest connections, or to another one if that cannot be reached.
fn forward(replicas: &[Replica], astray: &AtomicUsize, client: TcpStream) {
    let is_ready = |replica: &&Replica| replica.ready.load(Ordering::Relaxed);
    let none_is = !replicas.iter().any(|replica| is_ready(&replica));
    if none_is {
        astray.fetch_add(1, Ordering::Relaxed);
    }
    let mut candidates: Vec<&Replica> = replicas.iter().filter(|one| none_is || is_ready(one)).collect();
    candidates.sort_by_key(|replica| replica.open.load(Ordering::Relaxed));
    let reached = candidates
        .into_iter()
        .find_map(|replica| Some((replica, TcpStream::connect(("127.0.0.1", replica.port)).ok()?)));
    let Some((replica, server)) = reached else { return };
    replica.open.fetch_add(1, Ordering::Relaxed);
    wire::join(client, server, &|| ());
    replica.open.fetch_sub(1, Ordering::Relaxed);
}
