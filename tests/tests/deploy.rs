//! Tests that `deploy/` names things that a real server has: its settings and its metrics. Scripts take from this machine what
//! they can, and say what they miss; scripts/check-words refuses what it is there to refuse, and the gate runs what
//! CONTRIBUTING.md says. Whether the whole of `deploy/` works together is for `tests/compose.sh`, where there is a Docker engine.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::{Value, json};
use trireme_ports::free_port;
use trireme_tests::server::{Etcd, binary};
use trireme_tests::{Server, StoreChoice};

/// Gauges are refreshed once in a while, and a debug build beside a compiler takes its time.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

fn text(path: &str) -> String {
    let path = trireme_tests::folder().join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All that the first group of the pattern matches.
fn found(pattern: &str, text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).expect("a pattern");
    pattern.captures_iter(text).map(|found| found[1].to_owned()).collect()
}

fn run(args: &[&str]) -> Output {
    let binary = binary().unwrap_or_else(|error| panic!("{error}"));
    Command::new(binary).args(args).output().expect("it starts")
}

/// Makes the certificates of a group of one in `dir` and says with which flags a server joins it.
fn group_of_one(dir: &Path) -> Vec<String> {
    let dir_flag = format!("--dir={}", dir.display());
    let made = run(&[
        "pki",
        "init",
        &dir_flag,
        "--replica=one=127.0.0.1",
        "--server=https://127.0.0.1:6443",
    ]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let address = format!("127.0.0.1:{}", free_port());
    let file = |flag: &str, name: &str| format!("--{flag}={}", dir.join(name).display());
    vec![
        format!("--cluster-peers={address}"),
        format!("--cluster-advertise={address}"),
        format!("--cluster-listen={address}"),
        file("cluster-ca-file", "one/cluster-ca.crt"),
        file("cluster-cert-file", "one/cluster.crt"),
        file("cluster-key-file", "one/cluster.key"),
    ]
}

/// The names that a page of metrics has.
fn metric_names(page: &str) -> BTreeSet<String> {
    found(r"(?m)^([a-z][a-z0-9_]*)[{ ]", page)
}

fn etcd_page(url: &str) -> String {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("etcd listens");
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("etcd answers");
    page
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&text("deploy/grafana/dashboards/trireme.json")).expect("JSON");
    let expressions = format!("{dashboard} {}", text("deploy/prometheus/alerts.yml"));
    let named = found(r"\b((?:trireme|apiserver|etcd)_[a-z0-9_]+)", &expressions);
    assert!(named.len() > 15, "the pattern finds too little: {named:?}");

    let dir = tempfile::tempdir().expect("a directory");
    let flags = group_of_one(dir.path());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::try_start(StoreChoice::Etcd, &flags).unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    let made = client.json("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "deploy"}}));
    assert_eq!(made.expect("it answers").code, 201);
    let etcd = Etcd::start().unwrap_or_else(|error| panic!("{error}"));
    let of_etcd = metric_names(&etcd_page(&etcd.url()));
    let end = Instant::now() + PATIENCE;
    loop {
        let page = client.get("/metrics").expect("it answers");
        let all = &metric_names(&page.text()) | &of_etcd;
        let missing: Vec<&String> = named.difference(&all).collect();
        if missing.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "no server exports {missing:?}");
        thread::sleep(LOOK_AGAIN);
    }
}

#[test]
fn the_files_name_settings_that_exist() {
    let help = run(&["serve", "--help"]);
    let known = found(r"(?m)^\s+--([a-z-]+)", &String::from_utf8_lossy(&help.stdout));
    let check = |file: &str, named: BTreeSet<String>| {
        assert!(named.len() > 5, "the pattern finds too little in {file}: {named:?}");
        let unknown: Vec<&String> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}");
    };
    let path = "deploy/systemd/trireme.yaml";
    check(path, found(r"(?m)^([a-z-]+):", &text(path)));
    let path = "deploy/static-pod/trireme.yaml";
    check(path, found(r"--([a-z-]+)=", &text(path)));
    let path = "docker-compose.yml";
    let variables = found(r"(?m)^ +TRIREME_([A-Z_]+):", &text(path));
    let flags = variables.iter().map(|name| name.to_ascii_lowercase().replace('_', "-"));
    check(path, flags.collect());
}

#[test]
fn a_replica_that_crashes_leaves_no_core_with_secrets() {
    let unit = text("deploy/systemd/trireme.service");
    assert!(unit.lines().any(|line| line == "LimitCORE=0"), "{unit}");
    let compose = text("docker-compose.yml");
    let settings = compose
        .split_once("\nx-trireme: &trireme\n")
        .and_then(|(_, rest)| rest.split_once("\n\n"));
    let (settings, _) = settings.expect("the replicas have settings in common");
    assert!(settings.contains("\n  ulimits: {core: 0}\n"), "{settings}");
}

