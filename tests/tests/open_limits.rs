//! Bounds on what users keep open, as clients see them: watches and connections, of one user and of all.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::{Value, json};
use trireme_tests::{
    Server, StoreChoice,
    group::until,
    http::{Answer, Client, Connection},
    server::USER_TOKEN,
};

const PATIENCE: Duration = Duration::from_secs(60);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BOB_TOKEN: &str = "bob-token";
const CONTROLLERS_TOKEN: &str = "kcm-token";

/// A server on which alice and bob may do everything.
fn start(flags: &[&str]) -> Server {
    let server = Server::try_start(StoreChoice::Embedded, flags).unwrap_or_else(|error| panic!("{error}"));
    let user = |name: &str| json!({ "kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io" });
    let binding = json!({
        "metadata": { "name": "both" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [user("alice"), user("bob")],
    });
    create(
        &server.client(),
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &binding,
    );
    server
}

fn create(client: &Client, path: &str, object: &Value) {
    let answer = client.json("POST", path, object).expect("the server answers");
    assert_eq!(answer.code, 201, "{}", answer.text());
}

fn get(client: &Client, path: &str) -> Answer {
    client.get(path).expect("the server answers")
}

/// The value of a metric; 0 if there is none, or no answer.
fn metric(admin: &Client, name: &str) -> f64 {
    let metrics = admin.get("/metrics").map(|answer| answer.text()).unwrap_or_default();
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.unwrap_or_default()
}

fn request(path: &str, token: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
}

/// Watches config maps until the connection is dropped.
fn begin_to_watch(server: &Server, token: &str) -> Connection {
    let mut watch = server.client().open().expect("it connects");
    let head = request(&format!("{CONFIG_MAPS}?watch=1"), token);
    watch.write_all(&head).expect("it is sent");
    watch.flush().expect("it is sent");
    watch
}

fn short_watch(server: &Server, token: &str) -> Answer {
    let client = server.client().with_token(token);
    get(&client, &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1"))
}

/// Checks a refusal, whose message says which bound was reached.
fn check_refusal(answer: &Answer, message: &str) {
    assert_eq!(answer.code, 429, "{}", answer.text());
    assert_eq!(answer.header("retry-after").collect::<Vec<_>>(), ["5"]);
    let status: Value = serde_json::from_str(&answer.text()).expect("it is a Status");
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429,
        "reason": "TooManyRequests", "message": message, "details": { "retryAfterSeconds": 5 },
    });
    assert_eq!(status, expected);
}

#[test]
fn watches_are_bounded_for_a_user_and_for_all() {
    let server = start(&["--max-watches-per-user=2", "--max-watches=4"]);
    let admin = server.client();
    let open = |count: f64| {
        until("the watches are open", PATIENCE, || {
            metric(&admin, "trireme_watches") == count
        });
    };
    let mut of_alice: Vec<Connection> = (0..2).map(|_| begin_to_watch(&server, USER_TOKEN)).collect();
    open(2.0);
    check_refusal(
        &short_watch(&server, USER_TOKEN),
        "too many watches: user \"alice\" has 2 open, which is the limit (--max-watches-per-user), please try again later",
    );
    let list = get(&admin.with_token(USER_TOKEN), CONFIG_MAPS);
    assert_eq!(list.code, 200, "other requests are none of it");

    let of_bob: Vec<Connection> = (0..2).map(|_| begin_to_watch(&server, BOB_TOKEN)).collect();
    open(4.0);
    let of_all = "too many watches: this server has 4 open, which is the limit (--max-watches), please try again later";
    check_refusal(&short_watch(&server, CONTROLLERS_TOKEN), of_all);
    let forbidden = short_watch(&server, "node1-token");
    assert_eq!(forbidden.code, 403, "what may not be watched is not counted");
    let administrators = short_watch(&server, trireme_tests::server::ADMIN_TOKEN);
    assert_eq!(administrators.code, 200, "system:masters is never refused");
    let refused = |bound: &str| metric(&admin, &format!("trireme_watches_refused_total{{bound=\"{bound}\"}}"));
    assert_eq!((refused("user"), refused("all")), (1.0, 1.0));

    drop(of_alice.pop());
    until("alice may watch again", PATIENCE, || {
        short_watch(&server, USER_TOKEN).code == 200
    });
    drop((of_alice, of_bob));
    open(0.0);
}

#[test]
fn whom_priority_and_fairness_exempts_may_watch_beyond_the_bounds() {
    let server = start(&["--max-watches=1"]);
    let admin = server.client();
    let _watch = begin_to_watch(&server, USER_TOKEN);
    until("the watch is open", PATIENCE, || {
        metric(&admin, "trireme_watches") == 1.0
    });
    assert_eq!(short_watch(&server, CONTROLLERS_TOKEN).code, 429);
    let subjects = json!([{ "kind": "User", "user": { "name": "system:kube-controller-manager" } }]);
    let everything = json!([{
        "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
    }]);
    create(
        &admin,
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        &json!({ "metadata": { "name": "controllers" }, "spec": {
            "matchingPrecedence": 10,
            "priorityLevelConfiguration": { "name": "exempt" },
            "rules": [{ "subjects": subjects, "resourceRules": everything }],
        } }),
    );
    until("the schema counts", PATIENCE, || {
        short_watch(&server, CONTROLLERS_TOKEN).code == 200
    });
    assert_eq!(short_watch(&server, BOB_TOKEN).code, 429);
}

