//! Metrics of evaluations, exemptions and errors (`k8s.io/pod-security-admission/metrics`).

use metrics::{Counter, counter};
use trireme_registry::{Operation, WriteRequest};

use super::policy::{LevelVersion, PolicyLevel, PolicyVersion};

/// The newest minor version of Kubernetes whose checks are known. A policy of a later one has the label `future`.
const NEWEST_MINOR: u32 = 36;

/// The label `mode`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicyMode {
    Enforce,
    Audit,
    Warn,
}

impl PolicyMode {
    const fn label(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Audit => "audit",
            Self::Warn => "warn",
        }
    }
}

/// The metrics of the plugin. Those of pods in privileged namespaces, which are most, are counted without a look-up.
pub(super) struct PodSecurityMetrics {
    privileged_creations: Counter,
    privileged_updates: Counter,
}

impl PodSecurityMetrics {
    pub(super) fn new() -> Self {
        let evaluations =
            |operation: &'static str| evaluations((true, PolicyMode::Enforce), PRIVILEGED, (operation, "pod", ""));
        for resource in ["pod", "controller"] {
            for operation in ["create", "update"] {
                exemptions((operation, resource, "")).increment(0);
            }
        }
        Self {
            privileged_creations: evaluations("create"),
            privileged_updates: evaluations("update"),
        }
    }

    /// Counts an evaluation under a mode: whether it lets the request pass.
    pub(super) fn evaluated(&self, request: &WriteRequest, mode: PolicyMode, policy: LevelVersion, allows: bool) {
        let request_labels = labels(request);
        match request_labels {
            ("create", "pod", "")
                if allows && mode == PolicyMode::Enforce && policy.level == PolicyLevel::Privileged =>
            {
                self.privileged_creations.increment(1);
            }
            ("update", "pod", "")
                if allows && mode == PolicyMode::Enforce && policy.level == PolicyLevel::Privileged =>
            {
                self.privileged_updates.increment(1);
            }
            _ => evaluations((allows, mode), policy, request_labels).increment(1),
        }
    }

    /// Counts a request that is exempt.
    pub(super) fn exempt(&self, request: &WriteRequest) {
        exemptions(labels(request)).increment(1);
    }

    /// Counts an error; it is `fatal` if the request could not be evaluated.
    pub(super) fn failed(&self, request: &WriteRequest, fatal: bool) {
        let (operation, resource, subresource) = labels(request);
        let fatal = if fatal { "true" } else { "false" };
        counter!(
            "pod_security_errors_total",
            "fatal" => fatal, "request_operation" => operation, "resource" => resource, "subresource" => subresource,
        )
        .increment(1);
    }
}

const PRIVILEGED: LevelVersion = LevelVersion {
    level: PolicyLevel::Privileged,
    version: PolicyVersion::Latest,
};

/// Operation, kind of resource and subresource.
type RequestLabels = (&'static str, &'static str, &'static str);

fn labels(request: &WriteRequest) -> RequestLabels {
    let operation = if request.operation == Operation::Create {
        "create"
    } else {
        "update"
    };
    let resource = match (&*request.resource.group, &*request.resource.resource) {
        ("", "pods") => "pod",
        ("", "namespaces") => "namespace",
        _ => "controller",
    };
    (operation, resource, request.subresource.name())
}

fn evaluations((allows, mode): (bool, PolicyMode), policy: LevelVersion, request_labels: RequestLabels) -> Counter {
    let (operation, resource, subresource) = request_labels;
    // As of any release, privileged checks nothing.
    let version = match policy.version {
        PolicyVersion::Minor(minor) if policy.level != PolicyLevel::Privileged => {
            if minor > NEWEST_MINOR {
                "future".to_owned()
            } else {
                format!("v1.{minor}")
            }
        }
        _ => "latest".to_owned(),
    };
    counter!(
        "pod_security_evaluations_total",
        "decision" => if allows { "allow" } else { "deny" },
        "policy_level" => policy.level.name(),
        "policy_version" => version,
        "mode" => mode.label(),
        "request_operation" => operation,
        "resource" => resource,
        "subresource" => subresource,
    )
}

fn exemptions((operation, resource, subresource): RequestLabels) -> Counter {
    counter!(
        "pod_security_exemptions_total",
        "request_operation" => operation, "resource" => resource, "subresource" => subresource,
    )
}
