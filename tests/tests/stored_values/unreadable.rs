//! A value that cannot be read is unknown: nothing is concluded from it, it is reported, and only deleted on purpose.

use serde_json::{Value, json};
use trireme_tests::http::{Answer, Client, Request};
use trireme_tests::server::{CONTROLLERS, USER_TOKEN};
use trireme_tests::{Server, StoreChoice};

use super::support::{object_of, put_past, read_past, read_past_if_any, until};

const ENABLED: &str = "--feature-gates=AllowUnsafeMalformedObjectDeletion=true";
const NAMESPACE: &str = "/api/v1/namespaces/family";
const CONFIGMAPS: &str = "/api/v1/namespaces/family/configmaps";
const OWNER: &str = "/api/v1/namespaces/family/configmaps/owner";
const CHILD: &str = "/api/v1/namespaces/family/configmaps/child";
const OWNER_KEY: &str = "/registry/configmaps/family/owner";
const ON_PURPOSE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential=true";

fn make(client: &Client, path: &str, object: &Value) -> Value {
    let answer = client.json("POST", path, object).expect("an answer");
    assert_eq!(answer.code, 201, "{}", answer.text());
    object_of(&answer)
}

/// Makes two ConfigMaps, of which the first owns the second.
fn make_family(client: &Client, configmaps: &str, owner: &str, child: &str) {
    let made = make(client, configmaps, &json!({ "metadata": { "name": owner } }));
    let reference = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner,
        "uid": made["metadata"]["uid"],
        "blockOwnerDeletion": true,
    });
    let metadata = json!({ "name": child, "ownerReferences": [reference] });
    make(client, configmaps, &json!({ "metadata": metadata }));
}

fn delete(client: &Client, path: &str) -> Answer {
    let request = Request {
        method: "DELETE",
        path,
        ..Request::default()
    };
    client.send(&request).expect("an answer")
}

fn exists(client: &Client, path: &str) -> bool {
    let code = client.get(path).expect("an answer").code;
    assert!(matches!(code, 200 | 404), "{path}: {code}");
    code == 200
}

fn assert_names_the_owner(client: &Client, path: &str) {
    assert_reports_the_owner(&client.get(path).expect("an answer"), path);
}

fn assert_reports_the_owner(answer: &Answer, request: &str) {
    let status = object_of(answer);
    assert_eq!(
        (answer.code, &status["reason"]),
        (500, &json!("StorageReadError")),
        "{request}: {status}"
    );
    assert_eq!(status["details"]["causes"][0]["field"], OWNER_KEY, "{status}");
    assert_eq!(
        status["details"]["causes"][0]["reason"], "UnexpectedServerResponse",
        "{status}"
    );
}

/// A server with a family whose owner cannot be read.
fn broken_family(store: StoreChoice, flags: &[&str]) -> Server {
    let flags = [flags, &[CONTROLLERS]].concat();
    let mut server = Server::try_start(store, &flags).unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    make(
        &client,
        "/api/v1/namespaces",
        &json!({ "metadata": { "name": "family" } }),
    );
    make_family(&client, CONFIGMAPS, "owner", "child");
    put_past(&mut server, &[(OWNER_KEY.to_owned(), b"\x00junk".to_vec())]);
    until(&mut server, "unreadable", |client| {
        client.get(OWNER).expect("an answer").code != 200
    });
    server
}

fn check_reads_and_listing(server: &mut Server) {
    let client = server.client();
    assert_names_the_owner(&client, OWNER);
    for list in [
        CONFIGMAPS,
        "/api/v1/configmaps",
        "/api/v1/namespaces/family/configmaps?resourceVersion=0",
    ] {
        assert_names_the_owner(&client, list);
    }
    let taken = client.json("POST", CONFIGMAPS, &json!({ "metadata": { "name": "owner" } }));
    assert_eq!(taken.expect("an answer").code, 409);
    let listed = object_of(&client.get("/debug/unreadable-objects?format=json").expect("an answer"));
    assert_eq!(listed["unreadableObjects"][0]["key"], OWNER_KEY, "{listed}");
    assert_eq!(listed["unreadableObjects"][0]["resource"], "configmaps", "{listed}");
    until(server, "measured", |client| {
        let page = client.get("/metrics").expect("an answer").text();
        page.contains("trireme_store_unreadable_objects{resource=\"configmaps\"} 1")
    });
}

