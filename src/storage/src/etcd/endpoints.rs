//! The members of the cluster, and how a request gets an answer from one of them.
//!
//! One member is in use at a time; when it does not answer, the next one is. A read is tried again
//! until its time is over. A write is tried again only while it surely had no effect: once it may
//! have been sent, its outcome is unknown, and the caller, whose write names the revision it
//! replaces, finds out by reading.

use std::{
    future::Future,
    hash::{BuildHasher, Hasher, RandomState},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use etcd_client::{Client, Error};
use tokio::time::{Instant, sleep, timeout};

use super::{EtcdOptions, errors::Failure};
use crate::StorageError;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// An election takes about a second: pauses beyond a quarter of it only add to the gap.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// A request's name for metrics, and whether it changes anything.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) name: &'static str,
    pub(super) resource: &'a str,
    pub(super) writes: bool,
}

pub(super) struct Endpoints {
    clients: Vec<Client>,
    current: AtomicUsize,
    attempt_timeout: Duration,
    request_timeout: Duration,
}

impl Endpoints {
    /// Checks the options and prepares the connections, which are made when they are needed.
    pub(super) async fn new(options: &EtcdOptions) -> Result<Self, StorageError> {
        if options.endpoints.is_empty() {
            return Err(StorageError::Failed("no etcd endpoints are given".to_owned()));
        }
        let mut clients = Vec::new();
        for endpoint in &options.endpoints {
            let connect = options.connect_options(endpoint)?;
            let wrong = |error| StorageError::Failed(format!("etcd endpoint {endpoint:?}: {error}"));
            clients.push(Client::connect([endpoint], Some(connect)).await.map_err(wrong)?);
        }
        // Replicas with the same list must not all lean on its first member.
        let anywhere = RandomState::new().build_hasher().finish();
        let current = AtomicUsize::new(usize::try_from(anywhere % 1024).unwrap_or(0));
        let (attempt_timeout, request_timeout) = (options.attempt_timeout, options.request_timeout);
        Ok(Self {
            clients,
            current,
            attempt_timeout,
            request_timeout,
        })
    }

    /// The member in use; the number is for [`Self::give_up_on`].
    pub(super) fn current(&self) -> (usize, &Client) {
        let number = self.current.load(Ordering::Relaxed);
        let client = self
            .clients
            .get(number % self.clients.len())
            .expect("there is at least one endpoint");
        (number, client)
    }

    /// Goes on to the next member, unless someone else already did.
    pub(super) fn give_up_on(&self, number: usize) {
        let next = number.wrapping_add(1);
        // A failed exchange is the wanted state, brought about by another request.
        let _ = self
            .current
            .compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn attempt_timeout(&self) -> Duration {
        self.attempt_timeout
    }

    /// Gets an answer to a request, and counts it. `request` is to take from the client what it needs: a client is eight
    /// of them, and a clone of it costs as much as a small request.
    pub(super) async fn call<T, F>(
        &self,
        operation: Operation<'_>,
        request: impl Fn(&Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let started = Instant::now();
        let result = self
            .persist(operation.writes, started + self.request_timeout, request)
            .await;
        let labels = [
            ("operation", operation.name.to_owned()),
            ("type", operation.resource.to_owned()),
        ];
        metrics::histogram!("etcd_request_duration_seconds", &labels).record(started.elapsed().as_secs_f64());
        metrics::counter!("etcd_requests_total", &labels).increment(1);
        if result.is_err() {
            metrics::counter!("etcd_request_errors_total", &labels).increment(1);
        }
        result
    }

    async fn persist<T, F>(&self, writes: bool, deadline: Instant, request: impl Fn(&Client) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            let (number, client) = self.current();
            let time = self
                .attempt_timeout
                .min(deadline.saturating_duration_since(Instant::now()));
            let failure = match timeout(time, request(client)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => Failure::of(&error),
                Err(_) if writes => Failure::Unknown(format!("no answer in {} ms", time.as_millis())),
                Err(_) => Failure::Refused(StorageError::Timeout),
            };
            let again = match &failure {
                Failure::NoEffect(_) | Failure::Refused(StorageError::Timeout) => true,
                Failure::Unknown(_) => !writes,
                _ => return Err(failure),
            };
            self.give_up_on(number);
            tracing::debug!(?failure, again, "an etcd member did not answer");
            if !again || Instant::now() + pause >= deadline {
                return Err(failure);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
