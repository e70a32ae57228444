//! The official Python client against real servers on both stores: the cases are in `tests/python`.

use std::process::Command;

use trireme_tests::process::find_program;
use trireme_tests::{Server, StoreChoice, folder};

const INSTALL: &str = "run: scripts/install-tools test";

fn check(store: StoreChoice) {
    let libraries = folder().join("../target/tools/python");
    assert!(
        libraries.join("kubernetes").is_dir(),
        "the Kubernetes client for Python is missing; {INSTALL}"
    );
    let python = find_program("python3").unwrap_or_else(|| panic!("python3 is missing; {INSTALL}"));
    let server = Server::start(store);
    let output = Command::new(python)
        .arg("-B")
        .arg(folder().join("python/test_client.py"))
        .arg("--verbose")
        .env("PYTHONPATH", libraries)
        .env("KUBECONFIG", server.kubeconfig())
        .output()
        .expect("python3 runs");
    // unittest prints its results on standard error; "OK" alone means that no case was skipped.
    let log = String::from_utf8_lossy(&output.stderr);
    let passed = output.status.success() && log.trim_end().ends_with("\nOK") && !log.contains("Ran 0 tests");
    assert!(passed, "{} over {store:?}:\n{log}", output.status);
}

#[test]
fn the_python_client_works_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn the_python_client_works_over_etcd() {
    check(StoreChoice::Etcd);
}
