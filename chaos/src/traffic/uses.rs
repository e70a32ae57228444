//! Answers to requests with one credential. Its issuer waits for one while the credential is good, and for one after the moment
//! from which it must count for nothing, so that on a slow machine too there is something to judge.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::desk::{Desk, Phase};
use crate::history::{AccessKind, AccessRecord, Nanos, PromisedLimits};

/// The longest wait for such an answer: replicas that a fault has stopped give none.
const PATIENCE: Duration = Duration::from_secs(5);

/// Gives a credential and takes it away.
pub(super) trait Issuer {
    /// Does what the kind says, and returns the record: the code is 201 if it was surely given, 200 if it was surely taken away.
    fn change(&mut self, kind: AccessKind) -> impl Future<Output = AccessRecord> + Send;
}

/// The requests with one credential, to whichever replica.
#[derive(Debug, Clone, Default)]
pub(super) struct Uses {
    newest: Arc<watch::Sender<NewestUses>>,
}

#[derive(Debug, Default)]
struct NewestUses {
    /// The time when the newest request was sent that got an answer.
    answered: Nanos,
    /// The time when the newest one was sent that was let through.
    allowed: Nanos,
    /// True once it was given, used, taken away, and shown after that.
    is_judged: bool,
}

impl Uses {
    /// Takes note of a request with the credential.
    pub(super) fn note(&self, record: &AccessRecord) {
        self.newest.send_modify(|newest| {
            if record.code != 0 {
                newest.answered = newest.answered.max(record.called);
            }
            if record.is_allowed() {
                newest.allowed = newest.allowed.max(record.called);
            }
        });
    }

    /// Returns true if a revocation was followed by a request that must be refused.
    pub(super) fn is_judged(&self) -> bool {
        self.newest.borrow().is_judged
    }

    /// Grants and revokes the credential until the load is over, in turn and each for at least its time.
    pub(super) async fn come_and_go(
        &self,
        desk: &Desk,
        granted_for: Duration,
        revoked_for: Duration,
        issuer: &mut impl Issuer,
    ) {
        let promised = PromisedLimits::default().revocation;
        while desk.phase() == Phase::Load {
            let grant = issuer.change(AccessKind::Grant).await;
            sleep(granted_for).await;
            let was_good = grant.code == 201 && self.comes(desk, |newest| newest.allowed >= grant.called).await;
            let revoke = issuer.change(AccessKind::Revoke).await;
            sleep(revoked_for).await;
            let due = revoke.returned.saturating_add(promised);
            let was_asked = revoke.code == 200 && self.comes(desk, |newest| newest.answered >= due).await;
            if was_good && was_asked {
                self.newest.send_modify(|newest| newest.is_judged = true);
            }
        }
    }

    /// Waits for such an answer; false if it does not come before the load is over or [`PATIENCE`] is.
    async fn comes(&self, desk: &Desk, is_there: impl Fn(&NewestUses) -> bool + Send) -> bool {
        let mut newest = self.newest.subscribe();
        tokio::select! {
            come = timeout(PATIENCE, newest.wait_for(|newest| is_there(newest))) => matches!(come, Ok(Ok(_))),
            () = desk.settling() => false,
        }
    }
}
