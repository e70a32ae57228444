//! The record of a run: the one format between the runner, the checkers and the report.
//!
//! A history is a directory of JSONL files, a file a kind of record, in any order within a file:
//!
//! | file | records | written by |
//! | --- | --- | --- |
//! | `run.json` | [`Run`], one object | the runner, at the start and again at the end |
//! | `ops.jsonl` | [`Op`] | clients |
//! | `watches.jsonl` | [`WatchRecord`] | watching clients, informers |
//! | `caches.jsonl` | [`CacheRecord`] | informers, and readers of replicas' whole caches |
//! | `truth.jsonl` | [`TruthRecord`] | the watcher of etcd, which does not know Trireme |
//! | `faults.jsonl` | [`FaultRecord`] | the nemesis |
//! | `samples.jsonl` | [`SampleRecord`] | the sampler of the replicas |
//! | `access.jsonl` | [`AccessRecord`] | users who are no administrators |
//! | `audit.jsonl` | [`AuditRecord`] | the reader of the replicas' audit logs, at the end |
//!
//! The runner is one process, so all times are [`Nanos`] of one monotonic clock and can be compared across clients.
//! Revisions are etcd's. A resource is named by its plural, with its group if it has one: `configmaps`,
//! `leases.coordination.k8s.io`; the name of a replica is the address that requests for it are sent to, or
//! [`BALANCER`] if the load balancer chooses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

mod access;
mod audit;
mod files;
mod hash;
mod run;

pub use self::{
    access::{AccessKind, AccessRecord, Credential},
    audit::AuditRecord,
    files::{HistoryError, Recorder},
    hash::payload_hash,
    run::{
        CacheRecord, DutySample, FaultRecord, FaultResult, GuardedWrites, LateWrite, LogFindings, PromisedLimits,
        ReplicaSample, Run, SampleRecord,
    },
};

/// Nanoseconds since the run began, by the runner's monotonic clock.
pub type Nanos = u64;
/// A revision of etcd, which is also a `resourceVersion`.
pub type Revision = u64;
/// [`payload_hash`] of an object.
pub type Hash = u64;

/// A second in [`Nanos`].
pub const SECOND: Nanos = 1_000_000_000;
/// The `replica` of requests that went through the load balancer.
pub const BALANCER: &str = "balancer";
/// The user as whom the clients of the load ask.
pub const TRAFFIC_USER: &str = "admin";
/// The prefix of names of clients that do nothing but read with `resourceVersion=0`.
pub const CACHED_READERS: &str = "cached-";

/// All that was recorded of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The run as a whole.
    pub run: Run,
    /// Requests, one record an attempt.
    pub ops: Vec<Op>,
    /// Watch streams.
    pub watches: Vec<WatchRecord>,
    /// Contents of caches.
    pub caches: Vec<CacheRecord>,
    /// The changes in etcd.
    pub truth: Vec<TruthRecord>,
    /// The faults of the run.
    pub faults: Vec<FaultRecord>,
    /// The replicas' own statuses.
    pub samples: Vec<SampleRecord>,
    /// Requests of users whose permissions are known.
    pub access: Vec<AccessRecord>,
    /// Events of the audit logs of all replicas, over all their lives.
    pub audit: Vec<AuditRecord>,
}

/// One object, whatever holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The plural, with its group.
    pub resource: String,
    /// Empty for cluster-scoped objects, and for lists over all namespaces.
    pub namespace: String,
    /// Empty for lists.
    pub name: String,
}

/// The verb of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordedVerb {
    /// POST of a new object.
    Create,
    /// GET of one object.
    Get,
    /// GET of a collection, or of one page of it.
    List,
    /// PUT.
    Update,
    /// PATCH of any kind, apply included.
    Patch,
    /// DELETE of one object.
    Delete,
    /// The request that opens a watch; the stream itself is in [`WatchRecord`]s.
    Watch,
}

impl RecordedVerb {
    /// Returns true if it may change an object.
    pub fn writes(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Patch | Self::Delete)
    }
}

