//! The client: calls, each through the breaker and the connections of its endpoint.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use http::{Method, Request, Response, StatusCode, header};
use tokio::sync::mpsc;
use trireme_actors::{Clock, Tasks};

use super::{
    body::{IncomingBody, OutboundBody},
    breaker::{BreakerSettings, CallResult},
    connection::{ConnectionSettings, Protocols},
    endpoint::Endpoint,
    error::ClientError,
    pool::{BreakerChange, ConnectionLease, EndpointSnapshot, Pool, PoolParts},
    tls::ClientTls,
};

/// Settings of a client for all endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSettings {
    /// The time that connecting may take, TLS included.
    pub connect_timeout: Duration,
    /// The time that a connection may be open without a call.
    pub idle_timeout: Duration,
    /// HTTP/2: calls that share a connection. Servers allow 100 and more.
    pub streams_per_connection: usize,
    /// The circuit breaker of each endpoint; `None` for none.
    pub breaker: Option<BreakerSettings>,
    /// The settings of connections.
    pub connection: ConnectionSettings,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            // Less than what servers have: a connection that the client ends first is never found dead.
            idle_timeout: Duration::from_secs(60),
            streams_per_connection: 100,
            breaker: Some(BreakerSettings::default()),
            connection: ConnectionSettings {
                ping: Some((Duration::from_secs(30), Duration::from_secs(15))),
                ..ConnectionSettings::default()
            },
        }
    }
}

/// One request and how to send it.
pub struct OutboundCall {
    /// The server.
    pub endpoint: Endpoint,
    /// The trust and the identity; the machine's roots, and no identity, if not given.
    pub tls: Option<Arc<ClientTls>>,
    /// The protocols that may be spoken. Upgrades want HTTP/1.1.
    pub protocols: Protocols,
    /// Keeps calls apart that go to the same endpoint: those of another partition have other connections and another breaker.
    pub partition: Option<Arc<str>>,
    /// The request; its URI is a path with a query.
    pub request: Request<OutboundBody>,
    /// The time that everything may take, up to the end of the body.
    pub timeout: Option<Duration>,
    /// The time that the head of the answer may take.
    pub head_timeout: Option<Duration>,
    /// The largest body of an answer that is read.
    pub max_body_bytes: Option<u64>,
}

impl OutboundCall {
    /// A call without limits.
    pub fn new(endpoint: Endpoint, request: Request<OutboundBody>) -> Self {
        Self {
            endpoint,
            tls: None,
            protocols: Protocols::Any,
            partition: None,
            request,
            timeout: None,
            head_timeout: None,
            max_body_bytes: None,
        }
    }
}

impl fmt::Debug for OutboundCall {
    /// Headers and query may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, path) = (self.request.method(), self.request.uri().path());
        write!(f, "Call({method} {}{path})", self.endpoint)
    }
}

/// The client. Clones share connections and breakers; they are kept apart by scheme, host, port, TLS settings, protocol and
/// partition.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    label: &'static str,
    settings: ClientSettings,
    clock: Clock,
    tasks: Tasks,
    changes: Option<mpsc::Sender<BreakerChange>>,
    pools: Mutex<HashMap<PoolKey, Arc<Pool>>>,
}

#[derive(PartialEq, Eq, Hash)]
struct PoolKey {
    endpoint: Endpoint,
    tls: Option<[u8; 32]>,
    protocols: Protocols,
    partition: Option<Arc<str>>,
}

impl Client {
    /// A client whose metrics bear `label`; its connections run as `tasks`.
    pub fn new(label: &'static str, settings: ClientSettings, clock: Clock, tasks: Tasks) -> Self {
        Self::start(label, settings, (clock, tasks), None)
    }

    /// The same; the changes of its breakers are reported, as far as there is room for them.
    pub fn reporting(
        label: &'static str,
        settings: ClientSettings,
        clock: Clock,
        tasks: Tasks,
        changes: mpsc::Sender<BreakerChange>,
    ) -> Self {
        Self::start(label, settings, (clock, tasks), Some(changes))
    }

