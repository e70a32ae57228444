//! The process as its operator sees it: exit codes, what it prints, how it stops, what it keeps.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use serde_json::json;
use trireme_ports::free_port;
use trireme_tests::certificates::{Ca, showing};
use trireme_tests::group::Group;
use trireme_tests::http::{Answer, Client};
use trireme_tests::process::Process;
use trireme_tests::server::{ADMIN_TOKEN, Etcd, binary};
use trireme_tests::{Server, StoreChoice};

const START_PATIENCE: Duration = Duration::from_secs(30);
const STOP_PATIENCE: Duration = Duration::from_secs(20);

fn run(args: &[&str]) -> Output {
    let binary = binary().unwrap_or_else(|error| panic!("{error}"));
    Command::new(binary).args(args).output().expect("the binary runs")
}

#[test]
fn wrong_settings_are_all_reported_and_the_exit_code_is_64() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let data_flag = format!("--data-dir={}", data.display());
    let output = run(&[
        "serve",
        "--secure-port=70000",
        "--event-ttl=soon",
        "--no-such-flag=1",
        &data_flag,
    ]);
    let output_text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{output_text}");
    for part in [
        "3 errors",
        "--secure-port",
        "\"70000\"",
        "--event-ttl",
        "--no-such-flag",
    ] {
        assert!(output_text.contains(part), "{part} is missing in: {output_text}");
    }
    assert!(!data.exists(), "nothing was done before the errors were reported");
}

#[test]
fn the_version_is_printed() {
    let output = run(&["version"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("trireme "));
}

#[test]
fn the_first_line_on_standard_output_says_how_to_use_the_server() {
    let server = Server::start(StoreChoice::Embedded);
    let expected = format!("export KUBECONFIG={}", server.kubeconfig().display());
    let log = server.log();
    assert!(
        log.lines().any(|line| line == expected),
        "{expected} is missing in: {log}"
    );
}

/// The flags of envtest of controller-runtime, and the files that it leaves in `--cert-dir`.
#[test]
fn a_program_that_starts_kube_apiserver_for_its_tests_can_start_this_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("kube-apiserver");
    std::os::unix::fs::symlink(binary().expect("a binary"), &program).expect("a link");
    let help = Command::new(&program).arg("--help").output().expect("it runs");
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("\n      --etcd-servers "));
    let certs = dir.path().join("certs");
    fs::create_dir(&certs).expect("a directory");
    let (servers, clients) = (Ca::new("envtest-environment"), Ca::new("envtest-clients"));
    let (serving, serving_key) = servers.issue_for(&["localhost".to_owned(), "127.0.0.1".to_owned()]);
    let (signer, signer_key) = servers.issue("sa-signer");
    for (name, pem) in [
        ("apiserver.crt", serving.pem()),
        ("apiserver.key", serving_key.serialize_pem()),
        ("sa-signer.crt", signer.pem()),
        ("sa-signer.key", signer_key.serialize_pem()),
        ("client-cert-auth-ca.crt", clients.pem.clone()),
        ("servers.crt", servers.pem.clone()),
    ] {
        fs::write(certs.join(name), pem).expect("written");
    }
    let etcd = Etcd::start().unwrap_or_else(|error| panic!("{error}"));
    let (port, in_certs) = (free_port(), |name: &str| certs.join(name).display().to_string());
    let mut command = Command::new(&program);
    command.current_dir(&dir).args([
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        &format!("--cert-dir={}", certs.display()),
        &format!("--client-ca-file={}", in_certs("client-cert-auth-ca.crt")),
        "--disable-admission-plugins=ServiceAccount",
        &format!("--etcd-servers={}", etcd.url()),
        &format!("--secure-port={port}"),
        &format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        &format!("--service-account-key-file={}", in_certs("sa-signer.crt")),
        &format!("--service-account-signing-key-file={}", in_certs("sa-signer.key")),
        "--service-cluster-ip-range=10.0.0.0/24",
    ]);
    let mut process = Process::start("kube-apiserver", &mut command, dir.path()).expect("it starts");
    let anyone = Client::new(port, &certs.join("servers.crt")).expect("a client");
    let healthy = || anyone.get("/healthz").is_ok_and(|answer| answer.code == 200);
    let waited = process.wait_until("healthy", START_PATIENCE, healthy);
    waited.unwrap_or_else(|error| panic!("{error}"));
    let admin = clients.issue_recorded(&json!({"subject": "/CN=admin/O=system:masters"}));
    let namespace = json!({"metadata": {"name": "made"}});
    let made = showing(&anyone, &admin).json("POST", "/api/v1/namespaces", &namespace);
    assert_eq!(made.expect("an answer").code, 201);
    assert!(
        !dir.path().join(".trireme").exists(),
        "nothing is left where the test runs"
    );
    assert_eq!(process.terminate(STOP_PATIENCE).as_deref(), Ok("exit status: 0"));
}

