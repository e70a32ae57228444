//! Tests of the errors of invalid pods, field by field as kube-apiserver's own validation has it.

use serde_json::{Value, json};

use super::kind;
use crate::testing::{Trial, merged};

fn trial() -> Trial {
    Trial::new("", "pods", kind(Default::default()))
}

/// A pod that can be, with this merged into its spec.
fn pod(spec: Value) -> Value {
    let base = json!({
        "metadata": { "name": "p", "namespace": "n", "labels": { "app": "x" } },
        "spec": { "containers": [{ "name": "c", "image": "i:1" }], "serviceAccountName": "default" },
    });
    merged(&base, &json!({ "spec": spec }))
}

fn volume(source: Value) -> Value {
    pod(json!({ "volumes": [merged(&json!({ "name": "v" }), &source)] }))
}

fn container(fields: Value) -> Value {
    pod(json!({ "containers": [merged(&json!({ "name": "c", "image": "i:1" }), &fields)] }))
}

fn annotated(annotations: Value, spec: Value) -> Value {
    merged(&pod(spec), &json!({ "metadata": { "annotations": annotations } }))
}

#[test]
fn volumes() {
    let portal = "a-portal-that-is-long-enough-to-be-too-long-with-the-name.test:3260";
    trial().expect_errors(&[
        (
            volume(json!({ "gcePersistentDisk": {}, "cephfs": { "monitors": [] }, "downwardAPI": {} })),
            &[
                "spec.volumes[0].persistentDisk.pdName: Required value",
                "spec.volumes[0].cephFS: Forbidden: may not specify more than 1 volume type",
                "spec.volumes[0].downwarAPI: Forbidden: may not specify more than 1 volume type",
            ],
        ),
        (
            volume(json!({ "iscsi": { "targetPortal": "p", "iqn": "bad", "lun": 0, "initiatorName": "naa.1" } })),
            &[
                "spec.volumes[0].iscsi.iqn: Invalid value: \"bad\": must be valid format starting with iqn, eui, or naa",
                "spec.volumes[0].iscsi.initiatorname: Invalid value: \"naa.1\": must be valid format",
            ],
        ),
        (
            volume(json!({ "iscsi": {
                "targetPortal": portal, "iqn": "iqn.2001-04.com.example:s", "lun": 0,
                "initiatorName": "eui.0123456789abcdef",
            } })),
            &["spec.volumes[0].name: Invalid value: \"v\": Total length of <volume name>:<iscsi.targetPortal> must be \
               under 64 characters if iscsi.initiatorName is specified."],
        ),
        (
            volume(json!({ "nfs": { "server": "s" } })),
            &[
                "spec.volumes[0].nfs.path: Required value",
                "spec.volumes[0].nfs.path: Invalid value: \"\": must be an absolute path",
            ],
        ),
        (
            volume(json!({ "quobyte": { "registry": "r:1,odd", "volume": "" } })),
            &[
                "spec.volumes[0].quobyte.registry: Invalid value: \"r:1,odd\": must be a host:port pair or multiple \
                 pairs separated by commas",
                "spec.volumes[0].quobyte.volume: Required value",
            ],
        ),
        (
            volume(json!({ "flexVolume": { "driver": "d", "options": { "a.kubernetes.io/x": "y" } } })),
            &["spec.volumes[0].flexVolume.options[a.kubernetes.io/x]: Invalid value: \"a.kubernetes.io/x\": \
               kubernetes.io and k8s.io namespaces are reserved"],
        ),
        (
            volume(json!({ "cinder": { "volumeID": "v", "secretRef": {} } })),
            &["spec.volumes[0].cinder.secretRef.name: Required value"],
        ),
        (volume(json!({ "csi": { "driver": "" } })), &["spec.volumes[0].csi.driver: Required value"]),
        (
            volume(json!({ "azureDisk": { "diskName": "d", "diskURI": "ftp://x", "kind": "Managed" } })),
            &["spec.volumes[0].azureDisk.diskURI: Unsupported value: \"ftp://x\": supported values: \
               \"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}\""],
        ),
        (
            volume(json!({ "projected": { "sources": [{ "secret": { "name": "s" }, "configMap": { "name": "m" } }] } })),
            &["spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"],
        ),
        (volume(json!({ "image": { "reference": "" } })), &["spec.volumes[0].image.reference: Required value"]),
    ]);
}

