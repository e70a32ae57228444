//! Supervision: a dead actor is replaced by a fresh one, until its budget is used up.
//!
//! ```text
//! spawn ─► start ─► Running ──stop──────────────► Stopped
//!            ▲         │ panic, fail, arbiter gone
//!            │         ▼
//!            └─wait─ Restarting ──budget used up─► Stopped + the fatal callback (the process exits)
//! ```
//!
//! Each actor has a parent, a named task outside the arbiters, that hears of the end through a guard dropped with the
//! instance. The first rebuild comes at once, the next ones after a growing pause, all well within a second.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_rt::ArbiterHandle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::{Actor, Life};
use crate::handle::Shared;
use crate::shell::{ExitGuard, Shell, post_stop};

/// How often an actor may be rebuilt, and how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// How many rebuilds a window allows; one more death is fatal.
    pub max_restarts: usize,
    /// The length of the window.
    pub window: Duration,
    /// The pause before the second rebuild in a window; it doubles with each. The first comes at once.
    pub backoff: Duration,
    /// The longest pause.
    pub max_backoff: Duration,
}

impl fmt::Display for RestartPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} s", self.max_restarts, self.window.as_secs())
    }
}

/// An actor has used up its restart budget: the process cannot do its work and should exit, so that its replica is
/// replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("actor {actor} died {deaths} times within {window:?}, last because {cause}")]
pub struct Fatal {
    /// The actor's kind and instance.
    pub actor: String,
    /// How often it died within the window.
    pub deaths: usize,
    /// The window of its policy.
    pub window: Duration,
    /// Why it died last.
    pub cause: String,
}

/// What the system does about a [`Fatal`].
pub(crate) type OnFatal = Arc<dyn Fn(Fatal) + Send + Sync>;

/// The text of a panic, as far as it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}

/// The deaths of the present window.
#[derive(Debug)]
pub(crate) struct Budget {
    policy: RestartPolicy,
    deaths: VecDeque<Instant>,
}

impl Budget {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self {
            policy,
            deaths: VecDeque::new(),
        }
    }

    /// Charges one death: the pause before the rebuild, or `None` if there is none left.
    pub(crate) fn charge(&mut self, now: Instant) -> Option<Duration> {
        let window = self.policy.window;
        self.deaths
            .retain(|death| now.saturating_duration_since(*death) < window);
        self.deaths.push_back(now);
        if self.deaths.len() > self.policy.max_restarts {
            return None;
        }
        let Some(doublings) = self.deaths.len().checked_sub(2) else {
            return Some(Duration::ZERO);
        };
        let factor = 2_u32.saturating_pow(u32::try_from(doublings).unwrap_or(u32::MAX));
        Some(self.policy.backoff.saturating_mul(factor).min(self.policy.max_backoff))
    }

    pub(crate) fn deaths(&self) -> usize {
        self.deaths.len()
    }
}

/// The parent of one actor.
pub(crate) struct Parent<A: Actor> {
    pub(crate) shared: Arc<Shared<A>>,
    pub(crate) factory: Arc<dyn Fn() -> A + Send + Sync>,
    pub(crate) arbiter: ArbiterHandle,
    pub(crate) detached: TaskTracker,
    pub(crate) on_fatal: OnFatal,
}

impl<A: Actor> Parent<A> {
    /// Starts the first instance and returns the life of the parent, to be run as a task.
    pub(crate) fn start(self) -> impl Future<Output = ()> + Send {
        let (exits, deaths) = mpsc::unbounded_channel();
        self.start_instance(&exits);
        self.watch(exits, deaths)
    }

    async fn watch(self, exits: mpsc::UnboundedSender<String>, mut deaths: mpsc::UnboundedReceiver<String>) {
        let vitals = Arc::clone(&self.shared.vitals);
        let mut budget = Budget::new(vitals.entry.restart);
        // `exits` is held here, so there is always a next death to wait for.
        while let Some(cause) = deaths.recv().await {
            if vitals.stopping.is_cancelled() {
                break;
            }
            let Some(pause) = budget.charge(vitals.clock.now()) else {
                self.give_up(cause, budget.deaths());
                break;
            };
            tracing::error!(actor = vitals.name(), cause, ?pause, "actor died and is being rebuilt");
            if !pause.is_zero() {
                tokio::select! {
                    () = vitals.clock.sleep(pause) => {}
                    () = vitals.stopping.cancelled() => break,
                }
            }
            vitals.restarted();
            self.start_instance(&exits);
        }
        self.shared.address.store(None);
        vitals.stopped();
    }

    fn start_instance(&self, exits: &mpsc::UnboundedSender<String>) {
        let shared = &self.shared;
        let life = Life {
            vitals: Arc::clone(&shared.vitals),
            ended: CancellationToken::new(),
            detached: self.detached.clone(),
        };
        let guard = ExitGuard::new(exits.clone(), &life);
        let factory = Arc::clone(&self.factory);
        shared.vitals.running();
        let address =
            <Shell<A> as actix::Actor>::start_in_arbiter(&self.arbiter, move |_| Shell::build(&*factory, life, guard));
        shared.address.store(Some(Arc::new(address)));
        shared.lives.send_modify(|lives| *lives += 1);
        // A stop that came while there was no instance has not reached this one.
        if shared.vitals.stopping.is_cancelled()
            && let Some(address) = shared.address.load().as_deref()
        {
            post_stop(address);
        }
    }

    fn give_up(&self, cause: String, deaths: usize) {
        let vitals = &self.shared.vitals;
        let fatal = Fatal {
            actor: vitals.name(),
            deaths,
            window: vitals.entry.restart.window,
            cause,
        };
        tracing::error!(error = %fatal, "the restart budget of an actor is used up");
        vitals.stopped();
        (self.on_fatal)(fatal);
    }
}
