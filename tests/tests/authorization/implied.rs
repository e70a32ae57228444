//! Rights that a write needs beside that to its own verb.

use serde_json::{Value, json};
use trireme_tests::http::{Client, Request};
use trireme_tests::{Server, StoreChoice};

use super::{as_user, grant_each};

/// The code and the message of the answer to a write of a user.
fn write(admin: &Client, user: &str, method: &str, path: &str, object: &Value) -> (u16, String) {
    let content_type = match method {
        "PATCH" => "application/apply-patch+yaml",
        _ => "application/json",
    };
    let request = Request {
        method,
        path,
        body: Some(object.to_string().into_bytes()),
        content_type: Some(content_type),
        headers: &as_user(user),
        ..Request::default()
    };
    let answer = admin.send(&request).expect("an answer");
    let status: Value = serde_json::from_str(&answer.text()).expect("JSON");
    (answer.code, status["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn who_may_update_and_not_create_creates_nothing_by_updating() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let right = |verbs: Value| json!({"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]});
    let users = grant_each(
        &admin,
        &[
            right(json!(["update", "patch"])),
            right(json!(["create", "update", "patch"])),
        ],
    );
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease =
        |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    for (method, query) in [("PUT", ""), ("PATCH", "?fieldManager=tests")] {
        let name = method.to_lowercase();
        let path = format!("{leases}/{name}{query}");
        let refused = format!(
            "leases.coordination.k8s.io \"{name}\" is forbidden: User \"{}\" cannot create resource \"leases\" in API group \
             \"coordination.k8s.io\" in the namespace \"default\"",
            users[0]
        );
        assert_eq!(write(&admin, &users[0], method, &path, &lease(&name)), (403, refused));
        assert_eq!(
            write(&admin, &users[1], method, &path, &lease(&name)).0,
            201,
            "{method}"
        );
        let mut there = lease(&name);
        if method == "PUT" {
            // A lease is replaced at a resource version only.
            let stored = admin.get(&format!("{leases}/{name}")).expect("an answer").text();
            there = serde_json::from_str(&stored).expect("JSON");
        }
        let updated = write(&admin, &users[0], method, &path, &there);
        assert_eq!(updated.0, 200, "{method}: it is there, {}", updated.1);
    }
}

/// The author of a policy reads its messages, and these can show its parameters.
#[test]
fn a_policy_has_no_parameters_that_its_author_may_not_read() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let group = "admissionregistration.k8s.io";
    let policies = json!({"verbs": ["create", "update"], "apiGroups": [group], "resources": ["*"]});
    let mut reader = policies.clone();
    reader["apiGroups"] = json!([group, ""]);
    reader["verbs"] = json!(["create", "update", "get", "list"]);
    let users = grant_each(&admin, &[policies, reader]);
    let shown = format!("&{{{}  [system:authenticated] map[]}}", users[0]);
    let root = format!("/apis/{group}/v1");
    let rules = json!({"resourceRules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
    ]});
    let validating =
        json!({"matchConstraints": rules, "validations": [{"expression": "object.spec.hostNetwork == false"}]});
    let mutating = json!({
        "matchConstraints": rules, "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
    });
    for (kind, plural, spec, verb) in [
        (
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            validating,
            "get",
        ),
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", mutating, "list"),
    ] {
        let path = format!("{root}/{plural}");
        let mut policy = json!({"metadata": {"name": "p"}, "spec": spec});
        assert_eq!(
            write(&admin, &users[0], "POST", &path, &policy).0,
            201,
            "{kind}: it has no parameters"
        );
        policy["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "Secret"});
        policy["metadata"]["name"] = "q".into();
        let refused = format!(
            "{kind}.{group} \"q\" is invalid: spec.paramKind: Forbidden: user {shown} must have \"get\" permission on all \
             objects of the referenced paramKind (kind=Secret, apiVersion=v1)"
        );
        assert_eq!(write(&admin, &users[0], "POST", &path, &policy), (422, refused));
        assert_eq!(
            write(&admin, &users[1], "POST", &path, &policy).0,
            201,
            "{kind}: he may read them"
        );
        let path_of_q = format!("{path}/q");
        let stored = admin.get(&path_of_q).expect("an answer").text();
        let mut stored: Value = serde_json::from_str(&stored).expect("JSON");
        stored["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(
            write(&admin, &users[0], "PUT", &path_of_q, &stored).0,
            200,
            "{kind}: they are the same"
        );

        let bindings = format!("{root}/{}bindings", plural.replace("ies", "y"));
        let select = if verb == "get" {
            json!({"name": "s"})
        } else {
            json!({"selector": {}})
        };
        let mut param_ref = select;
        param_ref["namespace"] = "default".into();
        param_ref["parameterNotFoundAction"] = "Deny".into();
        let mut spec = json!({"policyName": "q", "paramRef": param_ref});
        if verb == "get" {
            spec["validationActions"] = json!(["Deny"]);
        }
        let binding = json!({"metadata": {"name": "b"}, "spec": spec});
        let refused = format!(
            "{kind}Binding.{group} \"b\" is invalid: spec.paramRef: Forbidden: user {shown} does not have \"{verb}\" \
             permission on the object referenced by paramRef"
        );
        assert_eq!(write(&admin, &users[0], "POST", &bindings, &binding), (422, refused));
        assert_eq!(
            write(&admin, &users[1], "POST", &bindings, &binding).0,
            201,
            "{kind}: he may read it"
        );
        assert_eq!(write(&admin, "nobody", "POST", &bindings, &binding).0, 403);
    }
}
