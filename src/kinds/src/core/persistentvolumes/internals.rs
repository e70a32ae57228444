//! Volumes as messages show them: Kubernetes' internal structs.

use crate::internal::{Field, Shape};

const TERMS: &[Field] = &[
    ("MatchExpressions", "matchExpressions", Shape::List(REQUIREMENT)),
    ("MatchFields", "matchFields", Shape::List(REQUIREMENT)),
];
const REQUIREMENT: &[Field] = &[
    ("Key", "key", Shape::Text),
    ("Operator", "operator", Shape::Text),
    ("Values", "values", Shape::Plain),
];
/// `core.VolumeNodeAffinity`.
pub(super) const NODE_AFFINITY: &[Field] = &[(
    "Required",
    "required",
    Shape::Pointer(&[("NodeSelectorTerms", "nodeSelectorTerms", Shape::List(TERMS))]),
)];

const SECRET: &[Field] = &[("Name", "name", Shape::Text), ("Namespace", "namespace", Shape::Text)];
const OBJECT: &[Field] = &[
    ("Kind", "kind", Shape::Text),
    ("Namespace", "namespace", Shape::Text),
    ("Name", "name", Shape::Text),
    ("UID", "uid", Shape::Text),
    ("APIVersion", "apiVersion", Shape::Text),
    ("ResourceVersion", "resourceVersion", Shape::Text),
    ("FieldPath", "fieldPath", Shape::Text),
];
const FS_TYPE: Field = ("FSType", "fsType", Shape::Text);
const READ_ONLY: Field = ("ReadOnly", "readOnly", Shape::Bool);
const PARTITION: Field = ("Partition", "partition", Shape::Number);
const VOLUME_ID: Field = ("VolumeID", "volumeID", Shape::Text);
const SECRET_REF: Field = ("SecretRef", "secretRef", Shape::Pointer(SECRET));

