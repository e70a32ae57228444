//! Server connections: TLS, HTTP/1.1 and HTTP/2, and the bridge to an actix-web `App`.
//!
//! ```text
//! http-accept ── accept, cap of pending handshakes ──► the worker with the fewest connections
//! http-N      ── TLS handshake ─► hyper http1 | http2 ─► bridge ─► Handler (filter chain ─► App) ─► bridge ─► hyper
//! ```
//!
//! The reasons for hyper and against actix-web's own server: `docs/adr/0001-http-connections.md`. Called by
//! the edge, by tests and by the example that measures its floor. Promise: every wait for a client is bounded,
//! and a shutdown lets running requests finish.

mod accept;
mod bridge;
mod client_certificate;
mod connection;
mod cork;
mod drive;
mod guarded_io;
mod handler;
mod handshakes;
mod lengths;
mod lifecycle;
mod listen;
mod open_connections;
mod open_streams;
mod pace;
mod stalls;
mod tls;
mod upgrade;
mod worker;

use std::{io, net::SocketAddr, sync::Arc, thread, time::Duration};

use metrics::counter;
use tokio::sync::oneshot;

pub use bridge::BadHead;
pub use client_certificate::{ClientCertificate, Untrusted};
pub use connection::Peer;
pub use handler::{AppHandler, Handler};
pub use lifecycle::{ConnectionEnding, RunningRequest, ServerLifecycle};
pub use listen::try_bind;
pub use open_connections::OpenConnections;
pub use stalls::StreamedAnswer;
pub use tls::{ServerTls, TlsChoice, TlsError, TlsProvider, TlsVersion, TrustedCas, tls_from_pem};
pub use upgrade::{Upgrade, Upgraded};
use worker::WorkersShared;

/// The stack of a serving thread. Handlers may walk and drop values recursively that nest 1,000 levels deep: unoptimised
/// builds need up to 4 KiB a level.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// The least number of connections that are taken beyond the bound, so that probes and administrators find room.
pub const SURPLUS_CONNECTIONS: usize = 16;
/// The counter of connections that were refused, by the bound that was reached: here `surplus`, the others are the handler's.
pub const CONNECTIONS_REFUSED: &str = "trireme_connections_refused_total";

/// The counter of TLS handshakes that failed, by kube-apiserver's name.
const HANDSHAKE_ERRORS: &str = "apiserver_tls_handshake_errors_total";

/// Between two looks at what runs, at the end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The address to listen on, and the timeouts for clients.
#[derive(Clone)]
pub struct ServerConfig {
    /// The address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The number of threads that serve connections.
    pub workers: usize,
    /// Certificates and keys; asked anew for every connection and every request, so that they can be rotated.
    pub tls: Arc<dyn TlsProvider>,
    /// Bounds on what clients may do.
    pub limits: ConnectionLimits,
    /// Over how long the ends of watches are spread when the server stops.
    pub watch_grace: Duration,
}

/// Bounds on what clients may do before and between requests.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// The time that a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// The time that a client may take to send the head of a request, counted from its first byte; on a new connection
    /// from the end of the handshake. Over HTTP/2, the time until the preface is there,
    /// and that until the first request.
    pub header_timeout: Duration,
    /// The time that a connection may stay open between requests.
    pub idle_timeout: Duration,
    /// The time that a client may take no byte of an answer that is ready for it, or give no window for one.
    pub write_stall_timeout: Duration,
    /// The same for an answer that is as long as its source goes on ([`StreamedAnswer`]), also over a WebSocket, and for a connection
    /// that has become one to another server: a pager that is paused reads nothing.
    pub stream_stall_timeout: Duration,
    /// The time that a client may take, when the server stops, to send a request over a connection that is open.
    pub linger: Duration,
    /// Connections at a time; `None` for any number. A tenth more are taken, at least [`SURPLUS_CONNECTIONS`], which the handler
    /// knows by [`Peer::surplus_over`]; what comes beyond these is closed unanswered.
    pub connections: Option<usize>,
    /// Handshakes under way at a time; for further ones those make room whose clients do not go on.
    pub pending_handshakes: usize,
    /// Bytes of all headers of a request.
    pub header_bytes: u32,
    /// HTTP/2: requests in flight on one connection.
    pub concurrent_streams: u32,
    /// HTTP/2: streams that a client may reset before they were looked at (CVE-2023-44487).
    pub pending_reset_streams: usize,
    /// HTTP/2: after what silence to ask whether the client is still there.
    pub ping_interval: Duration,
    /// HTTP/2: how long to wait for the answer to that.
    pub ping_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(90),
            write_stall_timeout: Duration::from_secs(60),
            // As kube-apiserver's own end of `exec` has it. Clients that are gone are noticed by the kernel and by pings.
            stream_stall_timeout: Duration::from_hours(4),
            // Clients that are busy send their next one well within it, and the end comes not much later.
            linger: Duration::from_secs(1),
            connections: None,
            // A handshake costs about 1 ms of CPU: this many keep a core busy for a second, and more would only wait longer.
            pending_handshakes: 1024,
            header_bytes: 64 * 1024,
            concurrent_streams: 250,
            pending_reset_streams: 50,
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
        }
    }
}

