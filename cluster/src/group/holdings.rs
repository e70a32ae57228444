//! Leases of this replica: fed by the leader's answers, read by duties.
//!
//! A lease is held from the leader's answer until ttl after the renewal that it answers was sent. A lease that the
//! leader asks back is given up at once, and its token is never held again, whatever later answers say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::{Notify, watch};
use trireme_actors::Clock;

use crate::core::fence::Timing;
use crate::lease::{Duty, FencingToken, HeldLease};
use crate::rpc::Grant;
use crate::tenure::{LeaseWatch, Tenure};

/// See the module's header.
pub(crate) struct Holdings {
    clock: Clock,
    timing: Timing,
    slots: Mutex<BTreeMap<&'static str, DutyHolding>>,
    /// No tenure begins any more. Written while the slots are locked.
    is_closed: AtomicBool,
    /// The time at which the last renewal was sent that a leader with a quorum has answered.
    answered: Mutex<Option<Instant>>,
    /// Something has changed that the leader should hear of before the next renewal is due.
    pub(crate) news: Notify,
}

struct DutyHolding {
    duty: Duty,
    tenure: watch::Sender<Option<Tenure>>,
    /// The greatest token that was given up.
    yielded: u64,
    /// The leader does not know yet that it was.
    is_yield_unheard: bool,
    /// A token that a process outside the group has used: the next one must be greater. 0 if there is none.
    floor: u64,
}

impl DutyHolding {
    fn token(&self) -> Option<u64> {
        self.tenure.borrow().as_ref().map(|tenure| tenure.lease().token.0)
    }

    /// Lets the tenure under `token` go on until then, if it is not over. Its watchers get no news of that, so one that is over must
    /// not come back: who has looked at it since waits for another.
    fn extend(&self, token: u64, until: Instant) -> bool {
        let mut is_extended = false;
        // Nobody looks at it meanwhile.
        self.tenure.send_if_modified(|tenure| {
            let goes_on = |tenure: &&Tenure| tenure.lease().token.0 == token && tenure.still_mine();
            if let Some(tenure) = tenure.as_ref().filter(goes_on) {
                tenure.set_end(until);
                is_extended = true;
            }
            false
        });
        is_extended
    }

    /// Ends the tenure for its holders, and notifies the watchers.
    fn end(&self, now: Instant) {
        self.tenure.send_if_modified(|tenure| match tenure.take() {
            Some(ended) => {
                ended.set_end(now);
                true
            }
            None => false,
        });
    }
}

