//! What a user of kubectl sees, on both stores: every script under `tests/kubectl`.

use std::path::PathBuf;

use trireme_tests::kubectl::Script;
use trireme_tests::{Server, StoreChoice, folder};

fn scripts() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder().join("kubectl")).expect("the scripts are there");
    let mut scripts: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a script").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "there are no scripts");
    scripts
}

fn check(store: StoreChoice) {
    let server = Server::start(store);
    let differences: Vec<String> = scripts()
        .iter()
        .flat_map(|path| Script::load(path).run(&server))
        .collect();
    let count = differences.len();
    assert!(
        count == 0,
        "{count} commands print something else over {store:?}:\n{}",
        differences.join("\n")
    );
}

#[test]
fn a_user_sees_what_kube_apiserver_shows_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn a_user_sees_what_kube_apiserver_shows_over_etcd() {
    check(StoreChoice::Etcd);
}