/// `core.PersistentVolumeSource`.
pub(crate) const SOURCE: &[Field] = &[
    (
        "GCEPersistentDisk",
        "gcePersistentDisk",
        Shape::Pointer(&[("PDName", "pdName", Shape::Text), FS_TYPE, PARTITION, READ_ONLY]),
    ),
    (
        "AWSElasticBlockStore",
        "awsElasticBlockStore",
        Shape::Pointer(&[VOLUME_ID, FS_TYPE, PARTITION, READ_ONLY]),
    ),
    (
        "HostPath",
        "hostPath",
        Shape::Pointer(&[("Path", "path", Shape::Text), ("Type", "type", Shape::Plain)]),
    ),
    (
        "Glusterfs",
        "glusterfs",
        Shape::Pointer(&[
            ("EndpointsName", "endpoints", Shape::Text),
            ("Path", "path", Shape::Text),
            READ_ONLY,
            ("EndpointsNamespace", "endpointsNamespace", Shape::Plain),
        ]),
    ),
    (
        "NFS",
        "nfs",
        Shape::Pointer(&[
            ("Server", "server", Shape::Text),
            ("Path", "path", Shape::Text),
            READ_ONLY,
        ]),
    ),
    (
        "RBD",
        "rbd",
        Shape::Pointer(&[
            ("CephMonitors", "monitors", Shape::Plain),
            ("RBDImage", "image", Shape::Text),
            FS_TYPE,
            ("RBDPool", "pool", Shape::Text),
            ("RadosUser", "user", Shape::Text),
            ("Keyring", "keyring", Shape::Text),
            SECRET_REF,
            READ_ONLY,
        ]),
    ),
    (
        "Quobyte",
        "quobyte",
        Shape::Pointer(&[
            ("Registry", "registry", Shape::Text),
            ("Volume", "volume", Shape::Text),
            READ_ONLY,
            ("User", "user", Shape::Text),
            ("Group", "group", Shape::Text),
            ("Tenant", "tenant", Shape::Text),
        ]),
    ),
    (
        "ISCSI",
        "iscsi",
        Shape::Pointer(&[
            ("TargetPortal", "targetPortal", Shape::Text),
            ("IQN", "iqn", Shape::Text),
            ("Lun", "lun", Shape::Number),
            ("ISCSIInterface", "iscsiInterface", Shape::Text),
            FS_TYPE,
            READ_ONLY,
            ("Portals", "portals", Shape::Plain),
            ("DiscoveryCHAPAuth", "chapAuthDiscovery", Shape::Bool),
            ("SessionCHAPAuth", "chapAuthSession", Shape::Bool),
            SECRET_REF,
            ("InitiatorName", "initiatorName", Shape::Plain),
        ]),
    ),
    (
        "FlexVolume",
        "flexVolume",
        Shape::Pointer(&[
            ("Driver", "driver", Shape::Text),
            FS_TYPE,
            SECRET_REF,
            READ_ONLY,
            ("Options", "options", Shape::Plain),
        ]),
    ),
    (
        "Cinder",
        "cinder",
        Shape::Pointer(&[VOLUME_ID, FS_TYPE, READ_ONLY, SECRET_REF]),
    ),
    (
        "CephFS",
        "cephfs",
        Shape::Pointer(&[
            ("Monitors", "monitors", Shape::Plain),
            ("Path", "path", Shape::Text),
            ("User", "user", Shape::Text),
            ("SecretFile", "secretFile", Shape::Text),
            SECRET_REF,
            READ_ONLY,
        ]),
    ),
    (
        "FC",
        "fc",
        Shape::Pointer(&[
            ("TargetWWNs", "targetWWNs", Shape::Plain),
            ("Lun", "lun", Shape::Plain),
            FS_TYPE,
            READ_ONLY,
            ("WWIDs", "wwids", Shape::Plain),
        ]),
    ),
    (
        "Flocker",
        "flocker",
        Shape::Pointer(&[
            ("DatasetName", "datasetName", Shape::Text),
            ("DatasetUUID", "datasetUUID", Shape::Text),
        ]),
    ),
    (
        "AzureFile",
        "azureFile",
        Shape::Pointer(&[
            ("SecretName", "secretName", Shape::Text),
            ("ShareName", "shareName", Shape::Text),
            READ_ONLY,
            ("SecretNamespace", "secretNamespace", Shape::Plain),
        ]),
    ),
    (
        "VsphereVolume",
        "vsphereVolume",
        Shape::Pointer(&[
            ("VolumePath", "volumePath", Shape::Text),
            FS_TYPE,
            ("StoragePolicyName", "storagePolicyName", Shape::Text),
            ("StoragePolicyID", "storagePolicyID", Shape::Text),
        ]),
    ),
    (
        "AzureDisk",
        "azureDisk",
        Shape::Pointer(&[
            ("DiskName", "diskName", Shape::Text),
            ("DataDiskURI", "diskURI", Shape::Text),
            ("CachingMode", "cachingMode", Shape::Plain),
            ("FSType", "fsType", Shape::Plain),
            ("ReadOnly", "readOnly", Shape::Plain),
            ("Kind", "kind", Shape::Plain),
        ]),
    ),
    (
        "PhotonPersistentDisk",
        "photonPersistentDisk",
        Shape::Pointer(&[("PdID", "pdID", Shape::Text), FS_TYPE]),
    ),
    (
        "PortworxVolume",
        "portworxVolume",
        Shape::Pointer(&[VOLUME_ID, FS_TYPE, READ_ONLY]),
    ),
    (
        "ScaleIO",
        "scaleIO",
        Shape::Pointer(&[
            ("Gateway", "gateway", Shape::Text),
            ("System", "system", Shape::Text),
            SECRET_REF,
            ("SSLEnabled", "sslEnabled", Shape::Bool),
            ("ProtectionDomain", "protectionDomain", Shape::Text),
            ("StoragePool", "storagePool", Shape::Text),
            ("StorageMode", "storageMode", Shape::Text),
            ("VolumeName", "volumeName", Shape::Text),
            FS_TYPE,
            READ_ONLY,
        ]),
    ),
    (
        "Local",
        "local",
        Shape::Pointer(&[("Path", "path", Shape::Text), ("FSType", "fsType", Shape::Plain)]),
    ),
    (
        "StorageOS",
        "storageos",
        Shape::Pointer(&[
            ("VolumeName", "volumeName", Shape::Text),
            ("VolumeNamespace", "volumeNamespace", Shape::Text),
            FS_TYPE,
            READ_ONLY,
            ("SecretRef", "secretRef", Shape::Pointer(OBJECT)),
        ]),
    ),
    (
        "CSI",
        "csi",
        Shape::Pointer(&[
            ("Driver", "driver", Shape::Text),
            ("VolumeHandle", "volumeHandle", Shape::Text),
            READ_ONLY,
            FS_TYPE,
            ("VolumeAttributes", "volumeAttributes", Shape::Plain),
            (
                "ControllerPublishSecretRef",
                "controllerPublishSecretRef",
                Shape::Pointer(SECRET),
            ),
            ("NodeStageSecretRef", "nodeStageSecretRef", Shape::Pointer(SECRET)),
            ("NodePublishSecretRef", "nodePublishSecretRef", Shape::Pointer(SECRET)),
            (
                "ControllerExpandSecretRef",
                "controllerExpandSecretRef",
                Shape::Pointer(SECRET),
            ),
            ("NodeExpandSecretRef", "nodeExpandSecretRef", Shape::Pointer(SECRET)),
        ]),
    ),
];
