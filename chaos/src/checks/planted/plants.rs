//! One harm each.

mod find;

use std::ops::Range;

use rand::{Rng, rngs::StdRng};

use self::find::{
    bookmark_before_event, duties, entries, event, first_after_a_hop, pick, places_of, read_during, samples, stamps,
};
pub(super) use self::find::{read_only, refuse_writes, slow_watchers, wrong_clock};
use super::secrets::PlantedSecret;
use crate::{
    checks::generate::{FAULT, MS, SLOW, VICTIM},
    history::{
        History, LateWrite, Nanos, Op, Outcome, Purpose, RecordKind, RecordedVerb, SECOND, StreamEnd, TruthEntry,
        TruthRecord, WatchEvent, WatchRecord,
    },
};

/// The begin of the planned stop.
const STOP: Range<Nanos> = FAULT.0..FAULT.0 + SECOND;

/// A harm, and the number that it must be reported under.
pub(super) struct Plant {
    pub(super) name: &'static str,
    pub(super) invariant: u8,
    /// It takes a run with a planned stop.
    pub(super) planned: bool,
    pub(super) plant: fn(&mut History, &mut StdRng),
}

pub(super) const fn plant(invariant: u8, name: &'static str, plant: fn(&mut History, &mut StdRng)) -> Plant {
    Plant {
        name,
        invariant,
        planned: false,
        plant,
    }
}

const fn planned(invariant: u8, name: &'static str, plant: fn(&mut History, &mut StdRng)) -> Plant {
    Plant {
        name,
        invariant,
        planned: true,
        plant,
    }
}

