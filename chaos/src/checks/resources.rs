//! Invariants 15 (what slow watchers do to others) and 29 (memory and file descriptors).

use std::ops::Range;

use super::{
    Evidence, Violation,
    liveness::{installed, replica_samples},
};
use crate::history::{FaultRecord, History, Nanos, Op, Outcome, Purpose, RecordedVerb};

/// Fewer requests say nothing about a percentile.
const ENOUGH: usize = 100;

/// The most parts of a span whose percentiles are taken one by one. The median of them is compared, as the machine itself may
/// stop for a moment: what slow watchers cost others they cost for as long as they are there.
const MOST_PARTS: usize = 5;

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut violations = bounded(history);
    violations.extend(beside_slow_watchers(history));
    violations
}

/// The least value that so many per cent do not exceed; 0 of nothing.
pub(crate) fn percentile(values: &mut [Nanos], per_cent: usize) -> Nanos {
    let place = (values.len() * per_cent).div_ceil(100).saturating_sub(1);
    if values.is_empty() {
        return 0;
    }
    *values.select_nth_unstable(place).1
}

/// 29: memory within its budget, and file descriptors given back.
fn bounded(history: &History) -> Vec<Violation> {
    let limits = &history.run.limits;
    let mut violations = Vec::new();
    let first_fault = installed(history)
        .map(|(_, fault)| fault.at)
        .min()
        .unwrap_or(history.run.ended);
    for replica in &history.run.replicas {
        let own = || replica_samples(history).filter(|(_, sample)| sample.replica == *replica && sample.pid != 0);
        let peak = own().max_by_key(|(_, sample)| sample.rss);
        if let Some((index, sample)) =
            peak.filter(|(_, sample)| limits.rss_budget > 0 && sample.rss > limits.rss_budget)
        {
            let text = format!("{replica} took {} MiB of memory", sample.rss >> 20);
            violations.push(Violation::new(29, text, [Evidence::Sample(index)]));
        }
        let before = own().filter(|(_, sample)| (history.run.warm..=first_fault).contains(&sample.at));
        let base = before.map(|(_, sample)| sample.fds).max();
        let last = own().max_by_key(|(_, sample)| sample.at);
        if let (Some(base), Some((index, sample))) = (base, last)
            && sample.fds > base + limits.fd_slack
        {
            let text = format!("{replica} holds {} file descriptors, {base} before", sample.fds);
            violations.push(Violation::new(29, text, [Evidence::Sample(index)]));
        }
    }
    violations
}

/// 15: requests take as long beside slow watchers as before them.
fn beside_slow_watchers(history: &History) -> Vec<Violation> {
    let slow = slow_watchers(history);
    slow.filter_map(|(place, fault)| beside(history, place, fault))
        .collect()
}

fn slow_watchers(history: &History) -> impl Iterator<Item = (usize, &FaultRecord)> {
    installed(history).filter(|(_, fault)| fault.slow_watchers.is_some())
}

/// Returns true if the time without slow watchers can be compared with that beside them, if there are any.
pub(super) fn can_be_compared(history: &History) -> bool {
    slow_watchers(history).all(|(_, fault)| percentiles(history, fault).is_some())
}

/// The 99th percentile without slow watchers, and beside them.
fn percentiles(history: &History, slow: &FaultRecord) -> Option<(Nanos, Nanos)> {
    // Another fault would be blamed on the watchers.
    let meets = |other: &FaultRecord| other.at < slow.until;
    if installed(history).any(|(_, other)| other.slow_watchers.is_none() && meets(other)) {
        return None;
    }
    let without = slow.slow_watchers.as_ref()?;
    Some((
        median_p99(history, without)?,
        median_p99(history, &(slow.at..slow.until))?,
    ))
}

fn beside(history: &History, place: usize, slow: &FaultRecord) -> Option<Violation> {
    let (alone, beside) = percentiles(history, slow)?;
    let limits = &history.run.limits;
    let allowed = alone + alone / 100 * limits.slow_watch_percent + limits.slow_watch_noise;
    (beside > allowed).then(|| {
        let ms = |nanos: Nanos| nanos / 1_000_000;
        let text = format!(
            "the 99th percentile of others went from {} ms to {} ms when watchers were slow",
            ms(alone),
            ms(beside)
        );
        Violation::new(15, text, [Evidence::Fault(place)])
    })
}

/// The 99th percentile of how long requests took that began within a span, the median of its parts; none of too few requests.
fn median_p99(history: &History, span: &Range<Nanos>) -> Option<Nanos> {
    let ops = history.ops.iter();
    let ops =
        ops.filter(|op| op.purpose == Purpose::Traffic && op.outcome == Outcome::Ok && op.verb != RecordedVerb::Watch);
    let mut during: Vec<_> = ops.filter(|op| span.contains(&op.called)).collect();
    during.sort_by_key(|op| op.called);
    let parts = (during.len() / ENOUGH).min(MOST_PARTS);
    let length = during.len().checked_div(parts)?;
    let p99 = |part: &[&Op]| {
        let mut took: Vec<Nanos> = part.iter().map(|op| op.returned - op.called).collect();
        percentile(&mut took, 99)
    };
    let mut found: Vec<Nanos> = during.chunks_exact(length).map(p99).collect();
    Some(percentile(&mut found, 50))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::generate::{MS, generate};
    use crate::history::SECOND;

    /// Requests of 10 ms every 5 ms, for 8 s without and 8 s with slow watchers; those that begin in a span take 300 ms.
    fn history(slower: Range<Nanos>) -> History {
        let like = generate(0).ops.into_iter();
        let like = like.filter(|op| op.purpose == Purpose::Traffic && op.outcome == Outcome::Ok);
        let like: Vec<_> = like.filter(|op| op.verb == RecordedVerb::Get).take(1).collect();
        let at = (0..3_200).map(|number| number * 5 * MS);
        let ops = at.zip(like.iter().cycle()).map(|(called, like)| Op {
            called,
            returned: called + if slower.contains(&called) { 300 * MS } else { 10 * MS },
            ..like.clone()
        });
        let slow = FaultRecord {
            at: 8 * SECOND,
            until: 16 * SECOND,
            slow_watchers: Some(0..8 * SECOND),
            ..FaultRecord::default()
        };
        History {
            ops: ops.collect(),
            faults: vec![slow],
            ..History::default()
        }
    }

    #[test]
    fn slow_watchers_are_blamed_for_what_lasts_and_not_for_a_moment_in_which_the_machine_stops() {
        let blamed = |slower| !beside_slow_watchers(&history(slower)).is_empty();
        assert!(!blamed(0..0));
        assert!(!blamed(12 * SECOND..14 * SECOND), "a moment");
        assert!(blamed(10 * SECOND..16 * SECOND));
        assert!(!blamed(0..16 * SECOND), "it was so before");
    }
}