#[test]
fn clients_trust_the_certificate_that_is_made_in_cert_dir() {
    let dir = tempfile::tempdir().expect("a directory");
    let certs = dir.path().join("certs");
    let flag = format!("--cert-dir={}", certs.display());
    let server = Server::try_start(StoreChoice::Embedded, &[&flag]).unwrap_or_else(|error| panic!("{error}"));
    let client = Client::new(server.port(), &certs.join("apiserver.crt")).expect("a client");
    let answer = client.with_token(ADMIN_TOKEN).get("/readyz").expect("an answer");
    assert_eq!(answer.code, 200);
}

#[test]
fn sigterm_ends_the_process_well() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let mut server = Server::start(store);
        let status = server
            .process()
            .terminate(STOP_PATIENCE)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(status, "exit status: 0", "{store:?}");
    }
}

#[test]
fn a_restart_on_the_same_directory_keeps_objects_and_certificates() {
    let mut server = Server::start(StoreChoice::Embedded);
    let configmap = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"k": "v"}});
    let path = "/api/v1/namespaces/default/configmaps";
    let created = server.client().json("POST", path, &configmap).expect("an answer");
    assert_eq!(created.code, 201, "{}", created.text());
    let ca = fs::read(server.ca_file()).expect("the CA is there");
    server.restart().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(fs::read(server.ca_file()).expect("the CA is there"), ca);
    let kept = server.client().get(&format!("{path}/kept")).expect("an answer");
    assert_eq!(kept.text(), created.text(), "the object is what it was, byte for byte");
}

/// Codes of the answers to a request that is sent over and over while the server starts again.
fn codes_while_it_starts(server: &mut Server, request: impl Fn(&Client) -> io::Result<Answer> + Sync) -> BTreeSet<u16> {
    let client = server.client();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let mut codes = BTreeSet::new();
            while !is_over.load(Ordering::Relaxed) {
                codes.extend(request(&client).map(|answer| answer.code));
            }
            codes
        });
        let restarted = server.restart();
        is_over.store(true, Ordering::Relaxed);
        restarted.unwrap_or_else(|error| panic!("{error}"));
        asked.join().expect("it does not panic")
    })
}

#[test]
fn a_server_that_starts_says_of_no_custom_resource_that_there_is_none() {
    let mut server = Server::start(StoreChoice::Embedded);
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = server
        .client()
        .json("POST", definitions, &definition)
        .expect("an answer");
    assert_eq!(made.code, 201, "{}", made.text());
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let client = server.client();
    let discovery = "/apis/example.com/v1";
    let is_discovered = || client.get(discovery).is_ok_and(|answer| answer.code == 200);
    let discovered = server.process().wait_until("discovered", START_PATIENCE, is_discovered);
    discovered.unwrap_or_else(|error| panic!("{error}"));
    for path in [widgets, discovery, "/apis/example.com"] {
        for _ in 0..3 {
            let codes = codes_while_it_starts(&mut server, |client| client.get(path));
            assert!(!codes.contains(&404), "{path}: {codes:?}");
        }
        assert_eq!(server.client().get(path).expect("an answer").code, 200, "{path}");
    }
}

