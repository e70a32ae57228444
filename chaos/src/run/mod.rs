//! Experiments in a row, each in a world of its own: load, one fault, a history, and what the checkers say of it.

mod experiments;
mod one;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::checks::Validity;
use crate::history::{FaultRecord, History};
use crate::report::{self, ExperimentResult, TARGETS};
use crate::traffic::TrafficPace;
use crate::world::{World, WorldTarget};
use one::Setup;

pub use experiments::{Experiment, all};

/// The number of violations of one run are printed; the report has all.
const SHOWN_VIOLATIONS: usize = 10;

/// The number of tries of a run that shows nothing, on a machine that was busy with something else for a moment, say. A
/// broken promise is never tried again.
const ATTEMPTS: u64 = 3;

/// The experiments to run.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// Decides moments, victims and the load.
    pub seed: u64,
    /// Only the experiments that show most, once each.
    pub short: bool,
    /// Only experiments with one of these names, if any is given.
    pub only: Vec<String>,
    /// The number of repetitions of each, in place of its own number.
    pub repeats: Option<usize>,
    /// The place where the world runs.
    pub target: WorldTarget,
    /// The server's binary.
    pub server: PathBuf,
    /// Replicas that do not know of each other, in place of a group.
    pub alone: bool,
    /// The directory of the report, and of histories of runs that show something.
    pub report: PathBuf,
    /// Keep every history.
    pub keep: bool,
}

/// The overall result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conclusion {
    /// All promises were kept.
    #[default]
    Kept,
    /// A run showed nothing, however often it was tried: too little load, or the fault did not bite.
    Invalid,
    /// A promise was broken.
    Violated,
}

impl Conclusion {
    /// The verdict on a run. A promise that was broken in an invalid run was broken.
    pub fn of(result: &ExperimentResult) -> Self {
        match &result.validity {
            _ if !result.violations.is_empty() => Self::Violated,
            Validity::Valid => Self::Kept,
            Validity::Invalid(_) => Self::Invalid,
        }
    }
}

/// Runs them and writes the report.
///
/// # Errors
/// In words, if nothing could be run.
pub async fn run(settings: &RunSettings) -> Result<Conclusion, String> {
    let (chosen, impossible): (Vec<_>, Vec<_>) = chosen(settings)?
        .into_iter()
        .partition(|(experiment, _)| !experiment.faults.is_empty());
    for (experiment, _) in &impossible {
        println!("{} is left out: {}", experiment.name, experiment.left_out.join("; "));
    }
    if chosen.is_empty() {
        return Err("none of these experiments can be done here".to_owned());
    }
    let setup = Setup {
        server: settings.server.clone(),
        target: settings.target,
        group: !settings.alone,
        commit: commit(),
    };
    // Else every experiment would say the same, three times.
    let possible = World::check(&one::settings(&setup)).await;
    possible.map_err(|error| one::chain(&error))?;
    let runs: usize = chosen.iter().map(|(_, repeats)| repeats).sum();
    println!(
        "{runs} runs of {} experiments {}, seed {}, commit {}",
        chosen.len(),
        settings.target,
        settings.seed,
        setup.commit
    );
    let mut seeds = StdRng::seed_from_u64(settings.seed);
    let mut results = Vec::new();
    let mut not_passed = Vec::new();
    let mut conclusion = Conclusion::Kept;
    let began = Instant::now();
    for (experiment, repeats) in &chosen {
        for repeat in 1..=*repeats {
            let seed: u64 = seeds.random();
            let at = began.elapsed().as_secs();
            println!(
                "[{:>2}:{:02}] {} ({repeat}/{repeats}): {}",
                at / 60,
                at % 60,
                experiment.name,
                experiment.what()
            );
            for fault in &experiment.left_out {
                println!("        left out: {fault}");
            }
            for attempt in 0..ATTEMPTS {
                let dir = run_dir(&settings.report, experiment.name, repeat, attempt);
                let outcome = one::run(&setup, experiment, seed.wrapping_add(attempt), &dir).await;
                let (concluded, result) = judge(settings, &dir, outcome);
                let shortcoming = match &result {
                    Some(result) => shortcoming(result),
                    None => Some("could not be done".to_owned()),
                };
                not_passed.extend(shortcoming.map(|why| format!("{}: {why}", dir.display())));
                results.extend(result);
                // After each run, so that a run that is broken off leaves what it found.
                report::write(&settings.report, &results).map_err(|error| format!("write the report: {error}"))?;
                if concluded != Conclusion::Invalid || attempt + 1 == ATTEMPTS {
                    conclusion = conclusion.max(concluded);
                    break;
                }
                println!("        again, as this run shows nothing");
            }
        }
    }
    print_targets(&results);
    println!("{}", settings.report.join("index.html").display());
    // Last, as the end of a log is what is kept of it.
    not_passed.iter().for_each(|line| println!("{line}"));
    Ok(conclusion)
}

