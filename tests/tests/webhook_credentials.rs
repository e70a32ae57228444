//! The credentials that admission webhooks are called with: those of the user that a kubeconfig has for their host.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use trireme_tests::{
    Server, StoreChoice,
    canary::PLANTED,
    certificates::Ca,
    group::until,
    http::{Answer, Client},
    receiver::Receiver,
};

const PATIENCE: Duration = Duration::from_secs(60);
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An AdmissionConfiguration whose plugins call webhooks as users of these kubeconfigs.
fn configuration(files: &TempDir, mutating: &str, validating: &str) -> String {
    let write = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let plugins = [("Mutating", mutating), ("Validating", validating)].map(|(kind, users)| {
        let file = write(kind, &format!("apiVersion: v1\nkind: Config\n{users}"));
        format!(
            "- name: {kind}AdmissionWebhook\n  configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: \
             WebhookAdmissionConfiguration, kubeConfigFile: {file}}}\n"
        )
    });
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";
    let file = write("admission.yaml", &format!("{head}{}", plugins.concat()));
    format!("--admission-control-config-file={file}")
}

/// A webhook of one of the two kinds for config maps that are created.
fn webhook(kind: &str, name: &str, url: &str, receiver: &Receiver) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "webhooks": [{
            "name": format!("{name}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": receiver.ca_bundle()},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }],
    })
}

fn post(client: &Client, path: &str, object: &Value) -> Answer {
    client.json("POST", path, object).expect("an answer")
}

/// The credentials that a path was called with: the header, and true if there was a certificate.
fn shown(receiver: &Receiver, path: &str) -> Vec<(Value, Value)> {
    let received = receiver.received().into_iter();
    let of_path = received.filter(|call| call["path"].as_str().is_some_and(|called| called.starts_with(path)));
    of_path
        .map(|call| (call["headers"]["Authorization"].clone(), call["certificate"].clone()))
        .collect()
}

#[test]
fn webhooks_are_called_as_the_user_of_their_host() {
    let (clients, files) = (Ca::new("clients"), TempDir::new().expect("a directory"));
    let entry = |path: &str| {
        json!({
            "path": path, "review": {"allowed": true}, "show": ["Authorization"], "showCertificate": true,
        })
    };
    let script = vec![entry("/mutate"), entry("/validate")];
    let receiver = Receiver::start(script, "default", Some(&clients)).expect("a port");
    let (certificate, key) = clients.issue("trireme");
    let pair = [("crt", certificate.pem()), ("key", key.serialize_pem())].map(|(name, text)| {
        let path = files.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    });
    let port = receiver.port();
    let by_host = format!(
        "users:\n- {{name: '*', user: {{token: {PLANTED}}}}}\n- {{name: '127.0.0.1:{port}', user: {{client-certificate: {}, \
         client-key: {}}}}}\n- {{name: '127.0.0.1', user: {{token: {PLANTED}-443}}}}\n",
        pair[0], pair[1]
    );
    let by_star = format!(
        "users:\n- {{name: other.example.com, user: {{token: {PLANTED}-other}}}}\n- {{name: '*', user: {{token: {PLANTED}}}}}\n"
    );
    let flag = configuration(&files, &by_host, &by_star);
    let server = Server::try_start(StoreChoice::Embedded, &[flag.as_str()]).unwrap_or_else(|error| panic!("{error}"));
    let admin = server.client();
    let url = |path: &str| format!("https://127.0.0.1:{port}/{path}");
    for (kind, plural, name) in [
        (
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            "mutate",
        ),
        (
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "validate",
        ),
    ] {
        let made = post(
            &admin,
            &format!("{GROUP}/{plural}"),
            &webhook(kind, name, &url(name), &receiver),
        );
        assert_eq!(made.code, 201, "{}", made.text());
    }
    let mut attempts = 0..;
    until("both webhooks are asked", PATIENCE, || {
        let name = format!("attempt-{}", attempts.next().unwrap_or_default());
        let made = post(&admin, CONFIG_MAPS, &json!({"metadata": {"name": name}}));
        assert_eq!(made.code, 201, "{}", made.text());
        ["/mutate", "/validate"]
            .iter()
            .all(|path| !shown(&receiver, path).is_empty())
    });
    for call in shown(&receiver, "/mutate") {
        assert_eq!(
            call,
            (Value::Null, true.into()),
            "the user of the host has a certificate"
        );
    }
    for call in shown(&receiver, "/validate") {
        assert_eq!(
            call,
            (json!([format!("Bearer {PLANTED}")]), false.into()),
            "the other plugin has users of its own"
        );
    }
}

#[test]
fn a_user_that_cannot_be_followed_keeps_the_server_from_starting() {
    let files = TempDir::new().expect("a directory");
    let runs_a_command = "users:\n- {name: '*', user: {exec: {command: /bin/true}}}\n";
    let flag = configuration(&files, "users: []\n", runs_a_command);
    let Err(error) = Server::try_start(StoreChoice::Embedded, &[flag.as_str()]) else {
        panic!("it started");
    };
    let wanted = "couldn't init admission plugin \"ValidatingAdmissionWebhook\"";
    assert!(
        error.contains(wanted) && error.contains("exec is not supported"),
        "{error}"
    );
}