/// Nothing is written over it: the object that a change would start from is not known.
fn check_writes(server: &Server) {
    let client = server.client();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "owner" }, "data": { "written": "yes" },
    });
    let applied = format!("{OWNER}?fieldManager=tests&force=true");
    for (method, path, content_type) in [
        ("PUT", OWNER, "application/json"),
        ("PATCH", OWNER, "application/merge-patch+json"),
        ("PATCH", applied.as_str(), "application/apply-patch+yaml"),
    ] {
        let answer = client.send(&Request {
            method,
            path,
            body: Some(object.to_string().into_bytes()),
            content_type: Some(content_type),
            ..Request::default()
        });
        assert_reports_the_owner(&answer.expect("an answer"), content_type);
    }
    assert_names_the_owner(&client, OWNER);
    if server.etcd().is_some() {
        assert_eq!(read_past(server, OWNER_KEY), b"\x00junk");
    }
}

/// The child of an unreadable owner stays, also if it is looked at anew; that of a deleted one goes.
fn check_dependents(server: &mut Server) {
    let client = server.client();
    make_family(&client, CONFIGMAPS, "owner-2", "child-2");
    let mut child = object_of(&client.get(CHILD).expect("an answer"));
    child["data"] = json!({ "changed": "yes" });
    let answer = client.json("PUT", CHILD, &child).expect("an answer");
    assert_eq!(answer.code, 200, "{}", answer.text());
    let owner_2 = format!("{CONFIGMAPS}/owner-2");
    let child_2 = format!("{CONFIGMAPS}/child-2");
    assert_eq!(delete(&client, &owner_2).code, 200);
    until(server, "collected", |client| !exists(client, &child_2));
    assert!(exists(&client, CHILD), "its owner is not known to be gone");
}

/// A namespace with something unreadable in it stays, and says why.
fn check_namespace(server: &mut Server) {
    assert_eq!(delete(&server.client(), NAMESPACE).code, 200);
    until(server, "the namespace's condition", |client| {
        let namespace = object_of(&client.get(NAMESPACE).expect("an answer"));
        assert_eq!(namespace["kind"], "Namespace", "it is not finalized: {namespace}");
        namespace
            .to_string()
            .contains("failed to read one or more configmaps from the storage")
    });
    assert!(exists(&server.client(), CHILD));
}

/// Grants alice a verb on ConfigMaps, by a role of this name.
fn grant(client: &Client, role: &str, verb: &str) {
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": [verb] }]);
    make(
        client,
        &format!("/apis/{group}/v1/clusterroles"),
        &json!({ "metadata": { "name": role }, "rules": rules }),
    );
    let binding = json!({
        "metadata": { "name": role },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": "alice" }],
    });
    make(client, &format!("/apis/{group}/v1/clusterrolebindings"), &binding);
}

fn check_deletion_on_purpose(server: &mut Server) {
    let client = server.client();
    let path = format!("{OWNER}?{ON_PURPOSE}");
    grant(&client, "deleters", "delete");
    let alice = client.with_token(USER_TOKEN);
    assert_eq!(delete(&alice, OWNER).code, 500, "she may delete what can be read");
    let refused = delete(&alice, &path);
    assert_eq!(refused.code, 403, "{}", refused.text());
    let why = "not permitted to do \\\"unsafe-delete-ignore-read-errors\\\"";
    assert!(refused.text().contains(why), "{}", refused.text());

    assert_eq!(delete(&client, OWNER).code, 500, "not by accident");
    let readable = delete(&client, &format!("{CHILD}?{ON_PURPOSE}"));
    assert_eq!(readable.code, 422, "{}", readable.text());
    assert!(
        readable
            .text()
            .contains("is exclusively used to delete corrupt object(s)"),
        "{}",
        readable.text()
    );
    assert_eq!(delete(&client, &format!("{CONFIGMAPS}?{ON_PURPOSE}")).code, 422);
    let answer = delete(&client, &path);
    assert_eq!(answer.code, 200, "{}", answer.text());
    let details = json!({ "name": "owner", "kind": "ConfigMap" });
    let status = object_of(&answer);
    assert_eq!((&status["status"], &status["details"]), (&json!("Success"), &details));
    until(server, "gone", |client| !exists(client, NAMESPACE));
    assert!(!exists(&client, CHILD));
    let listed = object_of(&client.get("/debug/unreadable-objects?format=json").expect("an answer"));
    assert_eq!(listed["unreadableObjects"], json!([]));
}

