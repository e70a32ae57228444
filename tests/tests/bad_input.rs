//! Bad input gets the answer that it should get, and does no harm: `tests/bad-input` has the cases, `docs/bad-input.md`
//! their meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trireme_tests::bad_input::{Came, Case, CaseFile, Reference, load_all};
use trireme_tests::http::Client;
use trireme_tests::server::{ADMIN_TOKEN, USER_TOKEN};
use trireme_tests::{Server, StoreChoice, folder};

/// The number of cases there are of each category at least, so that none is lost.
const CATEGORIES: &[(&str, usize)] = &[
    ("authentication", 91),
    ("content-types", 78),
    ("continue-tokens", 57),
    ("depth", 30),
    ("encodings", 15),
    ("field-selectors", 43),
    ("http-framing", 109),
    ("impersonation", 28),
    ("json-syntax", 86),
    ("keys", 40),
    ("label-selectors", 68),
    ("mismatches", 56),
    ("names", 66),
    ("numbers", 96),
    ("parameters", 125),
    ("patches", 142),
    ("paths", 95),
    ("protobuf", 60),
    ("routing", 111),
    ("sizes", 47),
    ("types", 64),
    ("unicode", 47),
    ("upgrades", 12),
    ("yaml", 76),
];

/// No answer takes longer, in an unoptimised build on a busy machine; those to a future resource version take three
/// seconds on purpose.
const PATIENCE: Duration = Duration::from_secs(20);
/// The memory that the server may have gained after all of it. Most of it is what the allocator keeps.
const MORE_BYTES: u64 = 256 * 1024 * 1024;
/// Limits of time on a core are those of a release build; a build without optimization gets so many times as much.
const CPU_FACTOR: u32 = if cfg!(debug_assertions) { 30 } else { 1 };
/// Attempts to see a case within its time on a core.
const CPU_ATTEMPTS: usize = 5;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn tokens() -> BTreeMap<String, String> {
    let tokens = [("admin", ADMIN_TOKEN), ("alice", USER_TOKEN)];
    tokens.map(|(user, token)| (user.to_owned(), token.to_owned())).into()
}

fn load(variables: &BTreeMap<String, String>) -> Vec<CaseFile> {
    load_all(&folder().join("bad-input"), variables, &tokens()).unwrap_or_else(|error| panic!("{error}"))
}

/// A duty makes the namespace, in its own time.
fn wait_for_namespace(server: &mut Server, client: &Client) {
    let there = || {
        client
            .get("/api/v1/namespaces/default")
            .is_ok_and(|answer| answer.code == 200)
    };
    let waited = server.process().wait_until("complete", PATIENCE, there);
    waited.unwrap_or_else(|error| panic!("{error}"));
}

/// Makes the objects that cases are about, and what `${…}` stands for.
fn prepare(client: &Client) -> BTreeMap<String, String> {
    let make = |path: &str, object: Value| {
        let answer = client.json("POST", path, &object).expect("an answer");
        assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    };
    for name in ["taken", "patched"] {
        let config_map = json!({"metadata": {"name": name}, "data": {"k": "v", "list": "[]"}});
        make(CONFIG_MAPS, config_map);
    }
    let pod = json!({"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    make("/api/v1/namespaces/default/pods", pod);
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment =
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}});
    make("/apis/apps/v1/namespaces/default/deployments", deployment);
    let page = client.get(&format!("{CONFIG_MAPS}?limit=1")).expect("an answer");
    let page: Value = serde_json::from_str(&page.text()).expect("is JSON");
    variables(page["metadata"]["continue"].as_str().expect("there are two"))
}

fn variables(token: &str) -> BTreeMap<String, String> {
    let common = format!("Host: 127.0.0.1\r\nConnection: close\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n");
    let variables = [("configmaps-token", token.to_owned()), ("common", common)];
    variables.map(|(name, value)| (name.to_owned(), value)).into()
}

#[test]
fn every_case_gets_its_answer() {
    let mut server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    wait_for_namespace(&mut server, &client);
    let files = load(&prepare(&client));
    let before = server.process().resident_bytes().expect("is known");
    let mut errors = Vec::new();
    for file in &files {
        let answers = file.cases.iter().map(|case| ask(&server, &client, case, &mut errors));
        let answers: Vec<Came> = answers.collect();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            file.update(&answers).expect("the file can be written");
        }
    }
    errors.extend(aftermath(&mut server, before));
    // Its log says less than the list, and would hide it.
    drop(server);
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

fn ask(server: &Server, client: &Client, case: &Case, errors: &mut Vec<String>) -> Came {
    let begun = Instant::now();
    let came = send(client, case);
    let took = begun.elapsed();
    if let Some(limit) = case.cpu_limit.map(|limit| limit * CPU_FACTOR) {
        let spent = least_cpu_time(server, client, case, limit);
        if spent >= limit {
            errors.push(format!(
                "{} {}: took {spent:?} on a core",
                case.place,
                shortened(&case.text)
            ));
        }
    }
    let error = match &case.expected {
        None => Some(format!("the case has no expectation; came {came}")),
        Some(expected) => expected.error(&came),
    };
    if let Some(error) = error {
        errors.push(format!("{} {}: {error}", case.place, shortened(&case.text)));
    }
    if took > PATIENCE {
        errors.push(format!("{} {}: took {took:?}", case.place, shortened(&case.text)));
    }
    came
}

