//! A run cut into short intervals, for its picture.

use serde::{Deserialize, Serialize};

use super::figures::{is_load, seconds};
use crate::{
    checks::{failed, percentile},
    history::{History, Nanos, SampleRecord},
};

/// The most intervals: as many as a picture can show.
const MOST: u64 = 240;
/// The shortest interval.
const SHORTEST: Nanos = 100_000_000;

/// A run over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The length of an interval, seconds.
    pub interval: f64,
    /// From the beginning.
    pub buckets: Vec<Bucket>,
    /// The faults of the run.
    pub faults: Vec<Shade>,
}

/// The events of an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Requests that ended well, a second.
    pub ops: f64,
    /// Requests that failed, a second.
    pub errors: f64,
    /// The 99th percentile of the latency, milliseconds; `None` if nothing ended.
    pub p99_ms: Option<f64>,
    /// The leader of the replicas' group, as the replica with the newest term sees it.
    pub leader: Option<u64>,
}

/// A fault in a picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shade {
    /// The fault, and its target.
    pub label: String,
    /// From, seconds.
    pub from: f64,
    /// Until, seconds.
    pub until: f64,
}

impl Timeline {
    /// Cuts a run.
    pub fn of(history: &History) -> Self {
        let ended = history
            .ops
            .iter()
            .map(|op| op.returned)
            .max()
            .unwrap_or(0)
            .max(history.run.ended);
        let interval = (ended.div_ceil(MOST)).max(SHORTEST);
        let count = usize::try_from(ended.div_ceil(interval)).unwrap_or(0);
        let mut buckets = vec![Bucket::default(); count];
        let place = |at: Nanos| usize::try_from(at / interval).unwrap_or(usize::MAX);
        let mut took: Vec<Vec<Nanos>> = vec![Vec::new(); count];
        let one = 1.0 / seconds(interval);
        for op in history.ops.iter().filter(|op| is_load(op)) {
            let at = place(op.returned);
            let Some(bucket) = buckets.get_mut(at) else { continue };
            if failed(op) {
                bucket.errors += one;
            } else {
                bucket.ops += one;
            }
            took[at].push(op.returned - op.called);
        }
        for (bucket, took) in buckets.iter_mut().zip(&mut took) {
            bucket.p99_ms = (!took.is_empty()).then(|| percentile(took, 99)).map(milliseconds);
        }
        leaders(history, &mut buckets, place);
        let faults = history.faults.iter().map(|fault| Shade {
            label: format!("{} {}", fault.name, fault.target),
            from: seconds(fault.at),
            until: seconds(fault.until),
        });
        Self {
            interval: seconds(interval),
            buckets,
            faults: faults.collect(),
        }
    }
}

fn milliseconds(nanos: Nanos) -> f64 {
    f64::from(u32::try_from(nanos / 1_000).unwrap_or(u32::MAX)) / 1000.0
}

/// The newest term of each interval decides; an interval without a sample keeps the leader of the one before.
fn leaders(history: &History, buckets: &mut [Bucket], place: impl Fn(Nanos) -> usize) {
    let mut terms = vec![None; buckets.len()];
    for record in &history.samples {
        let SampleRecord::Replica(sample) = record else {
            continue;
        };
        let Some(newest) = terms.get_mut(place(sample.at)) else {
            continue;
        };
        if sample.ready.is_some() {
            *newest = (*newest).max(Some((sample.term, sample.leader)));
        }
    }
    let mut last = None;
    for (bucket, seen) in buckets.iter_mut().zip(terms) {
        last = seen.map_or(last, |(_, leader)| leader);
        bucket.leader = last;
    }
}