#[test]
fn monitoring_reads_metrics_with_its_certificate_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    group_of_one(dir.path());
    let file = |name: &str| dir.path().join(name).display().to_string();
    let flag = format!("--client-ca-file={}", file("one/ca.crt"));
    let server = Server::try_start(StoreChoice::Embedded, &[&flag]).unwrap_or_else(|error| panic!("{error}"));
    let kubectl = trireme_tests::process::find_program("kubectl").expect("scripts/install-tools test brings kubectl");
    let get = |path: &str| {
        let output = Command::new(&kubectl)
            .args([
                "get",
                "--raw",
                path,
                "--kubeconfig=/dev/null",
                "--server",
                &server.url(),
            ])
            .arg("--certificate-authority")
            .arg(server.ca_file())
            .args(["--client-certificate", &file("monitoring/client.crt")])
            .args(["--client-key", &file("monitoring/client.key")])
            .output()
            .expect("kubectl starts");
        let (out, error) = (&output.stdout, &output.stderr);
        (
            output.status.success(),
            format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(error)),
        )
    };
    let (is_good, page) = get("/metrics");
    assert!(
        is_good && metric_names(&page).contains("apiserver_request_total"),
        "{page}"
    );
    let (is_good, refusal) = get("/api/v1/namespaces");
    assert!(!is_good && refusal.contains("trireme-monitoring"), "{refusal}");
}

/// The output of `scripts/debian-mirror` on a machine whose apt has these sources.
fn mirror_by_apt(sources: &str) -> Output {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().display();
    fs::create_dir(dir.path().join("lists")).expect("it can be made");
    fs::write(dir.path().join("sources.list"), sources).expect("it can be written");
    let configuration = dir.path().join("apt.conf");
    let settings = format!(
        "Dir::Etc::sourcelist \"{root}/sources.list\";\nDir::Etc::sourceparts \"-\";\nDir::State::lists \"{root}/lists\";\n"
    );
    fs::write(&configuration, settings).expect("it can be written");
    Command::new(trireme_tests::folder().join("../scripts/debian-mirror"))
        .env_remove("DEBIAN_MIRROR")
        .env("APT_CONFIG", configuration)
        .output()
        .expect("it starts")
}

#[test]
fn images_are_made_from_the_mirror_of_this_machines_apt() {
    let own =
        mirror_by_apt("deb http://tools.example/apt bookworm tools\ndeb http://mirror.example/debian bookworm main\n");
    let has_apt = Command::new("apt-get").arg("--version").output().is_ok();
    let expected = if has_apt { "http://mirror.example/debian\n" } else { "" };
    assert_eq!(String::from_utf8_lossy(&own.stdout), expected);

    let none = mirror_by_apt("deb http://tools.example/apt bookworm tools\n");
    assert!(!none.status.success());
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("set DEBIAN_MIRROR"), "{said}");
}

/// Puts a program into a directory that is to be on PATH; its path.
fn put_program(dir: &Path, name: &str, commands: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{commands}\n")).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it can be set");
    path
}

/// Runs the test of docker-compose.yml as a user other than root, who cannot run it: its exit code and its output.
fn compose_test_without_root(variable: Option<&str>) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let id = put_program(dir.path(), "id", "echo 1000");
    let root = trireme_tests::folder().join("..");
    let tools = root.join("target/tools/bin");
    let hidden = tools.join("id");
    assert!(!hidden.exists(), "the script looks into {} first", tools.display());
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut script = Command::new(root.join("tests/compose.sh"));
    script.arg(&id).env("PATH", path).env_remove("COMPOSE_TEST");
    if let Some(value) = variable {
        script.env("COMPOSE_TEST", value);
    }
    let output = script.output().expect("it starts");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn the_gate_does_not_skip_the_test_of_compose_without_a_reason() {
    let (code, said) = compose_test_without_root(None);
    assert!(code == Some(0) && said.contains("WAS NOT TESTED"), "{said}");
    let (code, said) = compose_test_without_root(Some("required"));
    assert!(code == Some(1) && said.contains("WAS NOT TESTED"), "{said}");
    let (code, said) = compose_test_without_root(Some("this machine gives no root"));
    assert!(code == Some(0) && said.contains("this machine gives no root"), "{said}");
    let gate = fs::read_to_string(trireme_tests::folder().join("../.ci/run")).expect("the gate is there");
    assert!(
        gate.contains("COMPOSE_TEST=\"${COMPOSE_TEST:-required}\" make test"),
        "{gate}"
    );
}

#[test]
fn the_gate_searches_logs_of_all_that_can_be_logged() {
    let gate = text(".ci/run");
    let (_, command) = gate
        .split_once("\nTRIREME_V=10 cargo test --workspace --locked ")
        .expect("it runs tests so");
    let (targets, _) = command.split_once("\n#").unwrap_or((command, ""));
    let expected = [
        "admission",
        "aggregation",
        "audit",
        "authentication",
        "authorization",
        "backends",
        "extensions",
        "failing_webhooks",
        "logs_over_websocket",
        "node_bootstrap",
        "reference",
        "reload",
        "replica_group",
        "revocation",
        "secrets",
        "service_account_tokens",
        "stored_values",
        "webhook_credentials",
        "websocket",
    ];
    assert_eq!(
        found(r"--test (\w+)", targets),
        BTreeSet::from(expected.map(str::to_owned))
    );
}