fn send(client: &Client, case: &Case) -> Came {
    Came::of(client.anonymous().send_raw(&case.request, &case.method))
}

/// The time on a core that the server takes for a case. What it does beside it is in there, too, so the least of some attempts
/// counts.
fn least_cpu_time(server: &Server, client: &Client, case: &Case, limit: Duration) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..CPU_ATTEMPTS {
        let before = server.cpu_time();
        let _answered_as_before = send(client, case);
        least = least.min(server.cpu_time().saturating_sub(before));
        if least < limit {
            break;
        }
    }
    least
}

/// Asks a kube-apiserver all cases but bombs, and writes its answers into the files: `KUBE_APISERVER=PORT,CA_FILE`, a clean one that knows
/// the tokens of the tests.
#[test]
#[ignore = "it takes a kube-apiserver that runs"]
fn kube_apiserver_is_asked() {
    let reached = std::env::var("KUBE_APISERVER").expect("KUBE_APISERVER says where it is");
    let (port, ca) = reached.split_once(',').expect("PORT,CA_FILE");
    let client = Client::new(port.parse().expect("a port"), std::path::Path::new(ca)).expect("its CA");
    let client = client.with_token(ADMIN_TOKEN);
    let files = load(&prepare(&client));
    for file in &files {
        // Bombs have limits of time: one of them has taken 23 GB of kube-apiserver, and with that the machine.
        let is_harmless = |case: &Case| case.cpu_limit.is_none();
        let answers = file
            .cases
            .iter()
            .map(|case| is_harmless(case).then(|| send(&client, case)));
        let answers: Vec<Option<Came>> = answers.collect();
        file.update_reference(&answers).expect("the file can be written");
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(120).collect()
}

/// Checks the server after everything that was thrown at it.
fn aftermath(server: &mut Server, before: u64) -> Vec<String> {
    let mut errors = Vec::new();
    let ready = server.client().anonymous().get("/readyz");
    if !ready.as_ref().is_ok_and(|answer| answer.code == 200) {
        errors.push(format!("afterwards it is not ready: {ready:?}"));
    }
    let process = server.process();
    if let Some(status) = process.ended() {
        errors.push(format!("it has ended: {status}"));
        return errors;
    }
    errors.extend(
        process
            .log()
            .lines()
            .filter(|line| line.contains("panicked"))
            .map(str::to_owned),
    );
    let after = process.resident_bytes().expect("is known");
    println!("memory: {} MiB before, {} MiB after", before >> 20, after >> 20);
    if after > before + MORE_BYTES {
        errors.push(format!("memory grew from {before} to {after} bytes"));
    }
    errors
}

#[test]
fn no_case_is_lost_and_none_is_there_twice() {
    let files = load(&variables("a"));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let (mut requests, mut twice) = (BTreeSet::new(), Vec::new());
    for case in files.iter().flat_map(|file| &file.cases) {
        *counts.entry(case.category.clone()).or_default() += 1;
        if !requests.insert(&case.request) {
            twice.push(&case.place);
        }
        let code = case.expected.as_ref().map_or(0, |expected| expected.code);
        assert!(
            code < 500 || matches!(code, 501 | 504),
            "{}: bad input is not the server's fault",
            case.place
        );
    }
    println!("{} cases: {counts:?}", requests.len());
    assert!(twice.is_empty(), "these requests are there already: {twice:?}");
    for (category, least) in CATEGORIES {
        let found = counts.remove(*category).unwrap_or_default();
        assert!(
            found >= *least,
            "{category}: there were {least} cases, there are {found}"
        );
    }
    assert!(counts.is_empty(), "not in the table of categories: {counts:?}");
}

#[test]
fn the_document_says_how_many_answers_are_those_of_kube_apiserver() {
    let files = load(&variables("a"));
    let count = |is: fn(&Case) -> bool| {
        let number = files
            .iter()
            .flat_map(|file| &file.cases)
            .filter(|case| is(case))
            .count();
        match (number / 1000, number % 1000) {
            (0, rest) => rest.to_string(),
            (thousands, rest) => format!("{thousands},{rest:03}"),
        }
    };
    let document = std::fs::read_to_string(folder().join("../docs/bad-input.md")).expect("the document is there");
    let document = document.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        format!("a table of {} requests", count(|_| true)),
        format!(
            "all cases but the bombs and one watch without an end, {}.",
            count(|case| case.reference != Reference::Unasked)
        ),
        format!(
            "the same part of the text to {};",
            count(|case| case.reference == Reference::Same)
        ),
        format!(
            "the other {} behind",
            count(|case| matches!(case.reference, Reference::Other(_)))
        ),
    ] {
        assert!(document.contains(&said), "docs/bad-input.md does not say {said:?}");
    }
}

