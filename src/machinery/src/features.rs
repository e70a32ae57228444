//! The features of Kubernetes whose gates decide more than the kinds that are served.

/// Declares the features, each with the name of its gate and whether it is on by default.
macro_rules! features {
    ($($(#[$meta:meta])* $feature:ident = $gate:literal, $state:ident;)*) => {
        /// A feature that `--feature-gates` switches, and that kinds, plugins, rights or answers depend on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Feature {
            $($(#[$meta])* $feature,)*
        }

        impl Feature {
            /// All of them, with the names of their gates, and whether they are on by default.
            pub const ALL: &[(Self, &'static str, bool)] = &[$((Self::$feature, $gate, $state),)*];
        }
    };
}

/// The states that gates have by default.
const ON: bool = true;
const OFF: bool = false;

features! {
    /// ClusterTrustBundles, the right to attest for them, and who may read them.
    ClusterTrustBundle = "ClusterTrustBundle", OFF;
    /// Volumes into which ClusterTrustBundles are projected.
    ClusterTrustBundleProjection = "ClusterTrustBundleProjection", OFF;
    /// The rights of the scheduler and of the eviction controller on DeviceTaintRules.
    DraDeviceTaintRules = "DRADeviceTaintRules", OFF;
    /// The rights of the controller of ResourcePoolStatusRequests.
    DraResourcePoolStatus = "DRAResourcePoolStatus", OFF;
    /// ResourceClaims that the pods of a PodGroup share.
    DraWorkloadResourceClaims = "DRAWorkloadResourceClaims", OFF;
    /// Workloads, PodGroups and the pods in them.
    GenericWorkload = "GenericWorkload", OFF;
    /// PodCertificateRequests, and volumes into which their certificates are projected.
    PodCertificateRequest = "PodCertificateRequest", OFF;
    /// StorageVersionMigrations.
    StorageVersionMigrator = "StorageVersionMigrator", OFF;
    /// Constraints of topology of PodGroups.
    TopologyAwareWorkloadScheduling = "TopologyAwareWorkloadScheduling", OFF;
    /// The priority of PodGroups and what may disrupt them.
    WorkloadAwarePreemption = "WorkloadAwarePreemption", OFF;
    /// Jobs that are Workloads.
    WorkloadWithJob = "WorkloadWithJob", OFF;

    /// The node name that is cleared once a pod is bound: `status.nominatedNodeName`.
    ClearingNominatedNodeNameAfterBinding = "ClearingNominatedNodeNameAfterBinding", ON;
    /// Rules by which a container restarts.
    ContainerRestartRules = "ContainerRestartRules", ON;
    /// The signal that stops a container.
    ContainerStopSignals = "ContainerStopSignals", OFF;
    /// Variables of a container that stand in a file.
    EnvFiles = "EnvFiles", ON;
    /// A pod's own host name.
    HostnameOverride = "HostnameOverride", ON;
    /// The digest of an image volume in a pod's status.
    ImageVolumeWithDigest = "ImageVolumeWithDigest", OFF;
    /// Resources of a whole pod that change while it runs.
    InPlacePodLevelResourcesVerticalScaling = "InPlacePodLevelResourcesVerticalScaling", ON;
    /// Resources of init containers that change while the pod runs.
    InPlacePodVerticalScalingInitContainers = "InPlacePodVerticalScalingInitContainers", ON;
    /// Labels whose values pods of a spread have in common.
    MatchLabelKeysInPodTopologySpread = "MatchLabelKeysInPodTopologySpread", ON;
    /// These labels as a part of the spread's selector.
    MatchLabelKeysInPodTopologySpreadSelectorMerge = "MatchLabelKeysInPodTopologySpreadSelectorMerge", ON;
    /// The annotation that says which pods go first.
    PodDeletionCost = "PodDeletionCost", ON;
    /// Resources of a whole pod.
    PodLevelResources = "PodLevelResources", ON;
    /// Logs of one stream of a container.
    PodLogsQuerySplitStreams = "PodLogsQuerySplitStreams", OFF;
    /// The health of devices in a pod's status.
    ResourceHealthStatus = "ResourceHealthStatus", ON;
    /// Reasons for that health.
    ResourceHealthStatusMessage = "ResourceHealthStatusMessage", ON;
    /// Restarts of all containers when one ends.
    RestartAllContainersOnContainerExits = "RestartAllContainersOnContainerExits", ON;
    /// Volumes that are mounted with a SELinux label.
    SelinuxMount = "SELinuxMount", OFF;
    /// Tolerations that compare numbers.
    TaintTolerationComparisonOperators = "TaintTolerationComparisonOperators", OFF;
    /// User namespaces of pods in the network of their host.
    UserNamespacesHostNetworkSupport = "UserNamespacesHostNetworkSupport", OFF;

    /// Capacity of devices that is shared.
    DraConsumableCapacity = "DRAConsumableCapacity", ON;
    /// Conditions of devices that are waited for before a pod is bound.
    DraDeviceBindingConditions = "DRADeviceBindingConditions", ON;
    /// Taints of devices.
    DraDeviceTaints = "DRADeviceTaints", ON;
    /// Devices as extended resources.
    DraExtendedResource = "DRAExtendedResource", ON;
    /// Attributes of devices that are lists.
    DraListTypeAttributes = "DRAListTypeAttributes", OFF;
    /// Shares of a node's allocatable resources that devices take.
    DraNodeAllocatableResources = "DRANodeAllocatableResources", OFF;
    /// Devices that are parts of others.
    DraPartitionableDevices = "DRAPartitionableDevices", ON;
    /// Requests for devices with alternatives.
    DraPrioritizedList = "DRAPrioritizedList", ON;
    /// The state of devices in a claim's status.
    DraResourceClaimDeviceStatus = "DRAResourceClaimDeviceStatus", ON;
    /// Rights on parts of a claim's status.
    DraResourceClaimGranularStatusAuthorization = "DRAResourceClaimGranularStatusAuthorization", ON;

    /// Leader election by LeaseCandidates.
    CoordinatedLeaderElection = "CoordinatedLeaderElection", OFF;
    /// Volumes filled from objects of other namespaces.
    CrossNamespaceVolumeDataSource = "CrossNamespaceVolumeDataSource", OFF;
    /// Counts of terminating pods in the status of Deployments and ReplicaSets.
    DeploymentReplicaSetTerminatingReplicas = "DeploymentReplicaSetTerminatingReplicas", ON;
    /// Tolerances of HorizontalPodAutoscalers.
    HpaConfigurableTolerance = "HPAConfigurableTolerance", ON;
    /// HorizontalPodAutoscalers that go down to no replica.
    HpaScaleToZero = "HPAScaleToZero", OFF;
    /// Several pods at a time in updates of StatefulSets.
    MaxUnavailableStatefulSet = "MaxUnavailableStatefulSet", OFF;
    /// Node affinities of PersistentVolumes that change.
    MutablePvNodeAffinity = "MutablePVNodeAffinity", OFF;
    /// Resources of suspended Jobs that change.
    MutablePodResourcesForSuspendedJobs = "MutablePodResourcesForSuspendedJobs", ON;
    /// Scheduling of suspended Jobs that changes.
    MutableSchedulingDirectivesForSuspendedJobs = "MutableSchedulingDirectivesForSuspendedJobs", ON;
    /// Features that nodes declare, and pods that need them.
    NodeDeclaredFeatures = "NodeDeclaredFeatures", ON;
    /// Names of services that begin with a digit.
    RelaxedServiceNameValidation = "RelaxedServiceNameValidation", ON;
    /// Status of ServiceCIDRs that writers of the spec cannot set.
    ServiceCidrStatusFieldWiping = "ServiceCIDRStatusFieldWiping", ON;
    /// Addresses and CIDRs in canonical form only.
    StrictIpCidrValidation = "StrictIPCIDRValidation", ON;
    /// Pods that are kept from nodes without a CSI driver.
    VolumeLimitScaling = "VolumeLimitScaling", OFF;
    /// The UID in a request for a token.
    TokenRequestServiceAccountUidValidation = "TokenRequestServiceAccountUIDValidation", ON;

    /// Deletions on purpose of what cannot be read.
    AllowUnsafeMalformedObjectDeletion = "AllowUnsafeMalformedObjectDeletion", OFF;
    /// The permission to create a connection to a pod, also for those that begin with a GET.
    AuthorizePodWebsocketUpgradeCreatePermission = "AuthorizePodWebsocketUpgradeCreatePermission", ON;
    /// `/flagz`.
    ComponentFlagz = "ComponentFlagz", ON;
    /// `/statusz`.
    ComponentStatusz = "ComponentStatusz", ON;
    /// Compressed answers.
    ApiResponseCompression = "APIResponseCompression", ON;
    /// Certificates of kubelets' servers that kubelets may ask for in anyone's name.
    AllowInsecureKubeletCertificateSigningRequests = "AllowInsecureKubeletCertificateSigningRequests", OFF;
    /// UIDs of users in client certificates.
    AllowParsingUserUidFromCertAuth = "AllowParsingUserUIDFromCertAuth", ON;
    /// Impersonation with fewer rights than those of the other user.
    ConstrainedImpersonation = "ConstrainedImpersonation", ON;
    /// MutatingAdmissionPolicies that are obeyed.
    MutatingAdmissionPolicy = "MutatingAdmissionPolicy", ON;
    /// Values of strings in OpenAPI documents.
    OpenApiEnums = "OpenAPIEnums", ON;
    /// Labels of a node's place on its pods.
    PodTopologyLabelsAdmission = "PodTopologyLabelsAdmission", ON;
    /// Audiences of the tokens that kubelets ask for.
    ServiceAccountNodeAudienceRestriction = "ServiceAccountNodeAudienceRestriction", ON;
    /// HTTP/2 connections that end after a request of nobody known.
    UnauthenticatedHttp2DosMitigation = "UnauthenticatedHTTP2DOSMitigation", ON;
    /// Watches that begin with the state.
    WatchList = "WatchList", ON;
}

/// The features that are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features(u128);

impl Default for Features {
    fn default() -> Self {
        Self::of(|_, _, by_default| by_default)
    }
}

impl Features {
    /// Those whose gates are on.
    pub fn of_gates(is_on: impl Fn(&str) -> bool) -> Self {
        Self::of(|_, gate, _| is_on(gate))
    }

    /// Those that are on by default, and these.
    pub fn with(features: &[Feature]) -> Self {
        Self::of(|feature, _, by_default| by_default || features.contains(&feature))
    }

    /// Those that are on by default, but not these.
    pub fn without(features: &[Feature]) -> Self {
        Self::of(|feature, _, by_default| by_default && !features.contains(&feature))
    }

    fn of(is_on: impl Fn(Feature, &str, bool) -> bool) -> Self {
        let on = Feature::ALL
            .iter()
            .filter(|(feature, gate, by_default)| is_on(*feature, gate, *by_default));
        Self(on.fold(0, |all, (feature, ..)| all | feature.bit()))
    }

    /// Reports whether a feature is on.
    pub fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// Reports whether the feature of a gate is on.
    pub fn has_gate(self, gate: &str) -> bool {
        let mut all = Feature::ALL.iter();
        all.any(|(feature, of, _)| *of == gate && self.has(*feature))
    }
}

impl Feature {
    const fn bit(self) -> u128 {
        1 << self as u32
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
    }

    #[test]
    fn features_are_switched_beside_those_that_are_on_by_default() {
        let (on, off) = (Feature::ContainerRestartRules, Feature::ContainerStopSignals);
        let both = Features::with(&[off]);
        assert!(both.has(on) && both.has(off));
        assert!(!Features::without(&[on]).has(on));
        assert_eq!(Features::with(&[]), Features::default());
        assert_eq!(Features::without(&[]), Features::default());
    }

    #[test]
    fn each_feature_has_a_bit() {
        assert!(Feature::ALL.len() <= 128, "the set has no room for more");
    }
}
