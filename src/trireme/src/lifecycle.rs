//! The named moments in the life of a replica. Each happens at most once, in the order of the timeline.
//!
//! ```text
//!  Started ─► Listening ─► Ready ══ serving ══► ShutdownInitiated ─► AfterShutdownDelayDuration
//!                                                │ /readyz fails; every answer ends        │ watches end, requests
//!                                                │ its connection; all else goes on        │ finish; then the port closes
//!                                                └───── --shutdown-delay-duration ─────┘   ▼
//!                                                                            InFlightRequestsDrained ─► Stopped
//! ```
//!
//! `app` signals the moments as it brings a replica up and down; the parts that must know hold a [`Lifecycle`]. Where
//! kube-apiserver has such a moment it has the same name. `docs/lifecycle.md` describes them for operators.
//! Promise: a moment once reached stays reached.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use trireme_actors::Clock;

/// A moment in the life of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    /// The settings are good and building begins.
    Started,
    /// The port is bound.
    Listening,
    /// Every cache is filled and the namespaces are there that a cluster starts with: `/readyz` answers 200.
    Ready,
    /// SIGTERM or SIGINT came: `/readyz` fails and answers end their connections from now on, everything else goes on.
    ShutdownInitiated,
    /// The shutdown delay is over: watches end. The port is closed when what was open then has ended.
    AfterShutdownDelayDuration,
    /// No request is in flight and no connection open.
    InFlightRequestsDrained,
    /// Actors and the store are closed.
    Stopped,
}

/// Which moments have been reached. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Lifecycle {
    clock: Clock,
    born: Instant,
    reached: Arc<watch::Sender<Moment>>,
}

impl Lifecycle {
    /// A life that has just [`Started`](Moment::Started).
    pub(crate) fn start(clock: Clock) -> Self {
        Self {
            born: clock.now(),
            clock,
            reached: Arc::new(watch::Sender::new(Moment::Started)),
        }
    }

    /// Marks a moment, and with it all earlier ones, as reached.
    pub(crate) fn reach(&self, moment: Moment) {
        let is_new = self.reached.send_if_modified(|reached| {
            let is_new = moment > *reached;
            *reached = moment.max(*reached);
            is_new
        });
        if is_new {
            let elapsed_ms = self.clock.now().duration_since(self.born).as_millis();
            tracing::info!(name = ?moment, elapsed_ms = %elapsed_ms, "lifecycle event");
        }
    }

    /// Returns true if a moment has been reached.
    pub(crate) fn has(&self, moment: Moment) -> bool {
        *self.reached.borrow() >= moment
    }
}

#[cfg(test)]
mod tests {
    use trireme_actors::ManualClock;

    use super::{Lifecycle, Moment};

    #[test]
    fn moments_stay_reached_and_never_go_back() {
        let life = Lifecycle::start(ManualClock::new().into());
        let seen_elsewhere = life.clone();
        life.reach(Moment::ShutdownInitiated);
        life.reach(Moment::Ready);
        assert!(seen_elsewhere.has(Moment::Ready));
        assert!(
            life.has(Moment::ShutdownInitiated),
            "an earlier moment does not undo a later one"
        );
        assert!(!life.has(Moment::InFlightRequestsDrained));
    }
}
