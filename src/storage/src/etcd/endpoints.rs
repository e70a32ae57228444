//! The members of the cluster, and how a request gets an answer from one of them.
//!
//! One member is in use at a time. One that leaves an attempt without an answer, or whose connection breaks, is left and
//! is the last choice for a while. A request is tried again until its time is over, with a short pause between attempts
//! that differs from request to request, so that the requests which a dead member leaves behind do not all come back at
//! once. How a write bears being tried twice is the matter of [`transaction`](super::transaction).
//!
//! A request that a member forwards to a leader that is gone is never answered, while an etcd that is merely slow answers in the
//! end. So attempts are patient, and end early when the [leader probe](super::leader_probe) says that there was an
//! election:
//!
//! ```text
//!  leader freezes          a follower stands for election after 1 to 2 s
//!  attempt 1 ── 0.6 s ──┤                  │
//!           attempt 2 ── 0.6 s ──┤         ▼
//!                    attempt 3 ── up to 1.2 s ─┤ the scout has had an answer
//!                                    attempt 4 ─ answer
//! ```

use std::{
    future::Future,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use etcd_client::{Client, Error};
use tokio::time::{Instant, sleep, timeout};

use super::{
    EtcdOptions,
    clients::{Clients, Members},
    errors::EtcdFailure,
    keys::resource,
    leader_probe::{Headed, LeaderProbe},
    meters::EtcdMeters,
};
use crate::StorageError;

/// An attempt is not begun with less time than this for its answer.
const LEAST_TIME: Duration = Duration::from_millis(10);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// An election takes about a second: pauses beyond a quarter of it only add to the gap.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// So long a member that failed is used only if all others have failed, too.
const REST: Duration = Duration::from_secs(5);
/// Answers that may be large get so many times the usual time.
const LARGE: u32 = 4;

/// The operation of a request, for metrics and time limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct EtcdOperation<'a> {
    pub(super) name: &'static str,
    pub(super) resource: &'a str,
    /// It changes something: without an answer its outcome is unknown.
    pub(super) writes: bool,
    /// The answer may be large.
    pub(super) large: bool,
}

impl<'a> EtcdOperation<'a> {
    /// Reads, or does what may be done twice; at a key or under a prefix.
    pub(super) fn read(name: &'static str, key: &'a str) -> Self {
        Self {
            name,
            resource: resource(key),
            writes: false,
            large: false,
        }
    }

    /// Changes something.
    pub(super) fn write(name: &'static str, key: &'a str) -> Self {
        Self {
            writes: true,
            ..Self::read(name, key)
        }
    }
}

/// An answer from etcd.
#[derive(Debug)]
pub(super) struct EtcdAnswer<T> {
    pub(super) value: T,
    /// Attempts before this one were not answered: they may have taken effect, or may yet.
    pub(super) repeated: bool,
}

pub(super) struct Endpoints {
    clients: Clients,
    /// Which member is in use, and how often that has changed: see [`Self::current`].
    current: AtomicUsize,
    /// Until when each member is the last choice.
    rests: Mutex<Vec<Instant>>,
    leader_probe: LeaderProbe,
    meters: EtcdMeters,
    attempt_timeout: Duration,
    request_timeout: Duration,
}

impl Endpoints {
    /// Checks the options and prepares the connections, which are made when they are needed.
    pub(super) async fn new(options: &EtcdOptions) -> Result<Self, StorageError> {
        let clients = Clients::new(options).await?;
        // Replicas with the same list must not all lean on its first member.
        let current = AtomicUsize::new(rand::random_range(0..clients.len()));
        let rests = Mutex::new(vec![Instant::now(); clients.len()]);
        let (attempt_timeout, request_timeout) = (options.attempt_timeout, options.request_timeout);
        Ok(Self {
            clients,
            current,
            rests,
            leader_probe: LeaderProbe::default(),
            meters: EtcdMeters::default(),
            attempt_timeout,
            request_timeout,
        })
    }

    /// Has all connections made anew, by options with the same endpoints, if a member answers over such a connection.
    pub(super) async fn renew(&self, options: &EtcdOptions) -> Result<(), StorageError> {
        self.clients.renew(options).await
    }

    /// The clients of the members for the event loop that asks.
    pub(super) async fn members(&self) -> Result<Members, StorageError> {
        self.clients.here().await
    }

