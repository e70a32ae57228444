//! Invariant 9: one resourceVersion is one state, whichever replica shows it, and no replica goes back.

use std::collections::{BTreeMap, HashMap};

use super::{
    Evidence, Ledger, Violation,
    writes::{SeenValue, backwards},
};
use crate::history::{BALANCER, Hash, History, Key, Op, Outcome, RecordKind, RecordedVerb, Revision, WatchRecord};

pub(super) fn check(ledger: &Ledger<'_>) -> Vec<Violation> {
    let mut violations = one_state(ledger);
    violations.extend(replicas_go_forward(ledger.history));
    violations
}

/// An object at a revision; namespace and name are enough beside it, as a revision belongs to one resource.
type Version<'h> = (&'h str, &'h str, Revision);
/// uid and payload.
type ObjectState<'h> = (&'h str, Hash);

fn one_state(ledger: &Ledger<'_>) -> Vec<Violation> {
    let history = ledger.history;
    let mut known: HashMap<Version<'_>, (ObjectState<'_>, Evidence)> = HashMap::new();
    for found in ledger.entries.iter().filter(|found| !found.entry.deleted) {
        let (key, entry) = (&found.entry.key, found.entry);
        let version = (key.namespace.as_str(), key.name.as_str(), entry.revision);
        known.insert(version, ((&entry.uid, entry.hash), Evidence::Truth(found.index)));
    }
    let mut violations = Vec::new();
    let mut see = |version: Version<'_>, state: ObjectState<'_>, evidence| {
        if let Some((first, shown)) = known.get(&version)
            && *first != state
        {
            let (namespace, name, revision) = version;
            let text = format!("{namespace}/{name} at {revision} was shown in two states");
            violations.push(Violation::new(9, text, [*shown, evidence]));
        }
    };
    for (index, op) in history.ops.iter().enumerate() {
        let evidence = Evidence::Op(index);
        if let (RecordedVerb::Get, Outcome::Ok, Some(rv), Some(uid), Some(hash)) =
            (op.verb, op.outcome, op.rv, &op.uid, op.hash)
        {
            see((&op.key.namespace, &op.key.name, rv), (uid, hash), evidence);
        }
        for item in op.list.iter().flat_map(|list| &list.items) {
            see((&item.namespace, &item.name, item.rv), (&item.uid, item.hash), evidence);
        }
    }
    for (index, record) in history.watches.iter().enumerate() {
        // What is deleted shows its last state, or the one that left the selector.
        if let WatchRecord::Event(event) = record
            && matches!(event.kind, RecordKind::Added | RecordKind::Modified)
        {
            let item = &event.object;
            let version = (item.namespace.as_str(), item.name.as_str(), event.rv);
            see(version, (&item.uid, item.hash), Evidence::Watch(index));
        }
    }
    for (index, cache) in history.caches.iter().enumerate() {
        for item in &cache.items {
            let version = (item.namespace.as_str(), item.name.as_str(), item.rv);
            see(version, (&item.uid, item.hash), Evidence::Cache(index));
        }
    }
    violations
}

/// Checks that the state that one replica shows of one object, or of one list, never grows older.
fn replicas_go_forward(history: &History) -> Vec<Violation> {
    let mut shown: BTreeMap<(&str, &Key, &str), Vec<SeenValue>> = BTreeMap::new();
    for (index, op) in history.ops.iter().enumerate() {
        let (true, Some(rv)) = (is_read_at_one_replica(op), op.rv) else {
            continue;
        };
        let uid = op.uid.as_deref().unwrap_or_default();
        shown.entry((&op.replica, &op.key, uid)).or_default().push(SeenValue {
            called: op.called,
            returned: Some(op.returned),
            value: rv,
            op: index,
        });
    }
    let pairs = shown.into_iter().flat_map(|((replica, key, _), seen)| {
        let pairs = backwards(seen, false).into_iter();
        pairs.map(move |(earlier, later)| {
            let (before, after) = (earlier.value, later.value);
            let what = format!("{} {}/{}", key.resource, key.namespace, key.name);
            let text = format!("{replica} showed {what} at {before}, and later at {after}");
            Violation::new(9, text, [Evidence::Op(earlier.op), Evidence::Op(later.op)])
        })
    });
    pairs.collect()
}

/// Reads that do not ask for a revision of the past. Those without a revision belong to 5 and 6, which are stricter.
fn is_read_at_one_replica(op: &Op) -> bool {
    let anything = op.request_rv.as_deref() == Some("0") && op.rv_match.as_deref() != Some("Exact");
    op.replica != BALANCER
        && op.outcome == Outcome::Ok
        && anything
        && matches!(op.verb, RecordedVerb::Get | RecordedVerb::List)
}