/// A user who may delete ConfigMaps deletes one that cannot be read once the verb for that is granted too.
fn check_deletion_by_a_user(server: &mut Server) {
    let path = "/api/v1/namespaces/default/configmaps/torn";
    put_past(
        server,
        &[("/registry/configmaps/default/torn".to_owned(), b"\x00junk".to_vec())],
    );
    until(server, "unreadable", |client| {
        client.get(path).expect("an answer").code == 500
    });
    let client = server.client();
    let alice = client.with_token(USER_TOKEN);
    let on_purpose = format!("{path}?{ON_PURPOSE}");
    assert_eq!(delete(&alice, &on_purpose).code, 403);
    grant(&client, "breakers", "unsafe-delete-ignore-read-errors");
    assert_eq!(delete(&alice, path).code, 500, "not by accident");
    let deleted = delete(&alice, &on_purpose);
    assert_eq!(deleted.code, 200, "{}", deleted.text());
    until(server, "gone", |client| !exists(client, path));
}

fn check(store: StoreChoice) {
    let mut server = broken_family(store, &[ENABLED]);
    check_reads_and_listing(&mut server);
    check_writes(&server);
    check_dependents(&mut server);
    check_namespace(&mut server);
    check_deletion_on_purpose(&mut server);
    check_deletion_by_a_user(&mut server);
}

#[test]
fn nothing_is_concluded_from_what_cannot_be_read_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn nothing_is_concluded_from_what_cannot_be_read_over_etcd() {
    check(StoreChoice::Etcd);
}

#[test]
fn without_the_feature_gate_nothing_deletes_what_cannot_be_read() {
    let server = broken_family(StoreChoice::Embedded, &[]);
    let path = format!("{OWNER}?{ON_PURPOSE}");
    assert_eq!(delete(&server.client(), &path).code, 500);
    assert_names_the_owner(&server.client(), OWNER);
}

/// The key of a ConfigMap of the family.
fn key_of(name: &str) -> String {
    format!("/registry/configmaps/family/{name}")
}

/// Deletes a ConfigMap of a namespace, with a policy for its dependents.
fn delete_with(client: &Client, namespace: &str, name: &str, policy: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}?propagationPolicy={policy}");
    assert_eq!(delete(client, &path).code, 200);
}