impl Holdings {
    pub(crate) fn new(clock: Clock, timing: Timing) -> Self {
        Self {
            clock,
            timing,
            slots: Mutex::default(),
            is_closed: AtomicBool::new(false),
            answered: Mutex::default(),
            news: Notify::new(),
        }
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<&'static str, DutyHolding>> {
        // Each slot is whole at any time; a panic of another holder does not change that.
        self.slots.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn answered(&self) -> MutexGuard<'_, Option<Instant>> {
        // An instant is whole at any time.
        self.answered.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns true if a leader with a quorum has answered within the ttl of a lease.
    pub(crate) fn has_quorum(&self) -> bool {
        let now = self.clock.now();
        let answered = *self.answered();
        answered.is_some_and(|sent| now < self.timing.holder_stops(sent))
    }

    /// Offers to do `duty`.
    pub(crate) fn watch(&self, duty: Duty) -> LeaseWatch {
        let mut slots = self.slots();
        let slot = slots.entry(duty.name()).or_insert_with(|| DutyHolding {
            duty,
            tenure: watch::Sender::new(None),
            yielded: 0,
            is_yield_unheard: false,
            floor: 0,
        });
        self.news.notify_one();
        LeaseWatch::new(slot.tenure.subscribe())
    }

    /// The duties that this replica would do.
    pub(crate) fn duties(&self) -> BTreeSet<String> {
        self.slots().keys().map(|duty| (*duty).to_owned()).collect()
    }

    /// Gives up the leases whose tokens are worth nothing.
    pub(crate) fn give_up_outbid(&self) {
        let now = self.clock.now();
        for slot in self.slots().values_mut() {
            let tenure = slot.tenure.borrow().clone();
            let Some(tenure) = tenure else { continue };
            if let Some(greater) = tenure.outbid_by() {
                slot.end(now);
                slot.yielded = tenure.lease().token.0;
                slot.floor = greater;
                slot.is_yield_unheard = true;
            }
        }
    }

    /// Floors of the next tokens of the duties in [`yields`](Self::yields).
    pub(crate) fn floors(&self) -> BTreeMap<String, u64> {
        let slots = self.slots();
        let floors = slots.iter().filter(|(_, slot)| slot.is_yield_unheard && slot.floor > 0);
        floors.map(|(duty, slot)| ((*duty).to_owned(), slot.floor)).collect()
    }

    /// The leases that the leader should take back.
    pub(crate) fn yields(&self) -> BTreeMap<String, u64> {
        let slots = self.slots();
        let unheard = slots.iter().filter(|(_, slot)| slot.is_yield_unheard);
        unheard.map(|(duty, slot)| ((*duty).to_owned(), slot.yielded)).collect()
    }

    /// Takes in the leader's answer to the renewal that was sent at `sent`. It names every lease of this replica.
    pub(crate) fn renewed(&self, sent: Instant, grants: &[Grant]) {
        let now = self.clock.now();
        *self.answered() = Some(sent);
        let mut slots = self.slots();
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        for (duty, slot) in slots.iter_mut() {
            match grants.iter().find(|grant| grant.duty == *duty) {
                Some(grant) if grant.token <= slot.yielded => {
                    slot.is_yield_unheard = true;
                    self.news.notify_one();
                }
                Some(grant) if grant.revoked => {
                    slot.end(now);
                    slot.yielded = grant.token;
                    slot.is_yield_unheard = true;
                    self.news.notify_one();
                }
                Some(grant) => {
                    slot.is_yield_unheard = false;
                    self.hold(slot, grant.token, self.timing.holder_stops(sent), now);
                }
                None => {
                    slot.is_yield_unheard = false;
                    slot.end(now);
                }
            }
        }
    }

    fn hold(&self, slot: &DutyHolding, token: u64, until: Instant, now: Instant) {
        if slot.extend(token, until) {
            return;
        }
        slot.end(now);
        if until > now {
            let (duty, token) = (slot.duty, FencingToken(token));
            let tenure = Tenure::until(HeldLease { duty, token }, until, self.clock.clone());
            slot.tenure.send_replace(Some(tenure));
        }
    }

    /// Notifies the watchers of tenures that ended because no renewal was answered.
    pub(crate) fn lapse(&self) {
        let now = self.clock.now();
        for slot in self.slots().values() {
            let is_over = slot.tenure.borrow().as_ref().is_some_and(|tenure| !tenure.still_mine());
            if is_over {
                slot.end(now);
            }
        }
    }

    /// Ends every tenure, for good: an answer that is still under way brings none back.
    pub(crate) fn close(&self) {
        let now = self.clock.now();
        let slots = self.slots();
        self.is_closed.store(true, Ordering::Relaxed);
        slots.values().for_each(|slot| slot.end(now));
    }

    /// The number of leases that are held.
    pub(crate) fn count(&self) -> usize {
        self.slots().values().filter(|slot| slot.token().is_some()).count()
    }

    /// Every tenure as of now.
    #[cfg(test)]
    pub(crate) fn tenures(&self) -> Vec<Tenure> {
        let slots = self.slots();
        slots.values().filter_map(|slot| slot.tenure.borrow().clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use trireme_actors::ManualClock;

    use super::*;
    use crate::raft::timing;

    fn grant() -> Grant {
        Grant {
            duty: "duty".to_owned(),
            token: 5,
            revoked: false,
        }
    }

    #[test]
    fn a_lease_that_is_renewed_after_it_was_over_is_news() {
        let manual = ManualClock::new();
        let clock = Clock::from(manual.clone());
        let holdings = Holdings::new(clock.clone(), timing::LEASES);
        let mut watch = holdings.watch(Duty::named("duty"));
        let grants = [grant()];
        holdings.renewed(clock.now(), &grants);
        let first = watch.current().expect("it is held");
        // No leader has answered for a while, and nobody was told of the end yet.
        manual.advance(timing::LEASES.ttl);
        assert!(!first.still_mine());
        let mut held = Box::pin(watch.held());
        assert!((&mut held).now_or_never().is_none(), "it is over");
        holdings.renewed(clock.now(), &grants);
        let second = held.now_or_never().flatten().expect("it is held again");
        assert!(second.still_mine());
        assert!(!first.still_mine(), "who did the duty under it has stopped");
    }

    #[test]
    fn an_answer_that_was_under_way_brings_no_tenure_back() {
        let clock = Clock::from(ManualClock::new());
        let holdings = Holdings::new(clock.clone(), timing::LEASES);
        let watch = holdings.watch(Duty::named("duty"));
        let grants = [grant()];
        holdings.renewed(clock.now(), &grants);
        let held = watch.current().expect("it is held");
        holdings.close();
        assert!(!held.still_mine());
        // The leader had not heard yet that this replica leaves; by now it has given the lease to another.
        holdings.renewed(clock.now(), &grants);
        assert!(watch.current().is_none(), "two would hold it");
    }
}
