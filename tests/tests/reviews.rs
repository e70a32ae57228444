//! Reviews: the server says of access and of tokens what it would do itself.

use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::{Client, Request};
use trireme_tests::server::{ADMIN_TOKEN, USER_TOKEN};
use trireme_tests::{Server, StoreChoice};

/// The time limit of waits for what comes in a moment, or never.
const PATIENCE: Duration = Duration::from_secs(30);
const ACCESS: &str = "/apis/authorization.k8s.io/v1";
const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ISSUER: &str = "https://kubernetes.default.svc";

fn post(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    let answer = client.json("POST", path, body).expect("an answer");
    (answer.code, serde_json::from_str(&answer.text()).expect("JSON"))
}

fn made(client: &Client, path: &str, body: &Value) -> Value {
    let (code, object) = post(client, path, body);
    assert_eq!(code, 201, "{object}");
    object
}

/// The status of a review that is answered.
fn status(client: &Client, path: &str, spec: &Value) -> Value {
    made(client, path, &json!({ "spec": spec }))["status"].take()
}

/// The message of a review that is refused, after its code.
fn refusal(client: &Client, path: &str, body: &Value) -> String {
    let (code, status) = post(client, path, body);
    format!("{code} {}", status["message"].as_str().unwrap_or_default())
}

fn get_pods(namespace: &str) -> Value {
    json!({ "namespace": namespace, "verb": "get", "resource": "pods" })
}

#[test]
fn reviews_say_what_the_server_would_do() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    own_access_is_that_of_who_asks(&admin, &alice);
    access_of_others_is_that_of_whom_the_review_names(&admin, &alice);
    a_local_review_stays_in_its_namespace(&admin);
    unparsed_selectors_are_reported(&admin);
    bodies_are_read_like_those_of_any_create(&alice);
    nothing_else_can_be_done_with_a_review(&admin);
    what_a_user_may_do_is_listed(&admin, &alice);
}

fn own_access_is_that_of_who_asks(admin: &Client, alice: &Client) {
    let path = format!("{ACCESS}/selfsubjectaccessreviews");
    let of_pods = json!({ "resourceAttributes": get_pods("default") });
    assert_eq!(status(admin, &path, &of_pods), json!({ "allowed": true }));
    assert_eq!(status(alice, &path, &of_pods), json!({ "allowed": false }));
    let of_path = |path: &str| json!({ "nonResourceAttributes": { "path": path, "verb": "get" } });
    let why = concat!(
        r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" "#,
        r#"to Group "system:authenticated""#
    );
    let allowed = json!({ "allowed": true, "reason": why });
    assert_eq!(status(alice, &path, &of_path("/healthz")), allowed);
    assert_eq!(status(alice, &path, &of_path("/metrics")), json!({ "allowed": false }));
    let mut review = made(alice, &path, &json!({ "spec": of_pods }));
    let managers = review["metadata"]
        .as_object_mut()
        .and_then(|metadata| metadata.remove("managedFields"));
    let managers = managers.expect("a review that was created says by whom");
    let owned =
        json!({ "f:spec": { "f:resourceAttributes": { ".": {}, "f:namespace": {}, "f:resource": {}, "f:verb": {} } } });
    assert_eq!(managers[0]["fieldsV1"], owned);
    let whole = json!({
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
        "spec": of_pods, "status": { "allowed": false },
    });
    assert_eq!(review, whole);
    let anonymous = admin.anonymous();
    assert!(refusal(&anonymous, &path, &json!({ "spec": of_pods })).starts_with("403 selfsubjectaccessreviews."));
}

fn access_of_others_is_that_of_whom_the_review_names(admin: &Client, alice: &Client) {
    let path = format!("{ACCESS}/subjectaccessreviews");
    let of = |user: Value| {
        let mut spec = user;
        spec["resourceAttributes"] = get_pods("default");
        spec
    };
    let master = of(json!({ "user": "bob", "groups": ["system:masters"], "uid": "1", "extra": { "k": ["v"] } }));
    assert_eq!(status(admin, &path, &master), json!({ "allowed": true }));
    assert_eq!(
        status(admin, &path, &of(json!({ "user": "admin" }))),
        json!({ "allowed": false })
    );
    let refused = refusal(
        admin,
        &path,
        &json!({ "metadata": { "name": "x" }, "spec": of(json!({})) }),
    );
    // Who made the review is shown with the metadata, but is none of what must not be there.
    let begin = "422 .authorization.k8s.io \"\" is invalid: [spec.user: Invalid value: \"\": at least one of user or group \
                 must be specified, metadata: Invalid value: {\"name\":\"x\",\"managedFields\":[";
    assert!(
        refused.starts_with(begin) && refused.ends_with("]}: must be empty]"),
        "{refused}"
    );
    assert!(refusal(alice, &path, &json!({ "spec": master })).starts_with("403 "));
}

