//! Every checker is able to fail: a valid history, one planted violation, and that number alone is reported.

mod access;
mod audit;
mod plants;
mod secrets;
mod webhooks;

use rand::{SeedableRng, rngs::StdRng};

use super::{Validity, check, generate, generate::generate};
use crate::history::{FaultResult, History, LogFindings, RecordKind, SampleRecord, TruthRecord, WatchRecord};

fn all() -> impl Iterator<Item = &'static plants::Plant> {
    let more = access::PLANTS.iter().chain(audit::PLANTS).chain(webhooks::PLANTS);
    plants::PLANTS.iter().chain(more)
}

#[test]
fn nothing_is_said_of_valid_histories() {
    for seed in 0..24 {
        let verdict = check(&generate(seed));
        let violations: Vec<_> = verdict.violations.iter().map(ToString::to_string).collect();
        assert_eq!(violations, Vec::<String>::new(), "seed {seed}");
        assert_eq!(verdict.validity, Validity::Valid, "seed {seed}");
    }
}

#[test]
fn slow_watchers_that_slow_no_client_are_not_blamed() {
    for seed in 0..6 {
        let mut history = generate(seed);
        history.faults.push(plants::slow_watchers());
        assert_eq!(check(&history).violations, [], "seed {seed}");
    }
}

#[test]
fn webhooks_that_are_endured_are_not_blamed() {
    for seed in 0..6 {
        let mut history = generate(seed);
        webhooks::failing(&mut history);
        assert_eq!(check(&history).violations, [], "seed {seed}");
    }
}

#[test]
fn a_wrong_clock_that_changes_nothing_is_not_blamed() {
    for seed in 0..6 {
        let mut history = generate(seed);
        history.faults.push(plants::wrong_clock(&history));
        assert_eq!(check(&history).violations, [], "seed {seed}");
    }
}

#[test]
fn refusing_writes_that_the_store_cannot_take_is_ready() {
    for seed in 0..6 {
        let mut history = generate(seed);
        plants::refuse_writes(&mut history);
        history.faults.push(plants::read_only());
        assert_eq!(check(&history).violations, [], "seed {seed}");
    }
}

#[test]
fn every_invariant_has_a_plant() {
    let planted: std::collections::BTreeSet<_> = all().map(|plant| plant.invariant).collect();
    let promised: std::collections::BTreeSet<_> = super::INVARIANTS.iter().map(|(number, _)| *number).collect();
    assert_eq!(planted, promised);
}

