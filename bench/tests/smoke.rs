//! The whole run in miniature, against the debug build over the embedded store: every row is there and sane.

use std::process::Command;

use serde_json::Value;

/// How each row begins, in the order of the run.
const ROWS: &[&str] = &[
    "open a watch, 20 in all",
    "create pod, 16 at once",
    "list pods, all, 8 at once",
    "get pod, rv unset",
    "get pod, rv=0",
    "list pods, all, rv unset",
    "list pods, all, rv=0",
    "list pods, pages of 500, rv unset",
    "list pods, pages of 500, rv=0",
    "list pods, by label, 1 in 100, rv unset",
    "list pods, by label, 1 in 100, rv=0",
    "list pods, by spec.nodeName, 1 in 100, rv unset",
    "list pods, by spec.nodeName, 1 in 100, rv=0",
    "create configmap 1 KiB",
    "update configmap 1 KiB (PUT)",
    "merge patch configmap 1 KiB",
    "update pod (PUT)",
    "merge patch pod",
    "delete configmap 1 KiB",
    "one object, 4 writers, GET + PUT",
    "one object, 4 writers, merge patch",
    "watch, 10 watchers",
    "open a watch of one node, 5 in all",
    "patch of a pod that none of 5 watchers",
    "open a watch of one node, 20 in all",
    "patch of a pod that none of 20 watchers",
    "create 300 configmaps",
];

/// How each time or amount begins, in the order of the run.
const FIGURES: &[&str] = &[
    "cold start to /readyz",
    "RSS idle",
    "an idle watch, of 20",
    "RSS with 20 idle watches",
    "RSS with 200 pods",
    "RSS at its highest while 200 pods were created",
    "RSS before 8 full lists at once",
    "RSS at its highest during 8 full lists at once",
    "peak over loaded",
    "RSS with 300 configmaps",
    "RSS at its highest while 300 configmaps were created",
    "restart to /readyz with 300 configmaps",
    "RSS after a restart with 300 configmaps",
];

fn tiny_run(more: &[&str]) -> (String, Value) {
    let server = trireme_tests::server::binary().unwrap_or_else(|error| panic!("{error}"));
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("figures.json");
    let output = Command::new(env!("CARGO_BIN_EXE_trireme-bench"))
        .args(["all", "--store=embedded", "--size=tiny", "--server-binary"])
        .arg(server)
        .arg("--json")
        .arg(&json)
        .args(more)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let figures = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    (String::from_utf8(output.stdout).unwrap(), figures)
}

fn begin_with(names: &Value, key: &str, expected: &[&str]) {
    let names: Vec<&str> = names
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[key].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), expected.len(), "{names:#?}");
    for (name, begin) in names.iter().zip(expected) {
        assert!(name.starts_with(begin), "{name:?} does not begin with {begin:?}");
    }
}

#[test]
fn every_row_is_printed_and_sane() {
    let (markdown, figures) = tiny_run(&[]);
    begin_with(&figures["rows"], "workload", ROWS);
    begin_with(&figures["figures"], "name", FIGURES);
    for row in figures["rows"].as_array().unwrap() {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"));
        assert!(number("operations") >= 1.0 && number("ops_per_s") > 0.0, "{row}");
        assert!(number("p50_ms") <= number("p99_ms"), "{row}");
        assert!(
            number("server_cpu_us_per_op") >= 0.0 && number("rss_mib") > 1.0,
            "{row}"
        );
        let name = row["workload"].as_str().unwrap();
        assert!(markdown.contains(&format!("| {name} |")), "{name} is in the table");
        if name.starts_with("watch, ") {
            assert_eq!(
                (&row["counts"]["gaps"], &row["counts"]["duplicates"]),
                (&0.0.into(), &0.0.into())
            );
            assert_eq!(number("operations"), 200.0, "10 watchers of 20 writes");
        } else if !name.starts_with("open ") {
            assert!(number("bytes_per_op") > 100.0, "{row}");
        }
    }
    for figure in figures["figures"].as_array().unwrap() {
        assert!(figure["value"].is_f64(), "{figure}");
        assert!(markdown.contains(figure["name"].as_str().unwrap()));
    }
}

#[test]
fn a_wrong_answer_ends_the_run_with_what_came() {
    let mut server = trireme_tests::Server::start(trireme_tests::StoreChoice::Embedded);
    let output = Command::new(env!("CARGO_BIN_EXE_trireme-bench"))
        .args([
            "run",
            "get",
            "--size=tiny",
            "--http1",
            "--token=user-token",
            "--url",
            &server.url(),
        ])
        .arg("--ca")
        .arg(server.ca_file())
        .arg("--pid")
        .arg(server.process().id().to_string())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("403"), "{errors}");
    assert!(output.stdout.is_empty(), "there are no figures");
}

#[test]
fn http1_and_a_client_certificate_work() {
    let server = trireme_tests::Server::start(trireme_tests::StoreChoice::Embedded);
    let output = Command::new(env!("CARGO_BIN_EXE_trireme-bench"))
        .args(["run", "get", "watch", "--size=tiny", "--http1", "--kubeconfig"])
        .arg(server.kubeconfig())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("| get pod, rv=0, 64 at once (http/1.1) |"), "{table}");
}
