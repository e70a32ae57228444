//! The list of scenarios that do not match yet. It only shrinks: a scenario outside it that fails is a regression, one in
//! it that matches has to be taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{Mismatch, Replayed};

/// `file: scenario [steps] | reason`, one a line; the steps are counted from 0.
#[derive(Debug, Default)]
pub struct KnownDifferences(BTreeMap<(String, String), BTreeSet<usize>>);

impl KnownDifferences {
    /// Reads the list. Every entry must name steps and have a reason.
    pub fn load(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut known = BTreeMap::new();
        for line in text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        {
            let entry = entry(line).ok_or_else(|| format!("not `file: scenario [steps] | reason`: {line}"))?;
            if known.insert(entry.0, entry.1).is_some() {
                return Err(format!("listed twice: {line}"));
            }
        }
        Ok(Self(known))
    }

    /// Returns the errors after a file was replayed: steps that differ and are not listed, and entries that should go.
    pub fn judge(&self, file: &str, replayed: &Replayed) -> Vec<String> {
        let listed = |name: &str| self.0.get(&(file.to_owned(), name.to_owned()));
        let mut errors = Vec::new();
        for mismatch in &replayed.mismatches {
            errors.extend(judge_steps(file, mismatch, listed(&mismatch.name)));
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

fn entry(line: &str) -> Option<((String, String), BTreeSet<usize>)> {
    let (file, rest) = line.split_once(": ")?;
    let (scenario, reason) = rest.rsplit_once(" | ")?;
    let (scenario, steps) = scenario.strip_suffix(']')?.rsplit_once(" [")?;
    let steps: Result<BTreeSet<usize>, _> = steps.split(' ').map(str::parse).collect();
    let key = (file.trim().to_owned(), scenario.trim().to_owned());
    (!reason.trim().is_empty()).then_some((key, steps.ok()?))
}

/// The steps of a scenario that differ, held against those that may.
fn judge_steps(file: &str, mismatch: &Mismatch, listed: Option<&BTreeSet<usize>>) -> Vec<String> {
    let none = BTreeSet::new();
    let listed = listed.unwrap_or(&none);
    let differ: BTreeSet<usize> = mismatch.differences.iter().map(|difference| difference.step).collect();
    let mut errors = Vec::new();
    if !differ.is_subset(listed) {
        let new = mismatch.differences.iter();
        let new = new.filter(|difference| !listed.contains(&difference.step)).take(8);
        let listed: String = new.map(|difference| format!("\n    {}", difference.text)).collect();
        errors.push(format!(
            "{file}: {} {:?}: does not match{listed}",
            mismatch.name,
            differ.iter().collect::<Vec<_>>()
        ));
    }
    let matching: Vec<_> = listed.difference(&differ).collect();
    if !matching.is_empty() {
        errors.push(format!(
            "{file}: {}: steps {matching:?} match now; take them out of known-differences.txt",
            mismatch.name
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::super::{Mismatch, Replayed, StepDifference};
    use super::KnownDifferences;

    #[test]
    fn the_list_only_shrinks() {
        let known = KnownDifferences::parse(
            "# a comment\n\ncore/pods: a: b [0] | because\ncore/pods: gone [1] | because\ncore/pods: e [1 4] | because\n",
        )
        .expect("good");
        let differs = |name: &str, steps: &[usize]| Mismatch {
            name: name.to_owned(),
            differences: steps
                .iter()
                .map(|step| StepDifference {
                    step: *step,
                    text: format!("step {step}: no"),
                })
                .collect(),
        };
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
        ] {
            assert!(KnownDifferences::parse(bad).is_err(), "{bad}");
        }
    }
}
