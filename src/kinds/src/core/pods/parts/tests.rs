use trireme_machinery::GroupVersion;

use super::*;

fn pod(container: Value) -> Value {
    let mut main = json!({
        "name": "main", "image": "i", "imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    });
    main.as_object_mut()
        .unwrap()
        .extend(container.as_object().unwrap().clone());
    let mut pod = json!({
        "metadata": { "name": "a", "namespace": "n", "uid": "u" },
        "spec": {
            "containers": [main], "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        },
    });
    pod["status"] = json!({ "phase": "Pending", "qosClass": qos::class(Default::default(), &pod) });
    pod
}

fn resources(requests: Value, limits: Value) -> Value {
    pod(json!({ "resources": { "requests": requests, "limits": limits } }))
}

fn change(part: &dyn Update, old: &Value, mut new: Value) -> (Value, Vec<String>) {
    let context = WriteContext {
        user: Default::default(),
        version: GroupVersion::new("", "v1"),
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
        dry_run: false,
        warnings: Default::default(),
    };
    part.prepare_for_update(&context, &mut new, old);
    let errors = part.validate_update(&context, &new, old);
    (new, errors.iter().map(ToString::to_string).collect())
}

#[test]
fn only_resources_are_resized() {
    let old = resources(json!({ "cpu": "1", "memory": "64Mi" }), json!({}));
    let mut wanted = resources(json!({ "cpu": "2", "memory": "64Mi" }), json!({}));
    wanted["spec"]["containers"][0]["image"] = "other".into();
    wanted["metadata"]["labels"] = json!({ "l": "1" });
    wanted["status"] = json!({});
    let (new, errors) = change(&PodResize::default(), &old, wanted);
    assert!(errors.is_empty(), "{errors:?}");
    let mut expected = old.clone();
    expected["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2".into();
    assert_eq!(new, expected);
}

#[test]
fn resizes_that_are_refused() {
    let guaranteed = || json!({ "cpu": "1", "memory": "64Mi" });
    let old = resources(guaranteed(), guaranteed());
    let class = "spec: Invalid value: \"Guaranteed\": Pod QOS Class may not change as a result of resizing";
    let cases = [
        (
            resources(json!({ "cpu": "500m", "memory": "64Mi" }), guaranteed()),
            vec![class],
        ),
        (
            resources(guaranteed(), json!({ "memory": "64Mi" })),
            vec![
                class,
                "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
            ],
        ),
        (
            resources(
                json!({ "cpu": "1", "memory": "64Mi", "ephemeral-storage": "1Gi" }),
                guaranteed(),
            ),
            vec!["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
    ];
    for (new, expected) in cases {
        assert_eq!(change(&PodResize::default(), &old, new.clone()).1, expected, "{new}");
    }
}

#[test]
fn init_containers_and_the_pod_itself_are_resized_and_containers_keep_their_places() {
    let init = |cpu: &str| {
        let mut pod = resources(json!({ "cpu": "1" }), json!({}));
        pod["spec"]["initContainers"] = json!([{
            "name": "init", "image": "i", "imagePullPolicy": "Always", "terminationMessagePath": "/t",
            "terminationMessagePolicy": "File", "resources": { "requests": { "cpu": cpu } },
        }]);
        pod["spec"]["resources"] = json!({ "requests": { "cpu": "4" } });
        pod
    };
    let old = init("1");
    let mut wanted = init("2");
    wanted["spec"]["resources"]["requests"]["cpu"] = "5".into();
    let (new, errors) = change(&PodResize::default(), &old, wanted.clone());
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(new, wanted);
    let refusals = [
        (
            "/spec/initContainers/0/name",
            "other",
            "spec.initContainers[0].name: Forbidden: initContainers may not be renamed or reordered on resize",
        ),
        ("/spec/initContainers/0/resources/requests/memory", "1Gi", ""),
        (
            "/spec/initContainers/0/resources/requests/ephemeral-storage",
            "1Gi",
            "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable",
        ),
        (
            "/spec/resources/requests/hugepages-2Mi",
            "2Mi",
            "spec: Forbidden: only cpu and memory resources are mutable at pod-level",
        ),
    ];
    for (pointer, value, expected) in refusals {
        let mut wanted = old.clone();
        let (owner, field) = pointer.rsplit_once('/').unwrap();
        wanted.pointer_mut(owner).unwrap()[field] = value.into();
        let errors = change(&PodResize::default(), &old, wanted).1;
        assert!(
            errors.iter().any(|error| error == expected) || expected.is_empty() && errors.is_empty(),
            "{errors:?}"
        );
    }
    let mut without = old.clone();
    remove(&mut without["spec"], "initContainers");
    assert!(
        change(&PodResize::default(), &old, without).1.contains(
            &"spec.initContainers: Forbidden: initContainers may not be added or removed on resize".to_owned()
        )
    );
}

#[test]
fn a_node_that_tells_no_resources_cannot_resize() {
    let mut old = resources(json!({ "cpu": "1" }), json!({}));
    old["status"]["phase"] = "Running".into();
    old["status"]["containerStatuses"] = json!([{ "name": "main", "state": { "running": {} } }]);
    let (_, errors) = change(&PodResize::default(), &old, resources(json!({ "cpu": "2" }), json!({})));
    assert_eq!(
        errors,
        ["spec: Forbidden: Pod running on node without support for resize"]
    );
}

#[test]
fn ephemeral_containers_only_come() {
    let with = |names: &[(&str, &str)]| {
        let mut pod = pod(json!({}));
        pod["spec"]["ephemeralContainers"] = names
            .iter()
            .map(|(name, image)| {
                json!({
                    "name": name, "image": image, "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                })
            })
            .collect();
        pod
    };
    let part = &EphemeralContainers::default();
    let mut wanted = with(&[("dbg", "d")]);
    wanted["spec"]["containers"][0]["image"] = "other".into();
    let (new, errors) = change(part, &pod(json!({})), wanted);
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(new, with(&[("dbg", "d")]));
    assert!(change(part, &new, with(&[("two", "e"), ("dbg", "d")])).1.is_empty());
    assert_eq!(
        change(part, &new, with(&[])).1,
        ["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"dbg\" may not be removed\n"]
    );
    assert_eq!(
        change(part, &new, with(&[("dbg", "e")])).1,
        [
            "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"dbg\" may not be changed\n@@ -1,6 \
          +1,6 @@\n {\n  \"Name\": \"dbg\",\n- \"Image\": \"d\",\n+ \"Image\": \"e\",\n  \"Command\": null,\n  \
          \"Args\": null,\n  \"WorkingDir\": \"\",\n"
        ]
    );
    let mut mirror = new;
    mirror["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "x" });
    assert_eq!(
        change(part, &mirror, with(&[])).1,
        ["[]: Forbidden: static pods do not support ephemeral containers"]
    );
}
