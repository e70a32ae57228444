//! The lease table: who expires when, and which keys go with it. Time is monotonic; a lease starts
//! anew with its whole time to live when the store is opened, as in etcd.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::LeaseId;

#[derive(Debug)]
struct StoreLease {
    deadline: Instant,
    keys: BTreeSet<Arc<str>>,
}

/// All leases that have not ended.
#[derive(Debug, Default)]
pub(super) struct StoreLeases {
    by_id: HashMap<LeaseId, StoreLease>,
    by_deadline: BTreeSet<(Instant, LeaseId)>,
}

impl StoreLeases {
    pub(super) fn grant(&mut self, id: LeaseId, ttl: Duration, now: Instant) {
        let deadline = now + ttl;
        self.by_deadline.insert((deadline, id));
        self.by_id.insert(
            id,
            StoreLease {
                deadline,
                keys: BTreeSet::new(),
            },
        );
    }

    pub(super) fn exists(&self, id: LeaseId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Ends a lease; its keys in order.
    pub(super) fn remove(&mut self, id: LeaseId) -> Option<BTreeSet<Arc<str>>> {
        let lease = self.by_id.remove(&id)?;
        self.by_deadline.remove(&(lease.deadline, id));
        Some(lease.keys)
    }

    /// Moves a key from the lease it had to the one it gets; 0 is none.
    pub(super) fn move_key(&mut self, key: &Arc<str>, from: LeaseId, to: LeaseId) {
        if from == to {
            return;
        }
        if let Some(lease) = self.by_id.get_mut(&from) {
            lease.keys.remove(key);
        }
        if let Some(lease) = self.by_id.get_mut(&to) {
            lease.keys.insert(key.clone());
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// Up to `limit` leases whose time is over, longest overdue first.
    pub(super) fn expired(&self, now: Instant, limit: usize) -> Vec<LeaseId> {
        let due = self.by_deadline.iter().take_while(|(deadline, _)| *deadline <= now);
        due.map(|(_, id)| *id).take(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_expire_in_order_and_take_only_their_own_keys() {
        let now = Instant::now();
        let mut leases = StoreLeases::default();
        leases.grant(1, Duration::from_secs(5), now);
        leases.grant(2, Duration::from_secs(3), now);
        let key: Arc<str> = Arc::from("a");
        leases.move_key(&key, 0, 1);
        leases.move_key(&key, 1, 2);

        assert_eq!(leases.next_deadline(), Some(now + Duration::from_secs(3)));
        assert_eq!(leases.expired(now, 9), Vec::<LeaseId>::new());
        assert_eq!(leases.expired(now + Duration::from_secs(6), 9), [2, 1]);
        assert_eq!(leases.expired(now + Duration::from_secs(6), 1), [2]);
        assert_eq!(leases.remove(1), Some(BTreeSet::new()));
        assert_eq!(leases.remove(2), Some(BTreeSet::from([key])));
        assert_eq!(leases.remove(2), None);
        assert_eq!(leases.next_deadline(), None);
    }
}
