//! Warnings of admission in answers to every kind of write.

use serde_json::{Value, json};
use trireme_tests::http::{Answer, Request};

use super::Setup;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn warnings(answer: &Answer) -> Vec<String> {
    let texts = answer.header("warning").map(|text| text.trim_start_matches("299 - "));
    texts.map(|text| text.trim_matches('"').replace("\\\"", "\"")).collect()
}

fn of_secrets(operation: &str) -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["secrets"]}])
}

fn send(setup: &Setup, method: &str, path: &str, body: &Value) -> Answer {
    setup.admin.json(method, path, body).expect("an answer")
}

#[test]
fn deletions_bring_the_warnings_of_webhooks() {
    let setup = Setup::start(vec![
        json!({"path": "/see", "review": {"allowed": true, "warnings": ["it goes"]}}),
        json!({"path": "/refuse", "review": {"allowed": false, "warnings": ["think again"], "status": {"message": "no"}}}),
    ]);
    setup.ask("validatingwebhookconfigurations", "/see", &of_secrets("DELETE"));
    for name in ["a", "b", "c"] {
        setup.make(SECRETS, &json!({"metadata": {"name": name, "labels": {"app": "x"}}}));
    }
    let one = send(&setup, "DELETE", &format!("{SECRETS}/a"), &json!({}));
    assert_eq!((one.code, warnings(&one)), (200, vec!["it goes".to_owned()]));
    let collection = format!("{SECRETS}?labelSelector=app%3Dx");
    let many = send(&setup, "DELETE", &collection, &json!({}));
    assert_eq!(
        (many.code, warnings(&many)),
        (200, vec!["it goes".to_owned()]),
        "each text once"
    );

    setup.make(SECRETS, &json!({"metadata": {"name": "d", "labels": {"app": "x"}}}));
    setup.ask("validatingwebhookconfigurations", "/refuse", &of_secrets("DELETE"));
    for path in [format!("{SECRETS}/d"), collection] {
        let refused = send(&setup, "DELETE", &path, &json!({}));
        let mut texts = warnings(&refused);
        texts.sort();
        assert_eq!(
            (refused.code, texts),
            (400, vec!["it goes".to_owned(), "think again".to_owned()]),
            "{path}"
        );
    }
}

#[test]
fn a_webhook_that_spoils_managed_fields_is_warned_of() {
    let spoilt = json!([{"op": "remove", "path": "/metadata/managedFields/0/fieldsType"}]);
    let setup = Setup::start(vec![
        json!({"path": "/spoil", "review": {"allowed": true, "patch": spoilt}}),
    ]);
    setup.ask("mutatingwebhookconfigurations", "/spoil", &of_secrets("CREATE"));
    let made = send(
        &setup,
        "POST",
        SECRETS,
        &json!({"metadata": {"name": "a"}, "data": {"k": "dg=="}}),
    );
    assert_eq!(made.code, 201, "{}", made.text());
    let text = ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
                mutating admission controller; please fix your requests: missing fieldsType in managed fields entry 0";
    assert_eq!(warnings(&made), [text]);
    let made: Value = serde_json::from_str(&made.text()).expect("JSON");
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsType"], "FieldsV1");
}

#[test]
fn repeated_owners_are_warned_of_by_whom_they_came() {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"});
    let added = json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner}]);
    let setup = Setup::start(vec![
        json!({"path": "/again", "review": {"allowed": true, "patch": added}}),
    ]);
    let text = |when: &str| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u-1"
        )
    };
    let (sent, after) = (text(""), text(" after mutating admission happens"));
    let body = |name: &str, owners: usize| json!({"metadata": {"name": name, "ownerReferences": vec![&owner; owners]}});
    let owners = |answer: &Answer| {
        let object: Value = serde_json::from_str(&answer.text()).expect("JSON");
        object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len)
    };
    let object = format!("{SECRETS}/a");
    let made = send(&setup, "POST", SECRETS, &body("a", 2));
    assert_eq!(
        (made.code, owners(&made), warnings(&made)),
        (201, 1, vec![sent.clone()])
    );
    let put = send(&setup, "PUT", &object, &body("a", 3));
    let each_repetition = format!("{sent}, u-1");
    assert_eq!(
        (put.code, owners(&put), warnings(&put)),
        (200, 1, vec![each_repetition])
    );
    let patched = setup.admin.send(&Request {
        method: "PATCH",
        path: &object,
        body: Some(added.to_string().into_bytes()),
        content_type: Some("application/json-patch+json"),
        ..Request::default()
    });
    let patched = patched.expect("an answer");
    assert_eq!(
        (patched.code, owners(&patched), warnings(&patched)),
        (200, 1, vec![after.clone()])
    );

    setup.ask("mutatingwebhookconfigurations", "/again", &of_secrets("CREATE"));
    let made = send(&setup, "POST", SECRETS, &body("b", 2));
    assert_eq!((made.code, owners(&made), warnings(&made)), (201, 1, vec![sent, after]));
}
