//! Watches that another API server answers.

use std::{io::Write as _, time::Duration};

use serde_json::json;
use trireme_tests::{
    StoreChoice,
    group::until,
    receiver::Receiver,
    server::{CONTROLLERS, Server, USER_TOKEN},
};

use super::{CONFIG_MAPS, EXECUTING, Names, PATIENCE, allow_alice, column, create, get, one_seat};

const VERSION: &str = "/apis/metal.example.com/v1";
/// Longer than the test lasts.
const NEVER: Duration = Duration::from_secs(3600);

#[test]
fn a_watch_keeps_no_seat_while_another_server_does_not_answer() {
    let flags = [
        CONTROLLERS,
        "--max-requests-inflight=10",
        "--max-mutating-requests-inflight=10",
    ];
    let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
    let rods = format!("{VERSION}/rods");
    let script = vec![
        json!({"path": rods, "delay": NEVER.as_secs_f64()}),
        json!({"path": VERSION, "record": false, "body": {"kind": "APIResourceList", "resources": []}}),
        json!({"path": "*", "status": 404, "record": false}),
    ];
    let receiver = Receiver::start(script, "mines", None).expect("a port");
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    allow_alice(&admin);
    one_seat(&admin, &json!({ "type": "Reject" }));
    create(&admin, "/api/v1/namespaces", &json!({"metadata": {"name": "mines"}}));
    let service = json!({"metadata": {"name": "rods"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    create(&admin, "/api/v1/namespaces/mines/services", &service);
    let registered = json!({
        "metadata": {"name": "v1.metal.example.com"},
        "spec": {
            "group": "metal.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "caBundle": receiver.ca_bundle(),
            "service": {"namespace": "mines", "name": "rods", "port": receiver.port()},
        },
    });
    create(&admin, "/apis/apiregistration.k8s.io/v1/apiservices", &registered);
    until("the other server is there", PATIENCE, || {
        get(&admin, VERSION).code == 200
    });
    until("the schema counts", PATIENCE, || {
        let answer = get(&alice, CONFIG_MAPS);
        answer.code == 200 && Names::read(&admin).of(&answer) == "one one"
    });
    let mut watch = alice.open().expect("it connects");
    let head = format!("GET {rods}?watch=1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {USER_TOKEN}\r\n\r\n");
    watch.write_all(head.as_bytes()).expect("it is sent");
    watch.flush().expect("it is sent");
    until("the watch has gone on", PATIENCE, || !receiver.received().is_empty());
    until("its seat is given back", PATIENCE, || {
        column(&admin, "one", EXECUTING) == "0"
    });
    assert_eq!(get(&alice, CONFIG_MAPS).code, 200);
}
