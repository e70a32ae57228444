//! Group, version, kind and resource names, as `k8s.io/apimachinery/pkg/runtime/schema` prints them.

use std::{fmt, sync::Arc};

/// An API group and version; the core group is the empty string.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    /// The group, `""` for core.
    pub group: Arc<str>,
    /// The version, such as `v1`.
    pub version: Arc<str>,
}

impl GroupVersion {
    /// Names a group and version.
    pub fn new(group: &str, version: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
        }
    }

    /// Parses an object's `apiVersion`; `None` if it has more than one slash.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(Self::new("", api_version)),
            Some((_, version)) if version.contains('/') => None,
            Some((group, version)) => Some(Self::new(group, version)),
        }
    }

    /// Adds a kind.
    pub fn with_kind(&self, kind: &str) -> GroupVersionKind {
        GroupVersionKind {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: kind.into(),
        }
    }

    /// Adds a resource.
    pub fn with_resource(&self, resource: &str) -> GroupVersionResource {
        GroupVersionResource {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: resource.into(),
        }
    }
}

/// The `apiVersion` form: `v1`, `apps/v1`.
impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.version)
        } else {
            write!(f, "{}/{}", self.group, self.version)
        }
    }
}

/// A kind of object in a group and version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The group, `""` for core.
    pub group: Arc<str>,
    /// The version.
    pub version: Arc<str>,
    /// The kind, such as `Pod`.
    pub kind: Arc<str>,
}

impl GroupVersionKind {
    /// Its group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion {
            group: self.group.clone(),
            version: self.version.clone(),
        }
    }

    /// Its group and kind.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind {
            group: self.group.clone(),
            kind: self.kind.clone(),
        }
    }
}

/// `apps/v1, Kind=Deployment`, as error messages name it.
impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A resource (plural, lower case) in a group and version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// The group, `""` for core.
    pub group: Arc<str>,
    /// The version.
    pub version: Arc<str>,
    /// The resource, such as `pods`.
    pub resource: Arc<str>,
}

impl GroupVersionResource {
    /// Its group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion {
            group: self.group.clone(),
            version: self.version.clone(),
        }
    }

    /// Its group and resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource {
            group: self.group.clone(),
            resource: self.resource.clone(),
        }
    }
}

/// A kind without its version: `Deployment.apps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// The group, `""` for core.
    pub group: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
}

/// A resource without its version: `deployments.apps`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The group, `""` for core.
    pub group: Arc<str>,
    /// The resource.
    pub resource: Arc<str>,
}

fn dotted(name: &str, group: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if group.is_empty() {
        f.write_str(name)
    } else {
        write!(f, "{name}.{group}")
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(&self.kind, &self.group, f)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(&self.resource, &self.group, f)
    }
}

/// Ranks a version among others of a group, the preferred one highest: stable ones first, then beta, then alpha, newer ones first
/// (`version.CompareKubeAwareVersionStrings`).
pub fn version_rank(version: &str) -> i32 {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let end = rest
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(rest.len());
        let major: i32 = rest.get(..end)?.parse().ok()?;
        let stage = rest.get(end..)?;
        if stage.is_empty() {
            return Some(2_000_000 + major.min(999) * 1_000);
        }
        let (base, minor) = match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
            (Some(minor), _) => (1_000_000, minor),
            (_, Some(minor)) => (1, minor),
            _ => return None,
        };
        let minor: i32 = minor.parse().ok()?;
        Some(base + major.min(999) * 1_000 + minor.min(999))
    };
    parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_before_others() {
        let mut versions = ["foo1", "v1alpha2", "v10", "v2beta1", "v1", "v1beta2", "v2", "v1alpha1"];
        versions.sort_by_key(|version| -version_rank(version));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha2", "v1alpha1", "foo1"]
        );
    }
}
