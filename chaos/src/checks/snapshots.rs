//! Invariants 6, 7, 12 and 16: everything that claims to be the state at one revision is compared with that state.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    Evidence, Ledger, Violation,
    ledger::selects,
    reads::AnswerAge,
    streams::{self, Stream},
};
use crate::history::{Key, ListedItem, Op, Outcome, Purpose, RecordedVerb, Revision, TruthEntry};

/// A claim: this, and nothing else, existed at `rv`.
struct Claim<'h> {
    invariant: u8,
    key: &'h Key,
    selector: &'h BTreeMap<String, String>,
    rv: Revision,
    /// (namespace, name, uid, revision)
    items: Vec<ModelObject<'h>>,
    /// There are no more items than these.
    whole: bool,
    evidence: Vec<Evidence>,
}

type ModelObject<'h> = (&'h str, &'h str, &'h str, Revision);

pub(super) fn check(ledger: &Ledger<'_>, streams: &[Stream<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut claims = lists(ledger, &mut violations);
    claims.extend(caches(ledger));
    claims.extend(streams.iter().filter_map(|stream| initial_state(ledger, stream)));
    violations.extend(replay(ledger, claims));
    violations
}

fn object(item: &ListedItem) -> ModelObject<'_> {
    (&item.namespace, &item.name, &item.uid, item.rv)
}

/// Lists, page by page put together; errors of their revisions are reported at once.
fn lists<'h>(ledger: &Ledger<'h>, violations: &mut Vec<Violation>) -> Vec<Claim<'h>> {
    let mut chains: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (index, op) in ledger.history.ops.iter().enumerate() {
        if op.verb == RecordedVerb::List && op.outcome == Outcome::Ok {
            let chain = op.list.as_ref().map_or("", |list| list.chain.as_str());
            // Without a chain id a list stands for itself.
            let own = if chain.is_empty() { op.attempt.as_str() } else { "" };
            chains.entry((chain, own)).or_default().push(index);
        }
    }
    let mut claims = Vec::new();
    for mut indices in chains.into_values() {
        let ops = &ledger.history.ops;
        let page = |index: &usize| ops[*index].list.as_ref().map_or(0, |list| list.page);
        indices.sort_unstable_by_key(page);
        let first = &ops[indices[0]];
        let Some(freshness) = AnswerAge::of(first) else {
            continue;
        };
        let invariant = number(first, freshness);
        let evidence: Vec<_> = indices.iter().map(|index| Evidence::Op(*index)).collect();
        if let Some(why) = wrong_revision(ledger, freshness, &indices) {
            let text = format!("{} listed {}: {why}", first.client, first.key.resource);
            violations.push(Violation::new(invariant, text, evidence));
            continue;
        }
        // A chain that lost its first pages says nothing about what is before.
        let unbroken = (0..).zip(&indices).all(|(expected, index)| page(index) == expected);
        if let Some(rv) = first.rv.filter(|_| unbroken) {
            let pages = indices.iter().filter_map(|index| ops[*index].list.as_ref());
            claims.push(Claim {
                invariant,
                key: &first.key,
                selector: &first.selector,
                rv,
                whole: pages.clone().any(|list| list.last),
                items: pages.flat_map(|list| list.items.iter().map(object)).collect(),
                evidence,
            });
        }
    }
    claims
}

fn number(op: &Op, freshness: AnswerAge) -> u8 {
    match freshness {
        AnswerAge::Newest if op.purpose == Purpose::Final => 1,
        AnswerAge::Newest => 6,
        AnswerAge::NotOlderThan(_) | AnswerAge::Exact(_) => 7,
        AnswerAge::Any => 16,
    }
}

fn wrong_revision(ledger: &Ledger<'_>, freshness: AnswerAge, indices: &[usize]) -> Option<String> {
    let ops = &ledger.history.ops;
    let first = &ops[indices[0]];
    let Some(rv) = first.rv else {
        return Some("no resourceVersion".to_owned());
    };
    let least = freshness.least(ledger, first);
    if rv < least {
        return Some(format!("the state of {rv}, although {least} was asked for or known"));
    }
    if freshness == AnswerAge::Exact(least) && rv != least {
        return Some(format!("the state of {rv}, although exactly {least} was asked for"));
    }
    if ledger.head.is_some_and(|head| rv > head) {
        return Some(format!("a revision {rv} that never was"));
    }
    let other = indices.iter().find(|index| ops[**index].rv != Some(rv))?;
    let other = ops[*other].rv;
    Some(format!("pages of one list are of {rv} and of {other:?}"))
}

