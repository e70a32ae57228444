//! A node joins as kubeadm has it: a bootstrap token, a CertificateSigningRequest that an administrator approves and a signer
//! signs, a node certificate; and then the node does what is its own and nothing else.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use trireme_tests::certificates::{Ca, with_certificate};
use trireme_tests::group::until;
use trireme_tests::http::{Client, Request};
use trireme_tests::{Server, StoreChoice};

const PATIENCE: Duration = Duration::from_secs(30);
const TOKEN: &str = "aaa001.0123456789abcdef";
const JOINING: &str = "system:bootstrappers:kubeadm:default-node-token";
const NODE: &str = "worker-1";
const OTHER: &str = "worker-2";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

fn start(store: StoreChoice) -> Server {
    let flags = [
        "--enable-bootstrap-token-auth",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
    ];
    Server::try_start(store, &flags).unwrap_or_else(|error| panic!("{error}"))
}

/// Sends JSON (a merge patch where that is the method) and expects a code; the answer.
fn send(client: &Client, (method, path): (&str, &str), body: &Value, code: u16) -> Value {
    let media = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let answer = client.send(&Request {
        method,
        path,
        body: (!body.is_null()).then(|| body.to_string().into_bytes()),
        content_type: (!body.is_null()).then_some(media),
        ..Request::default()
    });
    let answer = answer.expect("an answer");
    assert_eq!(answer.code, code, "{method} {path}: {}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

fn refused(client: &Client, request: (&str, &str), body: &Value, because: &str) {
    let message = send(client, request, body, 403)["message"].to_string();
    assert!(message.contains(because), "{request:?}: {message}");
}

fn user(client: &Client) -> Value {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = send(client, ("POST", path), &json!({}), 201);
    review["status"]["userInfo"].clone()
}

/// As `kubeadm init` leaves it: the token, and the right of those who have it to ask for a certificate.
fn announce(admin: &Client) {
    let secret = json!({
        "metadata": {"name": "bootstrap-token-aaa001"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "aaa001",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": JOINING,
        },
    });
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "kubeadm:kubelet-bootstrap"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": JOINING}],
    });
    send(admin, ("POST", "/api/v1/namespaces/kube-system/secrets"), &secret, 201);
    send(
        admin,
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        &binding,
        201,
    );
}

/// The bootstrap user asks for the certificate of a node; what it sends is signed with the key.
fn ask_for_certificate(joining: &Client, key: &KeyPair) {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params
        .distinguished_name
        .push(DnType::CommonName, format!("system:node:{NODE}"));
    let pem = params.serialize_request(key).expect("a request").pem().expect("PEM");
    let request = json!({
        "metadata": {"name": NODE},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "request": STANDARD.encode(pem),
            "usages": ["digital signature", "client auth"],
        },
    });
    let made = send(joining, ("POST", REQUESTS), &request, 201);
    assert_eq!(made["spec"]["username"], "system:bootstrap:aaa001");
    let groups = json!(["system:bootstrappers", JOINING, "system:authenticated"]);
    assert_eq!(made["spec"]["groups"], groups);
}

/// An administrator approves, and a signer with the CA of clients signs what is approved.
fn approve_and_sign(admin: &Client, joining: &Client, ca: &Ca) -> rcgen::Certificate {
    let path = format!("{REQUESTS}/{NODE}");
    let (approval, status) = (format!("{path}/approval"), format!("{path}/status"));
    let mut request = send(admin, ("GET", &path), &Value::Null, 200);
    let condition = json!({"type": "Approved", "status": "True", "reason": "ByHand", "message": "it is known"});
    request["status"]["conditions"] = json!([condition]);
    refused(
        joining,
        ("PUT", &approval),
        &request,
        "certificatesigningrequests/approval",
    );
    let mut request = send(admin, ("PUT", &approval), &request, 200);
    let asked = request["spec"]["request"].as_str().expect("a request");
    let asked = String::from_utf8(STANDARD.decode(asked).expect("base64")).expect("PEM");
    let certificate = ca.sign(&asked);
    let signed = json!(STANDARD.encode(certificate.pem()));
    request["status"]["certificate"] = signed.clone();
    refused(joining, ("PUT", &status), &request, "certificatesigningrequests/status");
    send(admin, ("PUT", &status), &request, 200);
    let fetched = send(joining, ("GET", &path), &Value::Null, 200);
    assert_eq!(
        fetched["status"]["certificate"], signed,
        "the bootstrap user fetches it"
    );
    certificate
}

