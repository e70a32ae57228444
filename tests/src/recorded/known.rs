//! The list of scenarios that do not match. It only shrinks: a scenario outside it that fails is a regression, one in
//! it that matches has to be taken out.
//!
//! Two classes are counted apart: steps that are answered better than recorded, a client error where kube-apiserver answers with
//! a bare 500, which is checked, and all others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{Mismatch, Replayed};

/// The beginning of a reason that says which client error stands for a bare 500.
const BETTER: &str = "better: ";

/// `file: scenario [steps] | reason`, one a line; the steps are counted from 0. A scenario has one line for each reason.
#[derive(Debug, Default)]
pub struct KnownDifferences(BTreeMap<(String, String), ListedSteps>);

/// The steps of a scenario that may differ.
#[derive(Debug, Default)]
struct ListedSteps {
    differ: BTreeSet<usize>,
    /// Those that are answered with a client error, each with its code and reason.
    better: BTreeMap<usize, String>,
}

/// The numbers of listed scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Those that differ only by steps that are answered better.
    pub better: usize,
    /// All others.
    pub differing: usize,
}

impl KnownDifferences {
    /// Reads the list. Every entry must name steps and have a reason.
    pub fn load(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut known: BTreeMap<_, ListedSteps> = BTreeMap::new();
        for line in text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        {
            let (key, steps, better) =
                entry(line).ok_or_else(|| format!("not `file: scenario [steps] | reason`: {line}"))?;
            let listed = known.entry(key).or_default();
            for step in steps {
                let is_new = !listed.differ.contains(&step) && !listed.better.contains_key(&step);
                if !is_new {
                    return Err(format!("step {step} is listed twice: {line}"));
                }
                match &better {
                    Some(answer) => drop(listed.better.insert(step, answer.clone())),
                    None => drop(listed.differ.insert(step)),
                }
            }
        }
        Ok(Self(known))
    }

    /// Counts the listed scenarios.
    pub fn count(&self) -> Listed {
        let better = self.0.values().filter(|steps| steps.differ.is_empty()).count();
        Listed {
            better,
            differing: self.0.len() - better,
        }
    }

    /// Returns true if the only steps of a scenario that differ are listed as better and are.
    pub fn is_better(&self, file: &str, mismatch: &Mismatch) -> bool {
        let listed = self.listed(file, &mismatch.name);
        mismatch.differences.iter().all(|difference| {
            let ours = mismatch.better.get(&difference.step);
            ours.is_some() && listed.and_then(|listed| listed.better.get(&difference.step)) == ours
        })
    }

    fn listed(&self, file: &str, name: &str) -> Option<&ListedSteps> {
        self.0.get(&(file.to_owned(), name.to_owned()))
    }

    /// Returns the errors after a file was replayed: steps that differ and are not listed, and entries that should go.
    pub fn judge(&self, file: &str, replayed: &Replayed) -> Vec<String> {
        let listed = |name: &str| self.listed(file, name);
        let none = ListedSteps::default();
        let mut errors = Vec::new();
        for mismatch in &replayed.mismatches {
            errors.extend(judge_steps(file, mismatch, listed(&mismatch.name).unwrap_or(&none)));
        }
        for name in replayed.matching.iter().filter(|name| listed(name).is_some()) {
            errors.push(format!(
                "{file}: {name}: matches now; take it out of known-differences.txt"
            ));
        }
        let run: BTreeSet<&str> = replayed
            .matching
            .iter()
            .chain(replayed.mismatches.iter().map(|mismatch| &mismatch.name))
            .map(String::as_str)
            .collect();
        for (_, name) in self
            .0
            .keys()
            .filter(|(listed, name)| listed == file && !run.contains(name.as_str()))
        {
            errors.push(format!(
                "{file}: {name}: there is no such scenario; take it out of known-differences.txt"
            ));
        }
        errors
    }
}

type Entry = ((String, String), Vec<usize>, Option<String>);

fn entry(line: &str) -> Option<Entry> {
    let (file, rest) = line.split_once(": ")?;
    let (scenario, reason) = rest.rsplit_once(" | ")?;
    let (scenario, steps) = scenario.strip_suffix(']')?.rsplit_once(" [")?;
    let steps: Result<_, _> = steps.split(' ').map(str::parse).collect();
    let key = (file.trim().to_owned(), scenario.trim().to_owned());
    let reason = reason.trim();
    let better = reason
        .strip_prefix(BETTER)
        .map(|answer| answer.split(',').next().unwrap_or_default().to_owned());
    (!reason.is_empty()).then_some((key, steps.ok()?, better))
}

