//! Rights to parts of a ResourceClaim's status.

use serde_json::{Value, json};
use trireme_tests::http::Request;
use trireme_tests::{Server, StoreChoice};

use super::{as_user, grant_each};

/// The right to a claim's status is none to its allocation, nor to the devices of a driver (KEP 4817).
#[test]
fn parts_of_a_claims_status_need_rights_of_their_own() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let class = json!({"exactly": {"deviceClassName": "gpu"}, "name": "r"});
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [class]}}});
    let made = admin.json("POST", claims, &claim).expect("an answer");
    assert_eq!(made.code, 201, "{}", made.text());
    let right = |resource: &str, verbs: Value| json!({"verbs": verbs, "apiGroups": ["resource.k8s.io"], "resources": [resource]});
    let status = right("resourceclaims/status", json!(["patch"]));
    let binding = right("resourceclaims/binding", json!(["patch"]));
    let driver = right("resourceclaims/driver", json!(["arbitrary-node:patch"]));
    let users = grant_each(&admin, &[status, binding, driver]);
    let grant_status_to = |user: &str| {
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": format!("status-{user}")},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "only-0"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        });
        let path = format!("/apis/{group}/v1/clusterrolebindings");
        assert_eq!(admin.json("POST", &path, &binding).expect("an answer").code, 201);
    };
    users[1..].iter().for_each(|user| grant_status_to(user));
    let patch = |user: &str, status: Value| {
        let request = Request {
            method: "PATCH",
            path: &format!("{claims}/c/status"),
            body: Some(json!({"status": status}).to_string().into_bytes()),
            content_type: Some("application/merge-patch+json"),
            headers: &as_user(user),
            ..Request::default()
        };
        let answer = admin.send(&request).expect("an answer");
        let status: Value = serde_json::from_str(&answer.text()).expect("JSON");
        (answer.code, status["message"].as_str().unwrap_or_default().to_owned())
    };
    let result = json!({"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"});
    let allocation = json!({"allocation": {"devices": {"results": [result]}}});
    let refused = |user: &str, path: &str, what: &str, resource: &str, verb: &str, shown: &str, place: &str| {
        format!(
            "ResourceClaim.resource.k8s.io \"c\" is invalid: {path}: Forbidden: changing {what} requires \
             resource=\"resourceclaims/{resource}\", verb=\"{shown}\" permission: resourceclaims.resource.k8s.io {place}: User \
             \"{user}\" cannot {verb} resource \"resourceclaims/{resource}\" in API group \"resource.k8s.io\""
        )
    };
    let what = "status.allocation or status.reservedFor";
    let expected = refused(
        &users[0],
        "status.allocation",
        what,
        "binding",
        "patch",
        "patch",
        "is forbidden",
    );
    assert_eq!(
        patch(&users[0], allocation.clone()),
        (422, format!("{expected} at the cluster scope"))
    );
    assert_eq!(patch(&users[1], allocation).0, 200, "who may bind may allocate");
    let devices = json!({"devices": [{"driver": "gpu.example.com", "pool": "p", "device": "d", "data": {"a": 1}}]});
    let verb = "arbitrary-node:patch";
    let place = "\"gpu.example.com\" is forbidden";
    let expected = refused(
        &users[1],
        "status.devices",
        "status.devices",
        "driver",
        verb,
        &format!("[{verb}]"),
        place,
    );
    assert_eq!(
        patch(&users[1], devices.clone()),
        (422, format!("{expected} in the namespace \"default\""))
    );
    assert_eq!(patch(&users[2], devices).0, 200, "who may write for the driver may");
}
