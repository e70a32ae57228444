//! Encryption by a KMS v2 plugin: what is stored, the plugin's keys, and its absence.

use std::thread;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use trireme_tests::{Server, StoreChoice, canary::PLANTED, http::Client};

use super::{
    encrypted::{ConfigFile, SECRET, SECRET_KEY, SECRETS, put_unchanged},
    kms_plugin::KmsPlugin,
    support::{object_of, read_past, until},
};

const PREFIX: &str = "k8s:enc:kms:v2:mask:";

fn secret(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "stringData": { "place": PLANTED } })
}

/// One more, whatever others there are.
fn another() -> Value {
    json!({ "metadata": { "generateName": "new-" }, "stringData": { "place": PLANTED } })
}

fn make_secret(client: &Client) -> Value {
    let answer = client.json("POST", SECRETS, &secret("treasure")).expect("an answer");
    assert_eq!(answer.code, 201, "{}", answer.text());
    object_of(&answer)
}

fn started(store: StoreChoice, plugin: &KmsPlugin) -> (Server, ConfigFile) {
    let file = ConfigFile::new(&[plugin.provider(), json!({ "identity": {} })]);
    let server = Server::try_start(store, &[&file.flag()]).unwrap_or_else(|error| panic!("{error}"));
    (server, file)
}

/// The key id stands in the value as it is.
fn assert_stored_under(server: &Server, key_id: &str) {
    let raw = read_past(server, SECRET_KEY);
    assert!(raw.starts_with(PREFIX.as_bytes()), "{}", String::from_utf8_lossy(&raw));
    let field = [b"\x12\x01", key_id.as_bytes()].concat();
    assert!(raw.windows(field.len()).any(|window| window == field), "{raw:?}");
    let plain = PLANTED.as_bytes();
    assert!(!raw.windows(plain.len()).any(|window| window == plain));
}

fn assert_log_shows_no_seed(server: &Server, plugin: &KmsPlugin) {
    let log = server.log();
    let seeds = plugin.seeds();
    assert!(!seeds.is_empty(), "it has encrypted some");
    for seed in seeds {
        let start: Vec<String> = seed.iter().take(8).map(ToString::to_string).collect();
        let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
        for shown in [STANDARD.encode(&seed), hex, start.join(", ")] {
            assert!(!log.contains(&shown), "a seed is in the log");
        }
    }
}

#[test]
fn a_plugin_encrypts_once_and_its_new_key_is_used_by_the_next_write() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let plugin = KmsPlugin::start();
        let (mut server, _file) = started(store, &plugin);
        let made = make_secret(&server.client());
        let is_etcd = server.etcd().is_some();
        if is_etcd {
            assert_stored_under(&server, "1");
        }
        for name in ["a", "b", "c"] {
            let answer = server.client().json("POST", SECRETS, &secret(name)).expect("an answer");
            assert_eq!(answer.code, 201, "{}", answer.text());
        }
        assert_eq!(plugin.seeds().len(), 1, "one seed for all writes");
        plugin.rotate("2");
        server.restart().unwrap_or_else(|error| panic!("{error}"));
        let client = server.client();
        assert_eq!(object_of(&client.get(SECRET).expect("an answer")), made);
        assert_eq!(plugin.decrypted(), 1, "one call for the seed of four secrets");
        let again = put_unchanged(&client);
        assert_ne!(
            again["metadata"]["resourceVersion"],
            made["metadata"]["resourceVersion"]
        );
        assert_eq!(again["data"], made["data"]);
        let unchanged = put_unchanged(&client);
        assert_eq!(
            unchanged["metadata"]["resourceVersion"],
            again["metadata"]["resourceVersion"]
        );
        if is_etcd {
            assert_stored_under(&server, "2");
        }
        let page = client.get("/metrics").expect("an answer").text();
        for metric in [
            "apiserver_envelope_encryption_dek_source_cache_size{provider_name=\"mask\"} 2",
            "apiserver_envelope_encryption_key_id_hash_total{transformation_type=\"to_storage\",provider_name=\"mask\",key_id_hash=\"sha256:d4735e3a",
            "apiserver_storage_envelope_transformation_cache_misses_total 1",
            "method_name=\"/v2.KeyManagementService/Status\",grpc_status_code=\"OK\"",
        ] {
            assert!(page.contains(metric), "{metric} is not in\n{page}");
        }
        let report = client.get("/readyz?verbose").expect("an answer").text();
        assert!(report.contains("[+]kms-providers ok\n"), "{report}");
        let lives = client.get("/livez?verbose").expect("an answer").text();
        assert!(!lives.contains("kms-providers"), "{lives}");
        assert_log_shows_no_seed(&server, &plugin);
    }
}

