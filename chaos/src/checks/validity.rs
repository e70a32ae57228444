//! True if a run can show anything. One without enough load, or whose fault did not bite, has not passed.

use serde::{Deserialize, Serialize};

use super::{
    Ledger, inputs,
    liveness::{heals, installed, replica_samples},
};
use crate::history::{FaultResult, History, Nanos, Outcome, Purpose, RecordedVerb, SECOND};

/// True if a run counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", content = "because", rename_all = "lowercase")]
pub enum Validity {
    /// It does.
    #[default]
    Valid,
    /// It does not, for these reasons.
    Invalid(Vec<String>),
}

impl Validity {
    /// Returns true if it counts.
    pub fn is_valid(&self) -> bool {
        *self == Self::Valid
    }
}

pub(super) fn check(ledger: &Ledger<'_>) -> Validity {
    let history = ledger.history;
    let mut reasons = too_little_load(history);
    reasons.extend(faults_that_did_not_bite(history));
    reasons.extend(unasked_replicas(history));
    reasons.extend(inputs::missing(ledger));
    match ledger.head {
        None => reasons.push("there is no record of what etcd did up to the end".to_owned()),
        Some(head) if !ledger.covers(0, head) => reasons.push("etcd's history has holes".to_owned()),
        Some(_) => {}
    }
    if !ledger.disagreements.is_empty() {
        let count = ledger.disagreements.len();
        reasons.push(format!("etcd's members report {count} changes differently"));
    }
    if reasons.is_empty() {
        Validity::Valid
    } else {
        Validity::Invalid(reasons)
    }
}

fn too_little_load(history: &History) -> Vec<String> {
    let run = &history.run;
    let first_fault = history.faults.iter().map(|fault| fault.at).min();
    let until = first_fault.unwrap_or(run.ended);
    let steady: Nanos = until.saturating_sub(run.warm);
    if steady < SECOND {
        return vec!["there was no second of steady load before the first fault".to_owned()];
    }
    let answered = history.ops.iter().filter(|op| {
        let counts = op.purpose == Purpose::Traffic && op.verb != RecordedVerb::Watch && op.outcome == Outcome::Ok;
        counts && (run.warm..until).contains(&op.returned)
    });
    let answered = answered.count() as u64;
    let rate = u128::from(answered) * u128::from(SECOND) / u128::from(steady);
    if rate < u128::from(run.limits.load_floor) {
        let floor = run.limits.load_floor;
        return vec![format!(
            "only {rate} requests a second before the first fault; {floor} is the least"
        )];
    }
    Vec::new()
}

fn faults_that_did_not_bite(history: &History) -> Vec<String> {
    let mut reasons = Vec::new();
    for fault in &history.faults {
        let what = format!("{} of {}", fault.name, fault.target);
        match fault.result {
            FaultResult::Skipped => reasons.push(format!("{what} was skipped: {}", fault.detail)),
            FaultResult::Indeterminate => {
                reasons.push(format!("it is unknown whether {what} was done: {}", fault.detail))
            }
            FaultResult::Installed if !fault.observed => reasons.push(format!("{what} was not seen to bite")),
            FaultResult::Installed => {}
        }
        if fault.deposes && !counted_a_refusal(history, fault.at) {
            reasons.push(format!("{what} deposed no leader: no fence refused a write"));
        }
    }
    reasons
}

/// Returns true if some process has counted a refused write since then.
fn counted_a_refusal(history: &History, since: Nanos) -> bool {
    let counts = |before: bool| {
        let samples = replica_samples(history).map(|(_, sample)| sample);
        samples.filter(move |sample| (sample.at < since) == before)
    };
    counts(false).any(|sample| {
        let earlier = counts(true).filter(|earlier| earlier.replica == sample.replica && earlier.pid == sample.pid);
        sample.fenced > earlier.map(|earlier| earlier.fenced).max().unwrap_or(0)
    })
}

/// A heal is judged by requests to each replica.
fn unasked_replicas(history: &History) -> Vec<String> {
    let mut reasons = Vec::new();
    let settled = heals(history);
    let healed = installed(history).any(|(_, fault)| fault.until < history.run.ended);
    if healed && settled.is_empty() {
        reasons.push("the run ended before the system had its time to recover".to_owned());
    }
    for heal in settled {
        let window = heal..=heal + history.run.limits.liveness;
        for replica in &history.run.replicas {
            let asked = |writes: bool| {
                let mut ops = history.ops.iter().filter(|op| op.replica == *replica);
                ops.any(|op| op.verb.writes() == writes && window.contains(&op.called))
            };
            if !asked(true) || !asked(false) {
                reasons.push(format!("{replica} was not asked to write and read after a heal"));
            }
        }
    }
    reasons
}
