//! Tests of templates through their strategies.

use serde_json::{Value, json};
use trireme_machinery::field::{ErrorList, Path};

use super::{Capabilities, default_pod, default_spec, layout, validate_pod_template_spec, warnings};

/// A spec with the static defaults that the schema sets.
fn spec(mut container: Value, mut rest: Value) -> Value {
    for (field, value) in [
        ("name", "main"),
        ("image", "repo.test/app:1"),
        ("terminationMessagePath", "/dev/termination-log"),
        ("terminationMessagePolicy", "File"),
        ("imagePullPolicy", "IfNotPresent"),
    ] {
        container.as_object_mut().unwrap().entry(field).or_insert(value.into());
    }
    let fields = rest.as_object_mut().unwrap();
    fields.insert("containers".into(), json!([container]));
    for (field, value) in [("restartPolicy", "Always"), ("dnsPolicy", "ClusterFirst")] {
        fields.entry(field).or_insert(value.into());
    }
    fields.entry("terminationGracePeriodSeconds").or_insert(30.into());
    fields.entry("securityContext").or_insert(json!({}));
    rest
}

fn errors(spec: Value) -> Vec<String> {
    errors_where(Capabilities::default(), spec)
}

fn errors_where(capabilities: Capabilities, spec: Value) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate_pod_template_spec(
        capabilities,
        &json!({ "spec": spec }),
        &Path::new("template"),
        &mut errors,
    );
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn errors_are_found_in_order() {
    let cases: [(Value, Value, &[&str]); 8] = [
        (
            json!({"ports": [{"containerPort": 80, "hostPort": 81, "protocol": "TCP"}, {"hostPort": 81, "protocol": "TCP"}]}),
            json!({"hostNetwork": true, "os": {"name": "windows"}}),
            &[
                "template.spec.containers[0].ports[1].containerPort: Required value",
                "template.spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//81\"",
                "template.spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when \
                 `hostNetwork` is true",
                "template.spec.containers[0].ports[1].hostPort: Invalid value: 81: must match `containerPort` when \
                 `hostNetwork` is true",
            ],
        ),
        (json!({}), json!({}), &[]),
        (
            json!({"image": ""}),
            json!({"dnsPolicy": "Odd"}),
            &[
                "template.spec.containers[0].image: Required value",
                "template.spec.dnsPolicy: Unsupported value: \"Odd\": supported values: \"ClusterFirstWithHostNet\", \
             \"ClusterFirst\", \"Default\", \"None\"",
            ],
        ),
        (
            json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2", "ex.test/gpu": "1500m"}, "claims": [{"name": "no"}]}}),
            json!({}),
            &[
                "template.spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to \
                 cpu limit of 1",
                "template.spec.containers[0].resources.requests[ex.test/gpu]: Invalid value: \"1500m\": must be an \
                 integer",
                "template.spec.containers[0].resources.limits: Required value: Limit must be set for non \
                 overcommitable resources",
                "template.spec.containers[0].resources.claims[0]: Not found: \"no\": must be one of the names in \
                 pod.spec.resourceClaims which is empty",
            ],
        ),
        (
            json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "no", "mountPath": "/a"}]}),
            json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "hostPath": {"path": ""}}]}),
            &[
                "template.spec.volumes[1].hostPath.path: Required value",
                "template.spec.volumes[1].name: Duplicate value: \"v\"",
                "template.spec.containers[0].volumeMounts[1].name: Not found: \"no\"",
                "template.spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
            ],
        ),
        (
            json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": false}}),
            json!({}),
            &[
                "template.spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy",
                "template.spec.containers[0].securityContext: Invalid value: {\"Capabilities\":null,\
                 \"Privileged\":true,\"SELinuxOptions\":null,\"WindowsOptions\":null,\"RunAsUser\":null,\
                 \"RunAsGroup\":null,\"RunAsNonRoot\":null,\"ReadOnlyRootFilesystem\":null,\
                 \"AllowPrivilegeEscalation\":false,\"ProcMount\":null,\"SeccompProfile\":null,\
                 \"AppArmorProfile\":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            ],
        ),
        (
            json!({"livenessProbe": {"successThreshold": 3}, "lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
            json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "v"}]}),
            &[
                "template.spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and \
                 less than terminationGracePeriodSeconds (30)",
                "template.spec.containers[0].livenessProbe: Required value: must specify a handler type",
                "template.spec.containers[0].livenessProbe.successThreshold: Invalid value: 3: must be 1",
                "template.spec.tolerations[0].operator: Invalid value: \"v\": value must be empty when `operator` is \
                 'Exists'",
            ],
        ),
        (
            json!({}),
            json!({"ephemeralContainers": [], "hostUsers": false, "hostPID": true}),
            &["template.spec.HostPID: Forbidden: when `hostUsers` is false"],
        ),
    ];
    for (container, rest, expected) in cases {
        assert_eq!(errors(spec(container, rest)), expected);
    }
}