#[test]
fn an_owner_waits_for_what_may_be_its_dependent_and_cannot_be_read() {
    let mut server = Server::try_start(StoreChoice::Etcd, &[CONTROLLERS]).unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    for namespace in ["family", "other"] {
        let namespace = json!({ "metadata": { "name": namespace } });
        make(&client, "/api/v1/namespaces", &namespace);
    }
    make_family(&client, CONFIGMAPS, "foreground", "deleted");
    make_family(&client, CONFIGMAPS, "orphaning", "orphan");
    let others = "/api/v1/namespaces/other/configmaps";
    make_family(&client, others, "foreground", "deleted");
    make_family(&client, others, "orphaning", "orphan");
    let stored = ["deleted", "orphan"].map(|name| (key_of(name), read_past(&server, &key_of(name))));
    let junk = stored.clone().map(|(key, _)| (key, b"\x00junk".to_vec()));
    put_past(&mut server, &junk);
    until(&mut server, "unreadable", |client| {
        let answers = ["deleted", "orphan"].map(|name| client.get(&format!("{CONFIGMAPS}/{name}")));
        answers.into_iter().all(|answer| answer.expect("an answer").code == 500)
    });

    for namespace in ["family", "other"] {
        delete_with(&client, namespace, "foreground", "Foreground");
        delete_with(&client, namespace, "orphaning", "Orphan");
    }
    let readable = |name: &str| format!("{others}/{name}");
    until(&mut server, "the other namespace's owners are gone", |client| {
        ["foreground", "orphaning"]
            .iter()
            .all(|name| !exists(client, &readable(name)))
    });
    assert!(!exists(&client, &readable("deleted")));
    assert!(exists(&client, &readable("orphan")));
    for name in ["foreground", "orphaning"] {
        assert!(
            exists(&client, &format!("{CONFIGMAPS}/{name}")),
            "{name} may have dependents"
        );
    }

    put_past(&mut server, &stored);
    until(&mut server, "the owners are gone", |client| {
        ["foreground", "orphaning"]
            .iter()
            .all(|name| !exists(client, &format!("{CONFIGMAPS}/{name}")))
    });
    assert!(!exists(&client, &format!("{CONFIGMAPS}/deleted")));
    let orphan = object_of(&client.get(&format!("{CONFIGMAPS}/orphan")).expect("an answer"));
    assert_eq!(orphan["metadata"]["ownerReferences"], Value::Null, "{orphan}");
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition of `widgets` in this group.
fn definition(group: &str, scope: &str) -> Value {
    json!({
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": scope, "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    })
}

/// Waits until the definition of `torn.example.com` is established: nothing more is written of it then.
fn wait_until_established(server: &mut Server) {
    until(server, "established", |client| {
        let definition = client.get(&format!("{DEFINITIONS}/widgets.torn.example.com"));
        let conditions = object_of(&definition.expect("an answer"))["status"]["conditions"].to_string();
        conditions.contains("InitialNamesAccepted")
    });
}

#[test]
fn a_namespace_stays_while_a_definition_cannot_be_read() {
    let mut server = Server::try_start(StoreChoice::Etcd, &[CONTROLLERS]).unwrap_or_else(|error| panic!("{error}"));
    make(
        &server.client(),
        DEFINITIONS,
        &definition("torn.example.com", "Namespaced"),
    );
    let namespace = json!({ "metadata": { "name": "family" } });
    make(&server.client(), "/api/v1/namespaces", &namespace);
    let widgets = "/apis/torn.example.com/v1/namespaces/family/widgets";
    until(&mut server, "served", |client| exists(client, widgets));
    let widget = json!({ "apiVersion": "torn.example.com/v1", "kind": "Widget", "metadata": { "name": "w" } });
    make(&server.client(), widgets, &widget);

    wait_until_established(&mut server);
    let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.torn.example.com";
    let stored = read_past(&server, key);
    put_past(&mut server, &[(key.to_owned(), b"\x00junk".to_vec())]);
    // Until then the last readable state counts.
    server.restart().expect("it starts again");
    assert_eq!(delete(&server.client(), NAMESPACE).code, 200);
    until(&mut server, "the namespace's condition", |client| {
        let namespace = object_of(&client.get(NAMESPACE).expect("an answer"));
        assert_eq!(namespace["kind"], "Namespace", "it is not finalized: {namespace}");
        namespace
            .to_string()
            .contains("the CustomResourceDefinition widgets.torn.example.com cannot be read")
    });

    put_past(&mut server, &[(key.to_owned(), stored)]);
    until(&mut server, "the namespace is gone", |client| {
        !exists(client, NAMESPACE)
    });
    let left = read_past_if_any(&server, "/registry/torn.example.com/widgets/family/w");
    assert_eq!(left, None, "its objects went first");
}

/// `TestAPIServiceWaitOnStart` of Kubernetes.
#[test]
fn a_version_stays_registered_while_its_definition_cannot_be_read() {
    let mut server = Server::start(StoreChoice::Etcd);
    let define = |client: &Client, group: &str| {
        make(client, DEFINITIONS, &definition(group, "Cluster"));
    };
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let [torn, gone, new] = ["torn", "gone", "new"].map(|group| format!("{services}/v1.{group}.example.com"));
    for group in ["torn.example.com", "gone.example.com"] {
        define(&server.client(), group);
    }
    until(&mut server, "registered", |client| {
        exists(client, &torn) && exists(client, &gone)
    });

    wait_until_established(&mut server);

    let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.torn.example.com";
    let stored = read_past(&server, key);
    put_past(&mut server, &[(key.to_owned(), b"\x00junk".to_vec())]);
    // Until then the last readable state counts.
    server.restart().expect("it starts again");
    let deleted = delete(&server.client(), &format!("{DEFINITIONS}/widgets.gone.example.com"));
    assert_eq!(deleted.code, 200, "{}", deleted.text());
    define(&server.client(), "new.example.com");
    until(&mut server, "what has changed was looked at", |client| {
        exists(client, &new)
    });
    assert!(
        exists(&server.client(), &torn),
        "its definition is not known to be gone"
    );
    put_past(&mut server, &[(key.to_owned(), stored)]);
    until(&mut server, "unregistered", |client| !exists(client, &gone));
    assert!(exists(&server.client(), &torn));
}

#[test]
fn a_replica_starts_while_apiservices_cannot_be_read() {
    let mut server = Server::start(StoreChoice::Embedded);
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let spurious = json!({
        "metadata": {
            "name": "v1.gone.example.com",
            "labels": { "kube-aggregator.kubernetes.io/automanaged": "onstart" },
        },
        "spec": { "group": "gone.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 15 },
    });
    make(&server.client(), services, &spurious);
    let names = ["v1.apps", "v1.torn.example.com"];
    let junk = names.map(|name| {
        let key = format!("/registry/apiregistration.k8s.io/apiservices/{name}");
        (key, b"\x00junk".to_vec())
    });
    put_past(&mut server, &junk);
    let client = server.client();
    for name in names {
        let answer = client.get(&format!("{services}/{name}")).expect("an answer");
        assert_eq!(object_of(&answer)["reason"], "StorageReadError", "it is left alone");
    }
    assert_eq!(client.get("/apis/apps/v1").expect("an answer").code, 200);
    assert!(exists(&client, &format!("{services}/v1.batch")));
    assert!(!exists(&client, &format!("{services}/v1.gone.example.com")));
}
