//! Tests of the output for operators: slow requests in the log, CPU profiles.

use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use pprof::protos::{Message as _, Profile};
use serde_json::json;
use trireme_tests::http::{Answer, Body, Client, Request};
use trireme_tests::server::{ADMIN_TOKEN, USER_TOKEN};
use trireme_tests::{Server, StoreChoice};

/// Far below the length of a profile that is asked for.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(flags: &[&str]) -> Server {
    Server::try_start(StoreChoice::Embedded, flags).unwrap_or_else(|error| panic!("{error}"))
}

fn get(client: &Client, path: &str) -> Answer {
    client
        .get(path)
        .unwrap_or_else(|error| panic!("no answer to {path}: {error}"))
}

/// The lines of slow requests with this verb of this resource.
fn slow(log: &str, verb: &str, resource: &str) -> Vec<String> {
    let (verb, resource) = (format!("verb=\"{verb}\""), format!("resource=\"{resource}\""));
    log.lines()
        .filter(|line| line.contains("slow request") && line.contains(&verb) && line.contains(&resource))
        .map(str::to_owned)
        .collect()
}

#[test]
fn probes_show_the_checks_that_are_looked_for_in_kube_apiserver() {
    let server = start(&[]);
    for (probe, own) in [("healthz", "etcd"), ("livez", "etcd"), ("readyz", "informer-sync")] {
        let report = get(&server.client(), &format!("/{probe}?verbose")).text();
        for check in [
            "ping",
            "log",
            own,
            "poststarthook/start-apiserver-admission-initializer",
            "poststarthook/generic-apiserver-start-informers",
            "poststarthook/storage-readiness",
            "poststarthook/start-apiextensions-informers",
            "poststarthook/start-apiextensions-controllers",
            "poststarthook/crd-informer-synced",
            "poststarthook/bootstrap-controller",
            "poststarthook/start-system-namespaces-controller",
            "poststarthook/start-service-ip-repair-controllers",
            "poststarthook/scheduling/bootstrap-system-priority-classes",
            "poststarthook/start-cluster-authentication-info-controller",
        ] {
            assert!(
                report.contains(&format!("[+]{check} ok\n")),
                "{probe}: {check}: {report}"
            );
        }
    }
}

#[test]
fn what_health_checks_found_is_counted_for_those_who_may_know() {
    let server = start(&[]);
    let client = server.client();
    assert_eq!(get(&client, "/livez").code, 200);
    assert_eq!(get(&client, "/livez?exclude=ping").code, 200);
    let page = get(&client, "/metrics/slis").text();
    for line in [
        r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#,
        r#"kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1"#,
        r#"kubernetes_healthcheck{name="etcd",type="readyz"} 1"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
    assert_eq!(get(&client.with_token(USER_TOKEN), "/metrics/slis").code, 403);
    assert_eq!(get(&client.anonymous(), "/metrics/slis").code, 403);
}

#[test]
fn a_slow_request_is_logged_with_where_its_time_went() {
    let mut server = start(&["--slow-request-threshold=1us"]);
    let client = server.client();
    let namespace = json!({"metadata": {"name": "slow", "annotations": {"secret": "hidden"}}});
    let path = "/api/v1/namespaces?fieldManager=me&access_token=hidden";
    assert_eq!(client.json("POST", path, &namespace).expect("it answers").code, 201);
    assert_eq!(get(&client, "/api/v1/namespaces/slow").code, 200);
    let watch = Request {
        method: "GET",
        path: "/api/v1/namespaces?watch=1",
        lines: Some((1, Duration::from_secs(10))),
        ..Request::default()
    };
    client.send(&watch).expect("it answers");
    // The requests after it show that the log is complete up to the watch.
    assert_eq!(get(&client, "/version").code, 200);
    let log = server.process().log();
    let created = slow(&log, "create", "namespaces");
    let [line] = created.as_slice() else {
        panic!("not one line: {created:?}")
    };
    let mut rest = line.as_str();
    for part in [
        "audit_id=",
        "query=\"fieldManager=me\"",
        "agent=\"reference\"",
        "status=201",
        "total_ms=",
        "authenticated",
        "seat taken",
        "authorized",
        "body read",
        "decoded",
        "admission changed",
        "validated and admitted",
        "stored",
        "answer made",
    ] {
        let found = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part} is missing or not in order: {line}"));
        rest = &rest[found + part.len()..];
    }
    let read = slow(&log, "get", "namespaces");
    assert!(read.iter().any(|line| line.contains("revision known")), "{read:?}");
    assert_eq!(slow(&log, "watch", "namespaces"), [""; 0], "a watch is not slow");
    for secret in ["hidden", ADMIN_TOKEN] {
        assert!(!log.contains(secret), "{secret} is in the log: {log}");
    }
}

