//! Behaviour that the tests of kubectl (`test/cmd`) and of integration (`test/integration`) of Kubernetes demand, and that no
//! other test here covers.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::{Answer, Client, Request};
use trireme_tests::server::USER_TOKEN;
use trireme_tests::{Server, StoreChoice};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/widgets";
/// The time limit of waits for what comes in a moment, or never.
const PATIENCE: Duration = Duration::from_secs(30);

fn start() -> (Server, Client) {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    until("the namespace is there", PATIENCE, || {
        admin
            .get("/api/v1/namespaces/default")
            .is_ok_and(|answer| answer.code == 200)
    });
    (server, admin)
}

fn make(client: &Client, path: &str, body: &Value) -> Value {
    let answer = client.json("POST", path, body).expect("an answer");
    assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    read(&answer)
}

fn read(answer: &Answer) -> Value {
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// Defines widgets with these properties, and waits until they are served.
fn define(admin: &Client, properties: &Value) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    make(admin, DEFINITIONS, &definition);
    until("the resource is served", PATIENCE, || {
        admin.get(WIDGETS).is_ok_and(|answer| answer.code == 200)
    });
}

/// `TestCreateVeryLargeObject` and its siblings, at a limit of 1.5 MiB.
#[test]
fn an_object_whose_managers_do_not_fit_is_stored_without_them() {
    let (_server, admin) = start();
    let data = |value: &str| {
        let entries = (0..9_999).map(|number| (format!("{}-{number}", "k".repeat(70)), json!(value)));
        entries.collect::<serde_json::Map<String, Value>>()
    };
    let body = |name: &str, value: &str| json!({"metadata": {"name": name}, "data": data(value)});
    let created = make(&admin, CONFIG_MAPS, &body("created", "A"));
    assert_eq!(created["metadata"].get("managedFields"), None);
    let small = make(
        &admin,
        CONFIG_MAPS,
        &json!({"metadata": {"name": "updated"}, "data": {"a": "b"}}),
    );
    assert!(small["metadata"]["managedFields"].is_array());
    let path = format!("{CONFIG_MAPS}/updated");
    let updated = admin.json("PUT", &path, &body("updated", "A")).expect("an answer");
    assert_eq!(updated.code, 200);
    assert_eq!(read(&updated)["metadata"].get("managedFields"), None);
    let patch = |path: &str, content_type: &str, body: &Value| {
        let sent = admin.send(&Request {
            method: "PATCH",
            path,
            body: Some(body.to_string().into_bytes()),
            content_type: Some(content_type),
            ..Request::default()
        });
        sent.expect("an answer")
    };
    make(
        &admin,
        CONFIG_MAPS,
        &json!({"metadata": {"name": "patched"}, "data": {"a": "b"}}),
    );
    let patched = patch(
        &format!("{CONFIG_MAPS}/patched"),
        "application/merge-patch+json",
        &json!({"data": data("A")}),
    );
    assert_eq!(patched.code, 200);
    assert_eq!(read(&patched)["metadata"].get("managedFields"), None);
    // An apply is about its managers.
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "created"}});
    let path = format!("{CONFIG_MAPS}/created?fieldManager=m");
    let refused = patch(&path, "application/apply-patch+yaml", &applied);
    assert_eq!(
        (refused.code, &read(&refused)["reason"]),
        (413, &json!("RequestEntityTooLarge"))
    );
}

