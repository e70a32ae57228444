//! The run as a whole, what was done to the system, and what it said of itself.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use trireme_tests::canary::leaks;

use super::{Key, ListedItem, Nanos, Revision, SECOND};

/// The run as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The experiment.
    pub experiment: String,
    /// The seed of all random decisions.
    pub seed: u64,
    /// The commit under test.
    pub commit: String,
    /// The place where it ran, in words.
    #[serde(default)]
    pub world: String,
    /// The parts of the experiment that were left out there, with the reasons.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// The addresses of the replicas, as in [`super::Op::replica`].
    pub replicas: Vec<String>,
    /// The time from which the load was steady.
    pub warm: Nanos,
    /// The time when the load ended.
    pub ended: Nanos,
    /// Prefixes of keys in etcd that the system writes of its own accord: no client's attempt has to stand for them.
    pub internal: Vec<String>,
    /// The limits of the promises.
    pub limits: PromisedLimits,
    /// The findings in the replicas' logs; none of runs that were recorded without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogFindings>,
}

/// Lines in the logs of the replicas that should not be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFindings {
    /// The lines of all logs.
    pub lines: u64,
    /// Lines that show a token, a key or what was put into a Secret, each behind the log's name.
    pub leaks: Vec<String>,
    /// Lines of panics, in the same way.
    pub panics: Vec<String>,
}

impl LogFindings {
    /// Adds what a log says.
    pub fn add(&mut self, name: &str, log: &str) {
        let named = |line: String| format!("{name}: {line}");
        self.lines += log.lines().count() as u64;
        self.leaks.extend(leaks(log).into_iter().map(named));
        let panics = log.lines().filter(|line| line.contains("panicked at"));
        self.panics.extend(panics.map(|line| named(line.to_owned())));
    }
}

/// The limits of the promises that have numbers in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromisedLimits {
    /// The least requests a second before the first fault; below, the run says nothing. A third of the usual load: debug builds
    /// of three replicas, beside etcd on two cores, have no time for all of it.
    pub load_floor: u64,
    /// After a heal, how long until everything works (invariant 21).
    pub liveness: Nanos,
    /// The time for which `/readyz` may be wrong (27).
    pub ready_lag: Nanos,
    /// The time limit of a write at a replica that says it is ready (27).
    pub ready_probe: Nanos,
    /// The time limit of a request during a planned stop (28).
    pub planned_request: Nanos,
    /// After a permission or a credential was revoked, how long a replica may go by it (23).
    pub revocation: Nanos,
    /// The most memory of a replica, bytes (29); 0 for no limit.
    pub rss_budget: u64,
    /// The number of more file descriptors than before the first fault a replica may hold at the end (29).
    pub fd_slack: u64,
    /// The number of revisions back a watch must be served from, compacted or not (13); 0: any that is not compacted.
    pub watch_window: u64,
    /// By how many per cent the 99th percentile of others may grow beside slow watchers (15) …
    pub slow_watch_percent: u64,
    /// … and by this much on top, which is noise.
    pub slow_watch_noise: Nanos,
}

impl Default for PromisedLimits {
    fn default() -> Self {
        Self {
            load_floor: 30,
            liveness: 5 * SECOND,
            ready_lag: 2 * SECOND,
            ready_probe: SECOND,
            planned_request: SECOND,
            revocation: SECOND,
            rss_budget: 0,
            fd_slack: 50,
            watch_window: 0,
            slow_watch_percent: 10,
            slow_watch_noise: SECOND / 50,
        }
    }
}

/// The whole content of a cache at one revision: an informer's, or a replica's as it lists it with `resourceVersion=0`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheRecord {
    /// The informer (its client name) or the replica (its address).
    pub holder: String,
    /// The cached collection; `name` is empty, and `namespace` too if it is all of them.
    pub key: Key,
    /// Equality requirements on labels that the informer selects by.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub selector: std::collections::BTreeMap<String, String>,
    /// The revision that the holder believes to be at.
    pub rv: Revision,
    /// The content, in any order.
    pub items: Vec<ListedItem>,
    /// The time when it was taken.
    pub at: Nanos,
    /// It was taken after everything healed and settled: its revision must have reached the last change of `key`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub settled: bool,
}

