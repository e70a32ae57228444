//! Objects, lists, metadata, statuses and discovery.

use serde_json::{Value, json};
use trireme_tests::{
    Server, StoreChoice,
    group::until,
    http::{Client, Request},
};

use crate::client::{
    CONFIGMAPS, METADATA, METADATA_LIST, PATIENCE, PROTOBUF, WIDGETS, body, config_map, create, decoded,
    define_widgets, encoded, json_of, media_type, same_as, same_in_both, send,
};

const RECORDED: &str = include_str!("../../reference/protobuf/pairs.jsonl");

#[test]
fn every_kind_of_answer_is_the_same_in_protobuf_and_in_json() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    objects_and_lists(&client);
    recorded_objects(&client);
    what_a_write_comes_to(&client);
    subresources(&client);
    statuses(&client);
    discovery(&client);
    metadata_alone(&client);
    define_widgets(&server);
    metadata_of_custom_resources(&client);
}

fn objects_and_lists(client: &Client) {
    same_in_both(client, &format!("{CONFIGMAPS}?labelSelector=test%3Dnone"));
    for name in ["one", "two", "three"] {
        create(client, CONFIGMAPS, &config_map(name));
    }
    same_in_both(client, &format!("{CONFIGMAPS}/one"));
    let listed = same_in_both(client, &format!("{CONFIGMAPS}?labelSelector=test%3Dprotobuf"));
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(3));
    let page = same_in_both(client, &format!("{CONFIGMAPS}?limit=2"));
    assert!(page["metadata"]["continue"].is_string() && page["metadata"]["remainingItemCount"].is_number());
    // A duty makes it, at times after the server is ready: the lists would differ.
    until("the service of the API is there", PATIENCE, || {
        let service = client.get("/api/v1/namespaces/default/services/kubernetes");
        service.is_ok_and(|answer| answer.code == 200)
    });
    for path in [
        "/api/v1/namespaces",
        "/api/v1/services",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    ] {
        same_in_both(client, path);
    }
    // Stored in another version than it is asked for.
    let scaler = json!({
        "metadata": {"name": "scaler"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    });
    for version in ["v1", "v2"] {
        let path = format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
        if version == "v1" {
            create(client, &path, &scaler);
        }
        same_in_both(client, &format!("{path}/scaler"));
        same_in_both(client, &path);
    }
}

/// Whatever kube-apiserver's objects were made of when they were recorded.
fn recorded_objects(client: &Client) {
    let mut made = 0;
    for line in RECORDED.lines() {
        let pair: Value = serde_json::from_str(line).expect("a pair is JSON");
        let (object, path) = (&pair["json"], pair["path"].as_str().unwrap_or_default());
        let place = path.rsplit_once('/').filter(|_| pair["variant"] == "rich");
        let Some((collection, name)) = place.filter(|(collection, _)| collection.contains("/namespaces/pb-")) else {
            continue;
        };
        let mut object = object.clone();
        let kept = ["labels", "annotations"].map(|key| (key, object["metadata"][key].clone()));
        object["metadata"] = json!({"name": name});
        for (key, value) in kept {
            object["metadata"][key] = value;
        }
        let (group, rest) = collection.split_once("/namespaces/").unwrap_or_default();
        let plural = rest.split_once('/').map_or("", |(_, plural)| plural);
        let path = format!("{group}/namespaces/default/{plural}");
        if client.json("POST", &path, &object).expect("an answer").code == 201 {
            same_in_both(client, &format!("{path}/{name}"));
            same_in_both(client, &path);
            made += 1;
        }
    }
    assert!(made > 20, "only {made} of the recorded objects can be made");
}

