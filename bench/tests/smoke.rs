//! The whole run in miniature, against the debug build over the embedded store: every row is there and sane.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use trireme_tests::{Server, StoreChoice};

/// The start of each row, in the order of the run.
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
    "watch as protobuf, 10 watchers",
    "open a watch of one node, 5 in all",
    "patch of a pod that none of 5 watchers",
    "open a watch of one node, 20 in all",
    "patch of a pod that none of 20 watchers",
    "apply configmap 1 KiB",
    "apply deployment",
    "create configmap 1 KiB, alone",
    "create custom object 1 KiB, 50 fields and 3 rules",
    "create configmap 1 KiB, with a webhook",
    "create configmap 1 KiB, with a policy of 3 expressions",
    "list 1000 custom objects through a conversion webhook",
    "list pods as protobuf, all, rv unset, the first",
    "list pods as protobuf, all, rv unset",
    "get pod as protobuf, rv unset",
    "create 100 configmaps",
    "install a definition, 5 one after the other",
];

/// The start of each time or amount, in the order of the run.
const FIGURES: &[&str] = &[
    "cold start to /readyz",
    "RSS idle",
    "an idle watch, of 20",
    "RSS with 20 idle watches",
    "RSS with 100 pods",
    "RSS at its highest while 100 pods were created",
    "RSS before 8 full lists at once",
    "RSS at its highest during 8 full lists at once",
    "peak over loaded",
    "RSS with 100 configmaps",
    "RSS at its highest while 100 configmaps were created",
    "restart to /readyz with 100 configmaps",
    "RSS after a restart with 100 configmaps",
    "5 definitions",
    "p99 of a GET, idle",
    "p99 of a GET while definitions are installed",
    "first discovery with 5 definitions",
    "first index of OpenAPI v3 with 5 definitions",
    "a definition, of 5",
];

/// The start of the rows that have a floor.
const READS: &[&str] = &[
    "get pod,",
    "get pod as",
    "list pods, all, rv",
    "list pods, pages",
    "list pods, by",
    "list pods as",
];

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_trireme-bench"))
}

/// The arguments of a run in miniature that starts its own server.
fn tiny_all(command: &mut Command) -> &mut Command {
    let server = trireme_tests::server::binary().unwrap_or_else(|error| panic!("{error}"));
    command.args(["all", "--store=embedded", "--size=tiny", "--server-binary"]);
    command.arg(server)
}

/// The floor belongs to another package, so nothing may have built it yet. It lands beside the server. For its package alone
/// cargo would take other features than the tests have, and compile what it depends on once more.
fn build_floor() {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--workspace", "--example", "floor"]);
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(status.expect("cargo runs").success(), "the floor is built");
}

fn names_begin_with(list: &Value, key: &str, expected: &[&str]) {
    let list = list.as_array().expect("an array");
    let names: Vec<&str> = list.iter().map(|one| one[key].as_str().expect("a name")).collect();
    assert_eq!(names.len(), expected.len(), "{names:#?}");
    for (name, begin) in names.iter().zip(expected) {
        assert!(name.starts_with(begin), "{name:?} does not begin with {begin:?}");
    }
}

#[test]
fn every_row_is_printed_and_sane() {
    build_floor();
    let dir = tempfile::tempdir().expect("a directory");
    let json = dir.path().join("figures.json");
    let output = tiny_all(&mut bench())
        .arg("--json")
        .arg(&json)
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let table = String::from_utf8_lossy(&output.stdout);
    let json = std::fs::read(json).expect("the figures were written");
    let all: Value = serde_json::from_slice(&json).expect("they are JSON");
    names_begin_with(&all["rows"], "workload", ROWS);
    names_begin_with(&all["figures"], "name", FIGURES);
    for row in all["rows"].as_array().expect("rows") {
        row_is_sane(row);
        let name = row["workload"].as_str().expect("a name");
        assert!(
            table.contains(&format!("| {name} |")),
            "{name} is in the table:\n{table}"
        );
    }
    for figure in all["figures"].as_array().expect("figures") {
        assert!(figure["value"].is_f64(), "{figure}");
        assert!(table.contains(figure["name"].as_str().expect("a name")), "{figure}");
    }
}