fn a_local_review_stays_in_its_namespace(admin: &Client) {
    let path = format!("{ACCESS}/namespaces/default/localsubjectaccessreviews");
    let spec = json!({ "user": "bob", "resourceAttributes": get_pods("default") });
    let review = made(admin, &path, &json!({ "spec": spec }));
    assert_eq!(review["metadata"]["namespace"], "default");
    assert_eq!(review["metadata"]["name"], Value::Null);
    assert_eq!(review["status"], json!({ "allowed": false }));
    let elsewhere = json!({ "spec": { "user": "bob", "resourceAttributes": get_pods("kube-system") } });
    assert_eq!(
        refusal(admin, &path, &elsewhere),
        "422 .authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"kube-system\": \
         must match metadata.namespace"
    );
    let other = json!({ "metadata": { "namespace": "kube-system" }, "spec": spec });
    assert_eq!(
        refusal(admin, &path, &other),
        "400 the namespace of the provided object does not match the namespace sent on the request"
    );
    let nowhere = format!("{ACCESS}/localsubjectaccessreviews");
    assert!(refusal(admin, &nowhere, &json!({ "spec": spec })).starts_with("404 "));
    // Who asks may not know whether there is such a namespace.
    let absent = format!("{ACCESS}/namespaces/absent/localsubjectaccessreviews");
    let spec = json!({ "user": "bob", "resourceAttributes": get_pods("absent") });
    assert_eq!(status(admin, &absent, &spec), json!({ "allowed": false }));
}

fn unparsed_selectors_are_reported(admin: &Client) {
    let path = format!("{ACCESS}/selfsubjectaccessreviews");
    let with = |name: &str, selector: Value| {
        let mut wanted = get_pods("default");
        wanted[name] = selector;
        json!({ "resourceAttributes": wanted })
    };
    let good = with("fieldSelector", json!({ "rawSelector": "spec.nodeName=n" }));
    assert_eq!(status(admin, &path, &good), json!({ "allowed": true }));
    let newer = with(
        "labelSelector",
        json!({ "requirements": [{ "key": "a", "operator": "Newer" }] }),
    );
    let error = "spec.resourceAttributes.labelSelector ignored due to parse error";
    let allowed = json!({ "allowed": true, "evaluationError": error });
    assert_eq!(status(admin, &path, &newer), allowed);
    let empty = json!({ "spec": with("fieldSelector", json!({})) });
    assert!(refusal(admin, &path, &empty).contains("requirements or rawSelector is required"));
}

/// A field of a protobuf message that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("short");
    assert!(length < 128, "one byte holds the length");
    [&[number << 3 | 2, length], bytes].concat()
}

fn bodies_are_read_like_those_of_any_create(alice: &Client) {
    let path = format!("{ACCESS}/selfsubjectaccessreviews");
    let send = |path: &str, content_type: &str, body: Vec<u8>| {
        let request = Request {
            method: "POST",
            path,
            body: Some(body),
            content_type: Some(content_type),
            ..Request::default()
        };
        alice.send(&request).expect("an answer")
    };
    let yaml = "spec:\n  nonResourceAttributes: {path: /api, verb: get}\n";
    let wanted = field(2, &[field(1, b"/api"), field(2, b"get")].concat());
    let names = [
        field(1, b"authorization.k8s.io/v1"),
        field(2, b"SelfSubjectAccessReview"),
    ]
    .concat();
    let protobuf = [b"k8s\0".to_vec(), field(1, &names), field(2, &field(2, &wanted))].concat();
    for (content_type, body) in [
        ("application/yaml", yaml.into()),
        ("application/vnd.kubernetes.protobuf", protobuf),
    ] {
        let answer = send(&format!("{path}?dryRun=All"), content_type, body);
        assert_eq!(answer.code, 201, "{content_type}: {}", answer.text());
        assert!(answer.text().contains("\"allowed\":true"), "{}", answer.text());
    }
    let odd = || br#"{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}},"odd":1}"#.to_vec();
    let warned = send(&path, "application/json", odd());
    assert_eq!(
        warned.header("warning").collect::<Vec<_>>(),
        [r#"299 - "unknown field \"odd\"""#]
    );
    let refused = send(&format!("{path}?fieldValidation=Strict"), "application/json", odd());
    assert!(
        refused.code == 400 && refused.text().contains("strict decoding error"),
        "{}",
        refused.text()
    );
    let other = json!({ "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1" });
    let message = refusal(alice, &path, &other);
    assert!(
        message.contains("cannot be handled as a SelfSubjectAccessReview"),
        "{message}"
    );
    let odd_run = refusal(alice, &format!("{path}?dryRun=Some"), &json!({}));
    assert!(odd_run.starts_with("422 CreateOptions.meta.k8s.io"), "{odd_run}");
}

fn nothing_else_can_be_done_with_a_review(admin: &Client) {
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        for path in [&format!("{ACCESS}/subjectaccessreviews"), TOKENS] {
            let answer = admin.json(method, path, &json!({})).expect("an answer");
            assert_eq!(answer.code, 405, "{method} {path}: {}", answer.text());
        }
    }
}

