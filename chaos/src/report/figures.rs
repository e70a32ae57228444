//! The figures of a run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    checks::{Violation, failed, percentile},
    history::{
        BALANCER, CACHED_READERS, DutySample, FaultRecord, History, Nanos, Op, Outcome, Purpose, RecordKind,
        RecordedVerb, ReplicaSample, SECOND, SampleRecord, StreamEnd, WatchRecord,
    },
};

/// An error-free window of this length counts as recovery.
const RECOVERED_FOR: Nanos = 5 * SECOND;

/// The figures of a run. Times are in seconds; those "after" count from the beginning of the first fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Requests of the load.
    pub requests: u64,
    /// Those that a user would call failed, by kind: no answer, or the status code.
    pub failed: BTreeMap<String, u64>,
    /// Those of them after the first fault.
    pub failed_after_fault: u64,
    /// The moment of the first failure after the first fault.
    pub first_failure: Option<f64>,
    /// The moment of the last failure after the first fault.
    pub last_failure: Option<f64>,
    /// The time when the first 5 s without failure and with a 99th percentile below twice that of before began.
    pub recovery: Option<f64>,
    /// The longest time without an acknowledged write, since the first fault.
    pub write_gap: f64,
    /// The same for reads.
    pub read_gap: f64,
    /// The same for a client that does nothing but read with `resourceVersion=0` through the balancer; of several the
    /// longest. `None` if there was none.
    pub cached_read_gap: Option<f64>,
    /// The same for such clients of one replica each.
    pub direct_cached_read_gap: Option<f64>,
    /// The longest time that one watching client heard nothing.
    pub watch_gap: f64,
    /// The longest that any write had to wait for its answer, or for having none.
    pub slowest_write: f64,
    /// Acknowledged writes, of whatever purpose.
    pub acknowledged: u64,
    /// Those that are not in etcd, or cannot be read.
    pub lost: u64,
    /// Watch events.
    pub events: u64,
    /// Events that are missing, out of order or twice.
    pub wrong_events: u64,
    /// 410 of watches.
    pub gone: u64,
    /// Watches that had to begin anew.
    pub relists: u64,
    /// Elections in the replicas' group.
    pub leader_changes: u64,
    /// The time when the last duty of a replica that the first fault hit had a holder among the others; `None` if not one
    /// has moved. What is spread anew among the living is not counted, nor what moves when the replica is back.
    pub duties_moved: Option<f64>,
    /// Writes of deposed holders that a fence refused.
    pub refused_by_fences: u64,
    /// Attempts that took effect twice, or without a cause.
    pub double_effects: u64,
    /// The most memory of a replica, bytes.
    pub rss_peak: u64,
}

impl Figures {
    /// Measures a run. Violations are counted where a figure is of broken promises.
    pub fn of(history: &History, violations: &[Violation]) -> Self {
        let broken = |numbers: &[u8]| {
            let counted = violations
                .iter()
                .filter(|violation| numbers.contains(&violation.invariant));
            counted.count() as u64
        };
        let writes = history.ops.iter().filter(|op| op.verb.writes());
        let mut figures = Self {
            acknowledged: writes.filter(|op| op.outcome == Outcome::Ok).count() as u64,
            lost: broken(&[1]),
            wrong_events: broken(&[10, 11, 12, 13, 14, 15]),
            double_effects: broken(&[3]),
            ..Self::default()
        };
        let fault = history.faults.iter().map(|fault| fault.at).min();
        let traffic: Vec<&Op> = history.ops.iter().filter(|op| is_load(op)).collect();
        figures.count_requests(&traffic, fault);
        figures.measure_gaps(history, &traffic, fault.unwrap_or(history.run.warm));
        figures.recovery = fault.and_then(|fault| recovery(history, &traffic, fault));
        figures.count_watches(history);
        figures.read_samples(history);
        figures.duties_moved = history
            .faults
            .iter()
            .min_by_key(|fault| fault.at)
            .and_then(|fault| duties_moved(history, fault));
        figures
    }

    fn count_requests(&mut self, traffic: &[&Op], fault: Option<Nanos>) {
        self.requests = traffic.len() as u64;
        for op in traffic.iter().filter(|op| failed(op)) {
            let kind = if op.code == 0 {
                "no answer".to_owned()
            } else {
                op.code.to_string()
            };
            *self.failed.entry(kind).or_default() += 1;
            if let Some(after) = fault.and_then(|fault| op.returned.checked_sub(fault)) {
                self.failed_after_fault += 1;
                let after = seconds(after);
                self.first_failure = Some(self.first_failure.map_or(after, |first| first.min(after)));
                self.last_failure = Some(self.last_failure.map_or(after, |last| last.max(after)));
            }
        }
    }