#[test]
fn a_server_that_starts_passes_no_webhook_by() {
    let mut server = Server::start(StoreChoice::Embedded);
    let configuration = |kind: &str| {
        json!({
            "metadata": {"name": "unreachable"},
            "webhooks": [{
                "name": "unreachable.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail", "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{"apiGroups": ["scheduling.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["priorityclasses"]}],
            }],
            "kind": kind, "apiVersion": "admissionregistration.k8s.io/v1",
        })
    };
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = json!({"metadata": {"generateName": "c-"}, "value": 1});
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let configurations = format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase());
        let made = server.client().json("POST", &configurations, &configuration(kind));
        assert_eq!(made.expect("an answer").code, 201);
        let refused = |client: &Client| client.json("POST", classes, &class);
        let client = server.client();
        let is_asked = || refused(&client).is_ok_and(|answer| answer.code == 500);
        let asked = server.process().wait_until("asked", START_PATIENCE, is_asked);
        asked.unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..3 {
            let codes = codes_while_it_starts(&mut server, refused);
            assert!(!codes.contains(&201), "{kind}: {codes:?}");
        }
        let deleted = server
            .client()
            .json("DELETE", &format!("{configurations}/unreachable"), &json!({}));
        assert_eq!(deleted.expect("an answer").code, 200);
    }
}

#[test]
fn directories_that_others_may_read_are_warned_about() {
    let mut server = Server::start(StoreChoice::Embedded);
    let warning = "others than its owner have rights to the directory, whose mode is 755; set it to 700";
    let data_dir = server.data_dir();
    let store = data_dir.join("store");
    let is_warned_of = |log: &str, dir: &Path| {
        let words = format!(" dir={} ", dir.display());
        let mut warnings = log.lines().filter(|line| line.contains(warning));
        warnings.any(|line| format!("{line} ").contains(&words))
    };
    for dir in [&store, &data_dir] {
        assert!(!is_warned_of(&server.log(), dir), "{}", server.log());
        let opened = server.restart_after(|| {
            fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("others may enter");
        });
        opened.unwrap_or_else(|error| panic!("{error}"));
        assert!(is_warned_of(&server.log(), dir), "{}", server.log());
    }
}

/// The names of the lifecycle events in a log, in order.
fn moments(log: &str) -> Vec<String> {
    let events = log.lines().filter(|line| line.contains("lifecycle event"));
    events
        .filter_map(|line| line.split("name=").nth(1)?.split(' ').next().map(str::to_owned))
        .collect()
}

#[test]
fn the_log_tells_of_the_moments_of_a_life_in_their_order() {
    // Long enough to be seen as not ready, on a busy machine too.
    let mut server = Server::try_start(StoreChoice::Embedded, &["--shutdown-delay-duration=3s"])
        .unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    let ready = move || client.get("/readyz").map(|answer| answer.code);
    assert_eq!(ready().expect("an answer"), 200);
    server
        .process()
        .signal("TERM")
        .unwrap_or_else(|error| panic!("{error}"));
    let events = server
        .process()
        .wait_until("not ready", STOP_PATIENCE, || matches!(ready(), Ok(500)));
    events.unwrap_or_else(|error| panic!("{error}"));
    let status = server
        .process()
        .wait(STOP_PATIENCE)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(status, "exit status: 0");
    let expected = [
        "Listening",
        "Ready",
        "ShutdownInitiated",
        "AfterShutdownDelayDuration",
        "InFlightRequestsDrained",
        "Stopped",
    ];
    assert_eq!(moments(&server.log()), expected);
}

#[test]
fn who_is_ready_over_a_fresh_store_has_the_namespace_default() {
    // It has to be elected before it may write: long enough for a replica to be ready too early.
    let mut group = Group::start(1, &[]).unwrap_or_else(|error| panic!("{error}"));
    let replica = group.replicas.remove(0).server;
    let (client, configmap) = (replica.client(), json!({ "metadata": { "name": "first" } }));
    let created = client.json("POST", "/api/v1/namespaces/default/configmaps", &configmap);
    let created = created.expect("an answer");
    assert_eq!(created.code, 201, "{}", created.text());
    let hook = "/readyz/poststarthook/start-system-namespaces-controller";
    let check = client.get(hook).expect("an answer");
    assert_eq!((check.code, check.text().as_str()), (200, "ok"));
}
