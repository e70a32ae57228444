//! Encryption at rest: what stands in the store, rotation, reload, and the errors when a key is missing.

use std::{fs, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use trireme_tests::{Server, StoreChoice, canary, http::Client};

use super::support::{object_of, put_past, read_past, until};

pub(crate) const SECRETS: &str = "/api/v1/namespaces/default/secrets";
pub(crate) const SECRET: &str = "/api/v1/namespaces/default/secrets/treasure";
pub(crate) const SECRET_KEY: &str = "/registry/secrets/default/treasure";

/// A provider with the key that has this last byte.
fn provider(kind: &str, name: &str, last: u8) -> Value {
    json!({ kind: { "keys": [{ "name": name, "secret": STANDARD.encode(canary::key(last)) }] } })
}

/// The file that says how secrets are encrypted.
pub(crate) struct ConfigFile {
    _dir: TempDir,
    path: PathBuf,
}

impl ConfigFile {
    pub(crate) fn new(providers: &[Value]) -> Self {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().join("encryption.yaml");
        let file = Self { _dir: dir, path };
        file.write(providers);
        file
    }

    pub(crate) fn write(&self, providers: &[Value]) {
        let config = json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{ "resources": ["secrets", "ships.example.com"], "providers": providers }],
        });
        fs::write(&self.path, config.to_string()).expect("the file is written");
    }

    pub(crate) fn flag(&self) -> String {
        format!("--encryption-provider-config={}", self.path.display())
    }
}

fn make_secret(client: &Client) -> Value {
    let secret = json!({ "metadata": { "name": "treasure" }, "stringData": { "place": "Antikythera" } });
    let answer = client.json("POST", SECRETS, &secret).expect("an answer");
    assert_eq!(answer.code, 201, "{}", answer.text());
    object_of(&answer)
}

/// A PUT of what is there.
pub(crate) fn put_unchanged(client: &Client) -> Value {
    let secret = object_of(&client.get(SECRET).expect("an answer"));
    let answer = client.json("PUT", SECRET, &secret).expect("an answer");
    assert_eq!(answer.code, 200, "{}", answer.text());
    object_of(&answer)
}

fn assert_stored_with(server: &Server, prefix: &str) {
    let raw = read_past(server, SECRET_KEY);
    let shown = String::from_utf8_lossy(&raw);
    assert!(shown.starts_with(prefix), "{shown}");
    assert_eq!(shown.contains("treasure"), prefix == "{", "{shown}");
}

#[test]
fn secrets_are_encrypted_in_etcd_and_plain_to_clients() {
    for kind in ["aescbc", "aesgcm", "secretbox"] {
        let file = ConfigFile::new(&[provider(kind, "key1", 1)]);
        let flag = file.flag();
        let mut server = Server::try_start(StoreChoice::Etcd, &[&flag]).unwrap_or_else(|error| panic!("{error}"));
        let made = make_secret(&server.client());
        assert_stored_with(&server, &format!("k8s:enc:{kind}:v1:key1:"));
        server.restart().unwrap_or_else(|error| panic!("{error}"));
        let client = server.client();
        assert_eq!(object_of(&client.get(SECRET).expect("an answer")), made);
        assert_eq!(
            put_unchanged(&client)["metadata"]["resourceVersion"],
            made["metadata"]["resourceVersion"]
        );
        let configmap = json!({ "metadata": { "name": "plain" } });
        client
            .json("POST", "/api/v1/namespaces/default/configmaps", &configmap)
            .expect("an answer");
        assert!(read_past(&server, "/registry/configmaps/default/plain").starts_with(b"{"));
        let page = client.get("/metrics").expect("an answer").text();
        let counter =
            format!("transformation_type=\"from_storage\",transformer_prefix=\"k8s:enc:{kind}:v1:\",status=\"OK\"");
        assert!(
            page.lines()
                .any(|line| line.contains("transformation_operations_total") && line.contains(&counter)),
            "{page}"
        );
    }
}