#[test]
fn claims_that_are_made_for_a_pod() {
    let template = |metadata: Value| {
        let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        json!({ "volumeClaimTemplate": { "metadata": metadata, "spec": spec } })
    };
    trial().expect_errors(&[
        (
            volume(json!({ "ephemeral": template(json!({ "name": "x", "labels": { "a": "b" } })) })),
            &["spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set"],
        ),
        (
            pod(json!({ "volumes": [
                { "name": "v", "ephemeral": template(json!({})) },
                { "name": "w", "persistentVolumeClaim": { "claimName": "p-v" } },
            ] })),
            &["spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: \"p-v\": must not reference a PVC that \
               gets created for an ephemeral volume"],
        ),
    ]);
}

#[test]
fn containers() {
    let rules = json!([{ "action": "", "exitCodes": { "operator": "" } }]);
    let init = |fields: Value| {
        let init = merged(&json!({ "name": "i", "image": "i:1" }), &fields);
        pod(json!({ "initContainers": [init] }))
    };
    let from_file = |volume: &str| json!({ "env": [{ "name": "A", "valueFrom": { "fileKeyRef": { "key": "A", "path": "..f", "volumeName": volume } } }] });
    trial().expect_errors(&[
        (
            container(json!({ "restartPolicy": "Never", "restartPolicyRules": rules })),
            &[
                "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"\": supported values: \
                 \"Restart\", \"RestartAllContainers\"",
                "spec.containers[0].restartPolicyRules[0].exitCodes.operator: Unsupported value: \"\": supported \
                 values: \"In\", \"NotIn\"",
            ],
        ),
        (
            init(json!({ "restartPolicyRules": rules })),
            &["spec.initContainers[0].restartPolicy: Required value: must specify restartPolicy when restart rules \
               are used"],
        ),
        (
            init(json!({ "resizePolicy": [{ "resourceName": "cpu", "restartPolicy": "RestartContainer" }] })),
            &["spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: \"RestartContainer\": must not be \
               set to 'RestartContainer' for non-sidecar initContainers"],
        ),
        (
            container(from_file("gone")),
            &["spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: \"gone\""],
        ),
        (
            merged(
                &container(from_file("v")),
                &json!({ "spec": { "volumes": [{ "name": "v", "hostPath": { "path": "/" } }] } }),
            ),
            &["spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: \"v\": referenced volume \
               must be of type emptyDir"],
        ),
        (container(json!({ "envFrom": [{ "secretRef": { "name": "a-" } }] })), &[]),
    ]);
}

#[test]
fn resources() {
    let claims = |claims: Value| {
        let spec = json!({ "resourceClaims": [{ "name": "a", "resourceClaimName": "a" }] });
        merged(
            &container(json!({ "resources": { "claims": claims } })),
            &json!({ "spec": spec }),
        )
    };
    trial().expect_errors(&[
        (
            claims(json!([{ "name": "a", "request": "x" }, { "name": "a", "request": "x" }, { "name": "a" }])),
            &[
                "spec.containers[0].resources.claims[1]: Duplicate value: \"a/x\"",
                "spec.containers[0].resources.claims[2]: Duplicate value: \"a\"",
            ],
        ),
        (
            claims(json!([{ "name": "a", "request": "x" }, { "name": "a", "request": "y" }])),
            &[],
        ),
        (
            pod(json!({ "resources": { "claims": [{ "name": "a" }], "limits": { "bogus": "1" } } })),
            &[
                "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
                "spec.resources.limits[bogus]: Invalid value: \"bogus\": must be a standard resource type or fully \
                 qualified",
                "spec.resources.claims[0]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims which \
                 is empty",
            ],
        ),
        (
            pod(json!({ "os": { "name": "windows" }, "resources": { "limits": { "cpu": "1" } } })),
            &["spec.resources: Forbidden: may not be set for a windows pod"],
        ),
    ]);
}

