//! The list of scenarios that do not match yet. It only shrinks: a scenario outside it that fails is a regression, one in
//! it that matches has to be taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Replayed;

/// `file: scenario | reason`, one a line.
#[derive(Debug, Default)]
pub struct KnownDifferences(BTreeMap<(String, String), String>);

impl KnownDifferences {
    /// Reads the list. Every entry must have a reason.
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
            let bad = || format!("not `file: scenario | reason`: {line}");
            let (file, rest) = line.split_once(": ").ok_or_else(bad)?;
            let (scenario, reason) = rest.rsplit_once(" | ").ok_or_else(bad)?;
            if reason.trim().is_empty() {
                return Err(bad());
            }
            let key = (file.trim().to_owned(), scenario.trim().to_owned());
            if known.insert(key, reason.trim().to_owned()).is_some() {
                return Err(format!("listed twice: {line}"));
            }
        }
        Ok(Self(known))
    }

    /// Returns the errors after a file was replayed: failures that are not listed, and entries that should go.
    pub fn judge(&self, file: &str, replayed: &Replayed) -> Vec<String> {
        let is_known = |name: &str| self.0.contains_key(&(file.to_owned(), name.to_owned()));
        let mut errors = Vec::new();
        for mismatch in replayed.mismatches.iter().filter(|mismatch| !is_known(&mismatch.name)) {
            let told = mismatch
                .differences
                .iter()
                .take(8)
                .map(|difference| format!("\n    {difference}"));
            errors.push(format!(
                "{file}: {}: does not match{}",
                mismatch.name,
                told.collect::<String>()
            ));
        }
        for name in replayed.matching.iter().filter(|name| is_known(name)) {
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

#[cfg(test)]
mod tests {
    use super::super::{Mismatch, Replayed};
    use super::KnownDifferences;

    #[test]
    fn the_list_only_shrinks() {
        let known = KnownDifferences::parse("# a comment\n\ncore/pods: a: b | because\ncore/pods: gone | because\n")
            .expect("good");
        let replayed = Replayed {
            matching: vec!["a: b".to_owned(), "c".to_owned()],
            mismatches: vec![Mismatch {
                name: "d".to_owned(),
                differences: vec!["step 0: no".to_owned()],
            }],
        };
        let errors = known.judge("core/pods", &replayed);
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors[0].contains("d: does not match\n    step 0: no"));
        assert!(errors[1].contains("a: b: matches now"));
        assert!(errors[2].contains("gone: there is no such scenario"));
        assert!(
            KnownDifferences::parse("core/pods: a | ").is_err(),
            "a reason is needed"
        );
    }
}
