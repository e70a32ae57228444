//! Which form a client gets that takes several, and what it reads if it gets none.

use serde_json::json;
use trireme_tests::{Server, StoreChoice};

use crate::client::{
    CONFIGMAPS, METADATA_LIST, PROTOBUF, WIDGETS, config_map, create, decoded, define_widgets, json_of, media_type,
    send,
};

const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps";
const API_SERVICE_STATUS: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps/status";
const TABLE: &str = "as=Table;g=meta.k8s.io;v=v1";
const REFUSAL: &str = "only the following media types are accepted: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";

#[test]
fn the_first_form_that_there_is_wins() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    create(&client, CONFIGMAPS, &config_map("one"));
    define_widgets(&server);
    let both = format!("{PROTOBUF},application/json");
    let table = format!("{PROTOBUF};{TABLE}");
    let only_table = format!("application/json;{TABLE}");
    let kubectl = format!("{only_table},application/json");
    let cases = [
        (CONFIGMAPS, both.clone(), 200, PROTOBUF),
        (CONFIGMAPS, format!("application/json;q=0.8,{PROTOBUF}"), 200, PROTOBUF),
        (
            CONFIGMAPS,
            format!("{PROTOBUF};q=0.5,application/json"),
            200,
            "application/json",
        ),
        (CONFIGMAPS, format!("{table},{both}"), 200, PROTOBUF),
        (CONFIGMAPS, format!("{table},{kubectl}"), 200, "application/json"),
        (CONFIGMAPS, table.clone(), 406, "application/json"),
        (WIDGETS, both, 200, "application/json"),
        (WIDGETS, PROTOBUF.to_owned(), 406, PROTOBUF),
        (WIDGETS, METADATA_LIST.to_owned(), 200, PROTOBUF),
        (WIDGETS, table, 406, "application/json"),
        // What has no storage that makes Tables has none.
        (API_SERVICE, only_table.clone(), 200, "application/json"),
        (API_SERVICE_STATUS, only_table, 406, "application/json"),
        (API_SERVICE_STATUS, kubectl, 200, "application/json"),
    ];
    for (path, accept, code, expected) in cases {
        let answer = send(&client, "GET", path, &accept, None);
        assert_eq!((answer.code, media_type(&answer)), (code, expected), "{path} {accept}");
        if code == 406 {
            let status = match expected {
                PROTOBUF => decoded(crate::client::body(&answer)),
                _ => json_of(&answer),
            };
            let refusal = (&status["message"], &status["reason"]);
            assert_eq!(refusal, (&json!(REFUSAL), &json!("NotAcceptable")), "{path} {accept}");
        }
    }
}

#[test]
fn a_custom_resource_is_not_written_in_protobuf() {
    let server = Server::start(StoreChoice::Embedded);
    let client = server.client();
    define_widgets(&server);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let refused = send(&client, "POST", WIDGETS, PROTOBUF, Some(&widget));
    assert_eq!(refused.code, 406);
    let absent = send(&client, "GET", &format!("{WIDGETS}/w"), "application/json", None);
    assert_eq!(
        absent.code, 404,
        "nothing is made whose answer the client could not read"
    );
}