#[test]
fn the_parts_of_a_spec_are_looked_at_in_order() {
    trial().expect_errors(&[(
        pod(json!({
            "volumes": [{ "name": "", "emptyDir": {} }],
            "resourceClaims": [{ "name": "", "resourceClaimName": "a" }],
            "hostNetwork": true,
            "setHostnameAsFQDN": true,
            "hostnameOverride": "Bad_",
            "serviceAccountName": "Bad_",
            "containers": [{ "name": "c", "image": "i:1", "ports": [{ "containerPort": 1, "hostPort": 2 }] }],
            "restartPolicy": "Odd",
            "preemptionPolicy": "",
        })),
        &[
            "spec.volumes[0].name: Required value",
            "spec.resourceClaims[0].name: Required value",
            "spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is \
             true",
            "spec.restartPolicy: Unsupported value: \"Odd\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            "spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true",
            "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
            "spec.hostnameOverride: Invalid value: \"Bad_\": a lowercase RFC 1123 subdomain must consist of lower case \
             alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            "spec.serviceAccountName: Invalid value: \"Bad_\": a lowercase RFC 1123 subdomain must consist of lower \
             case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            "spec.preemptionPolicy: Required value",
        ],
    )]);
}

#[test]
fn security() {
    let context = |fields: Value| pod(json!({ "securityContext": fields }));
    let user = |name: &str| context(json!({ "windowsOptions": { "runAsUserName": name } }));
    let of_user = "spec.securityContext.windowsOptions.runAsUserName: Invalid value:";
    trial().expect_errors(&[
        (
            merged(
                &context(json!({ "sysctls": [{ "name": "net.a", "value": "1" }, { "name": "kernel/shm/b", "value": "1" }] })),
                &json!({ "spec": { "hostNetwork": true, "hostIPC": true } }),
            ),
            &[
                "spec.securityContext.sysctls[0].name: Invalid value: \"net.a\": may not be specified when \
                 'hostNetwork' is true",
                "spec.securityContext.sysctls[1].name: Invalid value: \"kernel/shm/b\": may not be specified when \
                 'hostIPC' is true",
            ],
        ),
        (
            context(json!({ "seccompProfile": { "type": "", "localhostProfile": "a" }, "appArmorProfile": { "type": "" } })),
            &[
                "spec.securityContext.seccompProfile.type: Required value: type is required when seccompProfile is set",
                "spec.securityContext.seccompProfile.localhostProfile: Invalid value: \
                 {\"Type\":\"\",\"LocalhostProfile\":\"a\"}: can only be set when seccomp type is Localhost",
                "spec.securityContext.appArmorProfile.type: Required value: type is required when appArmorProfile is set",
            ],
        ),
        (
            user("a\\b\\c"),
            &[&format!("{of_user} \"a\\\\b\\\\c\": runAsUserName cannot contain more than one backslash")],
        ),
        (
            user(".d\\..."),
            &[
                &format!("{of_user} \".d\\\\...\": runAsUserName's Domain doesn't match the NetBios nor the DNS format"),
                &format!("{of_user} \".d\\\\...\": runAsUserName's User cannot contain only periods or spaces"),
            ],
        ),
        (
            pod(json!({ "hostUsers": false, "containers": [{ "name": "c", "image": "i:1", "volumeDevices": [{ "name": "v", "devicePath": "/d" }] }],
                "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }] })),
            &["spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false"],
        ),
        (
            pod(json!({ "hostNetwork": true, "securityContext": { "windowsOptions": { "hostProcess": true } } })),
            &["spec: Forbidden: hostProcess containers are disallowed by cluster policy"],
        ),
        (pod(json!({ "os": { "name": "" } })), &["spec.os.name: Required value"]),
    ]);
}

#[test]
fn scheduling() {
    let term = |fields: Value| {
        let affinity = json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            merged(&json!({ "topologyKey": "zone" }), &fields),
        ] } });
        pod(json!({ "affinity": affinity }))
    };
    let at = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    trial().expect_errors(&[
        (
            pod(json!({ "tolerations": [{ "key": "a", "operator": "Gt", "value": "1" }] })),
            &[
                "spec.tolerations[0].operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\", \
               \"Lt\", \"Gt\"",
            ],
        ),
        (
            term(json!({ "matchLabelKeys": ["app"], "labelSelector": { "matchLabels": { "app": "y" } } })),
            &[&format!(
                "{at}[0]: Invalid value: \"app\": exists in both matchLabelKeys and labelSelector"
            )],
        ),
        (
            term(json!({ "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"], "labelSelector": {} })),
            &[&format!(
                "{at}.matchLabelKeys[0]: Invalid value: \"a\": exists in both matchLabelKeys and mismatchLabelKeys"
            )],
        ),
        (
            pod(json!({ "topologySpreadConstraints": [
                { "maxSkew": 1, "topologyKey": "Not a key", "whenUnsatisfiable": "DoNotSchedule" },
            ] })),
            &[],
        ),
    ]);
}

