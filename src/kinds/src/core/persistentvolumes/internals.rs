//! Volumes as messages show them: Kubernetes' internal structs.

use serde_json::Value;
use trireme_machinery::go_text::structs::{self, PrintedField, PrintedShape};

const TERMS: &[PrintedField] = &[
    ("MatchExpressions", "matchExpressions", PrintedShape::List(REQUIREMENT)),
    ("MatchFields", "matchFields", PrintedShape::List(REQUIREMENT)),
];
const REQUIREMENT: &[PrintedField] = &[
    ("Key", "key", PrintedShape::Text),
    ("Operator", "operator", PrintedShape::Text),
    ("Values", "values", PrintedShape::Plain),
];
/// `core.VolumeNodeAffinity`.
pub(super) const NODE_AFFINITY: &[PrintedField] = &[(
    "Required",
    "required",
    PrintedShape::Pointer(&[("NodeSelectorTerms", "nodeSelectorTerms", PrintedShape::List(TERMS))]),
)];

const SECRET: &[PrintedField] = &[
    ("Name", "name", PrintedShape::Text),
    ("Namespace", "namespace", PrintedShape::Text),
];
const OBJECT: &[PrintedField] = &[
    ("Kind", "kind", PrintedShape::Text),
    ("Namespace", "namespace", PrintedShape::Text),
    ("Name", "name", PrintedShape::Text),
    ("UID", "uid", PrintedShape::Text),
    ("APIVersion", "apiVersion", PrintedShape::Text),
    ("ResourceVersion", "resourceVersion", PrintedShape::Text),
    ("FieldPath", "fieldPath", PrintedShape::Text),
];
const FS_TYPE: PrintedField = ("FSType", "fsType", PrintedShape::Text);
const READ_ONLY: PrintedField = ("ReadOnly", "readOnly", PrintedShape::Bool);
const PARTITION: PrintedField = ("Partition", "partition", PrintedShape::Number);
const VOLUME_ID: PrintedField = ("VolumeID", "volumeID", PrintedShape::Text);
const SECRET_REF: PrintedField = ("SecretRef", "secretRef", PrintedShape::Pointer(SECRET));

/// The fields of `core.PersistentVolumeSpec` before those of its source, which stand in the struct itself.
const BEFORE_SOURCE: &[PrintedField] = &[("Capacity", "capacity", PrintedShape::Plain)];
/// The fields after them.
const AFTER_SOURCE: &[PrintedField] = &[
    ("AccessModes", "accessModes", PrintedShape::Plain),
    ("ClaimRef", "claimRef", PrintedShape::Pointer(OBJECT)),
    (
        "PersistentVolumeReclaimPolicy",
        "persistentVolumeReclaimPolicy",
        PrintedShape::Text,
    ),
    ("StorageClassName", "storageClassName", PrintedShape::Text),
    ("MountOptions", "mountOptions", PrintedShape::Plain),
    ("VolumeMode", "volumeMode", PrintedShape::Plain),
    ("NodeAffinity", "nodeAffinity", PrintedShape::Pointer(NODE_AFFINITY)),
    (
        "VolumeAttributesClassName",
        "volumeAttributesClassName",
        PrintedShape::Plain,
    ),
];

/// Prints a pointer to the spec of a volume (`core.PersistentVolumeSpec`).
pub(crate) fn shown_spec(spec: Option<&Value>) -> String {
    if spec.is_none_or(Value::is_null) {
        return "null".to_owned();
    }
    let parts = [BEFORE_SOURCE, SOURCE, AFTER_SOURCE].map(|fields| {
        let shown = structs::compact(spec, PrintedShape::Struct(fields));
        let inner = shown.strip_prefix('{').and_then(|shown| shown.strip_suffix('}'));
        inner.unwrap_or_default().to_owned()
    });
    format!("{{{}}}", parts.join(","))
}

