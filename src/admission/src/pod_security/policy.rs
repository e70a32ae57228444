//! Levels and versions, and how a namespace's labels choose them (`k8s.io/pod-security-admission/api`).

use std::fmt;

use trireme_machinery::field::{Error, ErrorList, Path};

/// The labels of namespaces and the annotations of audit events begin so.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// The levels of what pods may do, from all to little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PolicyLevel {
    Privileged,
    Baseline,
    Restricted,
}

impl PolicyLevel {
    /// As labels of namespaces and metrics name it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }
}

/// The release of Kubernetes whose checks count; a later one is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PolicyVersion {
    /// `v1.x`
    Minor(u32),
    Latest,
}

impl PolicyVersion {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let digits = text.strip_prefix("v1.")?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        let minor = digits.parse().ok().filter(|_| is_number)?;
        Some(Self::Minor(minor))
    }

    /// Reports whether a check that came with a release counts.
    pub(super) fn has(self, minor: u32) -> bool {
        self >= Self::Minor(minor)
    }
}

/// A level as of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: PolicyLevel,
    pub(super) version: PolicyVersion,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.name();
        match self.version {
            PolicyVersion::Latest => write!(f, "{level}:latest"),
            PolicyVersion::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// The levels of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PodSecurityPolicy {
    /// Pods that violate it are refused.
    pub(super) enforce: LevelVersion,
    /// Violations are noted in the audit log.
    pub(super) audit: LevelVersion,
    /// Violations become warnings to the user.
    pub(super) warn: LevelVersion,
}

impl Default for PodSecurityPolicy {
    fn default() -> Self {
        let all = LevelVersion {
            level: PolicyLevel::Privileged,
            version: PolicyVersion::Latest,
        };
        Self {
            enforce: all,
            audit: all,
            warn: all,
        }
    }
}

impl PodSecurityPolicy {
    /// Reports whether nothing is checked.
    pub(super) fn is_fully_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn]
            .iter()
            .all(|mode| mode.level == PolicyLevel::Privileged)
    }

    /// Reads the labels of a namespace; `defaults` count where it has none (`PolicyToEvaluate`). A level that is none counts as the strictest where pods are
    /// refused, as none elsewhere.
    pub(super) fn of_labels<'l>(defaults: Self, label: impl Fn(&str) -> Option<&'l str>) -> (Self, ErrorList) {
        let mut errors = ErrorList::new();
        let mut policy = defaults;
        let mut modes = [
            ("enforce", &mut policy.enforce, PolicyLevel::Restricted),
            ("audit", &mut policy.audit, PolicyLevel::Privileged),
            ("warn", &mut policy.warn, PolicyLevel::Privileged),
        ];
        for (mode, chosen, otherwise) in &mut modes {
            let key = format!("{PREFIX}{mode}");
            if let Some(text) = label(&key) {
                chosen.level = PolicyLevel::parse(text).unwrap_or_else(|| {
                    errors.push(invalid(&key, text, "must be one of privileged, baseline, restricted"));
                    *otherwise
                });
            }
            let key = format!("{PREFIX}{mode}-version");
            if let Some(text) = label(&key) {
                chosen.version = PolicyVersion::parse(text).unwrap_or_else(|| {
                    errors.push(invalid(&key, text, "must be \"latest\" or \"v1.x\""));
                    PolicyVersion::Latest
                });
            }
        }
        let has = |mode: &str| label(&format!("{PREFIX}{mode}"));
        let enforces = has("enforce").and_then(PolicyLevel::parse).is_some();
        if enforces && has("warn").is_none() && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if has("warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }
}

fn invalid(key: &str, value: &str, why: &str) -> Error {
    Error::invalid_str(&Path::new("metadata.labels").key(key), value, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(labels: &[(&str, &'static str)]) -> (String, Vec<String>) {
        let label = |key: &str| {
            let name = key.strip_prefix(PREFIX)?;
            labels.iter().find(|(label, _)| *label == name).map(|(_, value)| *value)
        };
        let (policy, errors) = PodSecurityPolicy::of_labels(PodSecurityPolicy::default(), label);
        let shown = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        (shown, errors.into_iter().map(|error| error.field).collect())
    }

    #[test]
    fn what_is_enforced_is_warned_of() {
        let (policy, errors) = read(&[("enforce", "baseline"), ("enforce-version", "v1.20")]);
        assert_eq!(policy, "baseline:v1.20 privileged:latest baseline:v1.20");
        assert!(errors.is_empty());
        let (policy, _) = read(&[("enforce", "baseline"), ("warn", "privileged"), ("audit", "restricted")]);
        assert_eq!(policy, "baseline:latest restricted:latest privileged:latest");
    }

    #[test]
    fn bad_labels_fail_closed_where_pods_are_refused() {
        let (policy, errors) = read(&[("enforce", "none"), ("audit", "none"), ("warn-version", "v1.01")]);
        assert_eq!(policy, "restricted:latest privileged:latest privileged:latest");
        assert_eq!(
            errors,
            [
                "metadata.labels[pod-security.kubernetes.io/enforce]",
                "metadata.labels[pod-security.kubernetes.io/audit]",
                "metadata.labels[pod-security.kubernetes.io/warn-version]",
            ]
        );
    }
}