#[test]
fn keys_are_rotated_while_the_server_runs() {
    let file = ConfigFile::new(&[json!({ "identity": {} })]);
    let flags = [&file.flag(), "--encryption-provider-config-automatic-reload=true"];
    let mut server = Server::try_start(StoreChoice::Etcd, &flags).unwrap_or_else(|error| panic!("{error}"));
    make_secret(&server.client());
    assert_stored_with(&server, "{");
    let mut reloads = 0;
    let mut exchange = |server: &mut Server, providers: &[Value]| {
        file.write(providers);
        reloads += 1;
        let counted =
            format!("trireme_file_reloads_total{{file=\"encryption-provider-config\",status=\"success\"}} {reloads}");
        until(server, "reloaded", |client| {
            client.get("/metrics").is_ok_and(|page| page.text().contains(&counted))
        });
    };
    exchange(&mut server, &[provider("aescbc", "one", 1), json!({ "identity": {} })]);
    assert_stored_with(&server, "{");
    let before = object_of(&server.client().get(SECRET).expect("an answer"));
    let after = put_unchanged(&server.client());
    assert_ne!(
        before["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
    assert_eq!(before["data"], after["data"]);
    assert_stored_with(&server, "k8s:enc:aescbc:v1:one:");
    exchange(
        &mut server,
        &[provider("secretbox", "two", 2), provider("aescbc", "one", 1)],
    );
    put_unchanged(&server.client());
    assert_stored_with(&server, "k8s:enc:secretbox:v1:two:");
    // A file that cannot be used changes nothing.
    fs::write(&file.path, "resources: [").expect("the file is written");
    until(&mut server, "the failed reload is counted", |client| {
        let counted = "trireme_file_reloads_total{file=\"encryption-provider-config\",status=\"failure\"} 1";
        client.get("/metrics").is_ok_and(|page| page.text().contains(counted))
    });
    assert_eq!(put_unchanged(&server.client())["data"], before["data"]);
}

#[test]
fn without_its_key_a_secret_is_unreadable_and_not_gone() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let file = ConfigFile::new(&[provider("aesgcm", "lost", 1)]);
        let flag = file.flag();
        let mut server = Server::try_start(store, &[&flag]).unwrap_or_else(|error| panic!("{error}"));
        make_secret(&server.client());
        file.write(&[provider("aesgcm", "other", 2)]);
        server.restart().unwrap_or_else(|error| panic!("{error}"));
        let client = server.client();
        let answer = client.get(SECRET).expect("an answer");
        let text = answer.text();
        assert_eq!(
            (answer.code, &object_of(&answer)["reason"]),
            (500, &json!("StorageReadError")),
            "{text}"
        );
        assert!(text.contains("data from the storage is not transformable"), "{text}");
        assert!(
            text.contains("no matching key was found for the provided AES transformer"),
            "{text}"
        );
        // Nor is a value read that was put there in plain text.
        let planted =
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "planted", "namespace": "default" } });
        put_past(
            &mut server,
            &[(
                "/registry/secrets/default/planted".to_owned(),
                planted.to_string().into_bytes(),
            )],
        );
        until(&mut server, "refused", |client| {
            client
                .get(&format!("{SECRETS}/planted"))
                .is_ok_and(|answer| answer.code == 500)
        });
        file.write(&[
            provider("aesgcm", "other", 2),
            provider("aesgcm", "lost", 1),
            json!({ "identity": {} }),
        ]);
        server.restart().unwrap_or_else(|error| panic!("{error}"));
        let secret = object_of(&server.client().get(SECRET).expect("an answer"));
        assert_eq!(secret["data"]["place"], STANDARD.encode("Antikythera"));
    }
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_at_start() {
    let file = ConfigFile::new(&[
        provider("aescbc", "key1", 1),
        json!({ "aesgcm": { "keys": [{ "name": "k", "secret": "c2hvcnQ=" }] } }),
    ]);
    let flag = file.flag();
    let error = Server::try_start(StoreChoice::Embedded, &[&flag])
        .map(drop)
        .expect_err("it does not start");
    let expected = "resources[0].providers[1].aesgcm.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected \
                length, got 5, expected one of [16 24 32]";
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains("c2hvcnQ="), "{error}");
}
