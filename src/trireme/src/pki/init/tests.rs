use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, UNIX_EPOCH};

use super::super::certificates::{names_of, with_certificate};
use super::*;
use crate::settings::ReplicaHosts;

/// 2026-01-01T00:00:00Z
const START: Duration = Duration::from_secs(1_767_225_600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn asked(dir: &Path, replicas: &[(&str, &[&str])]) -> PkiInit {
    let replica = |(name, hosts): &(&str, &[&str])| ReplicaHosts {
        name: (*name).to_owned(),
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
    };
    PkiInit {
        dir: dir.to_owned(),
        replicas: replicas.iter().map(replica).collect(),
        server: "https://api.example:6443".to_owned(),
        server_host: "api.example".to_owned(),
        cluster_name: "blue".to_owned(),
        service_address: "10.96.0.1".parse().expect("an address"),
    }
}

fn run(dir: &Path, replicas: &[(&str, &[&str])], age: Duration) -> Result<(), PkiError> {
    init(&InitWanted {
        asked: &asked(dir, replicas),
        now: UNIX_EPOCH + START + age,
    })
}

fn text(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn names(dir: &Path, name: &str) -> Vec<String> {
    let names = with_certificate(&text(dir, name), names_of).expect("a certificate");
    names.into_iter().collect()
}

/// Every file below the directory with its mode and content.
fn everything(dir: &Path) -> Vec<(String, u32, String)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let mode = fs::metadata(&path).expect("there").permissions().mode() & 0o777;
            let name = path.strip_prefix(dir).expect("below").display().to_string();
            found.push((name, mode, text(dir, path.to_str().expect("UTF-8"))));
        }
    }
    found.sort();
    found
}

fn is_issued_by(dir: &Path, leaf: &str, ca: &str) -> bool {
    with_certificate(&text(dir, ca), |ca| {
        let key = ca.public_key();
        with_certificate(&text(dir, leaf), |leaf| leaf.verify_signature(Some(key)).is_ok()).expect("a certificate")
    })
    .expect("a certificate")
}

#[test]
fn each_replica_gets_all_that_it_needs() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("pki");
    run(
        &dir,
        &[("a", &["a.example", "192.0.2.7"]), ("b", &["b.example"])],
        Duration::ZERO,
    )
    .expect("made");
    let expected = [
        "10.96.0.1",
        "127.0.0.1",
        "192.0.2.7",
        "::1",
        "a.example",
        "api.example",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
    ];
    assert_eq!(names(&dir, "a/serving.crt"), expected);
    assert_eq!(names(&dir, "b/cluster.crt"), ["replica.blue.trireme"]);
    for replica in ["a", "b"] {
        assert!(is_issued_by(&dir, &format!("{replica}/serving.crt"), "ca.crt"));
        assert!(is_issued_by(&dir, &format!("{replica}/cluster.crt"), "cluster-ca.crt"));
        assert!(!is_issued_by(&dir, &format!("{replica}/serving.crt"), "cluster-ca.crt"));
        for shared in ["ca.crt", "cluster-ca.crt", "sa.key", "sa.pub"] {
            assert_eq!(
                text(&dir, &format!("{replica}/{shared}")),
                text(&dir, shared),
                "{shared}"
            );
        }
    }
    assert!(is_issued_by(&dir, "monitoring/client.crt", "ca.crt"));
    assert!(text(&dir, "admin.kubeconfig").contains("server: https://api.example:6443\n"));
    let group = with_certificate(&text(&dir, "monitoring/client.crt"), |client| {
        client.subject().to_string()
    });
    assert!(group.expect("read").contains("O=system:monitoring"));
}

#[test]
fn keys_are_their_owners_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), &[("a", &["a.example"])], Duration::ZERO).expect("made");
    for (name, mode, content) in everything(dir.path()) {
        let wanted = match name.as_str() {
            "monitoring/client.key" => 0o640,
            _ if content.contains("PRIVATE KEY") || name == "admin.kubeconfig" => 0o600,
            _ => 0o644,
        };
        assert_eq!(mode, wanted, "{name}");
    }
}

#[test]
fn a_second_call_keeps_what_is_there_and_adds_what_is_new() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), &[("a", &["a.example"])], Duration::ZERO).expect("made");
    let first = everything(dir.path());
    run(dir.path(), &[("a", &["a.example"])], DAY).expect("kept");
    assert_eq!(everything(dir.path()), first);
    run(dir.path(), &[("b", &["b.example"])], DAY).expect("added");
    let second = everything(dir.path());
    assert!(first.iter().all(|file| second.contains(file)), "what was there is kept");
    assert!(is_issued_by(dir.path(), "b/serving.crt", "ca.crt"));
    assert!(is_issued_by(dir.path(), "b/cluster.crt", "cluster-ca.crt"));
}

#[test]
fn certificates_are_renewed_by_the_same_cas() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), &[("a", &["a.example"])], Duration::ZERO).expect("made");
    let read = |name| text(dir.path(), name);
    let renewed = ["a/serving.crt", "a/cluster.crt", "admin.crt", "monitoring/client.crt"];
    let (leaves, cas) = (renewed.map(read), ["ca.crt", "cluster-ca.crt", "sa.key"].map(read));
    run(dir.path(), &[("a", &["a.example"])], DAY * 340).expect("renewed");
    for (name, old) in renewed.into_iter().zip(&leaves) {
        assert_ne!(&read(name), old, "{name}");
    }
    assert_eq!(["ca.crt", "cluster-ca.crt", "sa.key"].map(read), cas);
}

#[test]
fn a_ca_without_its_key_is_reported_and_not_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), &[("a", &["a.example"])], Duration::ZERO).expect("made");
    fs::remove_file(dir.path().join("cluster-ca.key")).expect("removed");
    let error = run(dir.path(), &[("a", &["a.example"])], DAY).expect_err("the key is gone");
    assert!(error.to_string().contains("cluster-ca.crt has lost its key"), "{error}");
}
