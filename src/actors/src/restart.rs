//! Restart budgets of actors, and the causes of their deaths.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The bounds on rebuilding an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The number of rebuilds that a window allows; one more death is fatal.
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
    /// The number of times that it died within the window.
    pub deaths: usize,
    /// The window of its policy.
    pub window: Duration,
    /// The cause of its last death.
    pub cause: String,
}

/// The reaction of the system to a [`Fatal`].
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
pub(crate) struct RestartBudget {
    policy: RestartPolicy,
    deaths: VecDeque<Instant>,
}

impl RestartBudget {
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