fn what_a_write_comes_to(client: &Client) {
    let made = send(client, "POST", CONFIGMAPS, PROTOBUF, Some(&config_map("written")));
    assert_eq!((made.code, media_type(&made)), (201, PROTOBUF));
    let mut object = decoded(body(&made));
    assert_eq!(object["data"], json!({"a": "1", "b": "2"}));
    object["data"] = json!({"c": "3"});
    let path = format!("{CONFIGMAPS}/written");
    let put = send(client, "PUT", &path, PROTOBUF, Some(&object));
    assert_eq!((put.code, &decoded(body(&put))["data"]), (200, &json!({"c": "3"})));
    let dry = send(
        client,
        "PUT",
        &format!("{path}?dryRun=All"),
        PROTOBUF,
        Some(&decoded(body(&put))),
    );
    assert_eq!(decoded(body(&dry)), decoded(body(&put)));
    let patch = Request {
        method: "PATCH",
        path: &path,
        accept: Some(PROTOBUF),
        content_type: Some("application/merge-patch+json"),
        body: Some(br#"{"data":{"d":"4"}}"#.to_vec()),
        ..Request::default()
    };
    let patched = client.send(&patch).expect("an answer");
    assert_eq!(decoded(body(&patched))["data"], json!({"c": "3", "d": "4"}));
    let deleted = send(client, "DELETE", &path, PROTOBUF, None);
    let status = decoded(body(&deleted));
    assert_eq!(
        (&status["kind"], &status["status"]),
        (&json!("Status"), &json!("Success"))
    );
    assert_eq!(status["details"]["uid"], object["metadata"]["uid"]);
    assert_eq!(body(&deleted), encoded(&status));
    let path = format!("{CONFIGMAPS}?labelSelector=test%3Dprotobuf");
    let collection = send(client, "DELETE", &path, PROTOBUF, None);
    let list = decoded(body(&collection));
    assert_eq!(
        (&list["kind"], list["items"].as_array().map(Vec::len)),
        (&json!("ConfigMapList"), Some(3))
    );
}

fn subresources(client: &Client) {
    let container = json!({"name": "c", "image": "i"});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    create(client, deployments, &json!({"metadata": {"name": "d"}, "spec": spec}));
    same_in_both(client, &format!("{deployments}/d/status"));
    let mut scale = same_in_both(client, &format!("{deployments}/d/scale"));
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"]),
        (&json!("Scale"), &json!(2))
    );
    scale["spec"]["replicas"] = 5.into();
    let put = send(client, "PUT", &format!("{deployments}/d/scale"), PROTOBUF, Some(&scale));
    assert_eq!((put.code, &decoded(body(&put))["spec"]["replicas"]), (200, &json!(5)));

    create(
        client,
        "/api/v1/namespaces/default/serviceaccounts",
        &json!({"metadata": {"name": "robot"}}),
    );
    let token = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let token = send(
        client,
        "POST",
        token,
        PROTOBUF,
        Some(&json!({"spec": {"expirationSeconds": 900}})),
    );
    let request = decoded(body(&token));
    assert_eq!(
        (token.code, &request["kind"]),
        (201, &json!("TokenRequest")),
        "{}",
        token.text()
    );
    assert!(
        request["status"]["token"]
            .as_str()
            .is_some_and(|token| token.contains('.'))
    );

    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container], "serviceAccountName": "robot"}});
    create(client, pods, &pod);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    for (part, object) in [("binding", binding), ("eviction", eviction)] {
        let answer = send(client, "POST", &format!("{pods}/p/{part}"), PROTOBUF, Some(&object));
        let success = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "code": 201});
        assert_eq!(decoded(body(&answer)), success, "{part}");
    }
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = send(client, "POST", path, PROTOBUF, Some(&review));
    let review = decoded(body(&answer));
    assert_eq!(
        (&review["kind"], &review["status"]["allowed"]),
        (&json!("SelfSubjectAccessReview"), &json!(true))
    );
    same_in_both(client, "/api/v1/componentstatuses");
}

fn statuses(client: &Client) {
    let invalid = json!({"metadata": {"name": "X"}, "spec": {"containers": [{"name": "A"}]}});
    let cases = [
        ("GET", format!("{CONFIGMAPS}/nope"), None, 404),
        ("GET", "/apis/apps/v1/nope".to_owned(), None, 404),
        ("GET", format!("{CONFIGMAPS}?limit=x"), None, 400),
        ("POST", "/api/v1/namespaces/default/pods".to_owned(), Some(invalid), 422),
        ("PATCH", format!("{CONFIGMAPS}/one"), Some(json!({})), 415),
    ];
    for (method, path, object, code) in cases {
        let json = json_of(&send(client, method, &path, "application/json", object.as_ref()));
        let answer = send(client, method, &path, PROTOBUF, object.as_ref());
        assert_eq!((answer.code, media_type(&answer)), (code, PROTOBUF), "{path}");
        assert_eq!(decoded(body(&answer)), json, "{path}");
        assert_eq!(body(&answer), encoded(&json), "{path}");
    }
    let answer = send(&client.anonymous(), "GET", CONFIGMAPS, PROTOBUF, None);
    let refused = decoded(body(&answer));
    assert_eq!(
        (answer.code, &refused["code"], &refused["reason"]),
        (403, &json!(403), &json!("Forbidden"))
    );
}

fn discovery(client: &Client) {
    for path in ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"] {
        same_in_both(client, path);
    }
    let form = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/api", "/apis"] {
        let json = json_of(&send(client, "GET", path, &format!("application/json{form}"), None));
        let answer = send(client, "GET", path, &format!("{PROTOBUF}{form}"), None);
        assert_eq!(media_type(&answer), format!("{PROTOBUF}{form}"));
        assert_eq!(decoded(body(&answer)), json, "{path}");
        assert_eq!(body(&answer), encoded(&json), "{path}");
    }
}

fn metadata_alone(client: &Client) {
    create(client, CONFIGMAPS, &config_map("known"));
    let collections = [
        CONFIGMAPS,
        "/api/v1/namespaces",
        "/apis/apps/v1/namespaces/default/deployments",
    ];
    let names = ["known", "default", "d"];
    for (collection, name) in collections.into_iter().zip(names) {
        of_metadata(client, &format!("{collection}/{name}"), METADATA);
        of_metadata(client, collection, METADATA_LIST);
    }
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/scaler";
    of_metadata(client, path, METADATA);
}

/// Metadata in protobuf, which are those of JSON.
fn of_metadata(client: &Client, path: &str, accept: &str) {
    same_as(client, path, accept, &accept.replace(PROTOBUF, "application/json"));
}

fn metadata_of_custom_resources(client: &Client) {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 1});
    create(client, WIDGETS, &widget);
    of_metadata(client, &format!("{WIDGETS}/w"), METADATA);
    of_metadata(client, WIDGETS, METADATA_LIST);
}