/// kubectl's tests search discovery as text.
#[test]
fn fields_of_discovery_have_the_order_of_kube_apiserver() {
    let (_server, admin) = start();
    let text = |path: &str| admin.get(path).expect("an answer").text();
    let core = text("/api/v1");
    assert!(
        core.starts_with(r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings""#),
        "{core}"
    );
    let verbs = r#"["create","delete","deletecollection","get","list","patch","update","watch"]"#;
    for row in [
        format!(
            r#"{{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":{verbs},"shortNames":["cm"],"storageVersionHash":"#
        ),
        format!(r#""verbs":{verbs},"shortNames":["po"],"categories":["all"],"storageVersionHash":"#),
        r#"{"name":"pods/eviction","singularName":"","namespaced":true,"group":"policy","version":"v1","kind":"Eviction","verbs":["create"]}"#.to_owned(),
    ] {
        assert!(core.contains(&row), "{row} in {core}");
    }
    assert!(text("/apis").starts_with(r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apiregistration.k8s.io","versions":[{"groupVersion":"#));
    let group = r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}"#;
    assert_eq!(text("/apis/apps").trim_end(), group);
}

/// `TestExportRejection`
#[test]
fn export_is_refused() {
    let (_server, admin) = start();
    let get = |query: &str| {
        admin
            .get(&format!("/api/v1/namespaces/default?{query}"))
            .expect("an answer")
    };
    for query in ["export=true", "export=1"] {
        let refused = get(query);
        assert_eq!(refused.code, 400, "{query}");
        let why = "the export parameter, deprecated since v1.14, is no longer supported";
        assert_eq!(read(&refused)["message"], why);
    }
    for query in ["export=false", "export="] {
        assert_eq!(get(query).code, 200, "{query}");
    }
}

/// `TestPodSubresourceAuth`: a WebSocket begins with a GET.
#[test]
fn who_may_only_get_exec_does_not_get_it() {
    let (server, admin) = start();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    make(&admin, "/api/v1/namespaces/default/pods", &pod);
    let user = server.client().with_token(USER_TOKEN);
    let name = {
        let review = make(&user, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({}));
        review["status"]["userInfo"]["username"]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    let allow = |verb: &str| {
        let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let resources = ["pods/exec", "pods/attach", "pods/portforward"];
        let rules = json!([{"apiGroups": [""], "resources": resources, "verbs": [verb]}]);
        make(
            &admin,
            &format!("{roles}/roles"),
            &json!({"metadata": {"name": verb}, "rules": rules}),
        );
        let binding = json!({
            "metadata": {"name": verb},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": &name}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": verb},
        });
        make(&admin, &format!("{roles}/rolebindings"), &binding);
    };
    let connect = |part: &str| {
        let answer = user
            .get(&format!("/api/v1/namespaces/default/pods/p/{part}"))
            .expect("an answer");
        (
            answer.code,
            read(&answer)["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    allow("get");
    for part in ["exec", "attach", "portforward"] {
        assert_eq!(connect(part), (403, r#"pods "p" is forbidden: "#.to_owned()), "{part}");
    }
    allow("create");
    for part in ["exec", "attach", "portforward"] {
        assert_eq!(
            connect(part),
            (400, "pod p does not have a host assigned".to_owned()),
            "{part}"
        );
    }
}

/// `TestFieldValidation`: repeated keys are found by one decoder, unknown fields by another one after it.
#[test]
fn repeated_keys_of_a_custom_resource_are_told_before_unknown_fields() {
    let (_server, admin) = start();
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
    });
    let spec = json!({"type": "object", "properties": {"known": {"type": "string"}, "embedded": embedded}});
    define(&admin, &json!({"spec": spec}));
    let body = r#"{
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a", "name": "w", "alien": 1},
        "spec": {
            "unknown": 1, "twice": 1, "twice": 2, "known": "a", "known": "b",
            "embedded": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "alien": 1}}
        }
    }"#;
    let post = |validation: &str| {
        let sent = admin.send(&Request {
            method: "POST",
            path: &format!("{WIDGETS}?dryRun=All&fieldValidation={validation}"),
            body: Some(body.as_bytes().to_vec()),
            content_type: Some("application/json"),
            ..Request::default()
        });
        sent.expect("an answer")
    };
    let expected = [
        r#"duplicate field "metadata.name""#,
        r#"duplicate field "spec.twice""#,
        r#"duplicate field "spec.known""#,
        r#"unknown field "metadata.alien""#,
        r#"unknown field "spec.twice""#,
        r#"unknown field "spec.unknown""#,
        r#"unknown field "spec.embedded.metadata.alien""#,
    ];
    let strict = post("Strict");
    assert_eq!(strict.code, 400);
    let mut message = r#"Widget in version "v1" cannot be handled as a Widget: strict decoding error: "#.to_owned();
    write!(message, "{}", expected.join(", ")).expect("written");
    assert_eq!(read(&strict)["message"], message);
    let warned = post("Warn");
    assert_eq!(warned.code, 201);
    let warnings: Vec<String> = warned.header("warning").map(|text| text.replace('\\', "")).collect();
    assert_eq!(warnings, expected.map(|text| format!("299 - \"{text}\"")));
}

/// `TestCustomResourceDefaultingOfMetaFields`: a default is pruned as what a client sends is.
#[test]
fn defaults_of_embedded_resources_have_the_fields_of_metadata_only() {
    let (_server, admin) = start();
    let resource = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "alien": 1}});
    let embedded = |metadata: Value, preserves: bool| {
        let mut schema = json!({
            "type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {
                "apiVersion": {"type": "string", "default": "v1"}, "kind": {"type": "string", "default": "ConfigMap"},
                "metadata": metadata,
            },
        });
        if preserves {
            schema["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        schema
    };
    let mut properties = json!({});
    for (preserves, prefix) in [(false, ""), (true, "open-")] {
        let mut of_fields = json!({"type": "object", "properties": {"name": {"type": "string", "default": "c"}}});
        of_fields["properties"]["alien"] = json!({"type": "string", "default": "a"});
        properties[format!("{prefix}fields")] = embedded(of_fields, preserves);
        let of_metadata = json!({"type": "object", "default": resource["metadata"]});
        properties[format!("{prefix}whole-metadata")] = embedded(of_metadata, preserves);
        let mut whole = embedded(json!({"type": "object"}), preserves);
        whole["default"] = resource.clone();
        properties[format!("{prefix}whole")] = whole;
    }
    define(&admin, &properties);
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"},
        "fields": {"metadata": {}}, "whole-metadata": {}, "open-fields": {"metadata": {}}, "open-whole-metadata": {},
    });
    let made = make(&admin, WIDGETS, &widget);
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    for place in [
        "fields",
        "whole-metadata",
        "whole",
        "open-fields",
        "open-whole-metadata",
        "open-whole",
    ] {
        assert_eq!(made[place], expected, "{place}");
    }
}

