//! Connections: TLS, HTTP/1.1 and HTTP/2, and the bridge to an actix-web `App`.
//!
//! ```text
//! edge-accept ── accept, cap of pending handshakes ──► the worker with the fewest connections
//! edge-N      ── TLS handshake ─► hyper http1 | http2 ─► bridge ─► Handler (filter chain ─► App) ─► bridge ─► hyper
//! ```
//!
//! Why hyper drives the connections and not actix-web's own server: `docs/adr/0001-http-connections.md`. Called by
//! [`crate::Edge`], by tests and by the example that measures its floor. Promise: every wait for a client is bounded,
//! and a shutdown lets running requests finish.

mod accept;
mod bridge;
mod connection;
mod cork;
mod guarded_io;
mod handler;
mod lengths;
mod lifecycle;
mod listen;
mod stalls;
mod tls;
mod upgrade;
mod worker;

use std::{io, net::SocketAddr, sync::Arc, thread, time::Duration};

use tokio::sync::oneshot;

pub use connection::Peer;
pub use handler::{AppHandler, Handler};
pub use lifecycle::Lifecycle;
pub use tls::{TlsError, TlsProvider, tls_from_pem};
pub(crate) use upgrade::{Upgrade, Upgraded};

/// What a serving thread has for its stack. Bodies may nest `json::MAX_DEPTH` deep, and trees of values are walked and
/// dropped recursively: unoptimised builds need up to 4 KiB a level.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// Where to listen and how long to wait for clients.
#[derive(Clone)]
pub struct ServerConfig {
    /// The address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How many threads serve connections.
    pub workers: usize,
    /// Certificates and keys; asked anew for every connection, so that they can be rotated.
    pub tls: Arc<dyn TlsProvider>,
    /// Bounds on what clients may do.
    pub limits: ConnectionLimits,
}

/// Bounds on what clients may do before and between requests.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a client may take to send the head of a request, counted from its first byte; on a new connection
    /// from the end of the handshake.
    pub header_timeout: Duration,
    /// How long a connection may stay open between requests.
    pub idle_timeout: Duration,
    /// How long a client may take no byte of an answer that is ready for it, or give no window for one.
    pub write_stall_timeout: Duration,
    /// Handshakes under way at a time; further connections wait in the listen queue.
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
            // A handshake costs about 1 ms of CPU: more than this many could not finish in time anyway.
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
pub struct Running {
    local_addr: SocketAddr,
    lifecycle: Lifecycle,
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
pub fn start<F, Fut>(config: &ServerConfig, lifecycle: Lifecycle, build_handler: F) -> io::Result<Running>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future + 'static,
    Fut::Output: Handler,
{
    let listener = listen::bind(config.listen)?;
    let local_addr = listener.local_addr()?;
    let mut threads = Vec::with_capacity(config.workers + 1);
    let mut workers = Vec::with_capacity(config.workers);
    for index in 0..config.workers.max(1) {
        let (inbox, connections) = worker::channel();
        let task = worker::run(config.clone(), lifecycle.clone(), connections, build_handler.clone());
        threads.push(spawn(format!("edge-{index}"), task)?);
        workers.push(inbox);
    }
    let accepting = accept::run(listener, workers, lifecycle.clone(), config.limits.pending_handshakes);
    threads.push(spawn("edge-accept".to_owned(), || accepting)?);
    Ok(Running {
        local_addr,
        lifecycle,
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

impl Running {
    /// The address that is listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The stages of the shutdown, for those who must know of them.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Stops: no new connections, watches end, connections get GOAWAY or `Connection: close`, running requests finish.
    /// What has not finished within `grace` is cut off.
    pub async fn shutdown(mut self, grace: Duration) {
        self.lifecycle.stop();
        let all_done = async {
            for thread in &mut self.threads {
                // The sender is only dropped, never used: an error is the news.
                let _ = (&mut thread.done).await;
            }
        };
        if tokio::time::timeout(grace, all_done).await.is_err() {
            tracing::warn!(?grace, "connections are cut off that did not end in time");
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

impl Drop for Running {
    fn drop(&mut self) {
        self.lifecycle.stop();
        self.lifecycle.cut_off();
    }
}

#[cfg(test)]
mod tests;
