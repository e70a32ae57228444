//! Requests of users in a generated history: permissions and credentials come and go, and every replica obeys within half a
//! second.

use super::{ENDED, FAULT, GeneratedWorld, MS, REPLICAS, VICTIM};
use crate::history::{AccessKind, AccessRecord, BALANCER, Credential, Nanos, SECOND};

/// Each is granted every so often, and deleted after half of that time.
const CYCLE: Nanos = 4 * SECOND;

impl GeneratedWorld {
    pub(super) fn access(&mut self) {
        let record = |kind, replica: &str, called: Nanos, code| AccessRecord {
            kind,
            credential: Credential::Binding,
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
                0 => self.of_all(&record(AccessKind::Grant, BALANCER, at, 201)),
                half if half == CYCLE / 2 => self.of_all(&record(AccessKind::Revoke, BALANCER, at, 200)),
                _ => {}
            }
            for replica in REPLICAS {
                let is_down = replica == VICTIM && (FAULT.0..FAULT.1).contains(&at);
                let answered = |code| if is_down { 0 } else { code };
                let is_granted = at % CYCLE < CYCLE / 2 + 500 * MS;
                let revocable = if is_granted { 404 } else { 403 };
                let asked = |kind, code| record(kind, replica, at + 10 * MS, answered(code));
                let fixed = [(AccessKind::Permitted, 200), (AccessKind::Forbidden, 403)];
                let fixed = fixed.map(|(kind, code)| asked(kind, code));
                self.history.access.extend(fixed);
                self.of_all(&asked(AccessKind::Revocable, revocable));
            }
        }
    }
    /// Records the same of each permission and credential.
    fn of_all(&mut self, record: &AccessRecord) {
        let each = Credential::ALL.map(|credential| AccessRecord {
            credential,
            ..record.clone()
        });
        self.history.access.extend(each);
    }
}