#[test]
fn without_the_plugin_secrets_are_unreadable_and_unwritable_until_it_is_back() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let mut plugin = KmsPlugin::start();
        let (mut server, _file) = started(store, &plugin);
        let made = make_secret(&server.client());
        let client = server.client();
        thread::scope(|scope| {
            plugin.stop();
            // Comes back when it is ready, which it is with the plugin.
            let restarting = scope.spawn(|| server.restart());
            let refused = loop {
                let answer = client.json("POST", SECRETS, &another());
                if let Some(answer) = answer.ok().filter(|answer| answer.code == 500) {
                    break object_of(&answer);
                }
                assert!(!restarting.is_finished(), "it is ready without the plugin");
                thread::yield_now();
            };
            assert_eq!(refused["message"], "got unexpected nil transformer", "{refused}");
            assert_eq!(refused.get("reason"), None, "{refused}");
            let unreadable = object_of(&client.get(SECRET).expect("an answer"));
            assert_eq!(unreadable["reason"], "StorageReadError", "{unreadable}");
            let configmap = json!({ "metadata": { "name": "plain" } });
            let plain = client.json("POST", "/api/v1/namespaces/default/configmaps", &configmap);
            assert_eq!(plain.expect("an answer").code, 201, "what is not encrypted is written");
            plugin.serve();
            restarting
                .join()
                .expect("no panic")
                .unwrap_or_else(|error| panic!("{error}"));
        });
        until(&mut server, "the secret is readable", |client| {
            client.get(SECRET).is_ok_and(|answer| answer.code == 200)
        });
        assert_eq!(object_of(&server.client().get(SECRET).expect("an answer")), made);
        let answer = server.client().json("POST", SECRETS, &another()).expect("an answer");
        assert_eq!(answer.code, 201, "{}", answer.text());
        assert_log_shows_no_seed(&server, &plugin);
    }
}

#[test]
fn while_the_plugin_is_away_for_a_while_all_goes_on() {
    let mut plugin = KmsPlugin::start();
    let (mut server, _file) = started(StoreChoice::Embedded, &plugin);
    let made = make_secret(&server.client());
    plugin.stop();
    until(&mut server, "the check of the plugin fails", |client| {
        client
            .get("/readyz/kms-providers")
            .is_ok_and(|answer| answer.code == 500)
    });
    let client = server.client();
    assert_eq!(client.get("/livez").expect("an answer").code, 200);
    assert_eq!(object_of(&client.get(SECRET).expect("an answer")), made);
    let answer = client.json("POST", SECRETS, &another()).expect("an answer");
    assert_eq!(answer.code, 201, "{}", answer.text());
    plugin.serve();
    until(&mut server, "the check of the plugin passes", |client| {
        client
            .get("/readyz/kms-providers")
            .is_ok_and(|answer| answer.code == 200)
    });
}

#[test]
fn a_plugin_comes_into_use_while_the_server_runs_once_it_is_well() {
    let mut plugin = KmsPlugin::stopped();
    let file = ConfigFile::new(&[json!({ "identity": {} })]);
    let flags = [&file.flag(), "--encryption-provider-config-automatic-reload=true"];
    let mut server = Server::try_start(StoreChoice::Etcd, &flags).unwrap_or_else(|error| panic!("{error}"));
    make_secret(&server.client());
    let report = server.client().get("/readyz?verbose").expect("an answer").text();
    for line in [
        "[+]kms-providers ok\n",
        "[+]poststarthook/start-encryption-provider-config-automatic-reload ok\n",
    ] {
        assert!(report.contains(line), "{report}");
    }
    file.write(&[plugin.provider(), json!({ "identity": {} })]);
    until(&mut server, "the plugin that is not there is refused", |client| {
        reloads(client, "failure").is_some()
    });
    put_unchanged(&server.client());
    assert!(read_past(&server, SECRET_KEY).starts_with(b"{"));
    plugin.serve();
    until(&mut server, "the plugin is in use", |client| {
        reloads(client, "success").is_some()
    });
    put_unchanged(&server.client());
    assert_stored_under(&server, "1");
}

/// The line of the metric for this outcome.
fn reloads(client: &Client, status: &str) -> Option<String> {
    let page = client.get("/metrics").ok()?.text();
    let name = "apiserver_encryption_config_controller_automatic_reloads_total{";
    let status = format!("status=\"{status}\"");
    let mut lines = page.lines();
    lines
        .find(|line| line.starts_with(name) && line.contains(&status))
        .map(str::to_owned)
}

#[test]
fn plugins_of_version_1_are_refused_at_start() {
    let plugin = KmsPlugin::stopped();
    let mut provider = plugin.provider();
    provider["kms"]["apiVersion"] = "v1".into();
    let file = ConfigFile::new(&[provider]);
    let error = Server::try_start(StoreChoice::Embedded, &[&file.flag()])
        .map(drop)
        .expect_err("it does not start");
    assert!(error.contains("KMSv1 is deprecated"), "{error}");
}