/// A connection over which a user has asked for something and may go on. Those of before may take a moment to be gone.
fn keep_open(server: &Server, token: &str) -> Connection {
    let mut kept = None;
    until("the connection is admitted", PATIENCE, || {
        let mut connection = server.client().open().expect("it connects");
        let answer = connection.send_raw(&request("/version", token), "GET");
        if answer.is_ok_and(|answer| answer.code == 200) {
            kept = Some(connection);
        }
        kept.is_some()
    });
    kept.expect("it was admitted")
}

/// The answer to the first request over a connection, and whether the server closes it then.
fn first_answer(server: &Server, path: &str, token: &str) -> (Answer, bool) {
    let mut connection = server.client().open().expect("it connects");
    let answer = connection.send_raw(&request(path, token), "GET");
    let answer = answer.expect("the server answers");
    let says_so = answer.header("connection").any(|value| value == "close");
    let is_closed = says_so && connection.read(&mut [0]).map_or(true, |count| count == 0);
    (answer, is_closed)
}

#[test]
fn connections_are_bounded_for_a_user() {
    let server = start(&["--max-connections-per-user=2"]);
    let admin = server.client();
    let mut of_alice: Vec<Connection> = (0..2).map(|_| keep_open(&server, USER_TOKEN)).collect();
    let (answer, is_closed) = first_answer(&server, "/version", USER_TOKEN);
    check_refusal(
        &answer,
        "too many connections: user \"alice\" has 2 open, which is the limit (--max-connections-per-user), please try again later",
    );
    assert!(is_closed);
    assert_eq!(first_answer(&server, "/livez", USER_TOKEN).0.code, 200, "a probe");
    assert_eq!(first_answer(&server, "/version", BOB_TOKEN).0.code, 200, "another user");
    let again = of_alice[0].send_raw(&request("/version", USER_TOKEN), "GET");
    assert_eq!(again.expect("the server answers").code, 200, "those that are open stay");
    let refused = metric(&admin, "trireme_connections_refused_total{bound=\"user\"}");
    assert_eq!(refused, 1.0);
    drop(of_alice.pop());
    of_alice.push(keep_open(&server, USER_TOKEN));

    // Those of unknown users have a bound, too.
    let mut of_unknown = Vec::new();
    until("a connection of an unknown user is closed", PATIENCE, || {
        let mut connection = server.client().open().expect("it connects");
        let answer = connection.send_raw(&request("/version", "wrong-token"), "GET");
        let answer = answer.expect("the server answers");
        assert_eq!(answer.code, 401);
        of_unknown.push(connection);
        answer.header("connection").any(|value| value == "close")
    });
    assert_eq!(of_unknown.len(), 3);
}

#[test]
fn connections_are_bounded_for_all_and_administrators_and_probes_get_in() {
    const BOUND: usize = 6;
    /// The least that there is room for beyond it.
    const SURPLUS: usize = 16;
    let server = start(&["--max-connections=6"]);
    let admin = server.client();
    let mut open: Vec<Connection> = (0..BOUND).map(|_| keep_open(&server, USER_TOKEN)).collect();
    until("only these are open", PATIENCE, || {
        // One is that of the question.
        metric(&admin, "trireme_http_server_connections") == 7.0
    });
    let (answer, is_closed) = first_answer(&server, "/version", BOB_TOKEN);
    check_refusal(
        &answer,
        "too many connections: this server has 6 open, which is the limit (--max-connections), please try again later",
    );
    assert!(is_closed);
    let (answer, is_closed) = first_answer(&server, "/livez", BOB_TOKEN);
    assert_eq!((answer.code, is_closed), (200, true), "a probe");
    let (answer, is_closed) = first_answer(&server, "/version", "wrong-token");
    assert_eq!((answer.code, is_closed), (401, true));
    let mut of_admin = admin.open().expect("it connects");
    for _ in 0..2 {
        let answer = of_admin.send_raw(&request(CONFIG_MAPS, trireme_tests::server::ADMIN_TOKEN), "GET");
        assert_eq!(answer.expect("the server answers").code, 200, "an administrator stays");
    }

    // What comes beyond that is closed before it costs anything.
    let mut idle: Vec<TcpStream> = Vec::new();
    let is_closed = |socket: &mut TcpStream| {
        let patience = Some(Duration::from_secs(5));
        socket.set_read_timeout(patience).expect("it is a socket");
        match socket.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    };
    for _ in 0..=SURPLUS {
        idle.push(TcpStream::connect(("127.0.0.1", server.port())).expect("it connects"));
    }
    assert!(is_closed(idle.last_mut().expect("there are some")));
    drop(idle);
    until("there is room again", PATIENCE, || {
        metric(&admin, "trireme_connections_refused_total{bound=\"surplus\"}") >= 1.0
    });
    assert!(metric(&admin, "trireme_connections_refused_total{bound=\"all\"}") >= 1.0);
    open.clear();
    drop(of_admin);
    drop(keep_open(&server, BOB_TOKEN));
}
