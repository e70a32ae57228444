//! Sessions: they distinguish a repeated write from a first one.
//!
//! A connection that breaks, or a leader that dies, takes the answer to a write with it. To repeat such a write is safe
//! only if etcd itself can show that it has been made. So every write also writes a key of its own, its *idempotency key*, and
//! compares the revision that the key had before. No other session writes the key; so if its revision has moved, our
//! write did it, and the key's revision is the one at which the write was committed.
//!
//! An idempotency key is in use by one write at a time and goes to the next when the fate of that one is known. A write whose fate
//! stays unknown takes its idempotency key with it. All keys of a session hang on a lease of etcd, under whose id they stand:
//!
//! ```text
//!  opened ──── in use for 30 s ────┤ (next session) ──── the lease and all its keys expire after 60 s
//!                          the last writes: 5 s ──┤
//! ```
//! With the lease gone etcd refuses what is attached to it. Hence an attempt that was held up somewhere cannot take
//! effect after its idempotency key has been forgotten. Nothing renews leases: a session is opened when a write finds none.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    endpoints::{Endpoints, EtcdOperation},
    errors::EtcdFailure,
};
use crate::{LeaseId, Revision};

/// The prefix of the idempotency keys. No other keys start with this.
pub(super) const ROOT: &str = "/trireme/writes/";
/// The lease's time to live, in seconds.
const TTL_S: i64 = 60;
/// A session that is older takes no more writes.
const IN_USE: Duration = Duration::from_secs(30);

/// The sessions of one store.
#[derive(Default)]
pub(super) struct Sessions {
    current: Mutex<Option<Arc<EtcdSession>>>,
    opening: tokio::sync::Mutex<()>,
}

struct EtcdSession {
    lease: LeaseId,
    opened: Instant,
    idempotency_keys: Mutex<Slots>,
}

/// No more idempotency keys than writes were ever under way at a time.
#[derive(Default)]
struct Slots {
    made: u32,
    /// Each with the revision of its last write, 0 if it does not exist yet.
    idle: Vec<(u32, Revision)>,
}

/// One write's place in a session. Dropping it gives the place up.
pub(super) struct IdempotencyKey {
    session: Arc<EtcdSession>,
    number: u32,
    revision: Revision,
    key: String,
}

impl Sessions {
    /// An idempotency key of the session in use. Opens one if there is none; the others wait for that.
    pub(super) async fn take(&self, endpoints: &Endpoints, deadline: Instant) -> Result<IdempotencyKey, EtcdFailure> {
        if let Some(session) = self.in_use() {
            return Ok(session.idempotency_key());
        }
        let _opening = self.opening.lock().await;
        if let Some(session) = self.in_use() {
            return Ok(session.idempotency_key());
        }
        let session = Arc::new(EtcdSession::open(endpoints, deadline).await?);
        *self.current() = Some(session.clone());
        Ok(session.idempotency_key())
    }

    /// Takes no more idempotency keys of the session that this one is of: etcd does not know it any more.
    pub(super) fn forget(&self, idempotency_key: &IdempotencyKey) {
        let mut current = self.current();
        if current
            .as_ref()
            .is_some_and(|session| session.lease == idempotency_key.lease())
        {
            *current = None;
        }
    }

    fn in_use(&self) -> Option<Arc<EtcdSession>> {
        let session = self.current().clone();
        session.filter(|session| session.opened.elapsed() < IN_USE)
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<EtcdSession>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EtcdSession {
    async fn open(endpoints: &Endpoints, deadline: Instant) -> Result<Self, EtcdFailure> {
        // One too many does no harm and expires.
        let operation = EtcdOperation::read("openSession", "");
        let opened = Instant::now();
        let granted = endpoints.call(operation, deadline, |client, _| {
            let mut client = client.lease_client();
            async move { client.grant(TTL_S, None).await }
        });
        Ok(Self {
            lease: granted.await?.value.id(),
            opened,
            idempotency_keys: Mutex::default(),
        })
    }

    fn idempotency_key(self: Arc<Self>) -> IdempotencyKey {
        let mut idempotency_keys = self.idempotency_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, revision) = idempotency_keys.idle.pop().unwrap_or_else(|| {
            idempotency_keys.made += 1;
            (idempotency_keys.made, 0)
        });
        drop(idempotency_keys);
        IdempotencyKey {
            key: format!("{ROOT}{:x}/{number}", self.lease),
            session: self,
            number,
            revision,
        }
    }
}

impl IdempotencyKey {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The revision of the idempotency key's last write, 0 if there was none.
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// The lease of the idempotency keys.
    pub(super) fn lease(&self) -> LeaseId {
        self.session.lease
    }

    /// The write's fate is known and the idempotency key's revision is this: the next write may have it.
    pub(super) fn give_back(self, revision: Revision) {
        let mut idempotency_keys = self
            .session
            .idempotency_keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        idempotency_keys.idle.push((self.number, revision));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Arc<EtcdSession> {
        Arc::new(EtcdSession {
            lease: 0x1f,
            opened: Instant::now(),
            idempotency_keys: Mutex::default(),
        })
    }

    #[test]
    fn a_slot_serves_one_write_at_a_time() {
        let session = session();
        let (one, two) = (session.clone().idempotency_key(), session.clone().idempotency_key());
        assert_eq!((one.key(), one.revision()), ("/trireme/writes/1f/1", 0));
        assert_eq!(two.key(), "/trireme/writes/1f/2");
        one.give_back(7);
        let again = session.clone().idempotency_key();
        assert_eq!((again.key(), again.revision()), ("/trireme/writes/1f/1", 7));
        drop(two);
        assert_eq!(
            session.idempotency_key().key(),
            "/trireme/writes/1f/3",
            "the fate of the second's write is unknown"
        );
    }
}
