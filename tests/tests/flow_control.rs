//! Priority and fairness as clients see it: who is classified how, who waits, and who is refused.

#[path = "flow_control/delegated.rs"]
mod delegated;
#[path = "flow_control/overload.rs"]
mod overload;

use std::{
    io::{Read as _, Write as _},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use trireme_tests::{
    Server, StoreChoice,
    group::until,
    http::{Answer, Client, Connection},
    server::{ADMIN_TOKEN, USER_TOKEN},
};

const PATIENCE: Duration = Duration::from_secs(60);
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SCHEMA_UID: &str = "x-kubernetes-pf-flowschema-uid";
const LEVEL_UID: &str = "x-kubernetes-pf-prioritylevel-uid";

fn get(client: &Client, path: &str) -> Answer {
    client.get(path).expect("the server answers")
}

fn create(client: &Client, path: &str, object: &Value) {
    let answer = client.json("POST", path, object).expect("the server answers");
    assert_eq!(answer.code, 201, "{}", answer.text());
}

/// Allows a user everything with config maps who is not exempt.
fn allow_alice(admin: &Client) {
    create(
        admin,
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &json!({
            "metadata": { "name": "alice" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io" }],
        }),
    );
}

/// A level of one seat of the server's, and a schema that sends alice to it.
fn one_seat(admin: &Client, limit_response: &Value) {
    let limited = json!({
        "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": limit_response,
    });
    create(
        admin,
        LEVELS,
        &json!({ "metadata": { "name": "one" }, "spec": { "type": "Limited", "limited": limited } }),
    );
    let everything = json!([{
        "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
    }]);
    let subjects = json!([{ "kind": "User", "user": { "name": "alice" } }]);
    create(
        admin,
        SCHEMAS,
        &json!({ "metadata": { "name": "one" }, "spec": {
            "matchingPrecedence": 500,
            "priorityLevelConfiguration": { "name": "one" },
            "rules": [{ "subjects": subjects, "resourceRules": everything }],
        } }),
    );
}

/// The names of the schema and the level that an answer names by UID.
struct Names(Vec<(String, String)>);

impl Names {
    fn read(admin: &Client) -> Self {
        let items =
            [SCHEMAS, LEVELS].map(|path| serde_json::from_str::<Value>(&get(admin, path).text()).expect("a list"));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let named = items
            .iter()
            .flat_map(|list| list["items"].as_array().into_iter().flatten());
        Self(
            named
                .map(|item| (text(&item["metadata"]["uid"]), text(&item["metadata"]["name"])))
                .collect(),
        )
    }

    fn of(&self, answer: &Answer) -> String {
        let name = |header: &str| {
            let uid = answer.header(header).next()?.to_owned();
            self.0
                .iter()
                .find(|(known, _)| *known == uid)
                .map(|(_, name)| name.clone())
        };
        let named = [SCHEMA_UID, LEVEL_UID].map(|header| name(header).unwrap_or_else(|| "-".to_owned()));
        named.join(" ")
    }
}

/// Alice begins to create a config map and does not go on: a request that keeps its seat.
fn hold_a_seat(client: &Client) -> Connection {
    let mut held = client.open().expect("it connects");
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {USER_TOKEN}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        BODY.len()
    );
    held.write_all(head.as_bytes()).expect("it is sent");
    held.flush().expect("it is sent");
    held
}

/// Alice watches config maps until the connection is dropped.
fn begin_to_watch(client: &Client) -> Connection {
    let mut watch = client.open().expect("it connects");
    let head = format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {USER_TOKEN}\r\n\r\n");
    watch.write_all(head.as_bytes()).expect("it is sent");
    watch.flush().expect("it is sent");
    watch
}

const BODY: &str = r#"{"metadata": {"name": "held"}}"#;

/// The cells of the lines of a table that are a level's.
fn lines_of(admin: &Client, table: &str, level: &str) -> Vec<Vec<String>> {
    let table = get(admin, &format!("/debug/api_priority_and_fairness/{table}")).text();
    let rows = table
        .lines()
        .map(|line| line.split(',').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
    rows.filter(|row| row.first().is_some_and(|name| name == level))
        .collect()
}

fn column(admin: &Client, level: &str, index: usize) -> String {
    let lines = lines_of(admin, "dump_priority_levels", level);
    lines
        .first()
        .and_then(|line| line.get(index))
        .cloned()
        .unwrap_or_default()
}

const WAITING: usize = 4;
const EXECUTING: usize = 5;

#[test]
fn answers_name_the_schema_and_the_level_of_their_requests() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    until("the default objects are there", PATIENCE, || {
        get(&admin, SCHEMAS).text().contains("\"catch-all\"")
    });
    let names = Names::read(&admin);
    let of = |token: &str, path: &str| names.of(&get(&admin.with_token(token), path));
    until("they count", PATIENCE, || {
        of(USER_TOKEN, CONFIG_MAPS) == "global-default global-default"
    });
    assert_eq!(of(ADMIN_TOKEN, CONFIG_MAPS), "exempt exempt");
    assert_eq!(of(ADMIN_TOKEN, "/nowhere"), "exempt exempt");
    assert_eq!(of(USER_TOKEN, "/livez"), "probes exempt");
    assert_eq!(
        names.of(&get(&admin.anonymous(), "/version")),
        "global-default global-default"
    );
    assert_eq!(of("wrong-token", CONFIG_MAPS), "- -", "the user is unknown");
    assert_eq!(of("node1-token", "/api/v1/nodes/node-1"), "system-node-high node-high");
    assert_eq!(of("node1-token", CONFIG_MAPS), "system-nodes system");
    assert_eq!(of("sched-token", "/api/v1/pods"), "kube-scheduler workload-high");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x";
    assert_eq!(of("kcm-token", lease), "system-leader-election leader-election");
    assert_eq!(
        names.of(&get(
            &admin.with_token(USER_TOKEN),
            "/api/v1/pods?watch=1&timeoutSeconds=1"
        )),
        "global-default global-default"
    );
}

/// The seats that a user's requests have asked for in the schema `global-default`.
fn seats_asked(admin: &Client) -> f64 {
    let schema = "flow_schema=\"global-default\"";
    admin.metric("apiserver_flowcontrol_work_estimated_seats_sum", &[schema])
}

#[test]
fn a_list_takes_seats_by_what_it_sends() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    allow_alice(&admin);
    until("the default objects count", PATIENCE, || {
        Names::read(&admin).of(&get(&alice, CONFIG_MAPS)) == "global-default global-default"
    });
    for number in 0..35 {
        let name = format!("big-{number}");
        create(
            &admin,
            CONFIG_MAPS,
            &json!({ "metadata": { "name": name }, "data": { "k": "v".repeat(10_000) } }),
        );
    }
    let list: Value = serde_json::from_str(&get(&alice, CONFIG_MAPS).text()).expect("a list");
    let revision = list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a list has one")
        .to_owned();
    let asked_by = |path: String| {
        let before = seats_asked(&admin);
        assert_eq!(get(&alice, &path).code, 200, "{path}");
        seats_asked(&admin) - before
    };
    assert_eq!(asked_by(CONFIG_MAPS.to_owned()), 4.0, "more than 350 KB");
    assert_eq!(asked_by(format!("{CONFIG_MAPS}?limit=1")), 1.0);
    assert_eq!(
        asked_by(format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dbig-1")),
        1.0
    );
    assert_eq!(asked_by(format!("{CONFIG_MAPS}/big-1")), 1.0);
    assert_eq!(asked_by(format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1")), 4.0);
    let later = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={revision}");
    assert_eq!(asked_by(later.clone()), 1.0);
    let with_state = format!("{later}&resourceVersionMatch=NotOlderThan&sendInitialEvents");
    assert_eq!(
        asked_by(format!("{with_state}=1")),
        4.0,
        "any text but 0 and false is true"
    );
    assert_eq!(asked_by(format!("{with_state}=False")), 1.0);
    let from_none = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion=00");
    assert_eq!(asked_by(from_none), 4.0);
}

#[test]
fn a_write_keeps_seats_for_its_watchers() {
    const WATCHES: usize = 20;
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    allow_alice(&admin);
    until("the default objects count", PATIENCE, || {
        Names::read(&admin).of(&get(&alice, CONFIG_MAPS)) == "global-default global-default"
    });
    let asked_by = |name: &str| {
        let before = seats_asked(&admin);
        create(&alice, CONFIG_MAPS, &json!({ "metadata": { "name": name } }));
        seats_asked(&admin) - before
    };
    assert_eq!(asked_by("unwatched"), 1.0);
    let watches: Vec<Connection> = (0..WATCHES).map(|_| begin_to_watch(&alice)).collect();
    let open = || {
        let metrics = get(&admin, "/metrics").text();
        let mut lines = metrics.lines();
        let of_config_maps = |line: &&str| {
            line.starts_with("apiserver_longrunning_requests{") && line.contains("resource=\"configmaps\"")
        };
        let line = lines.find(of_config_maps).unwrap_or_default();
        line.rsplit(' ')
            .next()
            .and_then(|count| count.parse().ok())
            .unwrap_or(0)
    };
    until("all watches have begun", PATIENCE, || open() == WATCHES);
    assert_eq!(asked_by("watched"), 2.0, "one for every ten watches");
    drop(watches);
    until("all watches have ended", PATIENCE, || open() == 0);
    assert_eq!(asked_by("unwatched-again"), 1.0);
}

#[test]
fn a_full_level_refuses_only_its_own_requests() {
    let flags = ["--max-requests-inflight=10", "--max-mutating-requests-inflight=10"];
    let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    allow_alice(&admin);
    one_seat(&admin, &json!({ "type": "Reject" }));
    until("the schema counts", PATIENCE, || {
        let answer = get(&alice, CONFIG_MAPS);
        answer.code == 200 && Names::read(&admin).of(&answer) == "one one"
    });
    let mut held = hold_a_seat(&alice);
    until("the seat is taken", PATIENCE, || {
        column(&admin, "one", EXECUTING) == "1"
    });

    let refused = get(&alice, CONFIG_MAPS);
    assert_eq!(
        (refused.code, refused.text().as_str()),
        (429, "Too many requests, please try again later.\n")
    );
    assert_eq!(refused.header("retry-after").collect::<Vec<_>>(), ["1"]);
    assert_eq!(
        refused.header("content-type").collect::<Vec<_>>(),
        ["text/plain; charset=utf-8"]
    );
    assert_eq!(Names::read(&admin).of(&refused), "one one");
    let watch = get(&alice, &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1"));
    assert_eq!(watch.code, 429, "a watch needs a seat to begin");
    for verb in ["LIST", "WATCH"] {
        let labels = [
            &format!("verb=\"{verb}\""),
            "resource=\"configmaps\"",
            "scope=\"namespace\"",
            "code=\"429\"",
        ];
        assert_eq!(
            admin.metric("apiserver_request_terminations_total", &labels),
            1.0,
            "{verb}"
        );
    }
    assert_eq!(get(&admin, CONFIG_MAPS).code, 200);
    assert_eq!(get(&admin.with_token("bob-token"), "/version").code, 200);

    let created = held.send_raw(BODY.as_bytes(), "POST").expect("it is answered");
    assert_eq!(created.code, 201, "{}", created.text());
    until("the seat is given back", PATIENCE, || {
        get(&alice, CONFIG_MAPS).code == 200
    });
    // An open watch keeps no seat.
    let watching = alice.clone();
    let watch = thread::spawn(move || get(&watching, &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=3")).code);
    until("the watch has begun", PATIENCE, || {
        let metrics = get(&admin, "/metrics").text();
        let mut open = metrics
            .lines()
            .filter(|line| line.starts_with("apiserver_longrunning_requests{"));
        open.any(|line| line.contains("resource=\"configmaps\"") && line.ends_with(" 1"))
    });
    until("its first events are sent", PATIENCE, || {
        column(&admin, "one", EXECUTING) == "0"
    });
    while !watch.is_finished() {
        assert_eq!(get(&alice, CONFIG_MAPS).code, 200);
    }
    assert_eq!(watch.join().ok(), Some(200));
}

#[test]
fn a_watch_keeps_its_seat_until_its_first_events_are_sent() {
    // More than the buffers between the two ends hold.
    const OBJECTS: usize = 24;
    const BYTES: usize = 900_000;
    let flags = ["--max-requests-inflight=10", "--max-mutating-requests-inflight=10"];
    let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    allow_alice(&admin);
    for number in 0..OBJECTS {
        let metadata = json!({ "name": format!("large-{number}") });
        create(
            &admin,
            CONFIG_MAPS,
            &json!({ "metadata": metadata, "data": { "k": "v".repeat(BYTES) } }),
        );
    }
    one_seat(&admin, &json!({ "type": "Reject" }));
    let small = format!("{CONFIG_MAPS}/large-1?resourceVersion=0");
    until("the schema counts", PATIENCE, || {
        let answer = get(&alice, &small);
        answer.code == 200 && Names::read(&admin).of(&answer) == "one one"
    });
    let mut watch = begin_to_watch(&alice);
    until("the watch has its seat", PATIENCE, || {
        column(&admin, "one", EXECUTING) == "1"
    });
    for _ in 0..10 {
        assert_eq!(
            get(&alice, &small).code,
            429,
            "the client has not taken its first events"
        );
    }
    let mut taken = vec![0; OBJECTS * BYTES];
    watch.read_exact(&mut taken).expect("the events come");
    until("the seat is given back", PATIENCE, || {
        column(&admin, "one", EXECUTING) == "0"
    });
    assert_eq!(get(&alice, &small).code, 200);
    let object = json!({ "metadata": { "name": "last" } });
    create(&admin, CONFIG_MAPS, &object);
    let mut seen = taken.split_off(taken.len() - 100);
    while !String::from_utf8_lossy(&seen).contains("\"name\":\"last\"") {
        let mut more = vec![0; 4096];
        let count = watch.read(&mut more).expect("the watch goes on");
        assert!(count > 0, "the watch has ended");
        seen.extend_from_slice(&more[..count]);
    }
}

#[test]
fn a_request_waits_for_a_quarter_of_its_time_and_for_its_turn() {
    let flags = ["--max-requests-inflight=10", "--max-mutating-requests-inflight=10"];
    let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    allow_alice(&admin);
    one_seat(
        &admin,
        &json!({ "type": "Queue", "queuing": { "queues": 1, "handSize": 1, "queueLengthLimit": 1 } }),
    );
    until("the schema counts", PATIENCE, || {
        let answer = get(&alice, CONFIG_MAPS);
        answer.code == 200 && Names::read(&admin).of(&answer) == "one one"
    });
    let mut held = hold_a_seat(&alice);
    until("the seat is taken", PATIENCE, || {
        column(&admin, "one", EXECUTING) == "1"
    });

    let begun = Instant::now();
    let late = get(&alice, &format!("{CONFIG_MAPS}?timeout=4s"));
    assert_eq!(late.code, 429);
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    let listed = ["verb=\"LIST\"", "resource=\"configmaps\"", "scope=\"namespace\""];
    let took = |name: &str| admin.metric(&format!("apiserver_request_{name}_seconds_sum"), &listed);
    let queued = took("duration") - took("sli_duration");
    assert!(queued >= 0.5, "to wait is no work: {queued} s of it");

    let patient = alice.clone();
    let waits = thread::spawn(move || get(&patient, CONFIG_MAPS).code);
    until("one waits", PATIENCE, || column(&admin, "one", WAITING) == "1");
    let shown = lines_of(&admin, "dump_requests?includeRequestDetails=1", "one");
    let cells = |line: usize, cells: std::ops::Range<usize>| shown[line][cells].join(",");
    assert_eq!(shown.len(), 2, "{shown:?}");
    // As kube-apiserver's, but for the queue of a request that did not wait: there it has one all the same.
    assert_eq!(
        (cells(0, 0..5), cells(1, 0..5)),
        ("one,one,0,0,".into(), "one,one,-1,-1,".into())
    );
    assert_eq!((cells(0, 6..9), cells(1, 6..9)), ("1,0,0s".into(), "1,0,0s".into()));
    let request = |verb: &str| format!("alice,{verb},{CONFIG_MAPS},default,,v1,configmaps,");
    assert_eq!(
        (cells(0, 10..18), cells(1, 10..18)),
        (request("list"), request("create"))
    );
    assert_eq!(get(&alice, CONFIG_MAPS).code, 429, "the queue is full");
    let created = held.send_raw(BODY.as_bytes(), "POST").expect("it is answered");
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(waits.join().ok(), Some(200));

    let metrics = get(&admin, "/metrics").text();
    for reason in ["queue-full", "time-out"] {
        let counted = format!("flow_schema=\"one\",reason=\"{reason}\"}} 1");
        assert!(metrics.contains(&counted), "{reason}: {}", lines(&metrics, "rejected"));
    }
}

fn lines(text: &str, word: &str) -> String {
    text.lines()
        .filter(|line| line.contains(word))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn without_priority_and_fairness_two_classes_are_counted() {
    let flags = [
        "--enable-priority-and-fairness=false",
        "--max-mutating-requests-inflight=1",
    ];
    let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    allow_alice(&admin);
    let mut held = hold_a_seat(&alice);
    until("the seat is taken", PATIENCE, || {
        let metrics = get(&admin, "/metrics").text();
        metrics.contains("apiserver_current_inflight_requests{request_kind=\"mutating\"} 1")
    });
    let object = json!({ "metadata": { "name": "refused" } });
    let refused = alice.json("POST", CONFIG_MAPS, &object).expect("the server answers");
    assert_eq!(refused.code, 429);
    let labels = ["verb=\"POST\"", "resource=\"configmaps\"", "code=\"429\""];
    assert_eq!(admin.metric("apiserver_request_terminations_total", &labels), 1.0);
    let read = get(&alice, CONFIG_MAPS);
    assert_eq!((read.code, read.header(SCHEMA_UID).count()), (200, 0));
    assert_eq!(get(&admin, "/debug/api_priority_and_fairness/dump_queues").code, 404);
    let created = held.send_raw(BODY.as_bytes(), "POST").expect("it is answered");
    assert_eq!(created.code, 201, "{}", created.text());
}