/// The outcome of a request. [`Outcome::of`] is the one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Acknowledged.
    Ok,
    /// Surely without effect, now and later.
    Fail,
    /// A write may have happened, or may happen still.
    Unknown,
}

impl Outcome {
    /// The outcome of an answer with this status code, 0 if there was none.
    ///
    /// A timeout, a reset and any 5xx (504 among them) leave it open whether the write lands; a 4xx settles that it does
    /// not. A connection that was refused had no effect, but from outside that cannot always be distinguished from a reset, so
    /// it is no answer too.
    pub fn of(code: u16) -> Self {
        match code {
            200..=299 => Self::Ok,
            400..=499 => Self::Fail,
            _ => Self::Unknown,
        }
    }
}

/// The purpose of a request. Figures count traffic only; invariants look at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// The load.
    #[default]
    Traffic,
    /// Asks whether one replica works: a write or a read sent to it and not through the balancer.
    Probe,
    /// A read at the end of the run, after everything healed; a name read here is compared with the last state.
    Final,
}

/// One attempt at a request. A retry is another record with another `attempt`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Op {
    /// The client.
    pub client: String,
    /// Grows within a client.
    pub seq: u64,
    /// Unique over the run. Writes carry it in the object, where [`TruthEntry::attempt`] finds it again.
    pub attempt: String,
    /// The `Audit-ID` that it was sent with, which events about it have. Unique over the run, but for the deletions that one
    /// request made.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub audit_id: String,
    /// Its purpose.
    #[serde(default)]
    pub purpose: Purpose,
    /// The time when the first byte was about to be sent.
    pub called: Nanos,
    /// The time when the answer was complete, or was given up.
    pub returned: Nanos,
    /// The address it was sent to, or [`BALANCER`].
    pub replica: String,
    /// The request.
    pub verb: RecordedVerb,
    /// Of what; `name` empty for lists.
    pub key: Key,
    /// The `resourceVersion` asked with: the parameter of a read or a watch, the precondition in the object of an update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_rv: Option<String>,
    /// `resourceVersionMatch`, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rv_match: Option<String>,
    /// Equality requirements on labels of a list; empty selects all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
    /// The status code, 0 if there was no answer.
    pub code: u16,
    /// [`Outcome::of`] the code.
    pub outcome: Outcome,
    /// The answered object's uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The answered object's or list's `resourceVersion`. A deletion may have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rv: Option<Revision>,
    /// The answered object's payload; of a write, what was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<Hash>,
    /// Of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<RecordedPage>,
    /// The write replaced a counter by its successor: see [`TruthEntry::counter`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub increments: bool,
    /// The `message` of the Status, or what happened to the connection.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// One page of a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedPage {
    /// The same for all pages that one `continue` chain leads through, unique over the run.
    pub chain: String,
    /// The place in the chain, from 0.
    pub page: u32,
    /// No `continue` came with it: the chain is complete.
    pub last: bool,
    /// In the order of the answer.
    pub items: Vec<ListedItem>,
}

/// An object in a list or in a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedItem {
    /// Its namespace, empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its `resourceVersion`.
    pub rv: Revision,
    /// Its payload.
    pub hash: Hash,
}

/// The life of a watch stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub enum WatchRecord {
    /// A stream was asked for.
    Start(WatchOpened),
    /// Something came.
    Event(WatchEvent),
    /// It is over.
    End(WatchEnd),
}

/// A stream was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchOpened {
    /// The watching client. The streams of one client follow each other: each resumes where the one before ended, at
    /// any replica, unless that one ended with [`StreamEnd::Gone410`], after which the client lists.
    pub client: String,
    /// Unique over the run.
    pub stream: u64,
    /// The replica that it was asked of.
    pub replica: String,
    /// The watched collection; `name` is set for a watch of one object.
    pub key: Key,
    /// Equality requirements on labels; empty selects all.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selector: BTreeMap<String, String>,
    /// Only what is newer than this comes; `None` if the stream begins with the state (`sendInitialEvents`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_rv: Option<Revision>,
    /// The rate at which the client reads on purpose, bytes a second; `None` as fast as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_per_second: Option<u64>,
    /// The time when it was asked for.
    pub at: Nanos,
}

