//! Watches of a generated history.

use std::collections::BTreeMap;

use rand::Rng;

use super::{COMPACTED_AT, ENDED, GeneratedWorld, MS, SLOW, item, key};
use crate::{
    checks::ledger::selects,
    history::{
        CacheRecord, Key, ListedItem, Nanos, RecordKind, Revision, SECOND, StreamEnd, TruthEntry, WatchEnd, WatchEvent,
        WatchOpened, WatchRecord,
    },
};

/// The begin and end of a watch.
struct StreamPlan {
    client: &'static str,
    selector: BTreeMap<String, String>,
    /// `None` for one that begins with the state.
    from: Option<Revision>,
    begins: Nanos,
    ends: Nanos,
    reads_per_second: Option<u64>,
    /// One event in so many is the last of its stream.
    hops: Option<u32>,
}

pub(super) fn watch(world: &mut GeneratedWorld) {
    let front = BTreeMap::from([("tier".to_owned(), "front".to_owned())]);
    let all = BTreeMap::new;
    let plan = |client, selector, from, begins, ends| StreamPlan {
        client,
        selector,
        from,
        begins,
        ends,
        reads_per_second: None,
        hops: None,
    };
    let whole_run = |client, selector| StreamPlan {
        hops: Some(40),
        ..plan(client, selector, Some(1), 0, ENDED)
    };
    follow(world, whole_run("watch-all", all()));
    follow(world, whole_run("watch-front", front.clone()));
    follow(world, plan("watch-state", front, None, 3 * SECOND, ENDED));
    // From a revision that is compacted, but still in the replica's memory.
    follow(
        world,
        plan("watch-past", all(), Some(2), COMPACTED_AT + 100 * MS, ENDED),
    );
    let slow = StreamPlan {
        reads_per_second: Some(1000),
        ..plan("watch-slow", all(), Some(world.committed_by(SLOW.0)), SLOW.0, SLOW.1)
    };
    follow(world, slow);
    refused(world);
}

impl GeneratedWorld {
    pub(super) fn committed_by(&self, at: Nanos) -> Revision {
        let entries = self.log.iter().filter(|entry| entry.at < at);
        entries.map(|entry| entry.revision).max().unwrap_or(1)
    }

    fn open(&mut self, plan: &StreamPlan, from_rv: Option<Revision>, at: Nanos) -> u64 {
        self.seq += 1;
        let replica = ["r1", "r3"][self.rng.random_range(0..2)];
        self.history.watches.push(WatchRecord::Start(WatchOpened {
            client: plan.client.to_owned(),
            stream: self.seq,
            replica: replica.to_owned(),
            key: all_configmaps(),
            selector: plan.selector.clone(),
            from_rv,
            reads_per_second: plan.reads_per_second,
            at,
        }));
        self.seq
    }

    fn close(&mut self, stream: u64, how: StreamEnd, complete_to: Option<Revision>, at: Nanos) {
        self.history.watches.push(WatchRecord::End(WatchEnd {
            stream,
            how,
            complete_to,
            at,
        }));
    }

    fn event(&mut self, stream: u64, kind: RecordKind, rv: Revision, object: ListedItem, at: Nanos) {
        self.history.watches.push(WatchRecord::Event(WatchEvent {
            stream,
            kind,
            rv,
            object,
            initial_events_end: false,
            at,
        }));
    }
}

fn all_configmaps() -> Key {
    key("configmaps", "", "")
}

/// The event that a selector makes of a change.
fn kind(selector: &BTreeMap<String, String>, before: Option<&TruthEntry>, now: &TruthEntry) -> Option<RecordKind> {
    let seen = |entry: &TruthEntry| selects(&all_configmaps(), selector, entry);
    match (before.is_some_and(seen), seen(now)) {
        (false, true) => Some(RecordKind::Added),
        (true, true) => Some(RecordKind::Modified),
        (true, false) => Some(RecordKind::Deleted),
        (false, false) => None,
    }
}

fn follow(world: &mut GeneratedWorld, plan: StreamPlan) {
    let mut stream = world.open(&plan, plan.from, plan.begins);
    let mut reached = plan.from.unwrap_or(0);
    let mut now = plan.begins;
    if plan.from.is_none() {
        reached = world.committed_by(plan.begins);
        now += MS;
        for item in world.state(&all_configmaps(), &plan.selector, reached) {
            world.event(stream, RecordKind::Added, item.rv, item, now);
        }
        world.history.watches.push(WatchRecord::Event(WatchEvent {
            stream,
            kind: RecordKind::Bookmark,
            rv: reached,
            object: ListedItem::default(),
            initial_events_end: true,
            at: now,
        }));
    }
    let mut last: BTreeMap<String, TruthEntry> = BTreeMap::new();
    let log: Vec<_> = world
        .log
        .iter()
        .filter(|entry| entry.key.resource == "configmaps")
        .cloned()
        .collect();
    for entry in log {
        let before = last.insert(entry.path.clone(), entry.clone());
        let Some(kind) = kind(&plan.selector, before.as_ref(), &entry).filter(|_| entry.revision > reached) else {
            continue;
        };
        if entry.at > plan.ends && plan.ends != ENDED {
            break;
        }
        now = now.max(entry.at + world.rng.random_range(1..20) * MS);
        if world.rng.random_bool(0.1) && entry.revision > reached + 1 {
            world.event(
                stream,
                RecordKind::Bookmark,
                entry.revision - 1,
                ListedItem::default(),
                now,
            );
        }
        let mut object = item(&entry);
        object.uid = before.filter(|_| entry.deleted).map_or(object.uid, |before| before.uid);
        world.event(stream, kind, entry.revision, object, now);
        reached = entry.revision;
        if plan.hops.is_some_and(|hops| world.rng.random_ratio(1, hops)) {
            world.close(stream, StreamEnd::Cut, None, now);
            now += MS;
            stream = world.open(&plan, Some(reached), now);
        }
    }
    // A watcher that stays until the end has seen all events; a slow one is cut.
    let stays = plan.ends == ENDED;
    let (how, complete_to) = if stays {
        (StreamEnd::Closed, Some(world.revision))
    } else {
        (StreamEnd::Cut, None)
    };
    world.close(
        stream,
        how,
        complete_to,
        now.max(plan.ends) + if stays { 3 * SECOND } else { 0 },
    );
    if stays {
        world.history.caches.push(CacheRecord {
            holder: plan.client.to_owned(),
            key: all_configmaps(),
            selector: plan.selector.clone(),
            rv: reached,
            items: world.state(&all_configmaps(), &plan.selector, world.revision),
            at: ENDED + 3 * SECOND,
            settled: true,
        });
    }
}

/// A watch from a compacted revision is refused, and begins anew.
fn refused(world: &mut GeneratedWorld) {
    let begins = COMPACTED_AT + SECOND;
    let now = world.committed_by(begins);
    let plan = StreamPlan {
        client: "watch-late",
        selector: BTreeMap::new(),
        from: Some(now),
        begins: begins + 2 * MS,
        ends: ENDED,
        reads_per_second: None,
        hops: None,
    };
    let stream = world.open(&plan, Some(1), begins);
    world.close(stream, StreamEnd::Gone410, None, begins + MS);
    follow(world, plan);
}
