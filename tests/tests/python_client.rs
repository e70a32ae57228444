//! The official Python client, and an operator that is written with kopf, against real servers: the cases are in `tests/python`.

use std::fs;
use std::process::Command;

use trireme_ports::free_port;
use trireme_tests::certificates::Ca;
use trireme_tests::process::find_program;
use trireme_tests::{Server, StoreChoice, folder};

const INSTALL: &str = "run: scripts/install-tools test";

/// Runs the cases of a file against a server; webhooks that they start find their certificate and their port in the environment.
fn check(file: &str, store: StoreChoice) {
    let libraries = folder().join("../target/tools/python");
    assert!(
        libraries.join("kubernetes").is_dir() && libraries.join("kopf").is_dir(),
        "the Kubernetes client for Python or kopf is missing; {INSTALL}"
    );
    let python = find_program("python3").unwrap_or_else(|| panic!("python3 is missing; {INSTALL}"));
    let server = Server::start(store);
    let ca = Ca::new("boats");
    let (certificate, key) = ca.issue_for(&["127.0.0.1".to_owned()]);
    let files = [
        ("CA", ca.pem),
        ("CERT", certificate.pem()),
        ("KEY", key.serialize_pem()),
    ]
    .map(|(name, pem)| {
        let path = server.kubeconfig().with_file_name(format!("boats-{name}.pem"));
        fs::write(&path, pem).expect("a file");
        (format!("BOATS_{name}"), path)
    });
    let output = Command::new(python)
        .arg("-B")
        .arg(folder().join("python").join(file))
        .arg("--verbose")
        .env("PYTHONPATH", libraries)
        .env("KUBECONFIG", server.kubeconfig())
        .envs(files)
        .env("BOATS_PORT", free_port().to_string())
        .output()
        .expect("python3 runs");
    // unittest prints its results on standard error; "OK" alone means that no case was skipped.
    let log = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && log.trim_end().ends_with("\nOK") && !log.contains("Ran 0 tests");
    assert!(passed, "{} over {store:?}:\n{log}", output.status);
}

#[test]
fn the_python_client_works_over_the_embedded_store() {
    check("test_client.py", StoreChoice::Embedded);
}

#[test]
fn the_python_client_works_over_etcd() {
    check("test_client.py", StoreChoice::Etcd);
}

#[test]
fn an_operator_of_kopf_works_over_the_embedded_store() {
    check("test_operator.py", StoreChoice::Embedded);
}

#[test]
fn an_operator_of_kopf_works_over_etcd() {
    check("test_operator.py", StoreChoice::Etcd);
}
