//! The connections to one endpoint, and its breaker.
//!
//! A connection of HTTP/1.1 is lent to one call and comes back when its answer has been read to the end; one of HTTP/2 is
//! shared by as many calls as the settings say. Promise: a connection that was idle for too long or has ended is not lent.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, oneshot};
use trireme_actors::{Clock, Tasks};

use super::{
    breaker::{AdmittedCall, Breaker, BreakerState, CallResult},
    connection::{Connection, ConnectionSettings, Protocols},
    endpoint::Endpoint,
    error::ClientError,
    outbound::ClientSettings,
    tls::ClientTls,
};

/// The connections to one endpoint.
pub(super) struct Pool {
    pub(super) endpoint: Endpoint,
    tls: Option<Arc<ClientTls>>,
    connection: ConnectionSettings,
    connect_timeout: Duration,
    idle_timeout: Duration,
    streams_per_connection: usize,
    clock: Clock,
    tasks: Tasks,
    label: &'static str,
    connections: Mutex<PooledConnections>,
    /// Held while connecting where one connection may serve all who wait.
    opening: tokio::sync::Mutex<()>,
    breaker: Option<Mutex<Breaker>>,
    partition: Option<Arc<str>>,
    changes: Option<mpsc::Sender<BreakerChange>>,
    open: Arc<AtomicUsize>,
}

#[derive(Default)]
struct PooledConnections {
    idle: Vec<Idle>,
    shared: Vec<PoolShared>,
    speaks_http1: bool,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

struct PoolShared {
    connection: Connection,
    usage: Arc<ConnectionUsage>,
}

/// The calls over a shared connection.
struct ConnectionUsage {
    calls: AtomicUsize,
    last: Mutex<Instant>,
}

/// A connection for one call.
pub(super) struct ConnectionLease {
    pub(super) connection: Connection,
    /// True if it has served a call before: it may have ended unnoticed.
    pub(super) is_reused: bool,
    share: Option<SharedSlot>,
}

/// A call's place on a shared connection.
struct SharedSlot {
    usage: Arc<ConnectionUsage>,
    clock: Clock,
}

impl Drop for SharedSlot {
    fn drop(&mut self) {
        *lock(&self.usage.last) = self.clock.now();
        self.usage.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call that the breaker has admitted. Dropped without a result, it is cancelled.
pub(super) struct Admitted<'a> {
    pool: &'a Pool,
    admission: Option<AdmittedCall>,
}

/// A view of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSnapshot {
    /// Scheme, host and port.
    pub endpoint: String,
    /// The partition of its calls, if they have one.
    pub partition: Option<Arc<str>>,
    /// Connections that are open.
    pub open_connections: usize,
    /// Those of them that wait for a call.
    pub idle_connections: usize,
    /// The breaker; `None` if the client has none.
    pub breaker: Option<BreakerSnapshot>,
}

/// A view of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSnapshot {
    /// The state.
    pub state: BreakerState,
    /// Calls within the window.
    pub calls: u32,
    /// Those of them that failed.
    pub failed: u32,
    /// Those of them that were slow.
    pub slow: u32,
    /// The time until a call is admitted that finds out whether the endpoint is well; none unless it is open.
    pub retry_after: Option<Duration>,
}

/// A breaker that has opened, stays open after a probe, or has closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerChange {
    /// Scheme, host and port.
    pub endpoint: String,
    /// The partition of its calls, if they have one.
    pub partition: Option<Arc<str>>,
    /// The state now.
    pub state: BreakerState,
}

/// The parts of a client that its pools share.
pub(super) struct PoolParts<'c> {
    pub(super) clock: &'c Clock,
    pub(super) tasks: &'c Tasks,
    pub(super) label: &'static str,
    pub(super) changes: Option<&'c mpsc::Sender<BreakerChange>>,
}

impl Pool {
    pub(super) fn new(
        endpoint: Endpoint,
        tls: Option<Arc<ClientTls>>,
        connection: ConnectionSettings,
        settings: &ClientSettings,
        partition: Option<Arc<str>>,
        PoolParts {
            clock,
            tasks,
            label,
            changes,
        }: PoolParts<'_>,
    ) -> Self {
        let breaker = settings.breaker.clone();
        let speaks_http1 = connection.protocols == Protocols::Http1;
        Self {
            endpoint,
            tls,
            connection,
            connect_timeout: settings.connect_timeout,
            idle_timeout: settings.idle_timeout,
            streams_per_connection: settings.streams_per_connection,
            clock: clock.clone(),
            tasks: tasks.clone(),
            label,
            connections: Mutex::new(PooledConnections {
                // Else the first calls would wait for one of them to connect, as its connection might do for all.
                speaks_http1,
                ..PooledConnections::default()
            }),
            opening: tokio::sync::Mutex::default(),
            breaker: breaker.map(|breaker| Mutex::new(Breaker::new(breaker, clock.now()))),
            partition,
            changes: changes.cloned(),
            open: Arc::default(),
        }
    }