#[test]
fn the_gate_begins_with_the_same_random_numbers_each_time() {
    let gate = text(".ci/run");
    assert!(gate.lines().any(|line| line == "make chaos SHORT=1 SEED=7"), "{gate}");
    let makefile = text("Makefile");
    let recipe = makefile
        .split_once("\ntest:\n")
        .and_then(|(_, rest)| rest.split_once("\n\n"));
    let (recipe, _) = recipe.expect("there are tests to make");
    let fuzzes = |line: &str| line == "\tFUZZ_SEED=1 scripts/fuzz $(FUZZ_SECONDS)";
    assert!(recipe.lines().any(fuzzes), "{recipe}");
}

/// Runs a copy of `scripts/check-words` over a tree in which these files define the same type: the exit code and the errors.
fn check_words(allowed: &str, homes: &[&str]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, content: &str| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        fs::write(path, content).expect("it can be written");
    };
    write("scripts/check-words", &text("scripts/check-words"));
    write("scripts/words-allowed.txt", allowed);
    for home in homes {
        write(home, "/// The type that is planted.\npub(crate) struct Planted;\n");
    }
    let script = dir.path().join("scripts/check-words");
    let output = Command::new("python3").arg(script).output().expect("python3 starts");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_type_name_that_two_crates_define_is_refused() {
    let (one, other, of_tests) = ("src/one/src/lib.rs", "src/other/src/lib.rs", "tests/src/lib.rs");
    let passed = (Some(0), String::new());
    let refused = |error: &str| (Some(1), format!("check-words: {error}\n"));
    assert_eq!(check_words("", &[one]), passed);
    assert_eq!(check_words("", &[one, of_tests]), passed);
    let double = format!("Planted is defined in {one}, {other}: one type name, one meaning");
    assert_eq!(check_words("", &[one, other]), refused(&double));
    let allowed = "Planted 2: same meaning\n";
    assert_eq!(check_words(allowed, &[one, other]), passed);
    let single = "Planted has fewer than 2 definitions now: say so in scripts/words-allowed.txt";
    assert_eq!(check_words(allowed, &[one]), refused(single));
}

#[test]
fn scripts_and_images_name_no_host_that_packages_come_from() {
    let mut files = Vec::new();
    for folder in ["scripts", "deploy", "deploy/images", ".ci"] {
        let entries = fs::read_dir(trireme_tests::folder().join("..").join(folder)).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").path());
        files.extend(names.filter(|path| path.is_file() && path.extension().is_none_or(|end| end == "sh")));
    }
    files.push(trireme_tests::folder().join("compose.sh"));
    files.push(trireme_tests::folder().join("../Makefile"));
    assert!(files.len() > 6, "these are not all: {files:?}");

    let host = r"((?:https?|ftp)://[A-Za-z0-9][A-Za-z0-9.-]*)";
    for path in files {
        let text = fs::read_to_string(&path).expect("it can be read");
        let local = |url: &String| url.ends_with("127.0.0.1") || url.ends_with("localhost");
        let named: Vec<_> = found(host, &text).into_iter().filter(|url| !local(url)).collect();
        assert_eq!(
            named,
            Vec::<String>::new(),
            "{}: take it from the settings of apt, pip or cargo",
            path.display()
        );
    }
}

#[test]
fn a_build_without_protoc_says_in_one_line_what_to_install() {
    let settings = text(".cargo/config.toml");
    let script = "\nPROTOC = { value = \"scripts/call-protoc\", relative = true }\n";
    assert!(settings.contains(script), "{settings}");

    let path = tempfile::tempdir().expect("a directory");
    let refusal = || {
        let failed = Command::new(trireme_tests::folder().join("../scripts/call-protoc"))
            .arg("--version")
            .env("PATH", path.path())
            .output()
            .expect("it starts");
        assert!(!failed.status.success());
        String::from_utf8_lossy(&failed.stderr).into_owned()
    };
    let advice = "run scripts/install-tools build, or: apt-get install protobuf-compiler libprotobuf-dev\n";
    assert_eq!(refusal(), format!("protoc is not installed: {advice}"));
    let complaint = "echo 'google/protobuf/descriptor.proto: File not found.' >&2; exit 1";
    put_program(path.path(), "protoc", complaint);
    assert_eq!(
        refusal(),
        format!("protoc does not find Google's definitions: {advice}")
    );
    // Any other error is protoc's own.
    put_program(
        path.path(),
        "protoc",
        "echo 'rpc.proto:1:1: expected a name' >&2; exit 1",
    );
    assert_eq!(refusal(), "rpc.proto:1:1: expected a name\n");
}