fn what_a_user_may_do_is_listed(admin: &Client, alice: &Client) {
    let path = format!("{ACCESS}/selfsubjectrulesreviews");
    let spec = json!({ "spec": { "namespace": "default" } });
    let listed = made(alice, &path, &spec);
    assert_eq!(
        (&listed["spec"], &listed["status"]["incomplete"]),
        (&json!({}), &json!(false))
    );
    let own = json!([
        {
            "verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        },
        { "verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"] },
    ]);
    assert_eq!(listed["status"]["resourceRules"], own);
    let all = &made(admin, &path, &spec)["status"];
    let everything = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
    assert_eq!(all["resourceRules"][0], everything);
    let everywhere = json!({ "verbs": ["*"], "nonResourceURLs": ["*"] });
    assert_eq!(all["nonResourceRules"][0], everywhere);
    assert_eq!(
        refusal(alice, &path, &json!({ "spec": {} })),
        "400 no namespace on request"
    );
}

#[test]
fn a_token_review_names_the_user_and_never_shows_the_token() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    let of_alice = json!({
        "authenticated": true, "audiences": [ISSUER],
        "user": { "username": "alice", "uid": "alice-uid", "groups": ["dev", "system:authenticated"] },
    });
    assert_eq!(status(&admin, TOKENS, &json!({ "token": USER_TOKEN })), of_alice);
    let two = json!({ "token": USER_TOKEN, "audiences": ["other", ISSUER] });
    assert_eq!(status(&admin, TOKENS, &two), of_alice);
    let bad = json!({ "user": {}, "error": "invalid bearer token" });
    for spec in [
        json!({ "token": "an-unknown-token" }),
        json!({ "token": "a.b.c" }),
        json!({ "token": USER_TOKEN, "audiences": ["other"] }),
    ] {
        assert_eq!(status(&admin, TOKENS, &spec), bad, "{spec}");
    }
    assert_eq!(
        refusal(&admin, TOKENS, &json!({ "spec": {} })),
        "400 token is required for TokenReview in authentication"
    );
    assert!(refusal(&alice, TOKENS, &json!({ "spec": { "token": ADMIN_TOKEN } })).starts_with("403 "));
    tokens_of_service_accounts_tell_what_they_are_bound_to(&admin);
    let log = server.log();
    for token in ["an-unknown-token", USER_TOKEN, ADMIN_TOKEN, "eyJ"] {
        assert!(!log.contains(token), "{token} is in the log");
    }
}

fn tokens_of_service_accounts_tell_what_they_are_bound_to(admin: &Client) {
    let namespace = "/api/v1/namespaces/default";
    made(
        admin,
        &format!("{namespace}/serviceaccounts"),
        &json!({ "metadata": { "name": "robot" } }),
    );
    let node = made(admin, "/api/v1/nodes", &json!({ "metadata": { "name": "n" } }));
    let pod = json!({
        "metadata": { "name": "p" },
        "spec": { "serviceAccountName": "robot", "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
    });
    let pod = made(admin, &format!("{namespace}/pods"), &pod);
    let bound = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p" });
    let wanted = json!({ "spec": { "audiences": ["vault", ISSUER], "boundObjectRef": bound } });
    let mut request = made(admin, &format!("{namespace}/serviceaccounts/robot/token"), &wanted);
    let token = request["status"]["token"].take();
    let reviewed = status(
        admin,
        TOKENS,
        &json!({ "token": token, "audiences": ["vault", "other"] }),
    );
    assert_eq!(
        (&reviewed["authenticated"], &reviewed["audiences"]),
        (&json!(true), &json!(["vault"]))
    );
    let user = &reviewed["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    let extra = |fact: &str| user["extra"][format!("authentication.kubernetes.io/{fact}")][0].clone();
    assert_eq!(
        (extra("pod-name"), extra("pod-uid")),
        (json!("p"), pod["metadata"]["uid"].clone())
    );
    assert_eq!(
        (extra("node-name"), extra("node-uid")),
        (json!("n"), node["metadata"]["uid"].clone())
    );
    assert!(
        extra("credential-id").as_str().is_some_and(|id| id.starts_with("JTI=")),
        "{user}"
    );
    let for_others = status(admin, TOKENS, &json!({ "token": token, "audiences": ["other"] }));
    let why = format!(
        r#"[invalid bearer token, token audiences ["vault" "{ISSUER}"] is invalid for the target audiences ["other"]]"#
    );
    assert_eq!(for_others, json!({ "user": {}, "error": why }));
    let now = json!({ "gracePeriodSeconds": 0 });
    let gone = admin
        .json("DELETE", &format!("{namespace}/pods/p"), &now)
        .expect("an answer");
    assert_eq!(gone.code, 200, "{}", gone.text());
    let why = "[invalid bearer token, service account token has been invalidated]";
    let ended = json!({ "user": {}, "error": why });
    // Tokens are held against the caches, which see a deletion a moment after its answer.
    until("the token has ended", PATIENCE, || {
        status(admin, TOKENS, &json!({ "token": token })) == ended
    });
}