/// The result of the attempt to do harm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultResult {
    /// It was done.
    #[default]
    Installed,
    /// It was not done, on purpose: the run says nothing about this fault.
    Skipped,
    /// It is unknown.
    Indeterminate,
}

/// Harm that was done, from `at` until it was healed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultRecord {
    /// Which fault: `kill`, `pause`, `blackhole` …
    pub name: String,
    /// To whom: a replica's address, an etcd member, a link.
    pub target: String,
    /// The time when it began.
    pub at: Nanos,
    /// The time when it was healed: the process runs again, the link is whole. Equal to `at` if there is nothing to
    /// heal; the end of the run if it never was.
    pub until: Nanos,
    /// The time when healing began, if that takes time: from here on what was broken may be well again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifted: Option<Nanos>,
    /// It was seen to bite: the process was gone, the link silent, the disk full.
    pub observed: bool,
    /// The observation.
    #[serde(default)]
    pub detail: String,
    /// The outcome.
    pub result: FaultResult,
    /// A planned stop (SIGTERM): nothing may fail meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub planned: bool,
    /// Replicas are killed and started again, and nothing else is done: those that run know what happens meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kills_replicas: bool,
    /// Replicas that cannot serve while it lasts and must say so, if they can say anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<String>,
    /// It is watchers that read slowly. This is the time when the same changes were made without them: no other client
    /// may wait longer beside them than then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_watchers: Option<Range<Nanos>>,
    /// etcd takes no writes while it lasts, but reads. A replica that says so to who writes is as ready as can be.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// It is a wall clock that is wrong: times in objects are wrong, and nothing else may come of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub times_only: bool,
    /// It deposes a holder that writes on: at least one refused write must be counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deposes: bool,
    /// It is webhooks that fail: what came of the writes beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarded: Option<GuardedWrites>,
    /// The write of that holder which came late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<LateWrite>,
}

/// The requests beside webhooks and servers that fail.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardedWrites {
    /// The number of writes that a webhook guards which fails closed, or of requests that nothing can answer.
    pub attempts: u64,
    /// Those of them that took effect or were answered all the same.
    pub let_through: Vec<String>,
    /// Writes that failed or took too long, though no webhook may refuse or delay them so.
    pub held_up: Vec<String>,
    /// Acknowledged writes that are not there.
    pub lost: Vec<String>,
}

/// A write of a duty that was under way when its holder was stopped, and reached etcd when another one held the duty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateWrite {
    /// The duty.
    pub duty: String,
    /// The token that it was written under.
    pub token: u64,
    /// The key in etcd that it would have changed.
    pub path: String,
    /// Its slot, as etcd's key: it changes together with what a write changes.
    pub slot: String,
}

/// A sample of the replicas' state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub enum SampleRecord {
    /// Of a replica.
    Replica(ReplicaSample),
    /// Of a duty, as one replica sees it.
    Duty(DutySample),
}

/// One look at one replica.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplicaSample {
    /// Its address.
    pub replica: String,
    /// Its process, 0 if there is none; another one after a restart.
    pub pid: u32,
    /// Resident memory, bytes.
    pub rss: u64,
    /// Open file descriptors.
    pub fds: u64,
    /// The answer of `/readyz`; `None` if it did not answer.
    pub ready: Option<bool>,
    /// Its id in the group, if it answered with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The leader of the group in its view.
    pub leader: Option<u64>,
    /// The term that it is in.
    pub term: u64,
    /// Writes of its own that a fence refused, since it started.
    pub fenced: u64,
    /// The time when it was asked.
    pub called: Nanos,
    /// The time when it answered, or was given up.
    pub at: Nanos,
}

/// The holder of a duty in one replica's view.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DutySample {
    /// The replica that was asked.
    pub replica: String,
    /// Its process.
    pub pid: u32,
    /// The duty.
    pub duty: String,
    /// The holder's id in the group; `None` if it is not held.
    pub holder: Option<u64>,
    /// The fencing token.
    pub token: u64,
    /// The time when it answered.
    pub at: Nanos,
}