/// `TestWebhookConverter`, without the webhook: defaults are those of the version of the request, and of the stored one when it is
/// read.
#[test]
fn an_object_has_the_defaults_of_its_own_and_of_the_stored_version_from_the_beginning() {
    let (_server, admin) = start();
    let version = |name: &str, is_stored: bool, defaulted: &str| {
        let mut properties = json!({"one": {"type": "string"}, "two": {"type": "string"}, "three": {"type": "string"}});
        properties[defaulted]["default"] = json!("yes");
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
        json!({"name": name, "served": true, "storage": is_stored, "schema": schema})
    };
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", false, "one"), version("v2", true, "two"), version("v3", false, "three")],
        },
    });
    make(&admin, DEFINITIONS, &definition);
    until("the resource is served", PATIENCE, || {
        admin.get(WIDGETS).is_ok_and(|answer| answer.code == 200)
    });
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let made = make(&admin, WIDGETS, &widget);
    let shown = ["v1", "v2", "v3"].map(|version| {
        let answer = admin
            .get(&format!("/apis/example.com/{version}/widgets/w"))
            .expect("an answer");
        read(&answer)
    });
    for object in shown.iter().chain([&made]) {
        let given = ["one", "two", "three"].map(|field| object[field].as_str());
        assert_eq!(given, [Some("yes"), Some("yes"), None], "{}", object["apiVersion"]);
    }
}

#[test]
fn no_way_of_creation_is_open_while_the_definition_is_terminating() {
    let (_server, admin) = start();
    define(&admin, &json!({}));
    let definition = format!("{DEFINITIONS}/widgets.example.com");
    let held = Request {
        method: "PATCH",
        path: &definition,
        body: Some(br#"{"metadata": {"finalizers": ["example.com/hold"]}}"#.to_vec()),
        content_type: Some("application/merge-patch+json"),
        ..Request::default()
    };
    assert_eq!(admin.send(&held).expect("an answer").code, 200);
    let deleted = admin.json("DELETE", &definition, &json!({})).expect("an answer");
    assert_eq!(deleted.code, 200);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "late"}});
    let try_all = || {
        let applied = Request {
            method: "PATCH",
            path: "/apis/example.com/v1/widgets/late?fieldManager=me&dryRun=All",
            body: Some(widget.to_string().into_bytes()),
            content_type: Some("application/apply-patch+yaml"),
            ..Request::default()
        };
        [
            admin.send(&applied).expect("an answer"),
            admin
                .json("POST", &format!("{WIDGETS}?dryRun=All"), &widget)
                .expect("an answer"),
        ]
    };
    until("creations are refused", PATIENCE, || try_all()[1].code == 403);
    for refused in try_all() {
        assert_eq!(
            read(&refused)["message"],
            "widgets.example.com \"late\" is forbidden: create not allowed while custom resource definition is terminating"
        );
    }
}

