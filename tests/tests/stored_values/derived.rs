//! Rules that are derived from objects, when one of these can no longer be read.

use serde_json::{Value, json};
use trireme_tests::{Server, StoreChoice, http::Client};

use super::support::{compact_past, object_of, put_past, until};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn make(client: &Client, path: &str, object: &Value) {
    let answer = client.json("POST", path, object).expect("an answer");
    assert_eq!(answer.code, 201, "{}", answer.text());
}

/// Makes a policy that forbids ConfigMaps of its own name, and waits until it is in force.
fn forbid(server: &mut Server, name: &str) {
    let rule =
        json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] });
    let policy = json!({
        "metadata": { "name": name },
        "spec": {
            "matchConstraints": { "resourceRules": [rule] },
            "validations": [{ "expression": format!("object.metadata.name != '{name}'") }],
        },
    });
    let binding = json!({
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    make(&server.client(), POLICIES, &policy);
    make(&server.client(), BINDINGS, &binding);
    until(server, "held to the policy", |client| is_forbidden(client, name));
}

/// Reports whether a ConfigMap of this name is refused by the policy of the same name.
fn is_forbidden(client: &Client, name: &str) -> bool {
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
    let answer = client.json("POST", path, &json!({ "metadata": { "name": name } }));
    let answer = answer.expect("an answer");
    let refusal = format!("ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request");
    match answer.code {
        201 => false,
        422 if answer.text().contains(&refusal) => true,
        code => panic!("{code}: {}", answer.text()),
    }
}

#[test]
fn a_policy_that_becomes_unreadable_is_in_force_until_a_restart() {
    let mut server = Server::start(StoreChoice::Etcd);
    forbid(&mut server, "torn");
    let torn = format!("{POLICIES}/torn");
    let is_unreadable = |client: &Client| {
        let answer = client.get(&torn).expect("an answer");
        answer.code == 500 && object_of(&answer)["reason"] == "StorageReadError"
    };
    let key = "/registry/validatingadmissionpolicies/torn".to_owned();
    put_past(&mut server, &[(key, b"\x00junk".to_vec())]);
    until(&mut server, "unreadable", is_unreadable);
    // Where this one is in force, it is known that the other one cannot be read.
    forbid(&mut server, "later");
    assert!(is_forbidden(&server.client(), "torn"), "the last readable state counts");

    // Else caches begin with a state in which it could be read.
    compact_past(&server);
    server.restart().expect("it starts again");
    let client = server.client();
    assert!(is_forbidden(&client, "later"));
    assert!(!is_forbidden(&client, "torn"), "nothing is known of it");
    assert!(is_unreadable(&client));
}