#[test]
fn pull_policies_depend_on_tags() {
    let images = [
        "a",
        "a:latest",
        "a:1",
        "r.test:5000/a",
        "r.test:5000/a:1@sha256:0",
        "a@sha256:0",
    ];
    let mut spec = json!({"containers": images.map(|image| json!({"image": image}))});
    default_spec(&mut spec);
    let policies: Vec<&str> = spec["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["imagePullPolicy"].as_str().unwrap())
        .collect();
    assert_eq!(
        policies,
        [
            "Always",
            "Always",
            "IfNotPresent",
            "Always",
            "IfNotPresent",
            "IfNotPresent"
        ]
    );
}

#[test]
fn pods_have_more_defaults_than_templates() {
    let mut given = json!({
        "hostNetwork": true,
        "serviceAccount": "old",
        "volumes": [{"name": "v"}],
        "resources": {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}},
        "containers": [{"image": "a:1", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "500m"}}}],
    });
    default_spec(&mut given);
    assert_eq!(given["serviceAccountName"], "old");
    assert_eq!(given["volumes"], json!([{"name": "v", "emptyDir": {}}]));
    assert_eq!(given["containers"][0]["ports"], json!([{"containerPort": 80}]));
    default_pod(Default::default(), &mut given);
    assert_eq!(
        given["containers"][0]["ports"],
        json!([{"containerPort": 80, "hostPort": 80}])
    );
    assert_eq!(given["containers"][0]["resources"]["requests"], json!({"cpu": "500m"}));
    assert_eq!(given["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
    assert_eq!(given["enableServiceLinks"], true);
}

#[test]
fn huge_pages_of_containers_are_limits_of_a_pod_with_resources() {
    let limits = |of_pod: Value| {
        let pages = json!({ "limits": { "cpu": "1", "hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi" } });
        let mut spec = json!({ "resources": of_pod, "containers": [{ "resources": pages }] });
        default_pod(Default::default(), &mut spec);
        spec["resources"].clone()
    };
    assert_eq!(limits(json!({})), json!({}));
    assert_eq!(
        limits(json!({ "requests": { "cpu": "2", "hugepages-1Gi": "1Gi" } })),
        json!({
            "limits": { "hugepages-2Mi": "4Mi" },
            "requests": { "cpu": "2", "hugepages-1Gi": "1Gi", "hugepages-2Mi": "4Mi" },
        })
    );
}

#[test]
fn templates_are_shown_as_kubernetes_shows_them() {
    let template = json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"hostNetwork": true, "securityContext": {}, "tolerations": [{"key": "<"}]},
    });
    let text = layout::compact("PodTemplateSpec", &template);
    assert!(
        text.starts_with(r#"{"labels":{"app":"x"},"Spec":{"Volumes":null,"InitContainers":null,"#),
        "{text}"
    );
    assert!(
        text.contains(r#""SecurityContext":{"HostNetwork":true,"HostPID":false,"#),
        "{text}"
    );
    assert!(
        text.contains(r#"[{"Key":"\u003c","Operator":"","Value":"","Effect":"","TolerationSeconds":null}]"#),
        "{text}"
    );
    assert!(
        text.ends_with(r#""Resources":null,"HostnameOverride":null,"SchedulingGroup":null}}"#),
        "{text}"
    );
}

#[test]
fn deprecated_things_are_warned_of() {
    let template = json!({"spec": {
        "volumes": [{"name": "a", "rbd": {}}],
        "topologySpreadConstraints": [{"topologyKey": "zone"}],
        "containers": [{"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}],
    }});
    assert_eq!(
        warnings(&template, "spec.template"),
        [
            "spec.template.spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "spec.template.spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
            "spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using \
         apply",
        ]
    );
}

#[test]
fn privileged_containers_run_where_the_cluster_allows_them() {
    let privileged = || spec(json!({ "securityContext": { "privileged": true } }), json!({}));
    let refused = "template.spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy";
    assert_eq!(errors(privileged()), [refused]);
    let allowed = Capabilities {
        allow_privileged: true,
        ..Capabilities::default()
    };
    assert!(errors_where(allowed, privileged()).is_empty());
}

#[test]
fn a_selinux_change_policy_that_is_there_may_stay() {
    let with = |policy: &str| {
        spec(
            json!({}),
            json!({ "securityContext": { "seLinuxChangePolicy": policy } }),
        )
    };
    let at = "template.spec.securityContext.seLinuxChangePolicy: Unsupported value";
    let none = Capabilities::default();
    assert_eq!(
        errors(with("MountOption")),
        [format!("{at}: \"MountOption\": supported values: \"Recursive\"")]
    );
    for old in ["MountOption", "Recursive"] {
        let change = none.in_change_of(Some(&json!({ "spec": with(old) })));
        assert!(errors_where(change, with("MountOption")).is_empty(), "{old}");
        assert_eq!(
            errors_where(change, with("Never")),
            [format!(
                "{at}: \"Never\": supported values: \"MountOption\", \"Recursive\""
            )]
        );
    }
    let without = none.in_change_of(Some(&json!({ "spec": spec(json!({}), json!({})) })));
    assert_eq!(errors_where(without, with("MountOption")).len(), 1);
}

#[test]
fn huge_pages_are_asked_for_by_whole_pages_of_whole_bytes() {
    let errors = |page: &str, amount: &str| {
        let amounts = json!({ "cpu": "1", page: amount });
        let container = json!({ "resources": { "limits": amounts, "requests": amounts } });
        errors_where(Capabilities::default(), spec(container, json!({}))).join("\n")
    };
    for (page, amount, count) in [
        ("hugepages-2Mi", "4Mi", 0),
        ("hugepages-2Mi", "3Mi", 2),
        ("hugepages-2Mi", "0", 0),
        ("hugepages-foo", "1", 2),
        ("hugepages-1500m", "2", 2),
        ("hugepages-0", "0", 2),
        ("hugepages--1", "1", 2),
        ("hugepages-2Mi", "-2Mi", 0),
    ] {
        let errors = errors(page, amount);
        let partial = errors.matches("is not positive integer multiple of").count();
        assert_eq!(partial, count, "{page} {amount}: {errors}");
    }
}

#[test]
fn what_an_old_template_has_its_changes_may_keep() {
    let pages = || json!({ "cpu": "1", "memory": "1", "hugepages-2Mi": "3Mi" });
    let init = |more: Value| {
        let container = spec(more, json!({}))["containers"][0].clone();
        crate::testing::merged(&container, &json!({ "name": "first" }))
    };
    let resize = json!([{ "resourceName": "cpu", "restartPolicy": "RestartContainer" }]);
    let bad = json!([{ "key": "k", "operator": "In", "values": ["-1"] }]);
    let selector = json!({ "matchExpressions": bad });
    let near = json!([{ "labelSelector": selector, "topologyKey": "t" }]);
    let nodes = json!({ "nodeSelectorTerms": [selector] });
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let spread =
        json!([{ "maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector }]);
    let sysctls = json!({ "sysctls": [{ "name": "net.core.somaxconn", "value": "1" }] });
    let volume = json!({ "name": "v", "persistentVolumeClaim": { "claimName": "c" } });
    let cases = [
        (
            json!({ "resources": { "limits": pages(), "requests": pages() } }),
            json!({}),
        ),
        (
            json!({}),
            json!({ "initContainers": [init(json!({ "resizePolicy": resize }))] }),
        ),
        (
            json!({}),
            json!({ "affinity": { "podAntiAffinity": { required: near } } }),
        ),
        (
            json!({}),
            json!({ "affinity": { "nodeAffinity": { required: nodes } } }),
        ),
        (json!({}), json!({ "topologySpreadConstraints": spread })),
        (json!({}), json!({ "hostNetwork": true, "securityContext": sysctls })),
        (
            json!({ "volumeDevices": [{ "name": "v", "devicePath": "/d" }] }),
            json!({ "hostUsers": false, "volumes": [volume] }),
        ),
    ];
    let none = Capabilities::default();
    let templates = cases.map(|(container, rest)| spec(container, rest));
    for (index, template) in templates.iter().enumerate() {
        assert!(!errors_where(none, template.clone()).is_empty(), "{template}");
        let change = none.in_change_of(Some(&json!({ "spec": template })));
        for (other, changed) in templates.iter().enumerate() {
            let errors = errors_where(change, changed.clone());
            assert_eq!(errors.is_empty(), other == index, "{template} to {changed}: {errors:?}");
        }
    }
    let overhead = spec(json!({}), json!({ "overhead": pages() }));
    assert!(!errors_where(none, overhead.clone()).is_empty());
    let change = none.in_change_of(Some(&json!({ "spec": overhead })));
    assert_eq!(errors_where(change, overhead), [""; 0]);
}

#[test]
fn files_that_hide_each_other_are_warned_of_with_their_sources() {
    let files = |paths: &[&str]| -> Value { paths.iter().map(|path| json!({ "key": "k", "path": path })).collect() };
    let sources = json!([
        { "secret": { "name": "s", "items": files(&["a", "a b", "z"]) } },
        { "configMap": { "name": "m", "items": files(&["a/c", "abc"]) } },
        { "serviceAccountToken": { "path": "a/c/" } },
        { "clusterTrustBundle": { "signerName": "x.test/y", "path": "z" } },
        { "podCertificate": { "keyPath": "z/k" } },
    ]);
    let volumes = json!([{ "name": "v", "projected": { "sources": sources } }]);
    let told = warnings(&json!({ "spec": { "volumes": volumes } }), "template");
    let overlapping: Vec<&String> = told.iter().filter(|text| text.contains("overlapping paths")).collect();
    let expected = [
        r#""a/c" (ConfigMap "m") with "a" (Secret "s")"#,
        r#""a/c" (ServiceAccountToken) with "a" (Secret "s")"#,
        r#""a/c" (ServiceAccountToken) with "a/c" (ConfigMap "m")"#,
        r#""z" (ClusterTrustBundle "x.test/y") with "z" (Secret "s")"#,
        r#""z/k" (PodCertificate key) with "z" (Secret "s")"#,
        r#""z/k" (PodCertificate key) with "z" (ClusterTrustBundle "x.test/y")"#,
    ];
    let expected = expected.map(|pair| format!(r#"volume "v" (Projected): overlapping paths: {pair}"#));
    assert_eq!(overlapping, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_stored_token_may_keep_its_path() {
    let token = json!({ "path": "../a", "expirationSeconds": 600 });
    let volume = json!({ "name": "v", "projected": { "sources": [{ "serviceAccountToken": token }] } });
    let spec = spec(json!({}), json!({ "volumes": [volume] }));
    let error = "template.spec.volumes[0].projected.path: Invalid value: \"../a\": must not contain '..'";
    assert_eq!(errors(spec.clone()), [error]);
    let old = json!({ "spec": spec });
    let changed = Capabilities::default().in_change_of(Some(&old));
    assert_eq!(errors_where(changed, spec), Vec::<String>::new());
}

#[test]
fn the_profile_of_a_pod_is_validated_before_those_of_containers() {
    let [pod, container] = [
        "seccomp.security.alpha.kubernetes.io/pod",
        "container.seccomp.security.alpha.kubernetes.io/a",
    ];
    let template =
        json!({ "metadata": { "annotations": { container: "x", pod: "x" } }, "spec": spec(json!({}), json!({})) });
    let mut errors = ErrorList::new();
    validate_pod_template_spec(Capabilities::default(), &template, &Path::new("template"), &mut errors);
    let fields: Vec<String> = errors.into_iter().map(|error| error.field).collect();
    assert_eq!(
        fields,
        [pod, container].map(|key| format!("template.annotations.{key}"))
    );
}
