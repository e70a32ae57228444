//! The engine on a small table: what a client sends, and what the server makes of it.

use serde_json::{Value, json};

use super::{apply_defaults, decode, decode_with_empty, samples, void_empty};

fn decoded(value: Value) -> Result<(Value, Vec<String>), String> {
    let (table, pod) = samples::pods();
    decode(&table, pod, value)
        .map(|decoded| (decoded.value, decoded.unknown))
        .map_err(|error| error.to_string())
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {}, "spec": spec})
}

/// A spec with one container that is `container`.
fn with_container(container: Value) -> Value {
    pod(json!({"containers": [container]}))
}

fn check(cases: &[(Value, Value)]) {
    for (given, want) in cases {
        assert_eq!(decoded(given.clone()), Ok((want.clone(), vec![])), "{given}");
    }
}

fn check_errors(cases: &[(Value, &str)]) {
    for (given, want) in cases {
        assert_eq!(decoded(given.clone()), Err((*want).to_owned()), "{given}");
    }
}

#[test]
fn unknown_fields_are_dropped_and_reported() {
    let given = json!({
        "Data": {},
        "metadata": {"alien": {"deep": 1}},
        "nope": null,
        "spec": {"aaa": 1, "containers": [{"name": "c", "zeta": 1, "alpha": 2}], "raw": {"kept": {"as": "is"}}},
    });
    let (value, unknown) = decoded(given).expect("unknown fields are no error");
    let want = json!({
        "metadata": {},
        "spec": {"containers": [{"name": "c", "resources": {}}], "raw": {"kept": {"as": "is"}}},
    });
    assert_eq!(value, want);
    assert_eq!(
        unknown,
        [
            "Data",
            "metadata.alien",
            "nope",
            "spec.aaa",
            "spec.containers[0].alpha",
            "spec.containers[0].zeta",
        ]
    );
}

#[test]
fn the_report_of_unknown_fields_is_bounded() {
    let fields = (0..500).map(|n| (format!("x{n}"), json!(n)));
    let (_, unknown) = decoded(Value::Object(fields.collect())).expect("unknown fields are no error");
    assert_eq!(unknown.len(), 100);
}

#[test]
fn zero_values_follow_the_fields_presence() {
    check(&[
        (json!({}), json!({"metadata": {}})),
        (
            json!({"metadata": {"name": "", "labels": {}, "finalizers": [], "deletionGracePeriodSeconds": 0}}),
            json!({"metadata": {"deletionGracePeriodSeconds": 0}}),
        ),
        (json!({"metadata": null, "spec": null}), json!({"metadata": {}})),
        (pod(json!({})), pod(json!({"containers": null}))),
        (
            pod(
                json!({"containers": [], "hostNetwork": false, "replicas": 0, "strategy": {}, "raw": null, "ratio": 0}),
            ),
            pod(json!({"containers": null, "replicas": 0, "strategy": {}})),
        ),
        (
            json!({"metadata": {"labels": {"a": null, "b": ""}}, "data": {"k": null}, "caBundle": ""}),
            json!({"metadata": {"labels": {"a": "", "b": ""}}, "data": {"k": ""}}),
        ),
        (
            pod(json!({"containers": [null, {"ports": [{}]}]})),
            pod(json!({"containers": [
                {"name": "", "resources": {}},
                {"name": "", "resources": {}, "ports": [{"containerPort": 0}]},
            ]})),
        ),
    ]);
}