/// Every path that discovery and the index list, with objects and subresources that need not exist.
fn paths(admin: &Client) -> BTreeSet<String> {
    let get = |path: &str| -> Value {
        let answer = admin.get(path).expect("an answer");
        serde_json::from_str(&answer.text()).unwrap_or_default()
    };
    let index = get("/");
    let listed = index["paths"].as_array().expect("the index has paths").iter();
    let listed: Vec<String> = listed.filter_map(|path| path.as_str().map(str::to_owned)).collect();
    let mut paths: BTreeSet<String> = listed.iter().cloned().collect();
    for version in listed.iter().filter(|path| path.starts_with("/api")) {
        for resource in get(version)["resources"].as_array().into_iter().flatten() {
            let name = resource["name"].as_str().expect("a resource has a name");
            let (plural, subresource) = name.split_once('/').unwrap_or((name, ""));
            let place = if resource["namespaced"] == true {
                "namespaces/default/"
            } else {
                ""
            };
            if subresource.is_empty() {
                paths.insert(format!("{version}/{plural}"));
                paths.insert(format!("{version}/watch/{plural}"));
                paths.insert(format!("{version}/{place}{plural}"));
                paths.insert(format!("{version}/{place}{plural}/x"));
            } else {
                paths.insert(format!("{version}/{place}{plural}/x/{subresource}"));
            }
        }
    }
    paths
}

/// Paths that every user may read.
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version"];
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"];

#[test]
fn without_credentials_there_is_nothing_but_health_and_version() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let paths = paths(&admin);
    let mut connection = admin.anonymous().open().expect("connects");
    let (mut asked, mut errors) = (0, Vec::new());
    for path in &paths {
        for method in METHODS {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
            let answer = connection.send_raw(request.as_bytes(), method).expect("an answer");
            asked += 1;
            let is_public = PUBLIC.contains(&path.as_str());
            let fits = match (is_public, *method) {
                (true, "GET") => answer.code == 200,
                (true, "HEAD") => matches!(answer.code, 200 | 401 | 403),
                (true, _) => matches!(answer.code, 401 | 403),
                (false, _) => answer.code == 403 && (*method == "HEAD" || answer.text().contains("\"Forbidden\"")),
            };
            if !fits {
                errors.push(format!("{method} {path}: {} {}", answer.code, answer.text()));
            }
        }
    }
    println!("{asked} requests to {} paths", paths.len());
    assert!(paths.len() > 250, "discovery lists {} paths only", paths.len());
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

#[test]
fn a_body_that_does_not_arrive_is_answered() {
    let server = Server::try_start(StoreChoice::Embedded, &["--request-timeout=1s"]).expect("starts");
    let client = server.client().anonymous();
    let head = |method: &str, path: &str| {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\nContent-Length: 100\r\n\r\n{{\"meta"
        )
    };
    for (method, path) in [
        ("POST", CONFIG_MAPS),
        ("DELETE", "/api/v1/namespaces/default/configmaps/a"),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
    ] {
        let begun = Instant::now();
        let answer = client
            .send_raw(head(method, path).as_bytes(), method)
            .expect("an answer");
        let text = answer.text();
        assert_eq!(answer.code, 408, "{method} {path}: {text}");
        assert!(
            text.contains("\"reason\":\"Timeout\"") && text.contains("did not arrive"),
            "{text}"
        );
        assert!(
            begun.elapsed() < PATIENCE,
            "{method} {path}: took {:?}",
            begun.elapsed()
        );
    }
    let chunked = head("POST", CONFIG_MAPS).replace("Content-Length: 100", "Transfer-Encoding: chunked");
    let chunked = chunked.replace("{\"meta", "ffffffffffffffff\r\n{}");
    let answer = client.send_raw(chunked.as_bytes(), "POST").expect("an answer");
    assert_eq!(answer.code, 408, "a chunk larger than anything: {}", answer.text());
    let refused = client
        .send_raw(head("POST", "/absent").as_bytes(), "POST")
        .expect("an answer");
    assert_eq!(
        refused.code,
        404,
        "a body that is not read is not waited for: {}",
        refused.text()
    );
}

#[test]
fn connections_without_tls_get_no_answer_and_do_no_harm() {
    use std::io::{Read as _, Write as _};
    let server = Server::start(StoreChoice::Embedded);
    for bytes in [
        &b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n"[..],
        b"\x16\x03\x01\xff\xff",
        b"\x00",
        &[0xff; 5000],
    ] {
        let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.port())).expect("connects");
        // The server may have ended the connection by the time that either is done.
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        socket.set_read_timeout(Some(PATIENCE)).expect("is a time");
        let mut rest = Vec::new();
        // A TLS alert, or a reset if the rest was not even read.
        let ended = socket.read_to_end(&mut rest);
        assert!(rest.len() < 100, "{ended:?}: {rest:?}");
    }
    assert_eq!(server.client().get("/readyz").expect("an answer").code, 200);
}