    fn measure_gaps(&mut self, history: &History, traffic: &[&Op], from: Nanos) {
        let until = history.run.ended;
        let gap = |counts: &dyn Fn(&Op) -> bool| {
            let answered = traffic.iter().filter(|op| op.outcome == Outcome::Ok && counts(op));
            longest_gap(answered.map(|op| op.returned), from, until)
        };
        let cached = |op: &Op| !op.verb.writes() && op.request_rv.as_deref() == Some("0");
        self.write_gap = gap(&|op| op.verb.writes());
        self.read_gap = gap(&|op| !op.verb.writes() && !cached(op));
        self.cached_read_gap = cached_read_gap(history, from, |replica| replica == BALANCER);
        self.direct_cached_read_gap = cached_read_gap(history, from, |replica| replica != BALANCER);
        let writes = traffic.iter().filter(|op| op.verb.writes());
        self.slowest_write = seconds(writes.map(|op| op.returned - op.called).max().unwrap_or(0));
    }

    fn count_watches(&mut self, history: &History) {
        let mut clients: BTreeMap<u64, &str> = BTreeMap::new();
        let mut heard: BTreeMap<&str, Vec<Nanos>> = BTreeMap::new();
        let mut known = BTreeSet::new();
        for record in &history.watches {
            match record {
                WatchRecord::Start(start) => {
                    let client = start.client.as_str();
                    self.relists += u64::from(!known.insert(client) && start.from_rv.is_none());
                    if start.selector.is_empty() && start.reads_per_second.is_none() {
                        clients.insert(start.stream, client);
                    }
                }
                WatchRecord::Event(event) => {
                    self.events += u64::from(!matches!(event.kind, RecordKind::Bookmark | RecordKind::Error));
                    if let Some(client) = clients.get(&event.stream) {
                        heard.entry(client).or_default().push(event.at);
                    }
                }
                WatchRecord::End(end) => self.gone += u64::from(end.how == StreamEnd::Gone410),
            }
        }
        let from = history
            .faults
            .iter()
            .map(|fault| fault.at)
            .min()
            .unwrap_or(history.run.warm);
        let gaps = heard
            .into_values()
            .map(|heard| longest_gap(heard.into_iter(), from, history.run.ended));
        self.watch_gap = gaps.fold(0.0, f64::max);
    }

    fn read_samples(&mut self, history: &History) {
        let mut leaders = BTreeSet::new();
        let mut refused: BTreeMap<(&str, u32), u64> = BTreeMap::new();
        for record in &history.samples {
            match record {
                SampleRecord::Replica(sample) => {
                    let ReplicaSample { rss, fenced, term, .. } = *sample;
                    self.rss_peak = self.rss_peak.max(rss);
                    leaders.extend(sample.leader.map(|leader| (term, leader)));
                    let most = refused.entry((&sample.replica, sample.pid)).or_default();
                    *most = fenced.max(*most);
                }
                SampleRecord::Duty(_) => {}
            }
        }
        self.leader_changes = (leaders.len() as u64).saturating_sub(1);
        self.refused_by_fences = refused.into_values().sum();
    }

    /// All failures.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// The text for a terminal and for the table of runs.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let time = |value: f64| format!("{value:.2} s");
        let option = |value: Option<f64>| value.map_or("–".to_owned(), time);
        let kinds: Vec<_> = self
            .failed
            .iter()
            .map(|(kind, count)| format!("{count} × {kind}"))
            .collect();
        vec![
            ("requests", self.requests.to_string()),
            (
                "failed",
                format!("{} {}", self.failures(), kinds.join(", "))
                    .trim_end()
                    .to_owned(),
            ),
            ("first failure after the fault", option(self.first_failure)),
            ("last failure after the fault", option(self.last_failure)),
            ("recovery", option(self.recovery)),
            ("write gap", time(self.write_gap)),
            ("read gap", time(self.read_gap)),
            ("gap of reads from memory", option(self.cached_read_gap)),
            ("… at a replica itself", option(self.direct_cached_read_gap)),
            ("watch gap", time(self.watch_gap)),
            ("slowest write", time(self.slowest_write)),
            ("writes acknowledged", self.acknowledged.to_string()),
            ("writes lost", self.lost.to_string()),
            ("watch events", self.events.to_string()),
            ("events missing or doubled", self.wrong_events.to_string()),
            ("410s", self.gone.to_string()),
            ("relists", self.relists.to_string()),
            ("elections", self.leader_changes.to_string()),
            ("duties moved after", option(self.duties_moved)),
            ("writes refused by fences", self.refused_by_fences.to_string()),
            ("double effects", self.double_effects.to_string()),
            ("memory, most", format!("{} MiB", self.rss_peak >> 20)),
        ]
    }
}

