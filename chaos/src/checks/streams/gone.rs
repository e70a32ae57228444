//! Invariant 13, one half: a 410 needs a reason. The other half, silence, is a gap: see `walk`.

use std::collections::HashSet;

use super::Stream;
use crate::{
    checks::{Evidence, Ledger, Violation},
    history::{BALANCER, History, Nanos, SampleRecord, StreamEnd},
};

pub(super) fn check(ledger: &Ledger<'_>, stream: &Stream<'_>) -> Option<Violation> {
    let end = stream.end.filter(|end| end.how == StreamEnd::Gone410)?;
    let asked = stream.reached().max(stream.resumes);
    let why = match asked {
        None => "a stream that begins with the state cannot be too old".to_owned(),
        Some(asked) => {
            let head = ledger.known_before(end.at);
            let window = ledger.history.run.limits.watch_window;
            let old = window > 0 && head.saturating_sub(asked) > window;
            // A client that reads slowly on purpose falls behind on purpose.
            let slow = stream.start.reads_per_second.is_some();
            let dropped = asked <= ledger.compacted_before(end.at);
            if old || slow || dropped || began_after(ledger, &stream.start.replica, asked, end.at) {
                return None;
            }
            format!("{asked} is not gone: {head} was the newest, and nothing at or above {asked} was compacted")
        }
    };
    let text = format!("{} got 410 at {}: {why}", stream.start.client, stream.start.replica);
    Some(Violation::new(13, text, [Evidence::Watch(stream.index)]))
}

/// Returns true if the process that answered was started when the revision was past already: it has no memory of it.
fn began_after(ledger: &Ledger<'_>, replica: &str, revision: u64, until: Nanos) -> bool {
    let mut starts = restarts(ledger.history);
    starts.any(|(who, at)| (who == replica || replica == BALANCER) && at < until && ledger.known_before(at) > revision)
}

/// The time when each process was seen first.
fn restarts(history: &History) -> impl Iterator<Item = (&str, Nanos)> {
    let mut seen = HashSet::new();
    let samples = history.samples.iter().filter_map(|record| match record {
        SampleRecord::Replica(sample) if sample.pid != 0 => Some(sample),
        _ => None,
    });
    samples
        .filter(move |sample| seen.insert((&sample.replica, sample.pid)))
        .map(|sample| (sample.replica.as_str(), sample.at))
}