/// Which event it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RecordKind {
    /// Began to exist or to match.
    Added,
    /// Changed.
    Modified,
    /// Ceased to exist or to match.
    Deleted,
    /// Only moves the revision.
    Bookmark,
    /// A Status in the stream.
    Error,
}

/// Something came through a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchEvent {
    /// The stream.
    pub stream: u64,
    /// The event's type.
    pub kind: RecordKind,
    /// The object's or bookmark's `resourceVersion`; 0 for errors.
    pub rv: Revision,
    /// The object's key parts and state; empty for bookmarks and errors.
    #[serde(default)]
    pub object: ListedItem,
    /// The bookmark says that the state is complete (`k8s.io/initial-events-end`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub initial_events_end: bool,
    /// The time when it was read.
    pub at: Nanos,
}

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamEnd {
    /// The client closed it.
    Closed,
    /// The server ended it properly: its timeout, or a shutdown.
    Clean,
    /// The connection broke, or could not be made.
    Cut,
    /// 410, as the answer or as an event.
    Gone410,
    /// Another error, as the answer or as an event.
    Refused,
}

/// A stream is over. Every start has one, at the latest when the run ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchEnd {
    /// The stream.
    pub stream: u64,
    /// The end.
    pub how: StreamEnd,
    /// With [`StreamEnd::Closed`]: the client waited so long with an open stream that everything up to this revision
    /// should have come. `None` if it did not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_to: Option<Revision>,
    /// The time when it ended.
    pub at: Nanos,
}

/// The status of an etcd member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
#[expect(clippy::large_enum_variant, reason = "nearly all records are entries")]
pub enum TruthRecord {
    /// A change of one key.
    Entry(TruthEntry),
    /// History up to this revision, which is kept, was dropped: a compaction that is known to have happened by then.
    Compacted {
        /// As etcd counts: this revision can be read, those below cannot.
        revision: Revision,
        /// The time when it was asked for.
        called: Nanos,
        /// The time when it was acknowledged.
        returned: Nanos,
    },
    /// The watch of a member missed what is between: nothing can be said of it by this member.
    Gap {
        /// The member.
        member: String,
        /// The last revision seen before.
        after: Revision,
        /// The first revision seen again.
        until: Revision,
    },
    /// Everything up to this revision was recorded from this member, and at the end of the run etcd has nothing newer.
    End {
        /// The member.
        member: String,
        /// The newest revision, by a linearizable read.
        revision: Revision,
        /// The time when it was read.
        at: Nanos,
    },
}

/// A change of one key in etcd. Members repeat each other; one is enough where the others were away.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TruthEntry {
    /// The member.
    pub member: String,
    /// The revision of the change.
    pub revision: Revision,
    /// The key in etcd.
    pub path: String,
    /// The object that the path stands for; all empty if it stands for none.
    #[serde(default)]
    pub key: Key,
    /// The key was deleted. Then all below is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// The object's uid.
    #[serde(default)]
    pub uid: String,
    /// The object's payload.
    #[serde(default)]
    pub hash: Hash,
    /// The attempt id in the object, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// The counter in the object: writes with [`Op::increments`] raise it by one each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<u64>,
    /// The object's labels, those that selectors of the traffic name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// For a fence's key, and for the idempotency key of a write under a fence, which changes together with the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<FenceStamp>,
    /// For `Lease` objects that stand for an election; not for identity leases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseState>,
    /// The time when the recorder learned of it, so: committed before.
    pub at: Nanos,
}

/// Under which fencing token something was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceStamp {
    /// The duty.
    pub duty: String,
    /// The token.
    pub token: u64,
    /// This entry is the fence itself, being raised; else it is a write that claims the token.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raised: bool,
    /// The one write that this is the trace of: its idempotency key and where that was before. It takes effect once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<String>,
}

/// The content of a `Lease` object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseState {
    /// `spec.holderIdentity`.
    pub holder: String,
    /// `spec.leaseTransitions`, 0 if absent.
    pub transitions: u64,
}