/// `core.PersistentVolumeSource`.
pub(super) const SOURCE: &[PrintedField] = &[
    (
        "GCEPersistentDisk",
        "gcePersistentDisk",
        PrintedShape::Pointer(&[("PDName", "pdName", PrintedShape::Text), FS_TYPE, PARTITION, READ_ONLY]),
    ),
    (
        "AWSElasticBlockStore",
        "awsElasticBlockStore",
        PrintedShape::Pointer(&[VOLUME_ID, FS_TYPE, PARTITION, READ_ONLY]),
    ),
    (
        "HostPath",
        "hostPath",
        PrintedShape::Pointer(&[
            ("Path", "path", PrintedShape::Text),
            ("Type", "type", PrintedShape::Plain),
        ]),
    ),
    (
        "Glusterfs",
        "glusterfs",
        PrintedShape::Pointer(&[
            ("EndpointsName", "endpoints", PrintedShape::Text),
            ("Path", "path", PrintedShape::Text),
            READ_ONLY,
            ("EndpointsNamespace", "endpointsNamespace", PrintedShape::Plain),
        ]),
    ),
    (
        "NFS",
        "nfs",
        PrintedShape::Pointer(&[
            ("Server", "server", PrintedShape::Text),
            ("Path", "path", PrintedShape::Text),
            READ_ONLY,
        ]),
    ),
    (
        "RBD",
        "rbd",
        PrintedShape::Pointer(&[
            ("CephMonitors", "monitors", PrintedShape::Plain),
            ("RBDImage", "image", PrintedShape::Text),
            FS_TYPE,
            ("RBDPool", "pool", PrintedShape::Text),
            ("RadosUser", "user", PrintedShape::Text),
            ("Keyring", "keyring", PrintedShape::Text),
            SECRET_REF,
            READ_ONLY,
        ]),
    ),
    (
        "Quobyte",
        "quobyte",
        PrintedShape::Pointer(&[
            ("Registry", "registry", PrintedShape::Text),
            ("Volume", "volume", PrintedShape::Text),
            READ_ONLY,
            ("User", "user", PrintedShape::Text),
            ("Group", "group", PrintedShape::Text),
            ("Tenant", "tenant", PrintedShape::Text),
        ]),
    ),
    (
        "ISCSI",
        "iscsi",
        PrintedShape::Pointer(&[
            ("TargetPortal", "targetPortal", PrintedShape::Text),
            ("IQN", "iqn", PrintedShape::Text),
            ("Lun", "lun", PrintedShape::Number),
            ("ISCSIInterface", "iscsiInterface", PrintedShape::Text),
            FS_TYPE,
            READ_ONLY,
            ("Portals", "portals", PrintedShape::Plain),
            ("DiscoveryCHAPAuth", "chapAuthDiscovery", PrintedShape::Bool),
            ("SessionCHAPAuth", "chapAuthSession", PrintedShape::Bool),
            SECRET_REF,
            ("InitiatorName", "initiatorName", PrintedShape::Plain),
        ]),
    ),
    (
        "FlexVolume",
        "flexVolume",
        PrintedShape::Pointer(&[
            ("Driver", "driver", PrintedShape::Text),
            FS_TYPE,
            SECRET_REF,
            READ_ONLY,
            ("Options", "options", PrintedShape::Plain),
        ]),
    ),
    (
        "Cinder",
        "cinder",
        PrintedShape::Pointer(&[VOLUME_ID, FS_TYPE, READ_ONLY, SECRET_REF]),
    ),
    (
        "CephFS",
        "cephfs",
        PrintedShape::Pointer(&[
            ("Monitors", "monitors", PrintedShape::Plain),
            ("Path", "path", PrintedShape::Text),
            ("User", "user", PrintedShape::Text),
            ("SecretFile", "secretFile", PrintedShape::Text),
            SECRET_REF,
            READ_ONLY,
        ]),
    ),
    (
        "FC",
        "fc",
        PrintedShape::Pointer(&[
            ("TargetWWNs", "targetWWNs", PrintedShape::Plain),
            ("Lun", "lun", PrintedShape::Plain),
            FS_TYPE,
            READ_ONLY,
            ("WWIDs", "wwids", PrintedShape::Plain),
        ]),
    ),
    (
        "Flocker",
        "flocker",
        PrintedShape::Pointer(&[
            ("DatasetName", "datasetName", PrintedShape::Text),
            ("DatasetUUID", "datasetUUID", PrintedShape::Text),
        ]),
    ),
    (
        "AzureFile",
        "azureFile",
        PrintedShape::Pointer(&[
            ("SecretName", "secretName", PrintedShape::Text),
            ("ShareName", "shareName", PrintedShape::Text),
            READ_ONLY,
            ("SecretNamespace", "secretNamespace", PrintedShape::Plain),
        ]),
    ),
    (
        "VsphereVolume",
        "vsphereVolume",
        PrintedShape::Pointer(&[
            ("VolumePath", "volumePath", PrintedShape::Text),
            FS_TYPE,
            ("StoragePolicyName", "storagePolicyName", PrintedShape::Text),
            ("StoragePolicyID", "storagePolicyID", PrintedShape::Text),
        ]),
    ),
    (
        "AzureDisk",
        "azureDisk",
        PrintedShape::Pointer(&[
            ("DiskName", "diskName", PrintedShape::Text),
            ("DataDiskURI", "diskURI", PrintedShape::Text),
            ("CachingMode", "cachingMode", PrintedShape::Plain),
            ("FSType", "fsType", PrintedShape::Plain),
            ("ReadOnly", "readOnly", PrintedShape::Plain),
            ("Kind", "kind", PrintedShape::Plain),
        ]),
    ),
    (
        "PhotonPersistentDisk",
        "photonPersistentDisk",
        PrintedShape::Pointer(&[("PdID", "pdID", PrintedShape::Text), FS_TYPE]),
    ),
    (
        "PortworxVolume",
        "portworxVolume",
        PrintedShape::Pointer(&[VOLUME_ID, FS_TYPE, READ_ONLY]),
    ),
    (
        "ScaleIO",
        "scaleIO",
        PrintedShape::Pointer(&[
            ("Gateway", "gateway", PrintedShape::Text),
            ("System", "system", PrintedShape::Text),
            SECRET_REF,
            ("SSLEnabled", "sslEnabled", PrintedShape::Bool),
            ("ProtectionDomain", "protectionDomain", PrintedShape::Text),
            ("StoragePool", "storagePool", PrintedShape::Text),
            ("StorageMode", "storageMode", PrintedShape::Text),
            ("VolumeName", "volumeName", PrintedShape::Text),
            FS_TYPE,
            READ_ONLY,
        ]),
    ),
    (
        "Local",
        "local",
        PrintedShape::Pointer(&[
            ("Path", "path", PrintedShape::Text),
            ("FSType", "fsType", PrintedShape::Plain),
        ]),
    ),
    (
        "StorageOS",
        "storageos",
        PrintedShape::Pointer(&[
            ("VolumeName", "volumeName", PrintedShape::Text),
            ("VolumeNamespace", "volumeNamespace", PrintedShape::Text),
            FS_TYPE,
            READ_ONLY,
            ("SecretRef", "secretRef", PrintedShape::Pointer(OBJECT)),
        ]),
    ),
    (
        "CSI",
        "csi",
        PrintedShape::Pointer(&[
            ("Driver", "driver", PrintedShape::Text),
            ("VolumeHandle", "volumeHandle", PrintedShape::Text),
            READ_ONLY,
            FS_TYPE,
            ("VolumeAttributes", "volumeAttributes", PrintedShape::Plain),
            (
                "ControllerPublishSecretRef",
                "controllerPublishSecretRef",
                PrintedShape::Pointer(SECRET),
            ),
            (
                "NodeStageSecretRef",
                "nodeStageSecretRef",
                PrintedShape::Pointer(SECRET),
            ),
            (
                "NodePublishSecretRef",
                "nodePublishSecretRef",
                PrintedShape::Pointer(SECRET),
            ),
            (
                "ControllerExpandSecretRef",
                "controllerExpandSecretRef",
                PrintedShape::Pointer(SECRET),
            ),
            (
                "NodeExpandSecretRef",
                "nodeExpandSecretRef",
                PrintedShape::Pointer(SECRET),
            ),
        ]),
    ),
];