/// A running server.
#[must_use = "a server that is dropped stops at once"]
pub struct RunningServer {
    local_addr: SocketAddr,
    lifecycle: ServerLifecycle,
    connections: Arc<OpenConnections>,
    threads: Vec<Thread>,
}

struct Thread {
    join: Option<thread::JoinHandle<()>>,
    done: oneshot::Receiver<()>,
}

/// Starts a server whose workers each build their own handler.
///
/// # Errors
/// If the address cannot be bound or a thread cannot be started.
pub fn start<F, Fut>(config: &ServerConfig, lifecycle: ServerLifecycle, build_handler: F) -> io::Result<RunningServer>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future + 'static,
    Fut::Output: Handler,
{
    let listener = listen::bind(config.listen)?;
    let local_addr = listener.local_addr()?;
    let mut threads = Vec::with_capacity(config.workers + 1);
    let mut workers = Vec::with_capacity(config.workers);
    let open = Arc::<OpenConnections>::default();
    let handshake_errors = counter!(HANDSHAKE_ERRORS);
    for index in 0..config.workers.max(1) {
        let (inbox, connections) = worker::channel();
        let shared = WorkersShared {
            lifecycle: lifecycle.clone(),
            open: Arc::clone(&open),
            handshake_errors: handshake_errors.clone(),
        };
        let task = worker::run(config.clone(), shared, connections, build_handler.clone());
        threads.push(spawn(format!("http-{index}"), task)?);
        workers.push(inbox);
    }
    let accepting = accept::run(listener, workers, lifecycle.clone(), config.limits.clone());
    let (connections, watch_grace, stages) = (Arc::clone(&open), config.watch_grace, lifecycle.clone());
    let watches_end = async move {
        stages.stopping().cancelled().await;
        connections.end_watches(watch_grace).await;
    };
    let both = async { tokio::join!(accepting, watches_end).0 };
    threads.push(spawn("http-accept".to_owned(), || both)?);
    Ok(RunningServer {
        local_addr,
        lifecycle,
        connections: open,
        threads,
    })
}

/// Runs a future on an event loop in a thread of its own.
fn spawn<Fut>(name: String, task: impl FnOnce() -> Fut + Send + 'static) -> io::Result<Thread>
where
    Fut: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (finished, done) = oneshot::channel::<()>();
    let join = thread::Builder::new()
        .name(name)
        .stack_size(STACK_BYTES)
        .spawn(move || {
            tokio::task::LocalSet::new().block_on(&runtime, task());
            drop(finished);
        })?;
    Ok(Thread { join: Some(join), done })
}

impl RunningServer {
    /// The address that is listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The stages of the shutdown, for those who must know of them.
    pub fn lifecycle(&self) -> &ServerLifecycle {
        &self.lifecycle
    }

    /// The connections that are open.
    pub fn connections(&self) -> &Arc<OpenConnections> {
        &self.connections
    }

    /// Waits until all requests are answered that do not last as long as they like, at most for `patience`. Connections are
    /// taken meanwhile; their requests are refused, to be sent elsewhere.
    pub async fn refuse_until_answered(&self, patience: Duration) {
        self.lifecycle.refuse();
        let answered = async {
            while self.lifecycle.running_requests() > 0 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(patience, answered).await.is_err() {
            tracing::warn!(?patience, "not all requests were answered in time");
        }
    }

    /// Stops: watches end, connections get GOAWAY or `Connection: close`, running requests finish; then the port is
    /// closed. What has not finished within `grace` is cut off.
    pub async fn shutdown(mut self, grace: Duration) {
        self.lifecycle.stop();
        let newcomers = self.connections.next();
        let all_done = async {
            // Who comes now gets an answer, and is not waited for.
            while self.connections.has_older_than(newcomers) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            self.lifecycle.close();
            for thread in &mut self.threads {
                // The sender is only dropped, never used: an error is the news.
                let _ = (&mut thread.done).await;
            }
        };
        if tokio::time::timeout(grace, all_done).await.is_err() {
            tracing::warn!(?grace, "connections are cut off that did not end in time");
            self.lifecycle.close();
            self.lifecycle.cut_off();
            for thread in &mut self.threads {
                let _ = (&mut thread.done).await;
            }
        }
        for thread in &mut self.threads {
            if thread.join.take().is_some_and(|join| join.join().is_err()) {
                tracing::error!("a server thread panicked");
            }
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.lifecycle.close();
        self.lifecycle.cut_off();
    }
}
