//! The fields of pods in the order and with the names that Kubernetes' error texts show them.
//!
//! One struct a line: its name, then its fields. A field is `Name` (a text), or `Name:` and a mark — `i` a number, `b`
//! a boolean, `q` a quantity, `p` something that may be absent, `S` a struct, `*S` a struct that may be absent, `[S` a
//! list of structs, `^S` the fields of `S` themselves. `Name/json` names the field of the API where it is not `Name`
//! with a small beginning. A struct whose name ends with `?` leaves absent fields out and uses the API's names.

pub(super) const LAYOUT: &str = "\
PodTemplateSpec ^ObjectMeta Spec:PodSpec
ObjectMeta? name generateName namespace labels annotations ownerReferences:[OwnerReference finalizers
OwnerReference? apiVersion kind name uid controller blockOwnerDeletion
PodSpec Volumes:[Volume InitContainers:[Container Containers:[Container EphemeralContainers:[EphemeralContainer RestartPolicy TerminationGracePeriodSeconds:p ActiveDeadlineSeconds:p DNSPolicy NodeSelector:p ServiceAccountName AutomountServiceAccountToken:p NodeName SecurityContext:*PodSecurityContext ImagePullSecrets:[LocalObjectReference Hostname Subdomain SetHostnameAsFQDN:p Affinity:*Affinity SchedulerName Tolerations:[Toleration HostAliases:[HostAlias PriorityClassName Priority:p PreemptionPolicy:p DNSConfig:*PodDNSConfig ReadinessGates:[PodReadinessGate RuntimeClassName:p Overhead:p EnableServiceLinks:p TopologySpreadConstraints:[TopologySpreadConstraint OS:*PodOS SchedulingGates:[PodSchedulingGate ResourceClaims:[PodResourceClaim Resources:*ResourceRequirements HostnameOverride:p SchedulingGroup:*PodSchedulingGroup
PodSecurityContext HostNetwork:b HostPID:b HostIPC:b ShareProcessNamespace:p HostUsers:p SELinuxOptions:*SELinuxOptions WindowsOptions:*WindowsOptions RunAsUser:p RunAsGroup:p RunAsNonRoot:p SupplementalGroups:p SupplementalGroupsPolicy:p FSGroup:p FSGroupChangePolicy:p Sysctls:[Sysctl SeccompProfile:*Profile AppArmorProfile:*Profile SELinuxChangePolicy:p
Container Name Image Command:p Args:p WorkingDir Ports:[ContainerPort EnvFrom:[EnvFromSource Env:[EnvVar Resources:ResourceRequirements ResizePolicy:[ResizePolicy RestartPolicy:p RestartPolicyRules:[RestartRule VolumeMounts:[VolumeMount VolumeDevices:[VolumeDevice LivenessProbe:*Probe ReadinessProbe:*Probe StartupProbe:*Probe Lifecycle:*Lifecycle TerminationMessagePath TerminationMessagePolicy ImagePullPolicy SecurityContext:*SecurityContext Stdin:b StdinOnce:b TTY:b
EphemeralContainer ^Container TargetContainerName
ContainerPort Name HostPort:i ContainerPort:i Protocol HostIP
EnvFromSource Prefix ConfigMapRef:*OptionalReference SecretRef:*OptionalReference
OptionalReference Name Optional:p
EnvVar Name Value ValueFrom:*EnvVarSource
EnvVarSource FieldRef:*FieldSelector ResourceFieldRef:*ResourceFieldSelector ConfigMapKeyRef:*KeySelector SecretKeyRef:*KeySelector FileKeyRef:*FileKeySelector
FieldSelector APIVersion FieldPath
ResourceFieldSelector ContainerName Resource Divisor:q
KeySelector Name Key Optional:p
FileKeySelector VolumeName Path Key Optional:p
ResourceRequirements Limits:p Requests:p Claims:[ResourceClaim
ResourceClaim Name Request
ResizePolicy ResourceName RestartPolicy
RestartRule Action ExitCodes:*RestartExitCodes
RestartExitCodes Operator Values:p
VolumeMount Name ReadOnly:b RecursiveReadOnly:p MountPath SubPath MountPropagation:p SubPathExpr
VolumeDevice Name DevicePath
Probe Exec:*ExecAction HTTPGet:*HTTPGetAction TCPSocket:*TCPSocketAction GRPC:*GRPCAction InitialDelaySeconds:i TimeoutSeconds:i PeriodSeconds:i SuccessThreshold:i FailureThreshold:i TerminationGracePeriodSeconds:p
Lifecycle PostStart:*Handler PreStop:*Handler StopSignal:p
Handler Exec:*ExecAction HTTPGet:*HTTPGetAction TCPSocket:*TCPSocketAction Sleep:*SleepAction
ExecAction Command:p
HTTPGetAction Path Port:i Host Scheme HTTPHeaders:[HTTPHeader
HTTPHeader Name Value
TCPSocketAction Port:i Host
GRPCAction Port:i Service:p
SleepAction Seconds:i
SecurityContext Capabilities:*Capabilities Privileged:p SELinuxOptions:*SELinuxOptions WindowsOptions:*WindowsOptions RunAsUser:p RunAsGroup:p RunAsNonRoot:p ReadOnlyRootFilesystem:p AllowPrivilegeEscalation:p ProcMount:p SeccompProfile:*Profile AppArmorProfile:*Profile
Capabilities Add:p Drop:p
SELinuxOptions User Role Type Level
WindowsOptions GMSACredentialSpecName:p GMSACredentialSpec:p RunAsUserName:p HostProcess:p
Profile Type LocalhostProfile:p
Sysctl Name Value
LocalObjectReference Name
Affinity NodeAffinity:*NodeAffinity PodAffinity:*PodAffinity PodAntiAffinity:*PodAffinity
NodeAffinity RequiredDuringSchedulingIgnoredDuringExecution:*NodeSelector PreferredDuringSchedulingIgnoredDuringExecution:[PreferredTerm
NodeSelector NodeSelectorTerms:[NodeSelectorTerm
NodeSelectorTerm MatchExpressions:[NodeSelectorRequirement MatchFields:[NodeSelectorRequirement
NodeSelectorRequirement Key Operator Values:p
PreferredTerm Weight:i Preference:NodeSelectorTerm
PodAffinity RequiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm PreferredDuringSchedulingIgnoredDuringExecution:[WeightedTerm
WeightedTerm Weight:i PodAffinityTerm:PodAffinityTerm
PodAffinityTerm LabelSelector:*LabelSelector Namespaces:p TopologyKey NamespaceSelector:*LabelSelector MatchLabelKeys:p MismatchLabelKeys:p
LabelSelector? matchLabels matchExpressions:[LabelRequirement
LabelRequirement? key operator values
Toleration Key Operator Value Effect TolerationSeconds:p
HostAlias IP Hostnames:p
PodDNSConfig Nameservers:p Searches:p Options:[DNSOption
DNSOption Name Value:p
PodReadinessGate ConditionType
TopologySpreadConstraint MaxSkew:i TopologyKey WhenUnsatisfiable LabelSelector:*LabelSelector MinDomains:p NodeAffinityPolicy:p NodeTaintsPolicy:p MatchLabelKeys:p
PodOS Name
PodSchedulingGate Name
PodResourceClaim Name ResourceClaimName:p ResourceClaimTemplateName:p
PodSchedulingGroup PodGroupName:p
PodIP IP
Volume Name HostPath:*HostPath EmptyDir:*EmptyDir GCEPersistentDisk:*GCEDisk AWSElasticBlockStore:*AWSDisk GitRepo:*GitRepo Secret:*Secret NFS:*NFS ISCSI:*ISCSI Glusterfs:*Glusterfs PersistentVolumeClaim:*Claim RBD:*RBD Quobyte:*Quobyte FlexVolume:*FlexVolume Cinder:*Cinder CephFS/cephfs:*CephFS Flocker:*Flocker DownwardAPI:*DownwardAPI FC:*FC AzureFile:*AzureFile ConfigMap:*ConfigMap VsphereVolume:*Vsphere AzureDisk:*AzureDisk PhotonPersistentDisk:*PhotonDisk Projected:*Projected PortworxVolume:*Portworx ScaleIO:*ScaleIO StorageOS/storageos:*StorageOS CSI:*CSI Ephemeral:*Ephemeral Image:*ImageVolume
HostPath Path Type:p
EmptyDir Medium SizeLimit:p
GCEDisk PDName FSType Partition:i ReadOnly:b
AWSDisk VolumeID FSType Partition:i ReadOnly:b
GitRepo Repository Revision Directory
Secret SecretName Items:[KeyToPath DefaultMode:p Optional:p
KeyToPath Key Path Mode:p
NFS Server Path ReadOnly:b
ISCSI TargetPortal IQN Lun:i ISCSIInterface/iscsiInterface FSType ReadOnly:b Portals:p DiscoveryCHAPAuth/chapAuthDiscovery:b SessionCHAPAuth/chapAuthSession:b SecretRef:*LocalObjectReference InitiatorName:p
Glusterfs EndpointsName/endpoints Path ReadOnly:b
Claim ClaimName ReadOnly:b
RBD CephMonitors/monitors:p RBDImage/image FSType RBDPool/pool RadosUser/user Keyring SecretRef:*LocalObjectReference ReadOnly:b
Quobyte Registry Volume ReadOnly:b User Group Tenant
FlexVolume Driver FSType SecretRef:*LocalObjectReference ReadOnly:b Options:p
Cinder VolumeID FSType ReadOnly:b SecretRef:*LocalObjectReference
CephFS Monitors:p Path User SecretFile SecretRef:*LocalObjectReference ReadOnly:b
Flocker DatasetName DatasetUUID
DownwardAPI Items:[DownwardFile DefaultMode:p
DownwardFile Path FieldRef:*FieldSelector ResourceFieldRef:*ResourceFieldSelector Mode:p
FC TargetWWNs:p Lun:p FSType ReadOnly:b WWIDs/wwids:p
AzureFile SecretName ShareName ReadOnly:b
ConfigMap Name Items:[KeyToPath DefaultMode:p Optional:p
Vsphere VolumePath FSType StoragePolicyName StoragePolicyID
AzureDisk DiskName DataDiskURI/diskURI CachingMode:p FSType:p ReadOnly:p Kind:p
PhotonDisk PdID FSType
Projected Sources:[Projection DefaultMode:p
Projection Secret:*SecretProjection DownwardAPI:*DownwardProjection ConfigMap:*SecretProjection ServiceAccountToken:*TokenProjection ClusterTrustBundle:*TrustBundleProjection PodCertificate:*CertificateProjection
SecretProjection Name Items:[KeyToPath Optional:p
DownwardProjection Items:[DownwardFile
TokenProjection Audience ExpirationSeconds:i Path
TrustBundleProjection Name:p SignerName:p LabelSelector:*LabelSelector Optional:p Path
CertificateProjection SignerName KeyType MaxExpirationSeconds:p CredentialBundlePath KeyPath CertificateChainPath UserAnnotations:p
Portworx VolumeID FSType ReadOnly:b
ScaleIO Gateway System SecretRef:*LocalObjectReference SSLEnabled:b ProtectionDomain StoragePool StorageMode VolumeName FSType ReadOnly:b
StorageOS VolumeName VolumeNamespace FSType ReadOnly:b SecretRef:*LocalObjectReference
CSI Driver ReadOnly:p FSType:p VolumeAttributes:p NodePublishSecretRef:*LocalObjectReference
Ephemeral VolumeClaimTemplate:*ClaimTemplate
ClaimTemplate ^ObjectMeta Spec:ClaimSpec
ClaimSpec AccessModes:p Selector:*LabelSelector Resources:VolumeResources VolumeName StorageClassName:p VolumeMode:p DataSource:*TypedReference DataSourceRef:*TypedReferenceAnywhere VolumeAttributesClassName:p
VolumeResources Limits:p Requests:p
TypedReference APIGroup:p Kind Name
TypedReferenceAnywhere APIGroup:p Kind Name Namespace:p
ImageVolume Reference PullPolicy
";
