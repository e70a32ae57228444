//! A few rounds of the real experiment.

use std::process::Command;

use trireme_chaos::kill_loop::{self, KillLoopSettings};

/// The probe belongs to another package, so nothing may have built it yet. With the whole workspace and an example, cargo takes
/// the features that the tests have: for the package alone it would compile what that depends on once more.
fn build_probe() {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "--locked",
        "--workspace",
        "--example",
        "floor",
        "--bin",
        "trireme-store-probe",
    ]);
    let status = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the probe is built: {status}");
}

#[test]
fn five_kills_lose_nothing() {
    build_probe();
    let probe = kill_loop::probe_beside_this_program().expect("the probe is there");
    let report = kill_loop::run(&KillLoopSettings {
        probe,
        dir: None,
        rounds: 5,
        seed: 7,
    })
    .expect("the experiment runs");
    assert_eq!(report.violations, [], "{report}");
    assert!(report.acknowledged >= 5, "there was something to lose: {report}");
}

#[test]
fn a_probe_that_cannot_open_the_store_is_an_error() {
    build_probe();
    let probe = kill_loop::probe_beside_this_program().expect("the probe is there");
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("store.redb"), [0x5a; 9000]).expect("a file that is no store");
    let settings = KillLoopSettings {
        probe,
        dir: Some(dir.path().to_owned()),
        rounds: 1,
        seed: 7,
    };
    let error = kill_loop::run(&settings).expect_err("there is no store");
    assert!(error.to_string().contains("is damaged"), "{error}");
}