fn row_is_sane(row: &Value) {
    let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"));
    assert!(number("operations") >= 1.0 && number("ops_per_s") > 0.0, "{row}");
    assert!(number("p50_ms") <= number("p99_ms"), "{row}");
    assert!(
        number("server_cpu_us_per_op") >= 0.0 && number("rss_mib") > 1.0,
        "{row}"
    );
    let name = row["workload"].as_str().expect("a name");
    let is_read = READS.iter().any(|read| name.starts_with(read));
    assert_eq!(
        row["floor_cpu_us_per_op"].is_f64(),
        is_read,
        "reads have a floor: {row}"
    );
    if name.starts_with("watch, ") || name.starts_with("watch as protobuf, ") {
        assert_eq!(
            (number("operations"), &row["counts"]["writes"]),
            (200.0, &20.0.into()),
            "{row}"
        );
        assert_eq!(
            (&row["counts"]["gaps"], &row["counts"]["duplicates"]),
            (&0.0.into(), &0.0.into())
        );
    } else if !name.starts_with("open ") {
        assert!(number("bytes_per_op") > 100.0, "{row}");
    }
}

#[test]
fn the_chain_is_compared_in_pairs() {
    let server = trireme_tests::server::binary().unwrap_or_else(|error| panic!("{error}"));
    let mut command = bench();
    command.args([
        "chain",
        "--store=embedded",
        "--size=tiny",
        "--pairs=1",
        "--server-binary",
    ]);
    let output = command.arg(server).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let table = String::from_utf8_lossy(&output.stdout);
    for line in [
        "| get pod, system:masters, no audit |",
        "| get pod, service account, no audit |",
        "| get pod, service account, audit at Metadata |",
        "| create pod, no admission plugin |",
        "| create pod, default admission plugins |",
        "the chain beside a GET but for audit, median of 1 pairs",
        "the chain beside a GET, median of 1 pairs",
        "all default plugins on a pod creation, median of 1 pairs",
    ] {
        assert!(table.contains(line), "{line}:\n{table}");
    }
}

#[test]
fn restarts_with_custom_objects_are_timed() {
    let server = trireme_tests::server::binary().unwrap_or_else(|error| panic!("{error}"));
    let mut command = bench();
    command.args(["restart", "--store=embedded", "--size=tiny", "--server-binary"]);
    let output = command.arg(server).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let table = String::from_utf8_lossy(&output.stdout);
    let figure = "restart to /readyz with 5 definitions and 100 custom objects";
    assert!(table.contains(figure), "{table}");
}

#[test]
fn a_wrong_answer_ends_the_run_with_what_came() {
    let server = Server::start(StoreChoice::Embedded);
    let mut command = bench();
    command.args([
        "run",
        "get",
        "--size=tiny",
        "--token=user-token",
        "--url",
        &server.url(),
    ]);
    let output = command.arg("--ca").arg(server.ca_file()).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("403"), "{errors}");
    assert!(output.stdout.is_empty(), "there are no figures");
}

#[test]
fn http1_and_a_client_certificate_work() {
    let server = Server::start(StoreChoice::Embedded);
    let mut command = bench();
    command.args(["run", "get", "watch", "--size=tiny", "--http1", "--kubeconfig"]);
    let output = command.arg(server.kubeconfig()).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("| get pod, rv=0, 64 at once (http/1.1) |"), "{table}");
    assert!(
        !table.contains("MiB |\n"),
        "without a process there is no memory to see: {table}"
    );
}

#[test]
fn an_interrupted_run_leaves_no_server_behind() {
    let mut run = tiny_all(&mut bench()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut said = BufReader::new(run.stderr.take().expect("standard error is a pipe")).lines();
    let first = said.next().expect("it says something").expect("it can be read");
    assert!(first.starts_with("cold start"), "{first}");
    let servers = children(run.id());
    assert!(!servers.is_empty(), "a server runs");
    let kill = Command::new("kill").args(["-TERM", &run.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let errors: Vec<String> = said.map_while(Result::ok).collect();
    assert!(!run.wait().expect("it ends").success(), "{errors:?}");
    assert!(errors.iter().any(|line| line.contains("interrupted")), "{errors:?}");
    for server in servers {
        assert!(!Path::new(&format!("/proc/{server}")).exists(), "{server} runs on");
    }
}

/// The processes that a process has started and that still run.
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("there is /proc");
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        line.is_some_and(|line| line.trim() == parent.to_string())
    })
    .collect()
}