#[test]
fn a_new_pod_gets_the_requirements_that_its_label_keys_stand_for() {
    let asked = json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "a": "b" } }, "matchLabelKeys": ["app", "none"] });
    let made = trial()
        .create(pod(json!({ "topologySpreadConstraints": [asked] })))
        .unwrap();
    assert_eq!(
        made["spec"]["topologySpreadConstraints"][0]["labelSelector"],
        json!({ "matchLabels": { "a": "b" }, "matchExpressions": [{ "key": "app", "operator": "In", "values": ["x"] }] })
    );
}

#[test]
fn annotations() {
    let armor = "container.apparmor.security.beta.kubernetes.io/";
    let unconfined = json!({ "containers": [{ "name": "c", "image": "i:1",
        "securityContext": { "seccompProfile": { "type": "Unconfined" } } }] });
    trial().expect_errors(&[
        (
            annotated(json!({ "kubernetes.io/config.mirror": "m" }), json!({})),
            &["metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"m\": must set spec.nodeName if \
               mirror pod annotation is set"],
        ),
        (
            annotated(json!({ "controller.kubernetes.io/pod-deletion-cost": "+1" }), json!({})),
            &["metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a \
               32bit integer"],
        ),
        (
            annotated(json!({ (format!("{armor}x")): "odd" }), json!({})),
            &[
                &format!("metadata.annotations[{armor}x]: Invalid value: \"x\": container not found"),
                &format!("metadata.annotations[{armor}x]: Invalid value: \"odd\": invalid AppArmor profile name: \"odd\""),
            ],
        ),
        (
            annotated(
                json!({ "container.seccomp.security.alpha.kubernetes.io/c": "runtime/default" }),
                unconfined,
            ),
            &["spec.containers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field \
               must match"],
        ),
    ]);
    let made = trial()
        .create(annotated(json!({ (format!("{armor}c")): "localhost/own" }), json!({})))
        .unwrap();
    assert_eq!(
        made["spec"]["containers"][0]["securityContext"]["appArmorProfile"],
        json!({ "type": "Localhost", "localhostProfile": "own" })
    );
    trial().expect_patch_errors(
        &made,
        &[(
            json!({ "metadata": { "annotations": { (format!("{armor}c")): null } } }),
            &[&format!(
                "metadata.annotations[{armor}c]: Forbidden: may not remove or update AppArmor annotations"
            )],
        )],
    );
}

#[test]
fn fields_of_features_that_are_off_are_dropped() {
    let asked = pod(json!({
        "schedulingGroup": { "podGroupName": "g" },
        "volumes": [{ "name": "v", "projected": { "sources": [{ "clusterTrustBundle": { "path": "p" } }] } }],
    }));
    let made = trial().create(asked).unwrap();
    assert_eq!(made["spec"]["schedulingGroup"], Value::Null);
    assert_eq!(made["spec"]["volumes"][0]["projected"]["sources"], json!([{}]));
}

