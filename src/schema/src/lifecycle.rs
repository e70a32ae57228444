//! The releases in which kinds begin, are deprecated and end.

use std::cmp::Ordering;

const TABLE: &str = include_str!("../data/lifecycle.txt");

/// A release of Kubernetes without its patch: 1.36.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Release {
    /// The part before the point.
    pub major: u32,
    /// The part after it.
    pub minor: u32,
}

/// The life of a kind in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiLifecycle {
    /// The release that served it first.
    pub introduced: Release,
    /// The first release whose answers warn of it.
    pub deprecated: Option<Release>,
    /// The first release that does not serve it.
    pub removed: Option<Release>,
    /// The kind to use instead, as `GROUP/VERSION/KIND`.
    pub replacement: Option<&'static str>,
}

impl ApiLifecycle {
    /// True if answers of `release` warn of the kind.
    pub fn is_deprecated_in(&self, release: Release) -> bool {
        self.deprecated
            .is_some_and(|deprecated| release.cmp(&deprecated) != Ordering::Less)
    }
}

/// Finds the life of a kind by its type's name. Kinds that are stable for good have none.
pub fn lifecycle(type_name: &str) -> Option<ApiLifecycle> {
    let short = crate::short_name(type_name);
    let mut rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let row = rows.find_map(|line| line.strip_prefix(short)?.strip_prefix(' '))?;
    let value = |name: &str| {
        row.split(' ')
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    Some(ApiLifecycle {
        introduced: value("introduced").and_then(release)?,
        deprecated: value("deprecated").and_then(release),
        removed: value("removed").and_then(release),
        replacement: value("replacement"),
    })
}

fn release(text: &str) -> Option<Release> {
    let (major, minor) = text.split_once('.')?;
    Some(Release {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}
