//! The features of Kubernetes whose gates decide more than the kinds that are served.

/// A feature that `--feature-gates` switches, and that kinds, plugins or rights depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// ClusterTrustBundles, the right to attest for them, and who may read them.
    ClusterTrustBundle,
    /// Volumes into which ClusterTrustBundles are projected.
    ClusterTrustBundleProjection,
    /// The rights of the scheduler and of the eviction controller on DeviceTaintRules.
    DraDeviceTaintRules,
    /// The rights of the controller of ResourcePoolStatusRequests.
    DraResourcePoolStatus,
    /// ResourceClaims that the pods of a PodGroup share.
    DraWorkloadResourceClaims,
    /// Workloads, PodGroups and the pods in them.
    GenericWorkload,
    /// PodCertificateRequests, and volumes into which their certificates are projected.
    PodCertificateRequest,
    /// StorageVersionMigrations.
    StorageVersionMigrator,
    /// Constraints of topology of PodGroups.
    TopologyAwareWorkloadScheduling,
    /// The priority of PodGroups and what may disrupt them.
    WorkloadAwarePreemption,
    /// Jobs that are Workloads.
    WorkloadWithJob,
}

impl Feature {
    /// All of them, with the names of their gates.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::ClusterTrustBundle, "ClusterTrustBundle"),
        (Self::ClusterTrustBundleProjection, "ClusterTrustBundleProjection"),
        (Self::DraDeviceTaintRules, "DRADeviceTaintRules"),
        (Self::DraResourcePoolStatus, "DRAResourcePoolStatus"),
        (Self::DraWorkloadResourceClaims, "DRAWorkloadResourceClaims"),
        (Self::GenericWorkload, "GenericWorkload"),
        (Self::PodCertificateRequest, "PodCertificateRequest"),
        (Self::StorageVersionMigrator, "StorageVersionMigrator"),
        (Self::TopologyAwareWorkloadScheduling, "TopologyAwareWorkloadScheduling"),
        (Self::WorkloadAwarePreemption, "WorkloadAwarePreemption"),
        (Self::WorkloadWithJob, "WorkloadWithJob"),
    ];
}

/// The features that are on. All are off by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features([bool; Feature::ALL.len()]);

impl Features {
    /// Those whose gates are on.
    pub fn of_gates(is_on: impl Fn(&str) -> bool) -> Self {
        Self(Feature::ALL.map(|(_, gate)| is_on(gate)))
    }

    /// Those that are named and no others.
    pub fn only(features: &[Feature]) -> Self {
        Self(Feature::ALL.map(|(feature, _)| features.contains(&feature)))
    }

    /// Reports whether a feature is on.
    pub fn has(self, feature: Feature) -> bool {
        let mut all = Feature::ALL.iter().zip(self.0);
        all.any(|((of, _), is_on)| *of == feature && is_on)
    }

    /// Reports whether the feature of a gate is on.
    pub fn has_gate(self, gate: &str) -> bool {
        let mut all = Feature::ALL.iter().zip(self.0);
        all.any(|((_, of), is_on)| *of == gate && is_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_on_by_the_names_of_their_gates() {
        let features = Features::of_gates(|gate| gate.starts_with("DRA"));
        assert!(features.has(Feature::DraWorkloadResourceClaims) && features.has_gate("DRADeviceTaintRules"));
        assert!(!features.has(Feature::GenericWorkload) && !features.has_gate("DRA"));
        assert_eq!(Features::only(&[]), Features::default());
    }
}