#[test]
fn every_planted_violation_is_found_and_nothing_else() {
    let mut wrong = Vec::new();
    let valid: Vec<_> = (0..6).map(generate).collect();
    for plant in all() {
        // Some harm can only be done to one kind of run.
        for (seed, history) in (0..).zip(valid.iter().skip(usize::from(plant.planned)).step_by(2)) {
            let mut history = history.clone();
            let mut rng = StdRng::seed_from_u64(seed);
            (plant.plant)(&mut history, &mut rng);
            if plant.invariant != 24 {
                generate::audit(&mut history);
            }
            let verdict = check(&history);
            let alone = verdict
                .violations
                .iter()
                .all(|found| found.invariant == plant.invariant);
            if verdict.violations.is_empty() || !alone {
                let texts = verdict.violations.iter().take(4).map(ToString::to_string);
                wrong.push((plant.invariant, plant.name, seed, texts.collect::<Vec<_>>()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn who_is_ready_again_while_a_fault_is_healed_does_not_lie() {
    let mut history = generate(0);
    let until = history.faults[0].until;
    let victim = history.faults[0].target.clone();
    let last = history.samples.iter_mut().rev().find_map(|record| match record {
        SampleRecord::Replica(sample) if sample.replica == victim && sample.at < until => Some(sample),
        _ => None,
    });
    let last = last.expect("a sample");
    last.ready = Some(true);
    let lifted = last.called;
    let is_lie = |history: &History| {
        let violations = check(history).violations;
        violations.iter().any(|found| found.to_string().contains("under kill"))
    };
    assert!(is_lie(&history), "as long as the fault lasts");
    history.faults[0].lifted = Some(lifted);
    assert!(!is_lie(&history));
}

#[test]
fn evidence_leads_to_the_records() {
    let mut history = generate(4);
    let op = secrets::PlantedSecret::new(&history, 0).create().op;
    history.ops.push(op.clone());
    generate::audit(&mut history);
    let verdict = check(&history);
    let [violation] = verdict.violations.as_slice() else {
        panic!("{verdict:?}")
    };
    let [super::Evidence::Op(index)] = violation.evidence.as_slice() else {
        panic!("{violation:?}")
    };
    assert_eq!(history.ops[*index], op);
}

/// Runs that show nothing: the message that each gets, and the change that makes it so.
type Invalid = (&'static str, fn(&mut History));

const INVALID: [Invalid; 12] = [
    ("50000 is the least", |history| history.run.limits.load_floor = 50_000),
    ("no second of steady load", |history| {
        history.run.warm = history.faults[0].at
    }),
    ("not seen to bite", |history| history.faults[0].observed = false),
    ("was skipped", |history| history.faults[0].result = FaultResult::Skipped),
    ("it is unknown whether", |history| {
        history.faults[0].result = FaultResult::Indeterminate
    }),
    ("deposed no leader", |history| {
        for record in &mut history.samples {
            if let SampleRecord::Replica(sample) = record {
                sample.fenced = 0;
            }
        }
    }),
    ("invariant 17", |history| {
        for record in &mut history.truth {
            if let TruthRecord::Entry(entry) = record {
                entry.fence = entry.fence.take().filter(|stamp| stamp.raised);
            }
        }
    }),
    ("invariant 18", |history| {
        for record in &mut history.truth {
            if let TruthRecord::Entry(entry) = record {
                entry.lease = None;
            }
        }
    }),
    ("invariant 12", |history| {
        let is_bookmark =
            |record: &WatchRecord| matches!(record, WatchRecord::Event(event) if event.kind == RecordKind::Bookmark);
        history.watches.retain(|record| !is_bookmark(record));
    }),
    ("up to the end", |history| {
        history
            .truth
            .retain(|record| !matches!(record, TruthRecord::End { .. }));
    }),
    ("has holes", |history| {
        let gap = |member: &str| TruthRecord::Gap {
            member: member.to_owned(),
            after: 50,
            until: 60,
        };
        history.truth.extend(["e1", "e2", "e3"].map(gap));
    }),
    ("report 1 changes differently", |history| {
        let entry = history.truth.iter_mut().rev().find_map(|record| match record {
            TruthRecord::Entry(entry) if !entry.deleted => Some(entry),
            _ => None,
        });
        entry.expect("there is one").hash ^= 1;
    }),
];

#[test]
fn runs_that_show_nothing_are_invalid() {
    for (expected, spoil) in INVALID {
        let mut history = generate(6);
        spoil(&mut history);
        let Validity::Invalid(reasons) = check(&history).validity else {
            panic!("{expected} is not noticed");
        };
        assert!(
            reasons.iter().any(|reason| reason.contains(expected)),
            "{expected}: {reasons:?}"
        );
    }
}

#[test]
fn no_promise_is_kept_of_which_nothing_was_recorded() {
    let mut history = generate(6);
    webhooks::failing(&mut history).attempts = 0;
    let fault = history.faults.last_mut().expect("it was added");
    (fault.planned, fault.times_only) = (true, true);
    history.ops.clear();
    history.watches.clear();
    history.caches.clear();
    history.samples.clear();
    history.access.clear();
    history.audit.clear();
    history.run.logs = Some(LogFindings::default());
    history.truth.retain(|record| !matches!(record, TruthRecord::Entry(_)));
    let Validity::Invalid(reasons) = check(&history).validity else {
        panic!("it is not noticed");
    };
    for (number, promise) in super::INVARIANTS {
        let expected = format!("nothing was recorded that invariant {number} ({promise}) could fail by");
        assert!(reasons.contains(&expected), "{expected}: {reasons:#?}");
    }
}

#[test]
fn a_run_without_time_to_recover_is_invalid() {
    let mut history = generate(6);
    history.run.ended = history.faults[0].until + 1;
    assert!(!check(&history).validity.is_valid());
    let mut history = generate(6);
    let heal = history.faults[0].until;
    history.ops.retain(|op| op.replica != "r3" || op.called < heal);
    assert!(!check(&history).validity.is_valid(), "there was no probe of r3");
}

/// Gaps in etcd's own history are no violations.
#[test]
fn holes_are_not_held_against_the_system() {
    for seed in 0..10 {
        let mut history = generate(2 * seed);
        let (after, until) = (40, 90);
        history.truth.retain(|record| match record {
            TruthRecord::Entry(entry) => entry.revision <= after || entry.revision >= until,
            _ => true,
        });
        let gap = |member: &str| TruthRecord::Gap {
            member: member.to_owned(),
            after,
            until,
        };
        history.truth.extend(["e1", "e2", "e3"].map(gap));
        let verdict = check(&history);
        let texts: Vec<_> = verdict.violations.iter().map(ToString::to_string).collect();
        assert_eq!(texts, Vec::<String>::new(), "seed {seed}");
    }
}