#[test]
fn leaves_take_their_canonical_form() {
    let meta = |meta: Value| json!({ "metadata": meta });
    check(&[
        (
            meta(json!({"creationTimestamp": "2024-01-01T01:00:00.5+01:00"})),
            meta(json!({"creationTimestamp": "2024-01-01T00:00:00Z"})),
        ),
        (
            meta(json!({"creationTimestamp": "0001-01-01T00:00:00Z", "deletionTimestamp": null})),
            meta(json!({})),
        ),
        (
            json!({"metadata": {}, "data": {"a": "YQ==", "b": "YW\nJj", "c": [97, 98]}}),
            json!({"metadata": {}, "data": {"a": "YQ==", "b": "YWJj", "c": "YWI="}}),
        ),
        (
            pod(json!({
                "containers": [],
                "eventTime": "2020-01-01T00:00:00.123456+00:00",
                "timeout": "60m",
                "sizeLimit": 1.5,
                "ratio": 2.0,
            })),
            pod(json!({
                "containers": null,
                "eventTime": "2020-01-01T00:00:00.123456Z",
                "timeout": "1h0m0s",
                "sizeLimit": "1500m",
                "ratio": 2,
            })),
        ),
        (
            with_container(json!({
                "name": "c",
                "weight": "25%",
                "resources": {"limits": {"cpu": "1000m", "memory": " 1024Mi ", "gpu": 2, "none": null}},
            })),
            with_container(json!({
                "name": "c",
                "weight": "25%",
                "resources": {"limits": {"cpu": "1", "memory": "1Gi", "gpu": "2", "none": "0"}},
            })),
        ),
    ]);
}

#[test]
fn wrong_json_types_read_as_in_go() {
    check_errors(&[
        (json!([]), "json: cannot unmarshal array into Go value of type v1.Pod"),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            json!({"metadata": {"labels": ["a"]}}),
            "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            json!({"metadata": "x"}),
            "json: cannot unmarshal string into Go struct field Pod.metadata of type v1.ObjectMeta",
        ),
        (
            json!({"metadata": {"uid": true}}),
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.uid of type types.UID",
        ),
        (
            pod(json!({"containers": {}})),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            pod(json!({"containers": ["a"]})),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            with_container(json!({"ports": [{"containerPort": "80"}]})),
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            with_container(json!({"resources": {"limits": "x"}})),
            "json: cannot unmarshal string into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            pod(json!({"finalizers": "a"})),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.finalizers of type []v1.FinalizerName",
        ),
        (
            pod(json!({"finalizers": [1]})),
            "json: cannot unmarshal number into Go struct field PodSpec.spec.finalizers of type v1.FinalizerName",
        ),
        (
            pod(json!({"hostNetwork": "yes"})),
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            json!({"data": {"a": 5}}),
            "json: cannot unmarshal number into Go struct field Pod.data of type []uint8",
        ),
        (
            json!({"caBundle": [1, 256]}),
            "json: cannot unmarshal number 256 into Go struct field Pod.caBundle of type uint8",
        ),
    ]);
}

#[test]
fn numbers_that_do_not_fit_are_shown() {
    let replicas = |replicas: Value| pod(json!({ "replicas": replicas }));
    let error = |found: &str| {
        format!("json: cannot unmarshal {found} into Go struct field PodSpec.spec.replicas of type int32")
    };
    for (given, found) in [
        (json!("1"), "string"),
        (json!(1.5), "number 1.5"),
        (json!(1.0), "number 1.0"),
        (json!(1e20), "number 100000000000000000000"),
        (json!(3_000_000_000_u64), "number 3000000000"),
        (json!(-3_000_000_000_i64), "number -3000000000"),
    ] {
        assert_eq!(decoded(replicas(given)), Err(error(found)));
    }
    assert_eq!(
        decoded(json!({"metadata": {"deletionGracePeriodSeconds": u64::MAX}})),
        Err(
            "json: cannot unmarshal number 18446744073709551615 into Go struct field \
             ObjectMeta.metadata.deletionGracePeriodSeconds of type int64"
                .to_owned()
        )
    );
}