    /// Asks the breaker.
    pub(super) fn admit(&self) -> Result<Admitted<'_>, ClientError> {
        let Some(breaker) = &self.breaker else {
            return Ok(Admitted {
                pool: self,
                admission: None,
            });
        };
        match lock(breaker).admit(self.clock.now()) {
            Ok(admission) => Ok(Admitted {
                pool: self,
                admission: Some(admission),
            }),
            Err(retry_after) => Err(ClientError::BreakerOpen {
                endpoint: self.endpoint.to_string(),
                retry_after,
            }),
        }
    }

    /// A connection that is there, or a new one; `fresh` takes no HTTP/1.1 connection that has been used.
    pub(super) async fn lease(self: &Arc<Self>, fresh: bool) -> Result<ConnectionLease, ClientError> {
        if let Some(lease) = self.checkout(fresh) {
            return Ok(lease);
        }
        let one_for_all = !self.connections().speaks_http1;
        let _opening = match one_for_all {
            true => Some(self.opening.lock().await),
            false => None,
        };
        // Another call may have made a connection while this one waited.
        match self.checkout(fresh) {
            Some(lease) => Ok(lease),
            None => self.open().await,
        }
    }

    fn checkout(&self, fresh: bool) -> Option<ConnectionLease> {
        let now = self.clock.now();
        let mut connections = self.connections();
        connections.expire(now, self.idle_timeout);
        let free = |shared: &&PoolShared| shared.usage.calls.load(Ordering::Relaxed) < self.streams_per_connection;
        if let Some(shared) = connections.shared.iter().find(free) {
            let connection = shared.connection.share()?;
            return Some(self.share(connection, &shared.usage, true));
        }
        // The newest: the others may expire.
        let idle = (!fresh).then(|| connections.idle.pop())??;
        Some(ConnectionLease {
            connection: idle.connection,
            is_reused: true,
            share: None,
        })
    }

    fn share(&self, connection: Connection, usage: &Arc<ConnectionUsage>, is_reused: bool) -> ConnectionLease {
        usage.calls.fetch_add(1, Ordering::Relaxed);
        let share = SharedSlot {
            usage: Arc::clone(usage),
            clock: self.clock.clone(),
        };
        ConnectionLease {
            connection,
            is_reused,
            share: Some(share),
        }
    }

    async fn open(&self) -> Result<ConnectionLease, ClientError> {
        let connection = self.connect().await;
        let outcome = match &connection {
            Ok(_) => "ok",
            Err(error) => error.kind(),
        };
        metrics::counter!("trireme_http_client_connects_total", "client" => self.label, "outcome" => outcome)
            .increment(1);
        let connection = connection?;
        let mut connections = self.connections();
        connections.speaks_http1 = !connection.is_http2();
        let Some(shared) = connection.share() else {
            return Ok(ConnectionLease {
                connection,
                is_reused: false,
                share: None,
            });
        };
        let usage = Arc::new(ConnectionUsage {
            calls: AtomicUsize::new(0),
            last: Mutex::new(self.clock.now()),
        });
        let lease = self.share(connection, &usage, false);
        connections.shared.push(PoolShared {
            connection: shared,
            usage,
        });
        Ok(lease)
    }

    /// Connects in a task of its own, which then moves the connection's bytes: neither depends on the runtime of the caller.
    async fn connect(&self) -> Result<Connection, ClientError> {
        let (endpoint, tls, settings) = (self.endpoint.clone(), self.tls.clone(), self.connection.clone());
        let (clock, limit, open) = (
            self.clock.clone(),
            self.connect_timeout,
            OpenCount::new(&self.open, self.label),
        );
        let (connected, connection) = oneshot::channel();
        self.tasks
            .spawn_named(format!("http-client/{}", self.label), async move {
                let end = clock.now() + limit;
                let opening = Connection::open(&endpoint, tls.as_deref(), &settings);
                let opened = clock.timeout_at(end, opening).await.unwrap_or_else(|| {
                    let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
                    let endpoint = endpoint.to_string();
                    Err(ClientError::Connect { endpoint, source })
                });
                match opened {
                    Ok((connection, driver)) => {
                        let _open = open;
                        // No call may want it any more: then it ends at once.
                        drop(connected.send(Ok(connection)));
                        driver.await;
                    }
                    Err(error) => drop(connected.send(Err(error))),
                }
            });
        connection.await.unwrap_or_else(|_| {
            let source = std::io::Error::other("the client is shutting down");
            let endpoint = self.endpoint.to_string();
            Err(ClientError::Connect { endpoint, source })
        })
    }

    /// Takes a connection back after a call.
    pub(super) fn give_back(&self, lease: ConnectionLease) {
        let ConnectionLease { connection, share, .. } = lease;
        drop(share);
        if !connection.is_http2() && connection.is_open() {
            let since = self.clock.now();
            self.connections().idle.push(Idle { connection, since });
        }
    }

    /// Lends a connection no more that took no request; calls that share it go on.
    pub(super) fn retire(&self, lease: &ConnectionLease) {
        if let Some(share) = &lease.share {
            let others = |shared: &PoolShared| !Arc::ptr_eq(&shared.usage, &share.usage);
            self.connections().shared.retain(others);
        }
    }

    /// Lends no connection more that is open now; calls that run over one go on.
    pub(super) fn retire_all(&self) {
        let mut connections = self.connections();
        connections.idle.clear();
        connections.shared.clear();
    }

    /// Ends connections that have been idle for too long. Returns whether nothing is left that is worth keeping.
    pub(super) fn expire(&self) -> bool {
        let now = self.clock.now();
        let mut connections = self.connections();
        connections.expire(now, self.idle_timeout);
        let breaker = self.breaker.as_ref();
        let is_forgettable = breaker.is_none_or(|breaker| lock(breaker).is_forgettable(now));
        connections.idle.is_empty() && connections.shared.is_empty() && is_forgettable
    }

    pub(super) fn snapshot(&self) -> EndpointSnapshot {
        let connections = self.connections();
        let unused = |shared: &&PoolShared| shared.usage.calls.load(Ordering::Relaxed) == 0;
        EndpointSnapshot {
            endpoint: self.endpoint.to_string(),
            partition: self.partition.clone(),
            open_connections: self.open.load(Ordering::Relaxed),
            idle_connections: connections.idle.len() + connections.shared.iter().filter(unused).count(),
            breaker: self.breaker.as_ref().map(|breaker| {
                let mut breaker = lock(breaker);
                let now = self.clock.now();
                let counts = breaker.counts(now);
                BreakerSnapshot {
                    state: breaker.state(),
                    calls: counts.calls,
                    failed: counts.failed,
                    slow: counts.slow,
                    retry_after: breaker.retry_after(now),
                }
            }),
        }
    }

    fn connections(&self) -> MutexGuard<'_, PooledConnections> {
        lock(&self.connections)
    }
}