/// The steps of a scenario that differ, held against those that may.
fn judge_steps(file: &str, mismatch: &Mismatch, listed: &ListedSteps) -> Vec<String> {
    let name = &mismatch.name;
    let differ: BTreeSet<usize> = mismatch.differences.iter().map(|difference| difference.step).collect();
    let may: BTreeSet<usize> = listed.better.keys().chain(&listed.differ).copied().collect();
    let mut errors = Vec::new();
    if !differ.is_subset(&may) {
        let new = mismatch.differences.iter();
        let new = new.filter(|difference| !may.contains(&difference.step)).take(8);
        let shown: String = new.map(|difference| format!("\n    {}", difference.text)).collect();
        let steps: Vec<_> = differ.iter().collect();
        errors.push(format!("{file}: {name} {steps:?}: does not match{shown}"));
    }
    let matching: Vec<_> = may.difference(&differ).collect();
    if !matching.is_empty() {
        errors.push(format!(
            "{file}: {name}: steps {matching:?} match now; take them out of known-differences.txt"
        ));
    }
    for step in may.intersection(&differ) {
        let (said, is) = (listed.better.get(step), mismatch.better.get(step));
        if said != is {
            let [said, is] = [said, is].map(|answer| answer.map_or("no better answer", String::as_str));
            errors.push(format!("{file}: {name}: step {step} is listed as {said} and is {is}"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Mismatch, Replayed, StepDifference};
    use super::{KnownDifferences, Listed};

    fn parse(text: &str) -> KnownDifferences {
        KnownDifferences::parse(text).expect("good")
    }

    fn differs(name: &str, steps: &[usize]) -> Mismatch {
        let difference = |step: &usize| StepDifference {
            step: *step,
            text: format!("step {step}: no"),
        };
        Mismatch {
            name: name.to_owned(),
            differences: steps.iter().map(difference).collect(),
            better: BTreeMap::new(),
        }
    }

    fn better(name: &str, steps: &[usize], answers: &[(usize, &str)]) -> Mismatch {
        let answers = answers.iter().map(|(step, answer)| (*step, (*answer).to_owned()));
        Mismatch {
            better: answers.collect(),
            ..differs(name, steps)
        }
    }

    #[test]
    fn the_list_only_shrinks() {
        let known = parse(
            "# a comment\n\ncore/pods: a: b [0] | because\ncore/pods: gone [1] | because\ncore/pods: e [1 4] | because\n",
        );
        let replayed = Replayed {
            matching: vec!["a: b".to_owned(), "c".to_owned()],
            mismatches: vec![differs("d", &[0]), differs("e", &[1, 2])],
        };
        let errors = known.judge("core/pods", &replayed);
        assert_eq!(errors.len(), 5, "{errors:?}");
        assert!(errors[0].contains("d [0]: does not match\n    step 0: no"));
        assert!(
            errors[1].contains("e [1, 2]: does not match\n    step 2: no"),
            "{errors:?}"
        );
        assert!(errors[2].contains("e: steps [4] match now"));
        assert!(errors[3].contains("a: b: matches now"));
        assert!(errors[4].contains("gone: there is no such scenario"));
        for bad in [
            "core/pods: a [0] | ",
            "core/pods: a | because",
            "core/pods: a [] | because",
            "core/pods: a [0] | because\ncore/pods: a [1 0] | better: 400 BadRequest",
        ] {
            assert!(KnownDifferences::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_better_answer_is_the_one_that_is_listed() {
        let known = parse(
            "f: both [0] | better: 400 BadRequest, no name\nf: both [2] | because\nf: all [1] | better: 409 Conflict\n             f: none [0] | because\n",
        );
        let counts = Listed {
            better: 1,
            differing: 2,
        };
        assert_eq!(known.count(), counts);
        let judge = |mismatch: Mismatch| {
            let is_better = known.is_better("f", &mismatch);
            let replayed = Replayed {
                matching: Vec::new(),
                mismatches: vec![mismatch],
            };
            let mut errors = known.judge("f", &replayed);
            errors.retain(|error| !error.contains("no such scenario"));
            (is_better, errors)
        };
        let good = (true, Vec::new());
        assert_eq!(judge(better("all", &[1], &[(1, "409 Conflict")])), good);
        let differing = (false, Vec::new());
        assert_eq!(judge(better("both", &[0, 2], &[(0, "400 BadRequest")])), differing);
        assert_eq!(judge(differs("none", &[0])), differing);
        for (mismatch, error) in [
            (
                better("all", &[1], &[(1, "400 BadRequest")]),
                "f: all: step 1 is listed as 409 Conflict and is 400 BadRequest",
            ),
            (
                differs("all", &[1]),
                "f: all: step 1 is listed as 409 Conflict and is no better answer",
            ),
            (
                better("none", &[0], &[(0, "400 BadRequest")]),
                "f: none: step 0 is listed as no better answer and is 400 BadRequest",
            ),
        ] {
            assert_eq!(judge(mismatch), (false, vec![error.to_owned()]));
        }
    }
}