/// The node registers, reports its status and renews its lease.
fn does_its_own(node: &Client) {
    let own = format!("/api/v1/nodes/{NODE}");
    send(
        node,
        ("POST", "/api/v1/nodes"),
        &json!({"metadata": {"name": NODE}}),
        201,
    );
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let reported = send(node, ("PATCH", &format!("{own}/status")), &ready, 200);
    assert_eq!(reported["status"]["conditions"][0]["status"], "True");
    let lease = json!({
        "metadata": {"name": NODE},
        "spec": {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    let mut lease = send(node, ("POST", LEASES), &lease, 201);
    lease["spec"]["renewTime"] = json!("2026-01-01T00:00:10.000000Z");
    let renewed = send(node, ("PUT", &format!("{LEASES}/{NODE}")), &lease, 200);
    assert_eq!(renewed["spec"]["renewTime"], "2026-01-01T00:00:10.000000Z");
}

/// The node touches no other node, no lease of one, and no secret that none of its pods needs.
fn does_nothing_else(admin: &Client, node: &Client) {
    let other = json!({"metadata": {"name": OTHER}});
    let path = format!("/api/v1/nodes/{OTHER}");
    refused(node, ("POST", "/api/v1/nodes"), &other, "is not allowed to modify node");
    send(admin, ("POST", "/api/v1/nodes"), &other, 201);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    refused(node, ("PATCH", &path), &label, "is not allowed to modify node");
    refused(
        node,
        ("PATCH", &format!("{path}/status")),
        &json!({"status": {}}),
        "is not allowed to modify node",
    );
    refused(node, ("DELETE", &path), &Value::Null, "forbidden");
    let lease = json!({"metadata": {"name": OTHER}, "spec": {"holderIdentity": NODE}});
    refused(
        node,
        ("POST", LEASES),
        &lease,
        "can only access node lease with the same name",
    );
    let role = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
    refused(
        node,
        ("PATCH", &format!("/api/v1/nodes/{NODE}")),
        &role,
        "is not allowed to modify labels",
    );
    refused(node, ("GET", SECRETS), &Value::Null, "forbidden");
}

/// A node may read the objects that its pods need, as long as these pods exist.
fn reads_what_its_pods_need(admin: &Client, node: &Client) {
    let secret = format!("{SECRETS}/needed");
    send(admin, ("POST", SECRETS), &json!({"metadata": {"name": "needed"}}), 201);
    refused(node, ("GET", &secret), &Value::Null, "no relationship found");
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": NODE,
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": "needed"}}],
        },
    });
    let pods = "/api/v1/namespaces/default/pods";
    send(admin, ("POST", pods), &pod, 201);
    let code = || node.get(&secret).expect("an answer").code;
    until("the node reads its pod's secret", PATIENCE, || code() == 200);
    send(
        node,
        ("PATCH", &format!("{pods}/p/status")),
        &json!({"status": {"phase": "Running"}}),
        200,
    );
    send(
        admin,
        ("DELETE", &format!("{pods}/p?gracePeriodSeconds=0")),
        &Value::Null,
        200,
    );
    until("the secret is none of its business any more", PATIENCE, || {
        code() == 403
    });
}

fn check(store: StoreChoice) {
    let server = start(store);
    let admin = server.client();
    let joining = admin.with_token(TOKEN);
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let code = || joining.json("POST", review, &json!({})).expect("an answer").code;
    assert_eq!(code(), 401, "a token that is not there yet");
    announce(&admin);
    until("the bootstrap token counts", PATIENCE, || code() == 201);
    refused(&joining, ("GET", "/api/v1/nodes"), &Value::Null, "cannot list resource");
    refused(
        &joining,
        ("POST", "/api/v1/nodes"),
        &json!({"metadata": {"name": NODE}}),
        "cannot create resource",
    );
    let key = KeyPair::generate().expect("a key");
    ask_for_certificate(&joining, &key);
    let certificate = approve_and_sign(&admin, &joining, &Ca::of(&server));
    let node = with_certificate(&server, &(certificate, key));
    let user = user(&node);
    assert_eq!(user["username"], format!("system:node:{NODE}"));
    assert_eq!(user["groups"], json!(["system:nodes", "system:authenticated"]));
    does_its_own(&node);
    does_nothing_else(&admin, &node);
    reads_what_its_pods_need(&admin, &node);
    // The token has done its work.
    let token = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-aaa001";
    send(&admin, ("DELETE", token), &Value::Null, 200);
    until("the bootstrap token counts no more", PATIENCE, || code() == 401);
    send(&node, ("GET", &format!("/api/v1/nodes/{NODE}")), &Value::Null, 200);
}

#[test]
fn a_node_joins_by_a_bootstrap_token_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn a_node_joins_by_a_bootstrap_token_over_etcd() {
    check(StoreChoice::Etcd);
}
