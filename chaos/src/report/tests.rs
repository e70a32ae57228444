use std::collections::BTreeMap;

use super::*;
use crate::{
    checks::{generate::generate, percentile},
    history::{Outcome, Purpose, RecordedVerb, SECOND, SampleRecord},
};

fn results() -> Vec<ExperimentResult> {
    (0..4).map(|seed| ExperimentResult::of(&generate(seed))).collect()
}

#[test]
fn figures_are_those_of_the_history() {
    let mut history = generate(2);
    let fault = history.faults[0].at;
    // The only failures after the fault: one 504, and one second without any answered write.
    let load = |op: &crate::history::Op| op.purpose == Purpose::Traffic && op.verb != RecordedVerb::Watch;
    history
        .ops
        .retain(|op| !(load(op) && op.outcome == Outcome::Unknown && op.returned >= fault));
    history
        .ops
        .retain(|op| !(op.verb.writes() && (fault..fault + SECOND).contains(&op.returned)));
    let late = history
        .ops
        .iter_mut()
        .find(|op| load(op) && op.verb == RecordedVerb::Get && op.called >= fault);
    let late = late.expect("a read after the fault");
    (late.code, late.outcome, late.returned) = (504, Outcome::Unknown, fault + SECOND / 2);
    let figures = Figures::of(&history, &[]);
    assert_eq!(figures.failed_after_fault, 1);
    assert_eq!(figures.first_failure, Some(0.5));
    assert_eq!(figures.last_failure, Some(0.5));
    assert!(figures.failed["504"] >= 1, "{:?}", figures.failed);
    assert!((1.0..1.5).contains(&figures.write_gap), "{}", figures.write_gap);
    assert!(figures.read_gap < 0.6, "{}", figures.read_gap);
    assert_eq!(
        (figures.gone, figures.leader_changes, figures.refused_by_fences),
        (1, 1, 1)
    );
    let moved = figures.duties_moved.expect("the duty moved");
    assert!((0.5..1.0).contains(&moved), "{moved}");
    let mut returned = history.samples.iter().rev().find_map(|sample| match sample {
        SampleRecord::Duty(sample) => Some(sample.clone()),
        SampleRecord::Replica(_) => None,
    });
    let returned = returned.as_mut().expect("duties are sampled");
    (returned.at, returned.token) = (history.faults[0].until + SECOND, returned.token + 1);
    history.samples.push(SampleRecord::Duty(returned.clone()));
    let with_a_later_move = Figures::of(&history, &[]).duties_moved;
    assert_eq!(
        with_a_later_move,
        Some(moved),
        "what moves after the heal is not the fault's doing"
    );
    assert!(figures.recovery.expect("it recovers") <= 0.6);
    assert!(figures.events > 1000 && figures.acknowledged > 300);
}

#[test]
fn medians_leave_out_what_was_not_measured() {
    let figures = |recovery| Figures {
        recovery,
        ..Figures::default()
    };
    let runs = [Some(3.0), None, Some(1.0), Some(2.0)].map(figures);
    let runs: Vec<_> = runs.iter().collect();
    assert_eq!(median(&runs, |figures| figures.recovery), Some(2.0));
    assert_eq!(median(&runs[..3], |figures| figures.recovery), Some(2.0));
    assert_eq!(median(&[], |figures| figures.recovery), None);
}

#[test]
fn percentiles_are_of_the_values() {
    let mut values: Vec<_> = (1..=200).rev().collect();
    assert_eq!(percentile(&mut values, 99), 198);
    assert_eq!(percentile(&mut values, 50), 100);
    assert_eq!(percentile(&mut [7], 99), 7);
    assert_eq!(percentile(&mut [], 99), 0);
}

#[test]
fn targets_are_read_from_valid_runs_alone() {
    let lost = TARGETS
        .iter()
        .find(|target| target.fault.contains("writes lost"))
        .expect("a target");
    let mut results = results();
    let (text, reached) = lost.got(&results).expect("there are runs");
    assert!(
        text.starts_with("0 beside") && !reached,
        "too few writes to say so: {text}"
    );
    results[0].figures.acknowledged = 100_000;
    assert!(lost.got(&results).expect("there are runs").1);
    results[1].figures.lost = 1;
    assert!(!lost.got(&results).expect("there are runs").1);
    for result in &mut results {
        result.validity = Validity::Invalid(vec!["no load".to_owned()]);
    }
    assert_eq!(lost.got(&results), None);
}

#[test]
fn every_target_of_the_table_can_be_missed() {
    let bad = Figures {
        failed: BTreeMap::from([("504".to_owned(), 9)]),
        last_failure: Some(60.0),
        write_gap: 60.0,
        cached_read_gap: Some(60.0),
        duties_moved: Some(60.0),
        relists: 3,
        lost: 1,
        wrong_events: 1,
        ..Figures::default()
    };
    let mut result = results().remove(0);
    result.figures = bad;
    for target in TARGETS {
        result.name = target.experiments.first().copied().unwrap_or("any").to_owned();
        let (text, reached) = target.got(std::slice::from_ref(&result)).expect("measured");
        assert!(!reached, "{}: {text}", target.fault);
    }
}

#[test]
fn the_page_holds_everything_and_needs_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut results = results();
    results[0].validity = Validity::Invalid(vec!["the load was <low>".to_owned()]);
    results[1].violations.push(Violation {
        invariant: 8,
        text: "a & b".to_owned(),
        evidence: Vec::new(),
    });
    results[2].left_out.push("a reload: not <here>".to_owned());
    write(dir.path(), &results).expect("it is written");
    let page = fs::read_to_string(dir.path().join("index.html")).expect("a page");
    for text in [
        "kill-leader",
        "rolling-restart",
        "&lt;low&gt;",
        "a &amp; b",
        "no update is lost",
        "1 invalid",
        "over nothing",
        "Left out: a reload: not &lt;here&gt;",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("<svg").count(), 4);
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(
        !outside.contains("http") && !outside.contains("src="),
        "no outside assets"
    );
    let json = fs::read(dir.path().join("index.json")).expect("the same for programs");
    let read: Vec<ExperimentResult> = serde_json::from_slice(&json).expect("results");
    assert_eq!(read.len(), 4);
    assert_eq!(read[1].violations, results[1].violations);
}

#[test]
fn a_picture_shows_faults_errors_and_leaders() {
    let result = ExperimentResult::of(&generate(4));
    let svg = picture(&result);
    for part in [
        "class=\"fault\"",
        "kill r2",
        "class=\"bad\"",
        "class=\"slow\"",
        "class=\"l2\"",
        "class=\"l3\"",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn an_empty_run_has_a_picture_too() {
    let result = ExperimentResult::of(&History::default());
    assert_eq!(result.verdict(), "invalid");
    assert!(!picture(&result).contains("NaN"));
}
