//! A key of its own for harm that must not show anywhere else: no client lists or watches secrets. Its revisions are those of
//! the duty's runs, so they fit into the order of all others.

use std::collections::BTreeMap;

use crate::{
    checks::generate::{MS, key, path},
    history::{
        BALANCER, History, Key, ListedItem, Nanos, Op, Outcome, Purpose, RecordedPage, RecordedVerb, Revision,
        TruthEntry, TruthRecord,
    },
};

/// The run at which harm is planted: the second of these runs on, before the fault.
const FIRST: usize = 3;

/// A request, and what etcd says of it.
#[derive(Debug, Clone)]
pub(super) struct SecretWrite {
    pub(super) op: Op,
    pub(super) truth: TruthEntry,
}

impl SecretWrite {
    pub(super) fn into(self, history: &mut History) {
        history.ops.push(self.op);
        history.truth.push(TruthRecord::Entry(self.truth));
    }
}

/// One secret, with moments at which it can be written.
#[derive(Debug, Clone)]
pub(super) struct PlantedSecret {
    pub(super) key: Key,
    /// (revision, the time when a client knew it)
    moments: Vec<(Revision, Nanos)>,
}

impl PlantedSecret {
    pub(super) fn new(history: &History, number: usize) -> Self {
        let runs = history.truth.iter().filter_map(|record| match record {
            TruthRecord::Entry(entry) if entry.member == "e1" && entry.path == "/trireme/writes/1/1" => {
                Some((entry.revision, entry.at))
            }
            _ => None,
        });
        Self {
            key: key("secrets", "a", &format!("planted-{number}")),
            moments: runs.skip(FIRST).collect(),
        }
    }

    /// A read or a write around the moment with this number, as if it had no precondition.
    pub(super) fn op(&self, moment: usize, verb: RecordedVerb, attempt: &str) -> Op {
        let (revision, at) = self.moments[moment];
        let read = !verb.writes();
        Op {
            client: "planted".to_owned(),
            seq: revision,
            attempt: attempt.to_owned(),
            audit_id: attempt.to_owned(),
            purpose: Purpose::Probe,
            // Reads come after the moment, when all clients know what was written then.
            called: if read { at + 60 * MS } else { at - 50 * MS },
            returned: if read { at + 70 * MS } else { at + 50 * MS },
            replica: BALANCER.to_owned(),
            verb,
            key: self.key.clone(),
            request_rv: None,
            rv_match: None,
            selector: BTreeMap::new(),
            code: 200,
            outcome: Outcome::Ok,
            uid: Some("uid-planted".to_owned()),
            rv: Some(revision),
            hash: Some(revision),
            list: None,
            increments: false,
            error: String::new(),
        }
    }

    pub(super) fn write(&self, moment: usize, verb: RecordedVerb) -> SecretWrite {
        let (revision, at) = self.moments[moment];
        let attempt = format!("planted-{}-{moment}", self.key.name);
        let truth = TruthEntry {
            member: "e1".to_owned(),
            revision,
            path: path(&self.key),
            key: self.key.clone(),
            uid: "uid-planted".to_owned(),
            hash: revision,
            attempt: Some(attempt.clone()),
            at,
            ..TruthEntry::default()
        };
        let op = self.op(moment, verb, &attempt);
        SecretWrite { op, truth }
    }

    pub(super) fn create(&self) -> SecretWrite {
        self.write(0, RecordedVerb::Create)
    }

    /// An update at a moment of what was written at an earlier one.
    pub(super) fn update(&self, moment: usize, replaces: usize) -> SecretWrite {
        let mut write = self.write(moment, RecordedVerb::Update);
        write.op.request_rv = Some(self.revision(replaces).to_string());
        write
    }

    pub(super) fn revision(&self, moment: usize) -> Revision {
        self.moments[moment].0
    }

    /// A read after one moment that shows the state of another.
    pub(super) fn read(&self, moment: usize, shows: usize, request_rv: Option<Revision>) -> Op {
        let mut op = self.op(moment, RecordedVerb::Get, &format!("planted-read-{moment}"));
        (op.rv, op.hash) = (Some(self.revision(shows)), Some(self.revision(shows)));
        op.request_rv = request_rv.map(|rv| rv.to_string());
        op
    }

    /// A list after one moment that shows the state of another.
    pub(super) fn list(&self, moment: usize, shows: usize, request_rv: Option<Revision>) -> Op {
        let mut op = self.read(moment, shows, request_rv);
        (op.verb, op.uid, op.hash) = (RecordedVerb::List, None, None);
        op.key = key("secrets", "", "");
        op.list = Some(RecordedPage {
            chain: format!("planted-{moment}"),
            page: 0,
            last: true,
            items: vec![ListedItem {
                namespace: self.key.namespace.clone(),
                name: self.key.name.clone(),
                uid: "uid-planted".to_owned(),
                rv: self.revision(shows),
                hash: self.revision(shows),
            }],
        });
        op
    }
}