fn caches<'h>(ledger: &Ledger<'h>) -> Vec<Claim<'h>> {
    let mut claims = Vec::new();
    for (index, cache) in ledger.history.caches.iter().enumerate() {
        let claim = |rv| Claim {
            invariant: 16,
            key: &cache.key,
            selector: &cache.selector,
            rv,
            items: cache.items.iter().map(object).collect(),
            whole: true,
            evidence: vec![Evidence::Cache(index)],
        };
        // A settled cache holds the last state, whatever revision it believes to be at.
        claims.push(claim(ledger.head.filter(|_| cache.settled).unwrap_or(cache.rv)));
    }
    claims
}

/// The objects that a stream had sent when it said that the state is complete.
fn initial_state<'h>(ledger: &Ledger<'h>, stream: &Stream<'h>) -> Option<Claim<'h>> {
    let (rv, items, evidence) = streams::initial_state(ledger.history, stream)?;
    Some(Claim {
        invariant: 12,
        key: &stream.start.key,
        selector: &stream.start.selector,
        rv,
        items: items.into_iter().map(object).collect(),
        whole: true,
        evidence,
    })
}

/// Goes through the history of each resource once and compares each claim at its revision.
fn replay<'h>(ledger: &Ledger<'h>, claims: Vec<Claim<'h>>) -> Vec<Violation> {
    let mut by_resource: HashMap<&str, Vec<Claim<'h>>> = HashMap::new();
    for claim in claims {
        by_resource.entry(&claim.key.resource).or_default().push(claim);
    }
    let mut violations = Vec::new();
    for (resource, mut claims) in by_resource {
        claims.sort_by_key(|claim| claim.rv);
        let mut changes = ledger.of_resource(resource).iter().peekable();
        let mut state: BTreeMap<&str, &TruthEntry> = BTreeMap::new();
        for claim in claims {
            while let Some(place) = changes.next_if(|place| ledger.entries[**place].entry.revision <= claim.rv) {
                let entry = ledger.entries[*place].entry;
                match entry.deleted {
                    true => state.remove(entry.path.as_str()),
                    false => state.insert(&entry.path, entry),
                };
            }
            if ledger.covers(0, claim.rv) {
                violations.extend(difference(&claim, &state));
            }
        }
    }
    violations
}

fn difference(claim: &Claim<'_>, state: &BTreeMap<&str, &TruthEntry>) -> Option<Violation> {
    let selected = state.values().filter(|entry| selects(claim.key, claim.selector, entry));
    let selected = selected
        .map(|entry| -> ModelObject<'_> { (&entry.key.namespace, &entry.key.name, &entry.uid, entry.revision) });
    // A list that was given up half way has the first items, in etcd's order of keys.
    let most = if claim.whole { usize::MAX } else { claim.items.len() };
    let expected: BTreeSet<_> = selected.take(most).collect();
    let found: BTreeSet<_> = claim.items.iter().copied().collect();
    let sample = |objects: BTreeSet<ModelObject<'_>>| {
        let shown = objects.into_iter().take(3);
        let shown: Vec<_> = shown.map(|(ns, name, _, rv)| format!("{ns}/{name}@{rv}")).collect();
        shown.join(" ")
    };
    if expected == found && found.len() == claim.items.len() {
        return None;
    }
    let missing = sample(&expected - &found);
    let surplus = sample(&found - &expected);
    let (resource, rv) = (&claim.key.resource, claim.rv);
    let text = if expected == found {
        format!("the state of {resource} at {rv} has an object twice")
    } else {
        format!("the state of {resource} at {rv} lacks [{missing}] and has [{surplus}] beyond")
    };
    Some(Violation::new(claim.invariant, text, claim.evidence.clone()))
}