pub(super) const PLANTS: &[Plant] = &[
    plant(1, "a lost write", |history, _| {
        let write = PlantedSecret::new(history, 0).create();
        history.ops.push(write.op);
    }),
    plant(1, "a write that is not what was acknowledged", |history, _| {
        let mut write = PlantedSecret::new(history, 0).create();
        write.op.hash = Some(1);
        write.into(history);
    }),
    plant(1, "a lost deletion", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        history.ops.push(secret.op(1, RecordedVerb::Delete, "planted-delete"));
    }),
    plant(
        1,
        "an acknowledged write that one replica does not show at the end",
        |history, _| {
            let last = history.ops.iter_mut().rfind(|op| op.purpose == Purpose::Final);
            let list = last.and_then(|op| op.list.as_mut()).expect("a final list");
            list.items.pop();
        },
    ),
    plant(2, "a refused write with an effect", |history, _| {
        let mut write = PlantedSecret::new(history, 0).create();
        (write.op.code, write.op.outcome) = (409, Outcome::Fail);
        write.into(history);
    }),
    plant(3, "a phantom", |history, _| {
        let write = PlantedSecret::new(history, 0).create();
        history.truth.push(TruthRecord::Entry(write.truth));
    }),
    plant(3, "a double effect", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        let (write, mut again) = (secret.create(), secret.write(1, RecordedVerb::Update).truth);
        again.attempt.clone_from(&write.truth.attempt);
        write.into(history);
        history.truth.push(TruthRecord::Entry(again));
    }),
    plant(3, "a deletion without a request", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        let mut gone = secret.write(1, RecordedVerb::Delete).truth;
        (gone.deleted, gone.attempt) = (true, None);
        history.truth.push(TruthRecord::Entry(gone));
    }),
    plant(4, "writes against the order of time", |history, _| {
        let (one, other) = (PlantedSecret::new(history, 0), PlantedSecret::new(history, 1));
        let first = one.write(2, RecordedVerb::Create);
        let mut late = other.write(1, RecordedVerb::Create);
        (late.op.called, late.op.returned) = (first.op.returned + MS, first.op.returned + 2 * MS);
        first.into(history);
        late.into(history);
    }),
    plant(5, "a stale read", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        secret.update(1, 0).into(history);
        history.ops.push(secret.read(2, 0, None));
    }),
    plant(5, "a read that misses what was written", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        let mut read = secret.read(1, 0, None);
        (read.code, read.outcome, read.rv, read.hash) = (404, Outcome::Fail, None, None);
        history.ops.push(read);
    }),
    plant(5, "a read of what never was", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        history.ops.push(secret.read(2, 1, None));
    }),
    plant(6, "a list that lacks an object", |history, rng| {
        let lists = |op: &&mut Op| {
            let items = op.list.as_ref().is_some_and(|list| list.items.len() > 1);
            items && op.request_rv.is_none() && op.purpose == Purpose::Traffic
        };
        let mut lists: Vec<_> = history.ops.iter_mut().filter(lists).collect();
        let place = rng.random_range(0..lists.len());
        let list = lists[place].list.as_mut().expect("a list");
        list.items.remove(0);
    }),
    plant(6, "a stale list", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        secret.update(1, 0).into(history);
        history.ops.push(secret.list(2, 0, None));
    }),
    plant(6, "pages of different revisions", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        let mut second = secret.list(0, 0, None);
        let first = second.clone();
        second.rv = second.rv.map(|rv| rv - 1);
        let page = second.list.as_mut().expect("a page");
        (page.page, page.items) = (1, Vec::new());
        history.ops.extend([first, second]);
    }),
    plant(7, "a list older than asked for", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        secret.update(1, 0).into(history);
        history.ops.push(secret.list(2, 0, Some(secret.revision(1))));
    }),
    plant(7, "a read older than asked for", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        secret.update(1, 0).into(history);
        history.ops.push(secret.read(2, 0, Some(secret.revision(1))));
    }),
    plant(
        7,
        "a list that is not of exactly the revision asked for",
        |history, _| {
            let secret = PlantedSecret::new(history, 0);
            secret.create().into(history);
            let mut list = secret.list(2, 0, Some(secret.revision(0) - 1));
            list.rv_match = Some("Exact".to_owned());
            history.ops.push(list);
        },
    ),
    plant(8, "two updates of one predecessor", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        secret.update(1, 0).into(history);
        secret.update(2, 0).into(history);
    }),
    plant(8, "an update of something else than it meant", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        secret.write(1, RecordedVerb::Patch).into(history);
        secret.update(2, 0).into(history);
    }),
    plant(8, "a counter that lost an increment", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        for (moment, counter) in [(0, 0), (1, 1), (2, 1)] {
            let verb = if moment == 0 {
                RecordedVerb::Create
            } else {
                RecordedVerb::Patch
            };
            let mut write = secret.write(moment, verb);
            write.op.increments = moment > 0;
            write.truth.counter = Some(counter);
            write.into(history);
        }
    }),
    plant(9, "an event with another state of the same revision", |history, rng| {
        let index = pick(history, rng, |_, event| event.kind == RecordKind::Modified);
        event(history, index).object.hash ^= 1;
    }),
    plant(9, "a list with another uid", |history, _| {
        let lists = history
            .ops
            .iter_mut()
            .filter(|op| op.request_rv.as_deref() == Some("0"));
        let mut items = lists.filter_map(|op| op.list.as_mut()?.items.first_mut());
        items.next().expect("an item").hash ^= 1;
    }),
    plant(9, "a replica that goes back", |history, _| {
        let secret = PlantedSecret::new(history, 0);
        secret.create().into(history);
        secret.update(1, 0).into(history);
        for (moment, shows) in [(2, 1), (3, 0)] {
            let mut list = secret.list(moment, shows, Some(0));
            list.replica = "r1".to_owned();
            history.ops.push(list);
        }
    }),
    plant(10, "a dropped event", |history, rng| {
        let index = pick(history, rng, |start, event| {
            start.client == "watch-all" && event.kind == RecordKind::Modified
        });
        history.watches.remove(index);
    }),
    plant(10, "an event sent twice", |history, rng| {
        let index = pick(history, rng, |start, _| start.client == "watch-all");
        let again = history.watches[index].clone();
        history.watches.insert(index, again);
    }),
    plant(10, "two events in the wrong order", |history, rng| {
        let index = pick(history, rng, |start, _| start.client == "watch-all");
        let WatchRecord::Event(mut other) = history.watches[index - 1].clone() else {
            panic!("an event")
        };
        if other.kind == RecordKind::Bookmark {
            other = event(history, index - 2).clone();
            history.watches.remove(index - 1);
            history.watches[index - 2] = history.watches[index - 1].clone();
            history.watches[index - 1] = WatchRecord::Event(other);
        } else {
            history.watches.swap(index - 1, index);
        }
    }),
    plant(10, "an event that never happened", |history, _| {
        // Behind the first event, before any bookmark: at the revision that an election's lease has in etcd.
        let [first, second, ..] = places_of(history, "watch-past")[..] else {
            panic!("events")
        };
        let (after, before) = (event(history, first).rv, event(history, second).rv);
        let mut phantom = event(history, second).clone();
        let free =
            |rv: &u64| !entries(history).any(|entry| entry.revision == *rv && entry.key.resource == "configmaps");
        phantom.rv = (after + 1..before).find(free).unwrap_or(after);
        if phantom.rv == after {
            // There is no revision between them: another object's event at the first one's place.
            phantom.object.name = "phantom".to_owned();
            history.watches[first] = WatchRecord::Event(WatchEvent { rv: after, ..phantom });
        } else {
            history.watches.insert(first + 1, WatchRecord::Event(phantom));
        }
    }),
    plant(10, "silence at the end", |history, _| {
        let last = *places_of(history, "watch-late").last().expect("an event");
        history.watches.remove(last);
    }),
    plant(11, "an event lost between two replicas", |history, rng| {
        let index = first_after_a_hop(history, rng);
        history.watches.remove(index);
    }),
    plant(11, "an event sent again by the next replica", |history, rng| {
        let index = first_after_a_hop(history, rng);
        let mut again = event(history, index).clone();
        let seen = places_of(history, "watch-all");
        let before = seen
            .iter()
            .rfind(|place| **place < index)
            .expect("something came before");
        let stream = again.stream;
        again = event(history, *before).clone();
        again.stream = stream;
        history.watches.insert(index, WatchRecord::Event(again));
    }),
    plant(12, "an event after a bookmark that covers it", |history, _| {
        let index = bookmark_before_event(history);
        let next = event(history, index + 1).rv;
        event(history, index).rv = next;
    }),
    plant(12, "a bookmark of the past", |history, _| {
        let index = bookmark_before_event(history);
        event(history, index).rv = 2;
    }),
    plant(12, "the end of the initial state too early", |history, _| {
        let end = history
            .watches
            .iter()
            .position(|record| matches!(record, WatchRecord::Event(event) if event.initial_events_end));
        history.watches.remove(end.expect("a bookmark") - 1);
    }),
    plant(13, "410 for a revision that is there", |history, _| {
        let end = history.watches.iter_mut().rev().find_map(|record| match record {
            WatchRecord::End(end) if end.how == StreamEnd::Closed => Some(end),
            _ => None,
        });
        let end = end.expect("a stream that stays");
        (end.how, end.complete_to) = (StreamEnd::Gone410, None);
    }),
    plant(13, "silence for a compacted revision", |history, _| {
        let first = places_of(history, "watch-past")[0];
        history.watches.remove(first);
    }),
    plant(14, "an object that leaves the selector in silence", |history, rng| {
        let index = pick(history, rng, |start, event| {
            start.client == "watch-front" && event.kind == RecordKind::Deleted && event.object.hash != 0
        });
        history.watches.remove(index);
    }),
    plant(14, "leaving sent as a change", |history, rng| {
        let index = pick(history, rng, |start, event| {
            start.client == "watch-front" && event.kind == RecordKind::Deleted && event.object.hash != 0
        });
        event(history, index).kind = RecordKind::Modified;
    }),
    plant(15, "a slow watcher that is skipped", |history, _| {
        let second = places_of(history, "watch-slow")[1];
        history.watches.remove(second);
    }),
    plant(15, "others that wait beside slow watchers", |history, _| {
        history.faults.push(slow_watchers());
        let during = |op: &&mut Op| op.purpose == Purpose::Traffic && (SLOW.0..SLOW.1).contains(&op.called);
        let is_get = |op: &&mut Op| op.verb == RecordedVerb::Get;
        for op in history.ops.iter_mut().filter(during).filter(is_get) {
            op.returned += 300 * MS;
        }
    }),
    plant(16, "a replica whose cache diverges", |history, _| {
        let cache = history
            .caches
            .iter_mut()
            .find(|cache| cache.holder == "r2" && !cache.settled);
        cache.expect("a cache").items.pop();
    }),
    plant(16, "an informer that has not converged", |history, _| {
        let cache = history.caches.iter_mut().find(|cache| cache.holder == "watch-all");
        cache.expect("a cache").items.pop();
    }),
    plant(16, "a list from the cache that lacks an object", |history, _| {
        let lists = history
            .ops
            .iter_mut()
            .filter(|op| op.request_rv.as_deref() == Some("0"));
        let mut lists = lists
            .filter_map(|op| op.list.as_mut())
            .filter(|list| list.items.len() > 1);
        lists.next().expect("a list").items.remove(0);
    }),
    plant(17, "a write with an old token", |history, _| {
        for stamp in stamps(history, |stamp| !stamp.raised && stamp.token == 2, 1) {
            stamp.token = 1;
        }
    }),
    plant(17, "a fence that falls", |history, _| {
        let raise = |entry: &TruthEntry| entry.fence.as_ref().is_some_and(|fence| fence.raised);
        let mut fallen = entries(history).find(|entry| raise(entry)).expect("a fence").clone();
        let last = entries(history).max_by_key(|entry| entry.revision).expect("an entry");
        (fallen.revision, fallen.at) = (last.revision, last.at);
        fallen.path.push_str("/again");
        history.truth.push(TruthRecord::Entry(fallen));
    }),
    plant(17, "a late write that takes effect", |history, _| {
        let deposed = |entry: &&TruthEntry| {
            let stamp = entry.fence.as_ref();
            stamp.is_some_and(|stamp| !stamp.raised && stamp.token == 2)
        };
        let written = entries(history)
            .find(deposed)
            .expect("a write of the next holder")
            .clone();
        let slot = "/trireme/writes/1/0";
        history.faults[0].late = Some(LateWrite {
            duty: "sweep".to_owned(),
            token: 1,
            path: written.path.clone(),
            slot: slot.to_owned(),
        });
        history.truth.push(TruthRecord::Entry(TruthEntry {
            path: slot.to_owned(),
            fence: None,
            ..written
        }));
    }),
    plant(18, "a write of a duty that takes effect twice", |history, _| {
        let write = stamps(history, |stamp| stamp.write.is_some(), 1)[0].write.clone();
        for stamp in stamps(history, |stamp| stamp.write.is_some() && stamp.write != write, 1) {
            stamp.write.clone_from(&write);
        }
    }),
    plant(31, "a request that is refused for nothing", |history, _| {
        let read =
            |op: &&mut Op| op.verb == RecordedVerb::List && op.outcome == Outcome::Ok && op.purpose == Purpose::Traffic;
        let op = history.ops.iter_mut().find(read).expect("a list");
        (op.code, op.outcome, op.rv, op.list) = (403, Outcome::Fail, None, None);
    }),
    plant(18, "a lease that changes hands without counting", |history, _| {
        for record in &mut history.truth {
            if let TruthRecord::Entry(entry) = record
                && let Some(lease) = &mut entry.lease
            {
                lease.transitions = 0;
            }
        }
    }),
    plant(18, "two holders of one token", |history, _| {
        duties(history).next().expect("a sample").holder = Some(1);
    }),
    plant(18, "a replica that sees a token fall", |history, _| {
        let last = duties(history).last().expect("a sample");
        (last.token, last.holder) = (1, None);
    }),
    plant(21, "a replica that takes no write after the heal", |history, _| {
        for op in &mut history.ops {
            if op.replica == VICTIM && op.verb.writes() && op.called >= FAULT.1 {
                (op.code, op.outcome) = (503, Outcome::Unknown);
            }
        }
        for sample in samples(history).filter(|sample| sample.replica == VICTIM && sample.at >= FAULT.1) {
            sample.ready = Some(false);
        }
    }),
    plant(21, "two leaders after the heal", |history, _| {
        for sample in samples(history).filter(|sample| sample.replica == "r1" && sample.at >= FAULT.1) {
            sample.leader = Some(1);
        }
    }),
    plant(27, "a replica that says ready and takes no write", |history, _| {
        refuse_writes(history);
    }),
    plant(
        27,
        "a replica that says ready and leaves writes waiting",
        |history, _| {
            refuse_writes(history);
            history.faults.push(read_only());
            for op in history.ops.iter_mut().filter(|op| op.code == 503) {
                op.returned = op.called + 2 * SECOND;
            }
        },
    ),
    plant(27, "a replica that says ready under a fault", |history, _| {
        let during = FAULT.0 + 2_500 * MS;
        let sample = samples(history).find(|sample| sample.replica == VICTIM && sample.called >= during);
        sample.expect("a sample").ready = Some(true);
    }),
    planned(28, "a request that fails in a planned stop", |history, _| {
        let read = read_during(history, STOP);
        (read.code, read.outcome) = (0, Outcome::Unknown);
    }),
    planned(28, "a request that waits in a planned stop", |history, _| {
        read_during(history, STOP).returned += 2 * SECOND
    }),
    planned(28, "a watch that is refused in a planned stop", |history, _| {
        let end = history.watches.iter_mut().rev().find_map(|record| match record {
            WatchRecord::End(end) if end.how == StreamEnd::Closed => Some(end),
            _ => None,
        });
        let end = end.expect("a stream that stays");
        (end.how, end.complete_to, end.at) = (StreamEnd::Refused, None, FAULT.1);
    }),
    plant(29, "memory beyond the budget", |history, _| {
        samples(history).last().expect("a sample").rss = 1 << 30
    }),
    plant(29, "file descriptors that are not given back", |history, _| {
        samples(history).last().expect("a sample").fds = 400;
    }),
    plant(30, "a request that fails for a wrong clock", |history, _| {
        let clock = wrong_clock(history);
        let read = read_during(history, clock.at..clock.until);
        (read.code, read.outcome) = (0, Outcome::Unknown);
        history.faults.push(clock);
    }),
    plant(30, "an election for a wrong clock", |history, _| {
        let clock = wrong_clock(history);
        let sample = samples(history).find(|sample| sample.called > clock.at);
        sample.expect("a sample").term += 1;
        history.faults.push(clock);
    }),
    plant(30, "a duty that changes hands for a wrong clock", |history, _| {
        let clock = wrong_clock(history);
        duties(history)
            .filter(|sample| sample.at > clock.at)
            .for_each(|sample| {
                (sample.token, sample.holder) = (sample.token + 1, sample.holder.map(|holder| holder + 1));
            });
        history.faults.push(clock);
    }),
];
