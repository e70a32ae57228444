//! Valid histories from a seed: a store, clients, caches and watches that keep every promise, with the unknown outcomes,
//! conflicts, hops, compactions and restarts that a real run has. What the checkers say of one must be nothing.

mod access;
mod audit;
mod reads;
mod streams;
mod system;

use std::collections::{BTreeMap, BinaryHeap};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::history::{
    BALANCER, CacheRecord, FaultRecord, History, Key, ListedItem, LogFindings, Nanos, Op, Outcome, PromisedLimits,
    Purpose, RecordedPage, RecordedVerb, Revision, Run, SECOND, TruthEntry, TruthRecord,
};

pub(super) use self::audit::audit;

pub(crate) const MS: Nanos = SECOND / 1000;
pub(crate) const WARM: Nanos = SECOND;
/// While slow watchers are there.
pub(crate) const SLOW: (Nanos, Nanos) = (5 * SECOND, 8 * SECOND);
pub(crate) const FAULT: (Nanos, Nanos) = (9 * SECOND, 12 * SECOND);
pub(crate) const ENDED: Nanos = 18 * SECOND;
const COMPACTED_AT: Nanos = 4 * SECOND;
pub(crate) const REPLICAS: [&str; 3] = ["r1", "r2", "r3"];
/// The one that the fault hits.
pub(crate) const VICTIM: &str = "r2";

#[derive(Debug, Clone)]
struct Pending {
    called: Nanos,
    effect: Nanos,
    returned: Nanos,
    client: usize,
}

struct GeneratedWorld {
    rng: StdRng,
    planned: bool,
    revision: Revision,
    log: Vec<TruthEntry>,
    live: BTreeMap<Key, TruthEntry>,
    history: History,
    /// The last read of each client, by key.
    known: BTreeMap<(usize, Key), (Revision, Option<u64>)>,
    /// The revision that each replica's cache is at.
    caches: BTreeMap<&'static str, Revision>,
    seq: u64,
}

/// A valid history. Odd seeds stop a replica as planned, even ones kill it.
pub(crate) fn generate(seed: u64) -> History {
    let mut world = GeneratedWorld {
        rng: StdRng::seed_from_u64(seed),
        planned: seed % 2 == 1,
        revision: 1,
        log: Vec::new(),
        live: BTreeMap::new(),
        history: History::default(),
        known: BTreeMap::new(),
        caches: BTreeMap::new(),
        seq: 0,
    };
    world.describe(seed);
    world.requests();
    world.finale();
    streams::watch(&mut world);
    world.samples();
    world.access();
    world.tell_the_truth();
    audit(&mut world.history);
    world.history
}

fn configmap(rng: &mut StdRng, client: usize) -> Key {
    let name = match rng.random_bool(0.5) {
        true => format!("shared-{}", rng.random_range(0..4)),
        false => format!("own-{client}-{}", rng.random_range(0..3)),
    };
    key("configmaps", ["a", "a-b"][client % 2], &name)
}

