//! Semantic versions, as `github.com/blang/semver/v4` reads them.

use std::{cmp::Ordering, fmt};

/// A version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SemanticVersion {
    /// Major, minor and patch.
    pub numbers: [u64; 3],
    pre: Vec<String>,
    build: String,
}

impl SemanticVersion {
    /// Reads a version.
    ///
    /// # Errors
    /// In the library's words, if the text is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let (rest, build) = text
            .split_once('+')
            .map_or((text, None), |(rest, build)| (rest, Some(build)));
        let (core, pre) = rest
            .split_once('-')
            .map_or((rest, None), |(core, pre)| (core, Some(pre)));
        let parts: Vec<&str> = core.split('.').collect();
        let [major, minor, patch] =
            <[&str; 3]>::try_from(parts).map_err(|_| "No Major.Minor.Patch elements found".to_owned())?;
        let numbers = [
            number(major, "major")?,
            number(minor, "minor")?,
            number(patch, "patch")?,
        ];
        let identifiers = |text: Option<&str>| -> Vec<String> {
            text.into_iter()
                .flat_map(|text| text.split('.'))
                .map(str::to_owned)
                .collect()
        };
        let is_identifier =
            |part: &String| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let (pre, builds) = (identifiers(pre), identifiers(build));
        if let Some(wrong) = pre.iter().find(|part| !is_identifier(part)) {
            return Err(match wrong.is_empty() {
                true => "prerelease is empty".to_owned(),
                false => format!("Invalid character(s) found in prerelease {wrong:?}"),
            });
        }
        let has_zeros = |part: &&String| part.len() > 1 && part.starts_with('0') && is_numeric(part);
        if let Some(wrong) = pre.iter().find(has_zeros) {
            return Err(format!(
                "Numeric PreRelease version must not contain leading zeroes {wrong:?}"
            ));
        }
        if let Some(wrong) = builds.iter().find(|part| !is_identifier(part)) {
            return Err(match wrong.is_empty() {
                true => "build meta data is empty".to_owned(),
                false => format!("Invalid character(s) found in build meta data {wrong:?}"),
            });
        }
        Ok(Self {
            numbers,
            pre,
            build: builds.join("."),
        })
    }

    /// Reads a version that may begin with a `v`, lack numbers or have zeros before them.
    ///
    /// # Errors
    /// If the text is no version even so.
    pub fn parse_lenient(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['+', '-']).unwrap_or(text.len());
        let (core, rest) = text.split_at(end);
        let mut parts: Vec<&str> = core.split('.').collect();
        let without_zeros = |part: &&str| match part.trim_start_matches('0') {
            stripped if stripped.starts_with(|c: char| c.is_ascii_digit()) => stripped.to_owned(),
            _ if part.starts_with('0') && is_numeric(part) => "0".to_owned(),
            _ => (*part).to_owned(),
        };
        if parts.len() > 3 || (parts.len() < 3 && !rest.is_empty()) {
            return Self::parse(text);
        }
        parts.resize(3, "0");
        let core: Vec<String> = parts.iter().map(without_zeros).collect();
        Self::parse(&format!("{}{rest}", core.join(".")))
    }

    /// The order of two versions; what follows a `+` does not count.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let of_numbers = self.numbers.cmp(&other.numbers);
        of_numbers.then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let mut pairs = self.pre.iter().zip(&other.pre);
                let first = pairs.find_map(|(a, b)| Some(identifier_order(a, b)).filter(|order| order.is_ne()));
                first.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
            }
        })
    }
}

fn is_numeric(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn identifier_order(a: &str, b: &str) -> Ordering {
    match (is_numeric(a), is_numeric(b)) {
        // Without leading zeros the longer number is the larger one.
        (true, true) => (a.len(), a).cmp(&(b.len(), b)),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.cmp(b),
    }
}

fn number(text: &str, which: &str) -> Result<u64, String> {
    if !is_numeric(text) {
        return Err(format!("Invalid character(s) found in {which} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        let mut name = which.to_owned();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        return Err(format!("{name} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("{which} number is out of range"))
}

impl fmt::Display for SemanticVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre.join("."))?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}
