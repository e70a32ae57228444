//! Leases of etcd that Events hang on.

use etcd_client::Client;
use serde_json::json;
use trireme_tests::{Server, StoreChoice};

const NAMES: [&str; 2] = ["first", "second"];
/// `--event-ttl` and `--lease-reuse-duration-seconds`, as they are without flags.
const GRANTED_S: i64 = 3600 + 60;

#[test]
fn events_that_are_written_shortly_after_each_other_hang_on_one_lease_of_etcd() {
    let server = Server::start(StoreChoice::Etcd);
    let client = server.client();
    for name in NAMES {
        let event = json!({
            "metadata": { "name": name }, "reason": "Tested",
            "involvedObject": { "kind": "ConfigMap", "namespace": "default", "name": "c" },
        });
        let made = client.json("POST", "/api/v1/namespaces/default/events", &event);
        let made = made.expect("an answer");
        assert_eq!(made.code, 201, "{name}: {}", made.text());
    }
    let url = server.etcd().expect("the server is over etcd").url();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        let mut etcd = Client::connect([url], None).await.expect("etcd answers");
        let mut leases = Vec::new();
        for name in NAMES {
            let key = format!("/registry/events/default/{name}");
            let found = etcd.get(key, None).await.expect("etcd answers");
            leases.push(found.kvs().first().expect("there is a value").lease());
        }
        assert_ne!(leases[0], 0, "it would stay for ever");
        assert_eq!(leases[0], leases[1], "they share one");
        let lease = etcd.lease_time_to_live(leases[0], None).await;
        assert_eq!(lease.expect("etcd answers").granted_ttl(), GRANTED_S);
    });
}
