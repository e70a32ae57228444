//! Recorded scenarios of priority and fairness, each store with a server of its own: their schemas catch users of others.

use std::time::Duration;

use serde_json::Value;
use trireme_tests::group::until;
use trireme_tests::{Server, StoreChoice};

use super::{NODE_AND_RBAC, SERVICE_RANGE, check_server, files};

/// Recorded files of flow schemas and priority levels.
pub(super) const FLOW_CONTROL: &[&str] = &[
    "flowcontrol/defaults",
    "flowcontrol/dumps",
    "flowcontrol/mapping",
    "flowcontrol/objects",
    "flowcontrol/rules",
];

/// The share of the scenarios that must match in every step, in per cent.
const LEAST_PERCENT: usize = 94;
/// The flow schemas that a server makes itself.
const DEFAULT_SCHEMAS: usize = 11;
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn requests_flow_as_in_kube_apiserver() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let server =
            Server::try_start(store, &[NODE_AND_RBAC, SERVICE_RANGE]).unwrap_or_else(|error| panic!("{error}"));
        // Made and judged by duties, which a server that is ready may have under way.
        until("the default flow schemas are judged", PATIENCE, || {
            judged_schemas(&server) == DEFAULT_SCHEMAS
        });
        println!("{store:?}:");
        check_server((None, None, None), &server, &files(FLOW_CONTROL), LEAST_PERCENT);
    }
}

/// Counts the flow schemas whose status says whether their level exists.
fn judged_schemas(server: &Server) -> usize {
    let answer = server.client().get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas");
    let list: Value = serde_json::from_str(&answer.expect("an answer").text()).expect("JSON");
    let schemas = list["items"].as_array().into_iter().flatten();
    schemas
        .filter(|schema| schema["status"]["conditions"].is_array())
        .count()
}
