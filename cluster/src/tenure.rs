//! A duty's view of its lease: held or not held, and until when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::watch;
use trireme_actors::Clock;

use crate::lease::{FencingToken, HeldLease};

/// A lease while it is held. Clones are the same tenure, and end together.
#[derive(Clone, Debug)]
pub struct Tenure {
    lease: HeldLease,
    end: TenureEnd,
    /// The greatest token that the store has seen; 0 if it never refused this tenure's.
    outbid: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
enum TenureEnd {
    Never,
    At(Arc<Mutex<Instant>>, Clock),
}

fn lock(until: &Mutex<Instant>) -> MutexGuard<'_, Instant> {
    // An instant is whole at any time; a panic of another holder does not change that.
    until.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Tenure {
    /// A tenure that ends with the process.
    pub fn unending(lease: HeldLease) -> Self {
        let outbid = Arc::default();
        let end = TenureEnd::Never;
        Self { lease, end, outbid }
    }

    pub(crate) fn until(lease: HeldLease, until: Instant, clock: Clock) -> Self {
        let outbid = Arc::default();
        let end = TenureEnd::At(Arc::new(Mutex::new(until)), clock);
        Self { lease, end, outbid }
    }

    /// The duty and the token that its writes carry.
    pub fn lease(&self) -> HeldLease {
        self.lease
    }

    /// Returns true if the duty may be acted on now, by monotonic time. Look right before each effect: after a pause of the
    /// process this is false before another replica can act. What it cannot see (a machine that slept, a write that was
    /// sent and arrives late) the fencing token catches.
    pub fn still_mine(&self) -> bool {
        match &self.end {
            TenureEnd::Never => true,
            TenureEnd::At(until, clock) => clock.now() < *lock(until),
        }
    }

    /// Returns true if both are the same tenure.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.outbid, &other.outbid)
    }

    /// Says that this tenure's token is worth nothing where it writes to, because a greater one is in use there. If that
    /// was not given out by this group (but by a replica that was alone, or by another group), no replica could do
    /// the duty any more; so a group takes the lease back and gives it out again under a token above.
    pub fn outbid(&self, greater: FencingToken) {
        self.outbid.fetch_max(greater.0, Ordering::Relaxed);
    }

    /// The greater token, if there is one.
    pub(crate) fn outbid_by(&self) -> Option<u64> {
        let greater = self.outbid.load(Ordering::Relaxed);
        (greater > self.lease.token.0).then_some(greater)
    }

    /// The time at which it ends if it is not renewed; `None` if never.
    #[cfg(test)]
    pub(crate) fn valid_until(&self) -> Option<Instant> {
        match &self.end {
            TenureEnd::Never => None,
            TenureEnd::At(until, _) => Some(*lock(until)),
        }
    }

    /// Sets when it ends.
    pub(crate) fn set_end(&self, at: Instant) {
        if let TenureEnd::At(until, _) = &self.end {
            *lock(until) = at;
        }
    }
}

/// The sender of a lease's gain and loss: by a [`Group`](crate::Group), or by a caller that knows that there is none.
#[derive(Clone, Debug)]
pub struct LeaseWatch(watch::Receiver<Option<Tenure>>);

impl LeaseWatch {
    /// A lease that is won and lost as the sender of `changes` says; for ever lost once the sender is gone.
    pub fn new(changes: watch::Receiver<Option<Tenure>>) -> Self {
        Self(changes)
    }

    /// The tenure as of now, if the lease is held.
    pub fn current(&self) -> Option<Tenure> {
        let current = self.0.borrow().clone();
        current.filter(Tenure::still_mine)
    }

    /// Waits until the lease is held. `None` when it never will be: the group has stopped.
    pub async fn held(&mut self) -> Option<Tenure> {
        let held = self
            .0
            .wait_for(|tenure| tenure.as_ref().is_some_and(Tenure::still_mine));
        let tenure = held.await.ok()?.clone();
        // The last value outlives its sender; a tenure does not outlive the group.
        self.0.has_changed().ok().and(tenure)
    }

    /// Waits until `tenure` is over: lost, yielded, or replaced by another, perhaps under the same token.
    pub async fn over(&mut self, tenure: &Tenure) {
        let is_other = |now: &Option<Tenure>| now.as_ref().is_none_or(|now| !now.is(tenure));
        // If the sender is gone the group has stopped, and with it every tenure.
        let _ = self.0.wait_for(is_other).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::lease::Duty;

    #[test]
    fn nothing_is_held_when_the_group_has_stopped() {
        let lease = HeldLease {
            duty: Duty::named("duty"),
            token: FencingToken(7),
        };
        let changes = watch::Sender::new(Some(Tenure::unending(lease)));
        let mut leases = LeaseWatch::new(changes.subscribe());
        let tenure = leases.held().now_or_never().flatten().expect("it is held");
        drop(changes);
        assert_eq!(leases.over(&tenure).now_or_never(), Some(()));
        assert!(leases.held().now_or_never().expect("at once").is_none());
    }

    #[test]
    fn a_tenure_is_over_also_if_its_token_is_held_again_by_then() {
        let lease = HeldLease {
            duty: Duty::named("duty"),
            token: FencingToken(7),
        };
        let changes = watch::Sender::new(Some(Tenure::unending(lease)));
        let mut leases = LeaseWatch::new(changes.subscribe());
        let first = leases.current().expect("it is held");
        assert_eq!(leases.over(&first).now_or_never(), None, "it goes on");
        changes.send_replace(None);
        changes.send_replace(Some(Tenure::unending(lease)));
        assert_eq!(leases.over(&first).now_or_never(), Some(()));
        let second = leases.current().expect("it is held again");
        assert_eq!(leases.over(&second).now_or_never(), None);
    }
}