/// The longest time that a client had no answer which does nothing but read from memory.
fn cached_read_gap(history: &History, from: Nanos, counts: impl Fn(&str) -> bool) -> Option<f64> {
    let mut answered: BTreeMap<&str, Vec<Nanos>> = BTreeMap::new();
    for op in history
        .ops
        .iter()
        .filter(|op| counts(&op.replica) && op.client.starts_with(CACHED_READERS))
    {
        let answers = answered.entry(&op.client).or_default();
        answers.extend((op.outcome == Outcome::Ok).then_some(op.returned));
    }
    let gaps = answered
        .into_values()
        .map(|answers| longest_gap(answers.into_iter(), from, history.run.ended));
    gaps.max_by(f64::total_cmp)
}

/// See [`Figures::duties_moved`]. A duty that has not moved when the fault is healed counts up to then.
fn duties_moved(history: &History, fault: &FaultRecord) -> Option<f64> {
    let hit: BTreeSet<&str> = fault.target.split(", ").collect();
    let mut victims = BTreeSet::new();
    let mut held: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut moved: BTreeMap<&str, Nanos> = BTreeMap::new();
    for record in &history.samples {
        match record {
            SampleRecord::Replica(sample) if sample.at < fault.at && hit.contains(sample.replica.as_str()) => {
                victims.extend(sample.id);
            }
            SampleRecord::Duty(DutySample {
                duty,
                holder: Some(holder),
                token,
                at,
                ..
            }) => {
                let before = held.get(duty.as_str()).copied().unwrap_or_default();
                if *at < fault.at {
                    held.insert(duty, before.max((*token, *holder)));
                } else if *at < fault.until && *token > before.0 && !victims.contains(holder) {
                    moved.entry(duty).or_insert(at - fault.at);
                }
            }
            _ => {}
        }
    }
    let lost: Vec<_> = held
        .iter()
        .filter(|(_, (_, holder))| victims.contains(holder))
        .map(|(duty, _)| *duty)
        .collect();
    let any = lost.iter().any(|duty| moved.contains_key(duty));
    let never = fault.until.saturating_sub(fault.at);
    let took = lost.iter().map(|duty| moved.get(duty).copied().unwrap_or(never));
    took.max().filter(|_| any).map(seconds)
}

/// The requests that figures count: the load, without the requests that open watches.
pub(super) fn is_load(op: &Op) -> bool {
    op.purpose == Purpose::Traffic && op.verb != RecordedVerb::Watch
}

pub(super) fn seconds(nanos: Nanos) -> f64 {
    // Whole milliseconds are exact, and enough.
    f64::from(u32::try_from(nanos / 1_000_000).unwrap_or(u32::MAX)) / 1000.0
}

/// The longest time without any of these moments, from one moment to another.
fn longest_gap(moments: impl Iterator<Item = Nanos>, from: Nanos, until: Nanos) -> f64 {
    let mut moments: Vec<_> = moments.filter(|moment| (from..until).contains(moment)).collect();
    moments.extend([from, until.max(from)]);
    moments.sort_unstable();
    let gaps = moments.windows(2).map(|pair| pair[1] - pair[0]);
    seconds(gaps.max().unwrap_or(0))
}

/// The time when the first good window after the fault began.
fn recovery(history: &History, traffic: &[&Op], fault: Nanos) -> Option<f64> {
    let mut by_end = traffic.to_vec();
    by_end.sort_unstable_by_key(|op| op.returned);
    let took = |from: Nanos, until: Nanos| {
        let place = |at| by_end.partition_point(|op| op.returned < at);
        let during = by_end.get(place(from)..place(until)).unwrap_or_default().iter();
        let mut took: Vec<_> = during.map(|op| op.returned - op.called).collect();
        (!took.is_empty()).then(|| percentile(&mut took, 99))
    };
    let before = took(history.run.warm, fault)?;
    let bad = traffic.iter().filter(|op| failed(op)).map(|op| op.returned);
    let bad: BTreeSet<_> = bad.filter(|at| *at >= fault).collect();
    let is_good = |from: Nanos| {
        let until = from + RECOVERED_FOR;
        bad.range(from..until).next().is_none() && took(from, until).is_some_and(|after| after < 2 * before)
    };
    let step = SECOND / 10;
    let latest = history.run.ended.checked_sub(RECOVERED_FOR)?;
    let mut starts = (0..)
        .map(|steps| fault + steps * step)
        .take_while(|from| *from <= latest);
    starts.find(|from| is_good(*from)).map(|from| seconds(from - fault))
}

/// The median of a figure over runs of one experiment; those that do not have it are left out.
pub fn median(runs: &[&Figures], figure: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<_> = runs.iter().filter_map(|figures| figure(figures)).collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 0 => Some(f64::midpoint(values[half - 1], values[half])),
        _ => Some(values[half]),
    }
}
