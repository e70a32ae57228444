//! The checks hold for the kept corpus and for all that was recorded of kube-apiserver, without a fuzzing engine.

use std::{
    collections::BTreeSet,
    fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
};

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use trireme_fuzz::{TARGETS, within_a_second};

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn names(paths: &[PathBuf]) -> BTreeSet<String> {
    let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    paths.iter().filter_map(stem).collect()
}

#[test]
fn the_kept_corpus_holds() {
    let mut broken = Vec::new();
    for (name, check) in TARGETS {
        let seeds = entries(&folder().join("corpus").join(name));
        assert!(seeds.len() > 4, "{name} has seeds");
        for seed in seeds {
            let data = fs::read(&seed).expect("a seed can be read");
            if catch_unwind(|| within_a_second(check, &data)).is_err() {
                broken.push(seed);
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
#[should_panic(expected = "one input took")]
fn an_input_that_takes_a_second_is_a_finding() {
    fn seconds() -> i64 {
        clock_gettime(ClockId::ThreadCPUTime).tv_sec
    }
    let slow = |_: &[u8]| {
        let end = seconds() + 2;
        while seconds() < end {}
    };
    within_a_second(slow, b"");
}

#[test]
fn every_target_has_its_check_and_its_seeds() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&entries(&folder().join("fuzz_targets"))), listed);
    assert_eq!(names(&entries(&folder().join("corpus"))), listed);
}

/// Recorded requests and answers of kube-apiserver, as objects and as what replaces them.
#[test]
fn what_was_recorded_holds() {
    let recorded = folder().join("../tests/reference");
    let files = entries(&recorded)
        .into_iter()
        .filter(|path| path.is_dir())
        .flat_map(|path| entries(&path));
    let mut seen = BTreeSet::new();
    for file in files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")) {
        let text = fs::read_to_string(&file).expect("a recording can be read");
        for scenario in text.lines() {
            let scenario: Value = serde_json::from_str(scenario).expect("a recording is JSON");
            for step in scenario["steps"].as_array().into_iter().flatten() {
                let (sent, answered) = (step["body"].to_string(), step["expect"]["body"].to_string());
                seen.extend([format!("{sent}\n{answered}"), answered]);
            }
        }
    }
    assert!(seen.len() > 2_000, "{} recorded objects", seen.len());
    for input in seen {
        trireme_fuzz::kinds::check(input.as_bytes());
        trireme_fuzz::yaml::check(input.as_bytes());
    }
}