    fn start(
        label: &'static str,
        settings: ClientSettings,
        (clock, tasks): (Clock, Tasks),
        changes: Option<mpsc::Sender<BreakerChange>>,
    ) -> Self {
        let inner = Arc::new(Inner {
            label,
            settings,
            clock,
            tasks: tasks.clone(),
            changes,
            pools: Mutex::default(),
        });
        let period = inner.settings.idle_timeout / 2;
        let task = expire_while_used(Arc::downgrade(&inner), inner.clock.clone(), period);
        tasks.spawn_named(format!("http-client-idle/{label}"), task);
        Self(inner)
    }

    /// Sends a request and waits for the head of the answer, whatever its status: a redirect is an answer.
    ///
    /// # Errors
    /// [`ClientError`]; see [`ClientError::surely_not_processed`].
    pub async fn send(&self, call: OutboundCall) -> Result<Response<IncomingBody>, ClientError> {
        let pool = self.pool(&call);
        let started = self.0.clock.now();
        let admitted = pool.admit().inspect_err(|error| self.count(error.kind()))?;
        let answered = self.answer(&pool, call, started).await;
        let took = self.0.clock.now().saturating_duration_since(started);
        admitted.record(CallResult {
            failed: is_failure(&answered),
            took,
        });
        match &answered {
            Ok(response) => self.count(class(response.status())),
            Err(error) => self.count(error.kind()),
        }
        let label = self.0.label;
        metrics::histogram!("trireme_http_client_head_seconds", "client" => label).record(took.as_secs_f64());
        answered
    }

    /// Has the next calls to an endpoint, with these TLS settings, open connections of their own: behind one address there may be
    /// several servers, of which another one may answer. Calls that run go on.
    pub fn retire_connections(&self, endpoint: &Endpoint, tls: Option<&ClientTls>) {
        let tls = tls.map(ClientTls::fingerprint);
        let pools = self.0.pools();
        let to_there = pools
            .iter()
            .filter(|(key, _)| key.endpoint == *endpoint && key.tls == tls);
        to_there.for_each(|(_, pool)| pool.retire_all());
    }