    /// The one in use of `members`; the number is for [`Self::give_up_on`].
    pub(super) fn current<'m>(&self, members: &'m Members) -> (usize, &'m Client) {
        let number = self.current.load(Ordering::Relaxed);
        let client = members
            .get(number % members.len())
            .expect("there is at least one endpoint");
        (number, client)
    }

    /// Goes on to another member, unless someone else already did.
    pub(super) fn give_up_on(&self, number: usize) {
        let members = self.clients.len();
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        if self.current.load(Ordering::Relaxed) != number {
            return;
        }
        let next = next_member(&mut rests, number % members, Instant::now());
        // The change count in front distinguishes this use of the member from earlier ones.
        let changes = (number / members).wrapping_add(1);
        self.current
            .store(changes.wrapping_mul(members).wrapping_add(next), Ordering::Relaxed);
    }

    pub(super) fn attempt_timeout(&self) -> Duration {
        self.attempt_timeout
    }

    /// The deadline of a request that begins now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.request_timeout
    }

    /// Gets an answer to a request by `deadline`, and counts it. `request` gets whether an attempt before may have
    /// taken effect. It is to take from the client what it needs: a client is eight of them, and a clone of it costs as
    /// much as a small request.
    pub(super) async fn call<T, F>(
        &self,
        operation: EtcdOperation<'_>,
        deadline: Instant,
        request: impl Fn(&Client, bool) -> F,
    ) -> Result<EtcdAnswer<T>, EtcdFailure>
    where
        T: Headed,
        F: Future<Output = Result<T, Error>>,
    {
        let started = Instant::now();
        let result = self.persist(operation, deadline, request).await;
        self.meters.record(operation, started.elapsed(), result.is_err());
        result
    }

    async fn persist<T, F>(
        &self,
        operation: EtcdOperation<'_>,
        deadline: Instant,
        request: impl Fn(&Client, bool) -> F,
    ) -> Result<EtcdAnswer<T>, EtcdFailure>
    where
        T: Headed,
        F: Future<Output = Result<T, Error>>,
    {
        let members = self.members().await.map_err(EtcdFailure::Refused)?;
        let mut patience = Patience::new(self.attempt_timeout, operation.large);
        let mut repeated = false;
        loop {
            let (number, client) = self.current(&members);
            let time = patience.time().min(deadline.saturating_duration_since(Instant::now()));
            let sent = Instant::now();
            // In a box, since each of those around it would hold it twice and copy it.
            let attempt = timeout(time, Box::pin(request(client, repeated)));
            let failure = match self.leader_probe.unless_overtaken(&members, attempt).await {
                Some(Ok(Ok(value))) => {
                    self.leader_probe.heard(&value);
                    return Ok(EtcdAnswer { value, repeated });
                }
                Some(Ok(Err(error))) => EtcdFailure::of(&error),
                Some(Err(_)) | None => {
                    patience.silence();
                    EtcdFailure::Silence(sent.elapsed())
                }
            };
            repeated |= failure.leaves_open();
            let again = failure.may_be_tried_again();
            if again {
                self.give_up_on(number);
                tracing::debug!(?failure, operation = operation.name, "an etcd member did not answer");
            }
            let pause = patience.pause();
            let has_time = |pause: Duration| Instant::now() + pause + LEAST_TIME < deadline;
            let may_go_on = again && has_time(pause) && {
                sleep(pause).await;
                // The pause may have been longer. What is sent with no time for the answer has an unknown outcome for nothing.
                has_time(Duration::ZERO)
            };
            if !may_go_on {
                let is_open = repeated && operation.writes && !failure.is_of_every_attempt();
                return Err(if is_open {
                    EtcdFailure::Unknown(failure.to_string())
                } else {
                    failure
                });
            }
            metrics::counter!("trireme_etcd_attempts_repeated_total", "operation" => operation.name).increment(1);
        }
    }
}

/// The next member after `failed` that does not rest, else the one whose rest ends first.
fn next_member(rests: &mut [Instant], failed: usize, now: Instant) -> usize {
    if let Some(rest) = rests.get_mut(failed) {
        *rest = now + REST;
    }
    let members = rests.len();
    let others = (1..members).map(|step| (failed + step) % members);
    let until = |member: &usize| rests.get(*member).map(|until| (*until).max(now));
    // The first of several with the same time: the next in the ring.
    others.min_by_key(until).unwrap_or(failed)
}

/// Time limits of a request: for one attempt, and before the next.
struct Patience {
    usual: Duration,
    silent: u32,
    pause: Duration,
}

impl Patience {
    fn new(usual: Duration, large: bool) -> Self {
        Self {
            usual: if large { usual * LARGE } else { usual },
            silent: 0,
            pause: FIRST_PAUSE,
        }
    }

    /// The same for the first two attempts, since an election often needs the second; more for those after, since etcd
    /// may just be slow.
    fn time(&self) -> Duration {
        self.usual * self.silent.max(1)
    }

    fn silence(&mut self) {
        self.silent += 1;
    }

    fn pause(&mut self) -> Duration {
        let pause = self.pause.mul_f64(rand::random_range(0.5..=1.0));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_failed_is_the_last_choice() {
        let start = Instant::now();
        let mut rests = vec![start; 3];
        assert_eq!(next_member(&mut rests, 0, start), 1);
        let later = start + Duration::from_secs(1);
        assert_eq!(next_member(&mut rests, 1, later), 2);
        assert_eq!(
            next_member(&mut rests, 2, later),
            0,
            "all rest: the one that failed first"
        );
        let rested = later + REST;
        assert_eq!(next_member(&mut rests, 0, rested), 1);
        let mut alone = vec![start];
        assert_eq!(next_member(&mut alone, 0, start), 0);
    }

    #[test]
    fn patience_grows_with_silence() {
        let mut patience = Patience::new(Duration::from_millis(600), false);
        let mut times = Vec::new();
        for _ in 0..4 {
            times.push(patience.time().as_millis());
            patience.silence();
        }
        assert_eq!(times, [600, 600, 1_200, 1_800]);
        for _ in 0..20 {
            assert!(patience.pause() <= LONGEST_PAUSE);
        }
    }
}