#[test]
fn texts_that_parse_themselves_have_their_own_errors() {
    check_errors(&[
        (
            json!({"metadata": {"creationTimestamp": "yesterday"}}),
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        ),
        (
            json!({"metadata": {"creationTimestamp": 5}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            pod(json!({"eventTime": "bad"})),
            r#"parsing time "bad" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "bad" as "2006""#,
        ),
        (
            with_container(json!({"resources": {"limits": {"cpu": "lots"}}})),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            pod(json!({"sizeLimit": {}})),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (pod(json!({"timeout": "x"})), r#"time: invalid duration "x""#),
        (
            with_container(json!({"weight": true})),
            "json: cannot unmarshal bool into Go struct field Container.spec.containers.weight of type int32",
        ),
        (
            json!({"data": {"a": "not base64!"}}),
            "illegal base64 data at input byte 3",
        ),
    ]);
}

#[test]
fn a_text_that_cannot_be_parsed_comes_before_a_wrong_type() {
    check_errors(&[(
        json!({"caBundle": 1, "metadata": {"labels": 1}, "spec": {"timeout": "x"}}),
        r#"time: invalid duration "x""#,
    )]);
    check_errors(&[(
        json!({"metadata": {"labels": 1}, "spec": {"hostNetwork": 1}}),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type map[string]string",
    )]);
}

#[test]
fn defaults_are_filled_where_structs_are() {
    let (table, pod_type) = samples::pods();
    let mut value = pod(json!({
        "replicas": 0,
        "strategy": {},
        "containers": [{"name": "c", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "100u"}}}],
    }));
    apply_defaults(&table, pod_type, &mut value);
    let want = pod(json!({
        "replicas": 0,
        "restartPolicy": "Always",
        "strategy": {"type": "RollingUpdate"},
        "containers": [{
            "name": "c",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "1m"}},
            "terminationMessagePolicy": "File",
        }],
    }));
    assert_eq!(value, want);
    apply_defaults(&table, pod_type, &mut value);
    assert_eq!(value, want, "a second time changes nothing");
}

#[test]
fn fields_that_are_always_written_take_their_default_too() {
    let (table, port) = samples::claim();
    for (given, decoded_as, filled) in [
        (
            json!({}),
            json!({"mode": "", "group": null}),
            json!({"mode": "rw", "group": "g"}),
        ),
        (
            json!({"mode": "ro", "group": ""}),
            json!({"mode": "ro", "group": ""}),
            json!({"mode": "ro", "group": ""}),
        ),
    ] {
        let mut value = decode(&table, port, given).expect("valid").value;
        assert_eq!(value, decoded_as);
        apply_defaults(&table, port, &mut value);
        assert_eq!(value, filled);
    }
}

#[test]
fn decoding_is_idempotent() {
    let given = json!({
        "metadata": {"creationTimestamp": "2024-01-01T01:00:00+01:00"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "0.5"}}}], "timeout": "90s"},
    });
    let (once, _) = decoded(given).expect("valid");
    check(&[(once.clone(), once)]);
}

#[test]
fn a_tree_that_was_never_text_fails_in_the_words_of_gos_converter() {
    let (table, pod) = samples::pods();
    for (given, want) in [
        (json!([]), "cannot restore struct from: slice"),
        (json!({"metadata": {"labels": "a"}}), "cannot restore map from string"),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "cannot convert int64 to string",
        ),
        (
            json!({"metadata": {"labels": {"a": true}}}),
            "unrecognized type: string",
        ),
        (json!({"metadata": {"uid": 1.5}}), "unrecognized type: string"),
        (json!({"metadata": {"uid": 1}}), "cannot convert int64 to types.UID"),
        (
            json!({"metadata": {"creationTimestamp": 1}}),
            "json: cannot unmarshal number into Go value of type string",
        ),
        (json!({"spec": {"containers": {}}}), "cannot restore slice from map"),
        (json!({"spec": {"hostNetwork": "yes"}}), "unrecognized type: bool"),
        (json!({"spec": {"replicas": "1"}}), "unrecognized type: int32"),
        (json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
        (json!({"data": {"a": 1}}), "cannot restore slice from int64"),
        (
            json!({"data": {"a": "!"}}),
            "error decoding from json: illegal base64 data at input byte 0",
        ),
    ] {
        let error = decode(&table, pod, given.clone()).expect_err("it does not fit");
        assert_eq!(error.restored(), want, "{given}");
    }
}

#[test]
fn empty_lists_that_are_always_written_stand_there_until_they_are_voided() {
    let (table, pod) = samples::pods();
    let sent = json!({"spec": {"containers": [], "finalizers": []}});
    let mut value = decode_with_empty(&table, pod, sent.clone()).expect("valid").value;
    assert_eq!(value["spec"], json!({"containers": []}));
    void_empty(&table, pod, &mut value);
    assert_eq!(value["spec"], json!({"containers": null}));
    assert_eq!(decode(&table, pod, sent).expect("valid").value, value);
}