pub(crate) fn key(resource: &str, namespace: &str, name: &str) -> Key {
    Key {
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

pub(crate) fn path(key: &Key) -> String {
    format!("/registry/{}/{}/{}", key.resource, key.namespace, key.name)
}

const CLIENTS: usize = 5;

impl GeneratedWorld {
    fn describe(&mut self, seed: u64) {
        self.history.run = Run {
            experiment: if self.planned { "rolling-restart" } else { "kill-leader" }.to_owned(),
            seed,
            commit: "0000000".to_owned(),
            world: "over nothing".to_owned(),
            replicas: REPLICAS.map(str::to_owned).to_vec(),
            warm: WARM,
            ended: ENDED,
            internal: vec!["/registry/leases.coordination.k8s.io/".to_owned()],
            limits: PromisedLimits {
                load_floor: 20,
                rss_budget: 512 << 20,
                ..PromisedLimits::default()
            },
            logs: Some(LogFindings {
                lines: 1_000,
                ..LogFindings::default()
            }),
            ..Run::default()
        };
        self.history.faults.push(FaultRecord {
            name: if self.planned { "stop" } else { "kill" }.to_owned(),
            target: VICTIM.to_owned(),
            at: FAULT.0,
            until: FAULT.1,
            observed: true,
            planned: self.planned,
            kills_replicas: !self.planned,
            deposes: !self.planned,
            unready: vec![VICTIM.to_owned()],
            ..FaultRecord::default()
        });
    }

    /// Clients, probes and the system's own writes, in the order in which they take effect.
    fn requests(&mut self) {
        let mut queue = BinaryHeap::new();
        // Clients, then a probe for each replica, then the duty.
        for client in 0..=CLIENTS + REPLICAS.len() {
            let first = self.rng.random_range(0..100) * MS;
            queue.push(self.schedule(client, first));
        }
        let mut compacted = false;
        while let Some((std::cmp::Reverse(effect), client, called, returned)) = queue.pop() {
            if called > ENDED {
                continue;
            }
            if !compacted && effect > COMPACTED_AT {
                compacted = true;
                self.history.truth.push(TruthRecord::Compacted {
                    revision: self.revision - 5,
                    called: effect,
                    returned: effect + MS,
                });
            }
            let pending = Pending {
                called,
                effect,
                returned,
                client,
            };
            let over = match client {
                _ if client < CLIENTS => self.request(&pending),
                _ if client < CLIENTS + REPLICAS.len() => self.probe(&pending),
                _ => self.duty(&pending),
            };
            queue.push(self.schedule(client, over));
        }
    }

    fn schedule(&mut self, client: usize, from: Nanos) -> (std::cmp::Reverse<Nanos>, usize, Nanos, Nanos) {
        let pause = match client {
            _ if client < CLIENTS => self.rng.random_range(10..120),
            _ => self.rng.random_range(300..500),
        };
        let called = from + pause * MS;
        let effect = called + self.rng.random_range(1..15_000) * (MS / 1000);
        let returned = effect + self.rng.random_range(1..15_000) * (MS / 1000);
        (std::cmp::Reverse(effect), client, called, returned)
    }

    fn op(&mut self, pending: &Pending, verb: RecordedVerb, key: Key) -> Op {
        self.seq += 1;
        Op {
            client: format!("client-{}", pending.client),
            seq: self.seq,
            attempt: format!("attempt-{}", self.seq),
            audit_id: format!("attempt-{}", self.seq),
            purpose: Purpose::Traffic,
            called: pending.called,
            returned: pending.returned,
            replica: BALANCER.to_owned(),
            verb,
            key,
            request_rv: None,
            rv_match: None,
            selector: BTreeMap::new(),
            code: 200,
            outcome: Outcome::Ok,
            uid: None,
            rv: None,
            hash: None,
            list: None,
            increments: false,
            error: String::new(),
        }
    }

    /// Returns when the client goes on.
    fn request(&mut self, pending: &Pending) -> Nanos {
        let key = configmap(&mut self.rng, pending.client);
        let exists = self.live.contains_key(&key);
        let op = match self.rng.random_range(0..100) {
            0..15 => self.get(pending, key),
            15..30 => self.list(pending),
            // Seldom against what is there: a refusal.
            _ if exists == self.rng.random_bool(0.05) => self.write(pending, RecordedVerb::Create, key),
            30..40 => self.write(pending, RecordedVerb::Delete, key),
            40..70 => self.write(pending, RecordedVerb::Update, key),
            _ => self.write(pending, RecordedVerb::Patch, key),
        };
        let over = op.returned;
        self.history.ops.push(op);
        over
    }

    fn write(&mut self, pending: &Pending, verb: RecordedVerb, key: Key) -> Op {
        let mut op = self.op(pending, verb, key.clone());
        let found = self.live.get(&key).cloned();
        let known = self.known.get(&(pending.client, key.clone())).copied();
        let (mut counter, mut allowed) = (found.as_ref().and_then(|found| found.counter), found.is_some());
        match verb {
            RecordedVerb::Create => (counter, allowed) = (Some(0), found.is_none()),
            RecordedVerb::Update => {
                let (rv, last) = known.unwrap_or((1, None));
                op.request_rv = Some(rv.to_string());
                op.increments = true;
                allowed = found.as_ref().is_some_and(|found| found.revision == rv);
                counter = last.map(|last| last + 1);
            }
            _ => {}
        }
        if !allowed {
            (op.code, op.outcome) = (if found.is_some() { 409 } else { 404 }, Outcome::Fail);
            // Who lost reads again.
            let fresh = found.map(|found| (found.revision, found.counter));
            self.known.extend(fresh.map(|fresh| ((pending.client, key), fresh)));
            return op;
        }
        let calm = self.planned && pending.effect > FAULT.0 - SECOND && pending.effect < FAULT.1 + SECOND;
        let unknown = !calm && self.rng.random_bool(0.04);
        if unknown {
            op.code = if self.rng.random_bool(0.5) { 0 } else { 504 };
            op.outcome = Outcome::Unknown;
            op.returned += 200 * MS;
        }
        if unknown && self.rng.random_bool(0.5) {
            return op;
        }
        let entry = self.commit(&op, pending.effect, counter, found.as_ref());
        if verb != RecordedVerb::Delete && !unknown {
            (op.uid, op.rv, op.hash) = (Some(entry.uid.clone()), Some(entry.revision), Some(entry.hash));
            self.known
                .insert((pending.client, key), (entry.revision, entry.counter));
        }
        if verb == RecordedVerb::Delete && !unknown {
            op.uid = found.map(|found| found.uid);
        }
        op
    }

    fn commit(&mut self, op: &Op, at: Nanos, counter: Option<u64>, found: Option<&TruthEntry>) -> TruthEntry {
        self.revision += 1;
        let mut entry = TruthEntry {
            revision: self.revision,
            path: path(&op.key),
            key: op.key.clone(),
            deleted: op.verb == RecordedVerb::Delete,
            at,
            ..TruthEntry::default()
        };
        if entry.deleted {
            self.live.remove(&op.key);
        } else {
            entry.uid = found.map_or(format!("uid-{}", self.revision), |found| found.uid.clone());
            entry.hash = self.rng.random();
            entry.attempt = Some(op.attempt.clone());
            entry.counter = counter;
            let tier = ["front", "back"][self.rng.random_range(0..2)];
            entry.labels = BTreeMap::from([("tier".to_owned(), tier.to_owned())]);
            self.live.insert(op.key.clone(), entry.clone());
        }
        self.log.push(entry.clone());
        entry
    }

    /// A write and a read at one replica, unless it is down.
    fn probe(&mut self, pending: &Pending) -> Nanos {
        let replica = REPLICAS[pending.client - CLIENTS];
        let key = key("configmaps", "probes", replica);
        let verb = if self.live.contains_key(&key) {
            RecordedVerb::Patch
        } else {
            RecordedVerb::Create
        };
        let down = replica == VICTIM && pending.returned > FAULT.0 && pending.called < FAULT.1;
        let mut op = self.op(pending, verb, key.clone());
        (op.purpose, op.replica) = (Purpose::Probe, replica.to_owned());
        if down {
            (op.code, op.outcome) = (0, Outcome::Unknown);
        } else {
            let found = self.live.get(&key).cloned();
            let entry = self.commit(&op, pending.effect, None, found.as_ref());
            (op.uid, op.rv, op.hash) = (Some(entry.uid.clone()), Some(entry.revision), Some(entry.hash));
            let mut read = self.op(pending, RecordedVerb::Get, key);
            (read.purpose, read.replica) = (Purpose::Probe, replica.to_owned());
            (read.uid, read.rv, read.hash) = (op.uid.clone(), op.rv, op.hash);
            (read.called, read.returned) = (op.called, op.returned + MS);
            self.history.ops.push(read);
        }
        let over = op.returned;
        self.history.ops.push(op);
        over
    }

    /// All clients read all objects once more.
    fn finale(&mut self) {
        let mut at = self.history.ops.iter().map(|op| op.returned).max().unwrap_or(0) + SECOND;
        let all = key("configmaps", "", "");
        for replica in REPLICAS {
            let pending = Pending {
                called: at,
                effect: at,
                returned: at + MS,
                client: 99,
            };
            at += 2 * MS;
            let mut list = self.op(&pending, RecordedVerb::List, all.clone());
            (list.purpose, list.replica) = (Purpose::Final, replica.to_owned());
            list.rv = Some(self.revision);
            let items = self.state(&all, &BTreeMap::new(), self.revision);
            list.list = Some(RecordedPage {
                chain: format!("final-{replica}"),
                page: 0,
                last: true,
                items: items.clone(),
            });
            self.history.ops.push(list);
            for (settled, revision) in [(false, self.revision / 2), (true, self.revision)] {
                let cache = CacheRecord {
                    holder: replica.to_owned(),
                    key: all.clone(),
                    selector: BTreeMap::new(),
                    rv: revision,
                    items: self.state(&all, &BTreeMap::new(), revision),
                    at,
                    settled,
                };
                self.history.caches.push(cache);
            }
        }
    }

    /// Three members report the same; one of them is away for a while.
    fn tell_the_truth(&mut self) {
        let away = (self.revision / 3, self.revision / 2);
        for member in ["e1", "e2", "e3"] {
            for entry in &self.log {
                if member == "e2" && entry.revision > away.0 && entry.revision < away.1 {
                    continue;
                }
                let mut entry = entry.clone();
                entry.member = member.to_owned();
                entry.at += self.rng.random_range(0..5) * MS;
                self.history.truth.push(TruthRecord::Entry(entry));
            }
            self.history.truth.push(TruthRecord::End {
                member: member.to_owned(),
                revision: self.revision,
                at: ENDED + 5 * SECOND,
            });
        }
        self.history.truth.push(TruthRecord::Gap {
            member: "e2".to_owned(),
            after: away.0,
            until: away.1,
        });
    }
}

fn item(entry: &TruthEntry) -> ListedItem {
    ListedItem {
        namespace: entry.key.namespace.clone(),
        name: entry.key.name.clone(),
        uid: entry.uid.clone(),
        rv: entry.revision,
        hash: entry.hash,
    }
}