/// The first reason why a run does not count as passed; none if it does.
fn shortcoming(result: &ExperimentResult) -> Option<String> {
    match (result.violations.split_first(), &result.validity) {
        (Some((first, [])), _) => Some(format!("violated: {first}")),
        (Some((first, more)), _) => Some(format!("violated: {first}; {} more", more.len())),
        (None, Validity::Invalid(reasons)) => Some(format!("invalid: {}", reasons.join("; "))),
        (None, Validity::Valid) => None,
    }
}

fn run_dir(report: &Path, experiment: &str, repeat: usize, attempt: u64) -> PathBuf {
    let again = if attempt == 0 {
        String::new()
    } else {
        format!(".{attempt}")
    };
    report.join("runs").join(format!("{experiment}-{repeat}{again}"))
}

/// Prints what came of a run, and keeps its history if it is worth a look.
fn judge(settings: &RunSettings, dir: &Path, outcome: Result<(), String>) -> (Conclusion, Option<ExperimentResult>) {
    let read = History::read(dir).map_err(|error| one::chain(&error));
    let history = match (outcome, read) {
        (Ok(()), Ok(history)) => history,
        (Err(why), _) | (_, Err(why)) => {
            println!("        could not be done: {why}");
            return (Conclusion::Invalid, None);
        }
    };
    let result = ExperimentResult::of(&history);
    let conclusion = Conclusion::of(&result);
    print_result(&result, &history.faults);
    if conclusion == Conclusion::Kept && !settings.keep {
        // Directories that cannot be deleted do no harm.
        let _ = std::fs::remove_dir_all(dir);
    } else {
        println!("        history: {}", dir.display());
    }
    (conclusion, Some(result))
}

fn print_result(result: &ExperimentResult, faults: &[FaultRecord]) {
    let figures = &result.figures;
    let last = figures
        .last_failure
        .map(|last| format!(", the last {last:.2} s after the fault"));
    println!(
        "        {}: {} requests, {} failed{}; {} writes acknowledged, {} lost; gap of writes {:.2} s",
        result.verdict(),
        figures.requests,
        figures.failures(),
        last.unwrap_or_default(),
        figures.acknowledged,
        figures.lost,
        figures.write_gap
    );
    for fault in faults {
        println!("        {}: {}", fault.target, fault.detail);
    }
    if let Validity::Invalid(reasons) = &result.validity {
        reasons.iter().for_each(|reason| println!("        invalid: {reason}"));
    }
    for violation in result.violations.iter().take(SHOWN_VIOLATIONS) {
        println!("        violated: {violation}");
    }
    if let Some(more) = result
        .violations
        .len()
        .checked_sub(SHOWN_VIOLATIONS)
        .filter(|more| *more > 0)
    {
        println!("        violated: {more} more, see the report");
    }
}

fn print_targets(results: &[ExperimentResult]) {
    for target in TARGETS {
        let (got, reached) = target
            .got(results)
            .map_or(("not measured".to_owned(), " "), |(got, reached)| {
                (got, if reached { "✓" } else { "✗" })
            });
        println!("{reached} {:<62} {:<30} {got}", target.fault, target.to_reach);
    }
}

/// The experiments with how often each is done.
fn chosen(settings: &RunSettings) -> Result<Vec<(Experiment, usize)>, String> {
    let all = all();
    for name in &settings.only {
        if !all.iter().any(|one| one.name == name) {
            let known: Vec<_> = all.iter().map(|one| one.name).collect();
            return Err(format!(
                "there is no experiment {name:?}; there are {}",
                known.join(", ")
            ));
        }
    }
    let times = |one: &Experiment| match settings.only.is_empty() {
        false => usize::from(settings.only.iter().any(|name| name == one.name)),
        true if settings.short => usize::from(one.in_short),
        true => one.repeats,
    };
    // A short run takes a debug build, which more load would only starve.
    let pace = |one: Experiment| match settings.short {
        true => Experiment {
            pace: TrafficPace::Usual,
            ..one
        },
        false => one,
    };
    let chosen = all
        .into_iter()
        .map(|one| (times(&one), pace(one).for_target(settings.target)))
        .filter(|(times, _)| *times > 0);
    Ok(chosen
        .map(|(times, one)| (one, settings.repeats.unwrap_or(times)))
        .collect())
}

/// The commit of the working tree, as far as git knows.
fn commit() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    let commit = output.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    commit.unwrap_or_else(|| "unknown".to_owned())
}
