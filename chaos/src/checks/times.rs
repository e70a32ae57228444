//! Invariant 30: a wall clock decides about nothing but the times in objects.

use std::{collections::BTreeMap, ops::Range};

use super::{
    Evidence, Violation,
    liveness::{failed, installed, replica_samples},
};
use crate::history::{FaultRecord, History, Nanos, Purpose, RecordedVerb, SampleRecord};

pub(super) fn check(history: &History) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (place, fault) in installed(history).filter(|(_, fault)| fault.times_only) {
        let meets = |other: &FaultRecord| other.at <= fault.until && fault.at <= other.until;
        // Else the cause would be unknown.
        if installed(history).any(|(other, record)| other != place && meets(record)) {
            continue;
        }
        let wrong = Wrong { history, place, fault };
        violations.extend(wrong.failures());
        violations.extend(wrong.election());
        violations.extend(wrong.moves());
    }
    violations
}

/// A clock that was wrong for a while.
struct Wrong<'a> {
    history: &'a History,
    place: usize,
    fault: &'a FaultRecord,
}

impl Wrong<'_> {
    fn violation(&self, text: &str, evidence: Evidence) -> Violation {
        let FaultRecord { name, target, .. } = self.fault;
        let text = format!("{text}, and all that was wrong is that {name}: {target}");
        Violation::new(30, text, [Evidence::Fault(self.place), evidence])
    }

    /// As long as it lasts, and then as long as the system may take to come to rest, or until something else happens.
    fn span(&self) -> Range<Nanos> {
        let rest = self.fault.until.saturating_add(self.history.run.limits.liveness);
        let later = installed(self.history).map(|(_, fault)| fault.at);
        let next = later.filter(|at| *at > self.fault.until).min();
        self.fault.at..next.map_or(rest, |next| next.min(rest))
    }

    /// No request fails.
    fn failures(&self) -> impl Iterator<Item = Violation> {
        let ops = self.history.ops.iter().enumerate();
        let failed = ops.filter(|(_, op)| {
            let during = op.called <= self.fault.until && self.fault.at <= op.returned;
            during && op.purpose == Purpose::Traffic && op.verb != RecordedVerb::Watch && failed(op)
        });
        failed.map(|(index, op)| {
            let text = format!("a request of {} failed ({} {})", op.client, op.code, op.error);
            self.violation(&text, Evidence::Op(index))
        })
    }

    /// The group keeps its leader.
    fn election(&self) -> Option<Violation> {
        let span = self.span();
        let known = replica_samples(self.history).filter_map(|(_, sample)| {
            let leader = (sample.term, sample.leader?);
            (sample.at <= span.start).then_some(leader)
        });
        let known = known.max()?;
        let (index, sample) = replica_samples(self.history).find(|(_, sample)| {
            let other = sample.leader.is_some_and(|leader| (sample.term, leader) != known);
            other && sample.called >= span.start && sample.at < span.end
        })?;
        let text = format!(
            "{} saw an election: term {} in place of {}",
            sample.replica, sample.term, known.0
        );
        Some(self.violation(&text, Evidence::Sample(index)))
    }

    /// Duties stay with whom they are.
    fn moves(&self) -> Vec<Violation> {
        let span = self.span();
        let mut tokens: BTreeMap<&str, u64> = BTreeMap::new();
        let mut violations = Vec::new();
        for (index, record) in self.history.samples.iter().enumerate() {
            let SampleRecord::Duty(sample) = record else { continue };
            if sample.at <= span.start {
                let token = tokens.entry(&sample.duty).or_default();
                *token = sample.token.max(*token);
            }
            if let Some(token) = tokens.get_mut(sample.duty.as_str())
                && span.contains(&sample.at)
                && sample.token > *token
            {
                let text = format!("{} changed hands: token {} after {token}", sample.duty, sample.token);
                violations.push(self.violation(&text, Evidence::Sample(index)));
                // One move is reported once, not with each sample.
                *token = sample.token;
            }
        }
        violations
    }
}