#[test]
fn a_profile_names_the_functions_that_take_the_cpu() {
    let server = start(&[]);
    let client = server.client();
    // A server that gets little of the CPU is seen a few times only, and maybe in libraries each time.
    let end = Instant::now() + PATIENCE;
    let mut functions: Vec<String> = Vec::new();
    while !functions.iter().any(|function| function.contains("trireme_edge::")) {
        assert!(
            Instant::now() < end,
            "no function of the server is named: {functions:?}"
        );
        functions = functions_of(&profile_while_busy(&client));
    }
}

/// A profile of a server that answers one request after the other meanwhile.
fn profile_while_busy(client: &Client) -> Answer {
    let done = AtomicBool::new(false);
    let answer = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(get(client, "/apis").code, 200);
            }
        });
        let answer = client.get("/debug/pprof/profile?seconds=2");
        done.store(true, Ordering::Relaxed);
        answer
    });
    answer.unwrap_or_else(|error| panic!("no profile: {error}"))
}

/// The functions that a profile names. Panics if it is not one of CPU time, or if the profiler sees itself.
fn functions_of(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.code, 200, "{}", answer.text());
    let Body::Whole(gzip) = &answer.body else {
        panic!("not a whole body")
    };
    let mut bytes = Vec::new();
    GzDecoder::new(gzip.as_slice())
        .read_to_end(&mut bytes)
        .expect("it is gzip");
    let profile = Profile::decode(bytes.as_slice()).expect("it is a profile");
    let name = |index: i64| profile.string_table[usize::try_from(index).expect("an index")].as_str();
    let units: Vec<(&str, &str)> = profile
        .sample_type
        .iter()
        .map(|kind| (name(kind.ty), name(kind.unit)))
        .collect();
    assert_eq!(units, [("samples", "count"), ("cpu", "nanoseconds")]);
    assert!(
        profile.sample.iter().all(|sample| sample.value[0] > 0),
        "a sample that was not seen"
    );
    let file_of = |location: u64| {
        let function = profile.function.iter().find(|function| function.id == location);
        name(function.expect("a location is a function").filename)
    };
    let innermost = profile.sample.iter().filter_map(|sample| sample.location_id.first());
    for file in innermost.map(|location| file_of(*location)) {
        assert!(!file.contains("/pprof-"), "the profiler sees itself: {file}");
        assert!(!file.contains("/backtrace-"), "the profiler sees itself: {file}");
    }
    let functions = profile.function.iter();
    functions.map(|function| name(function.name).to_owned()).collect()
}

#[test]
fn one_profile_is_taken_at_a_time_and_ends_with_its_client() {
    let mut server = start(&[]);
    let client = server.client();
    let mut leaving = client.open().expect("it connects");
    let head = format!(
        "GET /debug/pprof/profile?seconds=300 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\r\n"
    );
    leaving.write_all(head.as_bytes()).expect("it is sent");
    leaving.flush().expect("it is sent");
    let end = Instant::now() + PATIENCE;
    while !server.process().log().contains("taking a CPU profile") {
        assert!(Instant::now() < end, "no profile is begun");
        thread::yield_now();
    }
    let path = "/debug/pprof/profile?seconds=1";
    let busy = get(&client, path);
    assert_eq!(busy.code, 409);
    assert!(
        busy.text().contains("a CPU profile is being taken already"),
        "{}",
        busy.text()
    );
    drop(leaving);
    server
        .process()
        .wait_until("free for another profile", PATIENCE, || get(&client, path).code == 200)
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_cannot_be_profiled_is_said() {
    let server = start(&[]);
    let client = server.client();
    for seconds in ["0", "-1", "301", "soon", "1.5"] {
        let answer = get(&client, &format!("/debug/pprof/profile?seconds={seconds}"));
        assert_eq!(answer.code, 400, "{seconds}");
        assert!(
            answer.text().contains("give a whole number from 1 to 300"),
            "{}",
            answer.text()
        );
    }
    let index = get(&client, "/debug/pprof/");
    assert_eq!(index.code, 200);
    for name in ["heap", "goroutine", "trace"] {
        let answer = get(&client, &format!("/debug/pprof/{name}"));
        assert_eq!(answer.code, 404, "{name}");
        let reason = answer.text();
        let reason = reason
            .strip_prefix(&format!("there is no {name}: "))
            .and_then(|text| text.split(';').next())
            .unwrap_or_else(|| panic!("no reason: {reason}"));
        assert!(index.text().contains(reason), "the index does not say: {reason}");
    }
    let alice = server.client().with_token(USER_TOKEN);
    assert_eq!(get(&alice, "/debug/pprof/").code, 403);
    assert_eq!(get(&alice, "/debug/pprof/profile?seconds=1").code, 403);
    let switched_off = start(&["--profiling=false"]);
    let client = switched_off.client();
    for path in ["/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        assert_eq!(get(&client, path).code, 404, "{path}");
    }
}
