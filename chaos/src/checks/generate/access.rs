//! Requests of users in a generated history: a binding comes and goes, and every replica obeys within half a second.

use super::{ENDED, FAULT, GeneratedWorld, MS, REPLICAS, VICTIM};
use crate::history::{AccessKind, AccessRecord, BALANCER, Nanos, SECOND};

/// The binding is made every so often, and deleted after half of that time.
const CYCLE: Nanos = 4 * SECOND;

impl GeneratedWorld {
    pub(super) fn access(&mut self) {
        let record = |kind, replica: &str, called: Nanos, code| AccessRecord {
            kind,
            user: "someone".to_owned(),
            replica: replica.to_owned(),
            request: "GET /".to_owned(),
            called,
            returned: called + 2 * MS,
            code,
        };
        for tick in 0..ENDED / (100 * MS) {
            let at = tick * 100 * MS;
            match at % CYCLE {
                0 => self.history.access.push(record(AccessKind::Grant, BALANCER, at, 201)),
                half if half == CYCLE / 2 => {
                    self.history.access.push(record(AccessKind::Revoke, BALANCER, at, 200));
                }
                _ => {}
            }
            for replica in REPLICAS {
                let is_down = replica == VICTIM && (FAULT.0..FAULT.1).contains(&at);
                let answered = |code| if is_down { 0 } else { code };
                let is_granted = at % CYCLE < CYCLE / 2 + 500 * MS;
                let revocable = if is_granted { 404 } else { 403 };
                for (kind, code) in [
                    (AccessKind::Permitted, 200),
                    (AccessKind::Forbidden, 403),
                    (AccessKind::Revocable, revocable),
                ] {
                    let asked = record(kind, replica, at + 10 * MS, answered(code));
                    self.history.access.push(asked);
                }
            }
        }
    }
}