    /// The name in metrics.
    pub fn label(&self) -> &'static str {
        self.0.label
    }

    /// The endpoints that are known, by name.
    pub fn snapshot(&self) -> Vec<EndpointSnapshot> {
        let pools: Vec<Arc<Pool>> = self.0.pools().values().cloned().collect();
        let mut endpoints: Vec<EndpointSnapshot> = pools.iter().map(|pool| pool.snapshot()).collect();
        endpoints.sort_by(|a, b| (&a.partition, &a.endpoint).cmp(&(&b.partition, &b.endpoint)));
        endpoints
    }

    async fn answer(
        &self,
        pool: &Arc<Pool>,
        call: OutboundCall,
        started: Instant,
    ) -> Result<Response<IncomingBody>, ClientError> {
        let clock = &self.0.clock;
        let end = call.timeout.map(|timeout| started + timeout);
        let head_end = call.head_timeout.map(|timeout| started + timeout);
        let sent = AtomicBool::new(false);
        let exchanged = exchange(pool, call.request, &sent);
        let response = match [end, head_end].into_iter().flatten().min() {
            Some(at) => clock.timeout_at(at, exchanged).await,
            None => Some(exchanged.await),
        };
        let mut response = response.unwrap_or_else(|| {
            Err(ClientError::Timeout {
                endpoint: pool.endpoint.to_string(),
                sent: sent.load(Ordering::Relaxed),
            })
        })?;
        let body = response.body_mut();
        body.limit(call.max_body_bytes);
        if let Some(end) = end {
            let clock = clock.clone();
            body.end_at(Some(Box::pin(async move { clock.sleep_until(end).await })));
        }
        Ok(response)
    }

    fn pool(&self, call: &OutboundCall) -> Arc<Pool> {
        let inner = &self.0;
        let key = PoolKey {
            endpoint: call.endpoint.clone(),
            tls: call.tls.as_ref().map(|tls| tls.fingerprint()),
            protocols: call.protocols,
            partition: call.partition.clone(),
        };
        let make = || {
            let connection = ConnectionSettings {
                protocols: call.protocols,
                ..inner.settings.connection.clone()
            };
            let shared = PoolParts {
                clock: &inner.clock,
                tasks: &inner.tasks,
                label: inner.label,
                changes: inner.changes.as_ref(),
            };
            let pool = Pool::new(
                call.endpoint.clone(),
                call.tls.clone(),
                connection,
                &inner.settings,
                call.partition.clone(),
                shared,
            );
            Arc::new(pool)
        };
        Arc::clone(inner.pools().entry(key).or_insert_with(make))
    }

    fn count(&self, outcome: &'static str) {
        let label = self.0.label;
        metrics::counter!("trireme_http_client_calls_total", "client" => label, "outcome" => outcome).increment(1);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("label", &self.0.label)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn pools(&self) -> MutexGuard<'_, HashMap<PoolKey, Arc<Pool>>> {
        // The map is whole at any time.
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends over a connection of the pool. A connection that was used before may have ended meanwhile: what the server surely
/// has not processed, or may be asked twice, is sent once more over a fresh one. A request for another protocol is sent once, over a
/// connection that no other request has: whatever is answered, the server may take what follows for that protocol.
async fn exchange(
    pool: &Arc<Pool>,
    mut request: Request<OutboundBody>,
    sent: &AtomicBool,
) -> Result<Response<IncomingBody>, ClientError> {
    let asks_to_switch = request.headers().contains_key(header::UPGRADE);
    let mut is_second = false;
    loop {
        let mut lease = pool.lease(is_second || asks_to_switch).await?;
        let may_repeat = lease.is_reused && !is_second && !asks_to_switch;
        let copy = may_repeat.then(|| copy(&request)).flatten();
        let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
        sent.store(true, Ordering::Relaxed);
        let failure = match lease.connection.try_send(request).await {
            Ok(response) if asks_to_switch => {
                pool.retire(&lease);
                return Ok(response);
            }
            Ok(response) => return Ok(lent(response, lease, pool)),
            Err(failure) => failure,
        };
        let is_unprocessed = failure.error.surely_not_processed();
        sent.store(!is_unprocessed, Ordering::Relaxed);
        pool.retire(&lease);
        match failure.request.or(copy) {
            Some(again) if may_repeat && (is_unprocessed || is_safe) => request = again,
            _ => return Err(failure.error),
        }
        is_second = true;
    }
}

/// The connection comes back when the answer has been read to its end.
fn lent(mut response: Response<IncomingBody>, lease: ConnectionLease, pool: &Arc<Pool>) -> Response<IncomingBody> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let pool = Arc::clone(pool);
        response.body_mut().at_end(Box::new(move || pool.give_back(lease)));
    }
    response
}

/// The same request, if its body is not streamed.
fn copy(request: &Request<OutboundBody>) -> Option<Request<OutboundBody>> {
    let mut copy = Request::new(request.body().copy()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    Some(copy)
}

/// An endpoint fails that does not answer, or for which a proxy answers.
fn is_failure(answered: &Result<Response<IncomingBody>, ClientError>) -> bool {
    match answered {
        Ok(response) => matches!(
            response.status(),
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
        ),
        Err(_) => true,
    }
}

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

/// Ends idle connections, and forgets endpoints without calls, as long as there is a client.
async fn expire_while_used(inner: Weak<Inner>, clock: Clock, period: Duration) {
    loop {
        clock.sleep(period).await;
        let Some(inner) = inner.upgrade() else { return };
        // A pool that a call holds stays known, so that there is one breaker an endpoint.
        inner
            .pools()
            .retain(|_, pool| !(pool.expire() && Arc::strong_count(pool) == 1));
    }
}