/// kube-apiserver 1.36.0 to 1.36.2 left an empty object, which is 422 here (kubernetes/kubernetes#140296).
#[test]
fn an_applied_null_clears_a_nullable_object() {
    let (_server, admin) = start();
    let required = json!({"type": "object", "nullable": true, "required": ["value"],
        "properties": {"value": {"type": "integer"}}});
    let texts = json!({"type": "object", "nullable": true, "additionalProperties": {"type": "string"}});
    define(&admin, &json!({"limit": required, "texts": texts}));
    let apply = |fields: &Value| {
        let mut widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "cleared"}});
        widget["limit"] = fields["limit"].clone();
        widget["texts"] = fields["texts"].clone();
        let sent = admin.send(&Request {
            method: "PATCH",
            path: &format!("{WIDGETS}/cleared?fieldManager=m"),
            body: Some(widget.to_string().into_bytes()),
            content_type: Some("application/apply-patch+yaml"),
            ..Request::default()
        });
        let answer = sent.expect("an answer");
        assert!(answer.code < 300, "{}", answer.text());
        read(&answer)
    };
    apply(&json!({"limit": {"value": 1}, "texts": {"a": "b"}}));
    let cleared = apply(&json!({"limit": null, "texts": null}));
    assert_eq!((&cleared["limit"], &cleared["texts"]), (&Value::Null, &Value::Null));
    assert!(cleared.get("limit").is_some(), "a null is stored: {cleared}");
    let again = apply(&json!({"limit": null, "texts": null}));
    assert_eq!(again, cleared, "the second apply changes nothing");
    apply(&json!({"limit": null, "texts": {"a": "b"}}));
    let emptied = apply(&json!({"limit": null, "texts": {}}));
    assert_eq!(emptied["texts"], json!({}), "what is applied as empty is empty");
}

/// `TestFlagz` and `TestStatusz`.
#[test]
fn the_first_version_of_pages_for_people_is_deprecated() {
    let flags = ["--feature-gates=ComponentFlagz=true,ComponentStatusz=true"];
    let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
    for (path, kind) in [("/flagz", "Flagz"), ("/statusz", "Statusz")] {
        let form = |version: &str| format!("application/json;v={version};g=config.k8s.io;as={kind}");
        let warnings = |accept: &str| -> Vec<String> {
            let request = Request {
                method: "GET",
                path,
                accept: Some(accept),
                ..Request::default()
            };
            let answer = server.client().send(&request).expect("an answer");
            assert_eq!(answer.code, 200, "{}", answer.text());
            answer.header("warning").map(str::to_owned).collect()
        };
        let (old, new) = (form("v1alpha1"), form("v1beta1"));
        let endpoint = kind.to_lowercase();
        let warning =
            format!("299 - \"This version of the {endpoint} endpoint is deprecated. Please use a newer version.\"");
        assert_eq!(warnings(&format!("{old},{new}")), [warning]);
        assert_eq!(warnings(&format!("{new},{old}")), Vec::<String>::new());
    }
}

/// `TestCRDShadowGroup` and `TestCRD`: of a built-in group, only versions that are not built in can be defined.
#[test]
fn nothing_is_defined_beside_the_resources_of_a_built_in_version() {
    let (_server, admin) = start();
    let version = |name: &str, is_stored: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({"name": name, "served": true, "storage": is_stored, "schema": schema})
    };
    let definition = json!({
        "metadata": {
            "name": "foos.networking.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, test-only"},
        },
        "spec": {
            "group": "networking.k8s.io", "scope": "Cluster", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [version("v1", false), version("v7", true)],
        },
    });
    make(&admin, DEFINITIONS, &definition);
    until("the version of the definition is served", PATIENCE, || {
        admin
            .get("/apis/networking.k8s.io/v7/foos")
            .is_ok_and(|answer| answer.code == 200)
    });
    let own = admin.get("/apis/networking.k8s.io/v1").expect("an answer");
    let names: Vec<Value> = read(&own)["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|resource| resource["name"].clone())
        .collect();
    assert!(
        names.contains(&json!("networkpolicies")) && !names.contains(&json!("foos")),
        "{names:?}"
    );
    let code = |path: &str| admin.get(path).expect("an answer").code;
    assert_eq!(code("/apis/networking.k8s.io/v1/foos"), 404);
    assert_eq!(code("/apis/networking.k8s.io/v1/networkpolicies"), 200);
}