#[test]
fn statuses() {
    let trial = trial();
    let made = trial.create(pod(json!({ "restartPolicy": "Always" }))).unwrap();
    let ended = json!({ "state": { "terminated": { "exitCode": 1 } } });
    let runs = json!({ "state": { "running": {} } });
    let status = |name: &str, state: &Value| {
        let fixed = json!({ "name": name, "ready": false, "restartCount": 0, "image": "i", "imageID": "" });
        merged(&fixed, state)
    };
    let with = |fields: Value| merged(&json!({ "phase": "Running", "qosClass": "BestEffort" }), &fields);
    let before = with(json!({
        "containerStatuses": [status("c", &ended), status("unknown", &ended)],
        "ephemeralContainerStatuses": [status("e", &ended)],
        "observedGeneration": 3,
        "conditions": [{ "type": "Ready", "status": "True", "observedGeneration": 2 }],
    }));
    let old = trial.status(&made, before).unwrap();
    trial.expect_status_errors(
        &old,
        &[
            (
                with(json!({
                    "containerStatuses": [status("c", &runs), status("unknown", &runs)],
                    "ephemeralContainerStatuses": [status("e", &runs)],
                })),
                &[
                    "status.containerStatuses[1].state: Forbidden: may not be transitioned to non-terminated state",
                    "status.ephemeralContainerStatuses[0].state: Forbidden: may not be transitioned to non-terminated \
                     state",
                ],
            ),
            (
                with(json!({ "containerStatuses": [merged(
                    &status("c", &ended),
                    &json!({ "user": { "linux": { "uid": -1, "gid": 0 } }, "allocatedResourcesStatus": [
                        { "name": "x", "resources": [{ "resourceID": "r", "health": "Odd" }, { "resourceID": "r" }] },
                    ] }),
                )] })),
                &[
                    "status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 2147483647, \
                     inclusive",
                    "status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: \"x\": must match one \
                     of the container's resource requests",
                    "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health: Unsupported value: \
                     \"Odd\": supported values: \"Healthy\", \"Unhealthy\", \"Unknown\"",
                    "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].health: Unsupported value: \
                     \"\": supported values: \"Healthy\", \"Unhealthy\", \"Unknown\"",
                    "status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: Duplicate value: \
                     \"r\"",
                ],
            ),
        ],
    );
    let status = with(json!({ "conditions": [{ "type": "Ready", "status": "False" }] }));
    let new = trial.status(&old, status).unwrap();
    assert_eq!(new["status"]["observedGeneration"], 3);
    assert_eq!(new["status"]["conditions"][0]["observedGeneration"], 2);
}

#[test]
fn warnings() {
    let port = |host_ip: &str, host_port: u16| json!({ "containerPort": 80, "protocol": "TCP", "hostIP": host_ip, "hostPort": host_port });
    let asked = pod(json!({
        "containers": [
            { "name": "a", "image": "i", "ports": [port("", 0), port("10.0.0.1", 0), { "name": "n", "containerPort": 81 }] },
            { "name": "b", "image": "i", "ports": [
                { "containerPort": 80, "protocol": "TCP" }, { "name": "n", "containerPort": 82 }, { "name": "m", "containerPort": 83 },
            ] },
        ],
        "volumes": [
            { "name": "v", "storageos": {} },
            { "name": "w", "configMap": { "name": "m", "items": [{ "key": "a", "path": "d" }, { "key": "b", "path": "d/e" }] } },
        ],
        "hostAliases": [{ "ip": "::0001" }, { "ip": "::0001" }],
        "overhead": { "memory": "100m" },
        "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "z" }] } },
    }));
    assert_eq!(
        trial().warnings(&asked, None),
        [
            "spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+",
            "volume \"w\" (ConfigMap \"m\"): overlapping paths: \"d/e\" with \"d\"",
            "spec.hostAliases[1].ip: duplicate ip \"::0001\"",
            "spec.overhead[memory]: fractional byte value \"100m\" is invalid, must be an integer",
            "spec.containers[0].ports[1]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:TCP \
             HostIP:10.0.0.1}",
            "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]",
            "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[1]",
            "spec.containers[1].ports[1]: duplicate port name \"n\" with spec.containers[0].ports[2], services and probes that \
             select ports by name will use spec.containers[0].ports[2]",
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: a null \
             labelSelector results in matching no pod",
            "spec.hostAliases[0].ip: IPv6 address \"::0001\" should be in RFC 5952 canonical format (\"::1\")",
            "spec.hostAliases[1].ip: IPv6 address \"::0001\" should be in RFC 5952 canonical format (\"::1\")",
        ]
    );
}
