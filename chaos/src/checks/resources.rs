//! Invariants 15 (what slow watchers do to others) and 29 (memory and file descriptors).

use std::ops::Range;

use super::{
    Evidence, Violation,
    liveness::{installed, replica_samples},
};
use crate::history::{FaultRecord, History, Nanos, Outcome, Purpose, RecordedVerb};

/// Fewer requests say nothing about a percentile.
const ENOUGH: usize = 100;

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
    let slow = installed(history).filter_map(|(place, fault)| Some((place, fault, fault.slow_watchers.as_ref()?)));
    slow.filter_map(|(place, fault, without)| beside(history, place, fault, without))
        .collect()
}

fn beside(history: &History, place: usize, slow: &FaultRecord, without: &Range<Nanos>) -> Option<Violation> {
    // Another fault would be blamed on the watchers.
    let meets = |other: &FaultRecord| other.at < slow.until;
    if installed(history).any(|(_, other)| other.slow_watchers.is_none() && meets(other)) {
        return None;
    }
    let p99 = |span: &Range<Nanos>| {
        let ops = history.ops.iter();
        let ops = ops
            .filter(|op| op.purpose == Purpose::Traffic && op.outcome == Outcome::Ok && op.verb != RecordedVerb::Watch);
        let during = ops.filter(|op| span.contains(&op.called));
        let mut took: Vec<Nanos> = during.map(|op| op.returned - op.called).collect();
        (took.len() >= ENOUGH).then(|| percentile(&mut took, 99))
    };
    let (alone, beside) = (p99(without)?, p99(&(slow.at..slow.until))?);
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
