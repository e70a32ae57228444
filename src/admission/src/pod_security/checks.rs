//! The checks by level and version (`k8s.io/pod-security-admission/policy`).
//!
//! One row a version of a check; of several rows of a check the newest counts that the policy's version has. The checks of
//! `baseline` come first, each level's by their ids.

use std::sync::LazyLock;

use super::{
    baseline,
    pod::CheckedPod,
    policy::{LevelVersion, PolicyLevel, PolicyVersion},
    restricted,
};

/// A pod violates a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodViolation {
    pub(super) reason: &'static str,
    /// May be empty.
    pub(super) detail: String,
}

impl PodViolation {
    pub(super) fn new(reason: &'static str, detail: String) -> Option<Self> {
        Some(Self { reason, detail })
    }
}

/// Looks at a pod.
pub(super) type CheckPod = fn(CheckedPod<'_>) -> Option<PodViolation>;

/// One version of a check.
struct PodCheck {
    id: &'static str,
    level: PolicyLevel,
    /// The release that it came with.
    since: u32,
    check: CheckPod,
    /// The check of `baseline` that it includes.
    overrides: &'static str,
}

const fn baseline(id: &'static str, since: u32, check: CheckPod) -> PodCheck {
    PodCheck {
        id,
        level: PolicyLevel::Baseline,
        since,
        check,
        overrides: "",
    }
}

const fn restricted(id: &'static str, since: u32, check: CheckPod, overrides: &'static str) -> PodCheck {
    PodCheck {
        id,
        level: PolicyLevel::Restricted,
        since,
        check,
        overrides,
    }
}

const CHECKS: &[PodCheck] = &[
    baseline("appArmorProfile", 0, baseline::app_armor_profile),
    baseline("capabilities_baseline", 0, baseline::capabilities),
    baseline("hostNamespaces", 0, baseline::host_namespaces),
    baseline("hostPathVolumes", 0, baseline::host_path_volumes),
    baseline("hostPorts", 0, baseline::host_ports),
    baseline("hostProbesAndHostLifecycle", 34, baseline::host_probes_and_lifecycle),
    baseline("privileged", 0, baseline::privileged),
    baseline("procMount", 0, baseline::proc_mount),
    baseline("procMount", 35, baseline::proc_mount_since_1_35),
    baseline("seLinuxOptions", 0, baseline::se_linux_options),
    baseline("seLinuxOptions", 31, baseline::se_linux_options_since_1_31),
    baseline("seccompProfile_baseline", 0, baseline::seccomp_annotations),
    baseline("seccompProfile_baseline", 19, baseline::seccomp_profile),
    baseline("sysctls", 0, baseline::sysctls),
    baseline("sysctls", 27, baseline::sysctls_since_1_27),
    baseline("sysctls", 29, baseline::sysctls_since_1_29),
    baseline("sysctls", 32, baseline::sysctls_since_1_32),
    baseline("windowsHostProcess", 0, baseline::windows_host_process),
    restricted(
        "allowPrivilegeEscalation",
        8,
        restricted::allow_privilege_escalation,
        "",
    ),
    restricted(
        "allowPrivilegeEscalation",
        25,
        restricted::allow_privilege_escalation_since_1_25,
        "",
    ),
    restricted(
        "capabilities_restricted",
        22,
        restricted::capabilities,
        "capabilities_baseline",
    ),
    restricted(
        "capabilities_restricted",
        25,
        restricted::capabilities_since_1_25,
        "capabilities_baseline",
    ),
    restricted("procMount_restricted", 35, baseline::proc_mount, "procMount"),
    restricted("restrictedVolumes", 0, restricted::volumes, "hostPathVolumes"),
    restricted("runAsNonRoot", 0, restricted::run_as_non_root, ""),
    restricted("runAsNonRoot", 35, restricted::run_as_non_root_since_1_35, ""),
    restricted("runAsUser", 23, restricted::run_as_user, ""),
    restricted("runAsUser", 35, restricted::run_as_user_since_1_35, ""),
    restricted(
        "seccompProfile_restricted",
        19,
        restricted::seccomp_profile,
        "seccompProfile_baseline",
    ),
    restricted(
        "seccompProfile_restricted",
        25,
        restricted::seccomp_profile_since_1_25,
        "seccompProfile_baseline",
    ),
];

/// The newest release that brought a check; later ones have the same.
const NEWEST: u32 = 35;

/// The checks of one release.
struct ReleaseChecks {
    baseline: Vec<CheckPod>,
    restricted: Vec<CheckPod>,
}

impl ReleaseChecks {
    fn of(minor: u32) -> Self {
        let version = PolicyVersion::Minor(minor);
        let counts = |check: &PodCheck| {
            let is_newer =
                |other: &PodCheck| other.id == check.id && other.since > check.since && version.has(other.since);
            version.has(check.since) && !CHECKS.iter().any(is_newer)
        };
        let of_level = |level: PolicyLevel| CHECKS.iter().filter(move |check| check.level == level && counts(check));
        let is_overridden = |id: &str| of_level(PolicyLevel::Restricted).any(|check| check.overrides == id);
        let kept = of_level(PolicyLevel::Baseline).filter(|check| !is_overridden(check.id));
        Self {
            baseline: of_level(PolicyLevel::Baseline).map(|check| check.check).collect(),
            restricted: kept
                .chain(of_level(PolicyLevel::Restricted))
                .map(|check| check.check)
                .collect(),
        }
    }
}

/// The checks by release.
static RELEASES: LazyLock<Vec<ReleaseChecks>> = LazyLock::new(|| (0..=NEWEST).map(ReleaseChecks::of).collect());

/// The violations of a policy by a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Violations(Vec<PodViolation>);

impl Violations {
    /// Runs all checks of a level.
    pub(super) fn of(pod: CheckedPod<'_>, policy: LevelVersion) -> Self {
        if policy.level == PolicyLevel::Privileged {
            return Self::default();
        }
        let release = match policy.version {
            PolicyVersion::Minor(minor) => minor.min(NEWEST),
            PolicyVersion::Latest => NEWEST,
        };
        let checks = RELEASES.get(release as usize).map(|release| match policy.level {
            PolicyLevel::Restricted => &release.restricted,
            _ => &release.baseline,
        });
        Self(checks.into_iter().flatten().filter_map(|check| check(pod)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons alone.
    pub(super) fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.0.iter().map(|violation| violation.reason).collect();
        reasons.join(", ")
    }

    /// The reasons with what is wrong.
    pub(super) fn details(&self) -> String {
        let details = self.0.iter().map(|violation| match violation.detail.as_str() {
            "" => violation.reason.to_owned(),
            detail => format!("{} ({detail})", violation.reason),
        });
        details.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reasons(spec: &Value, level: PolicyLevel, version: PolicyVersion) -> String {
        let pod = json!({ "spec": spec });
        Violations::of(CheckedPod::of(&pod), LevelVersion { level, version }).reasons()
    }

    #[test]
    fn no_check_is_newer_than_the_newest_release() {
        assert_eq!(CHECKS.iter().map(|check| check.since).max(), Some(NEWEST));
    }

    #[test]
    fn checks_come_with_their_release() {
        let sysctls = json!([{ "name": "net.ipv4.tcp_rmem" }]);
        let spec = json!({ "securityContext": { "sysctls": sysctls }, "containers": [] });
        assert_eq!(
            reasons(&spec, PolicyLevel::Baseline, PolicyVersion::Minor(31)),
            "forbidden sysctls"
        );
        assert_eq!(reasons(&spec, PolicyLevel::Baseline, PolicyVersion::Minor(32)), "");
        assert_eq!(reasons(&spec, PolicyLevel::Baseline, PolicyVersion::Latest), "");
        assert_eq!(reasons(&spec, PolicyLevel::Privileged, PolicyVersion::Minor(0)), "");
    }

    #[test]
    fn a_check_of_restricted_takes_the_place_of_its_baseline() {
        let added = json!({ "capabilities": { "add": ["SYS_ADMIN"] } });
        let spec = json!({ "containers": [{ "name": "c", "securityContext": added }] });
        assert_eq!(
            reasons(&spec, PolicyLevel::Baseline, PolicyVersion::Latest),
            "non-default capabilities"
        );
        assert_eq!(
            reasons(&spec, PolicyLevel::Restricted, PolicyVersion::Minor(21)),
            "non-default capabilities, allowPrivilegeEscalation != false, runAsNonRoot != true, seccompProfile"
        );
        assert_eq!(
            reasons(&spec, PolicyLevel::Restricted, PolicyVersion::Latest),
            "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"
        );
    }

    #[test]
    fn users_of_their_own_relax_what_is_about_root() {
        let context = json!({ "runAsUser": 0, "runAsNonRoot": false, "procMount": "Unmasked" });
        let mut spec = json!({ "containers": [{ "name": "c", "securityContext": context }], "hostUsers": false });
        let restricted = |spec: &Value, minor| reasons(spec, PolicyLevel::Restricted, PolicyVersion::Minor(minor));
        assert!(restricted(&spec, 34).contains("runAsNonRoot != true, runAsUser=0"));
        assert!(!restricted(&spec, 35).contains("runAs") && restricted(&spec, 35).contains("procMount"));
        assert_eq!(
            reasons(&spec, PolicyLevel::Baseline, PolicyVersion::Minor(34)),
            "procMount"
        );
        assert_eq!(reasons(&spec, PolicyLevel::Baseline, PolicyVersion::Minor(35)), "");
        spec["hostUsers"] = true.into();
        assert!(restricted(&spec, 35).contains("runAs"));
    }
}