impl PooledConnections {
    fn expire(&mut self, now: Instant, idle_timeout: Duration) {
        let is_old = |since: Instant| now.saturating_duration_since(since) >= idle_timeout;
        self.idle
            .retain(|idle| idle.connection.is_open() && !is_old(idle.since));
        self.shared.retain(|shared| {
            let is_idle = shared.usage.calls.load(Ordering::Relaxed) == 0;
            shared.connection.is_open() && !(is_idle && is_old(*lock(&shared.usage.last)))
        });
    }
}

impl Admitted<'_> {
    /// Reports the call's outcome to the breaker.
    pub(super) fn record(mut self, result: CallResult) {
        let (Some(breaker), Some(admission)) = (&self.pool.breaker, self.admission.take()) else {
            return;
        };
        let changed = lock(breaker).record(self.pool.clock.now(), admission, result);
        if let Some(state) = changed {
            let (label, endpoint) = (self.pool.label, &self.pool.endpoint);
            tracing::warn!(client = label, %endpoint, state = state.as_str(), "circuit breaker");
            let to = state.as_str();
            metrics::counter!("trireme_http_client_breaker_changes_total", "client" => label, "to" => to).increment(1);
            if let Some(changes) = &self.pool.changes {
                // No call waits for those who are told of it: what they miss, the next change tells.
                let _ = changes.try_send(BreakerChange {
                    endpoint: endpoint.to_string(),
                    partition: self.pool.partition.clone(),
                    state,
                });
            }
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if let (Some(breaker), Some(admission)) = (&self.pool.breaker, self.admission.take()) {
            lock(breaker).cancel(self.pool.clock.now(), admission);
        }
    }
}

/// Counts a connection as open until it is dropped.
struct OpenCount(Arc<AtomicUsize>, &'static str);

impl OpenCount {
    fn new(open: &Arc<AtomicUsize>, label: &'static str) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        metrics::gauge!("trireme_http_client_connections", "client" => label).increment(1.0);
        Self(Arc::clone(open), label)
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        metrics::gauge!("trireme_http_client_connections", "client" => self.1).decrement(1.0);
    }
}

/// Takes a lock whose contents are whole at any time, whatever its holders do.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
