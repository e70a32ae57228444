//! Reads of a generated history.

use std::collections::BTreeMap;

use rand::Rng;

use super::{GeneratedWorld, MS, Pending, REPLICAS, item, key};
use crate::{
    checks::ledger::selects,
    history::{BALANCER, Key, ListedItem, Op, Outcome, RecordedPage, RecordedVerb, Revision},
};

impl GeneratedWorld {
    /// The objects at a revision, in etcd's order.
    pub(super) fn state(&self, key: &Key, selector: &BTreeMap<String, String>, revision: Revision) -> Vec<ListedItem> {
        let mut state = BTreeMap::new();
        for entry in self.log.iter().filter(|entry| entry.revision <= revision) {
            match selects(key, selector, entry) && entry.key.resource == key.resource {
                true => state.insert(&entry.path, item(entry)),
                false => state.remove(&entry.path),
            };
        }
        state.into_values().collect()
    }

    /// The freshness of a read, written into the request; and the revision that it is answered at.
    fn freshness(&mut self, op: &mut Op) -> Revision {
        match self.rng.random_range(0..4) {
            0 | 1 => self.revision,
            2 => {
                op.request_rv = Some("0".to_owned());
                let replica = REPLICAS[self.rng.random_range(0..3)];
                op.replica = replica.to_owned();
                let lag = self.rng.random_range(0..4);
                let cache = self.caches.entry(replica).or_insert(1);
                *cache = (*cache).max(self.revision.saturating_sub(lag));
                *cache
            }
            _ => {
                let least = self.rng.random_range(1..=self.revision);
                op.request_rv = Some(least.to_string());
                self.rng.random_range(least..=self.revision)
            }
        }
    }

    pub(super) fn get(&mut self, pending: &Pending, key: Key) -> Op {
        let mut op = self.op(pending, RecordedVerb::Get, key.clone());
        let revision = self.freshness(&mut op);
        let newest = self
            .log
            .iter()
            .rfind(|entry| entry.revision <= revision && entry.key == key);
        match newest.filter(|entry| !entry.deleted) {
            Some(entry) => {
                let (found, counter) = (item(entry), entry.counter);
                (op.uid, op.rv, op.hash) = (Some(found.uid), Some(found.rv), Some(found.hash));
                self.known.insert((pending.client, key), (found.rv, counter));
            }
            None => (op.code, op.outcome) = (404, Outcome::Fail),
        }
        op
    }

    /// All pages of a list but the last are recorded here.
    pub(super) fn list(&mut self, pending: &Pending) -> Op {
        let namespace = ["", "a", "a-b"][self.rng.random_range(0..3)];
        let mut first = self.op(pending, RecordedVerb::List, key("configmaps", namespace, ""));
        if self.rng.random_bool(0.3) {
            first.selector.insert("tier".to_owned(), "front".to_owned());
        }
        let mut revision = self.freshness(&mut first);
        if first.replica == BALANCER && first.request_rv.is_some() && self.rng.random_bool(0.5) {
            revision = first
                .request_rv
                .as_deref()
                .and_then(|rv| rv.parse().ok())
                .unwrap_or(revision);
            first.rv_match = Some("Exact".to_owned());
        }
        first.rv = Some(revision);
        let items = self.state(&first.key, &first.selector, revision);
        let size = if self.rng.random_bool(0.3) { 3 } else { 1000 };
        // Now and then a chain is given up.
        let pages = if self.rng.random_bool(0.2) { 1 } else { usize::MAX };
        let mut chunks: Vec<_> = items.chunks(size).map(<[ListedItem]>::to_vec).collect();
        if chunks.is_empty() {
            chunks.push(Vec::new());
        }
        let all = chunks.len();
        let mut op = first.clone();
        for (page, items) in chunks.into_iter().enumerate().take(pages) {
            if page > 0 {
                let before = op.returned;
                self.history.ops.push(op.clone());
                self.seq += 1;
                (op.seq, op.attempt) = (self.seq, format!("attempt-{}", self.seq));
                (op.called, op.returned) = (before + MS, before + 5 * MS);
            }
            op.list = Some(RecordedPage {
                chain: format!("chain-{}", first.seq),
                page: u32::try_from(page).expect("few pages"),
                last: page + 1 == all,
                items,
            });
        }
        op
    }
}
