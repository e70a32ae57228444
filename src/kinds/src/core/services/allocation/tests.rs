//! Tests of the reservations of services in a real store, and of their release.

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tempfile::TempDir;
use trireme_machinery::ApiError;
use trireme_registry::{ResourceDefinition, SideEffects as _};

use super::{Allocation, node_ports};
use crate::{builtin, testing::settings};

fn allocation() -> (TempDir, Allocation) {
    let (dir, settings) = settings();
    (dir, Allocation::new(&settings))
}

fn service(mut spec: Value) -> Value {
    spec["ipFamilies"] = json!(["IPv4"]);
    json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec})
}

/// A service that is created and stored.
async fn created(allocation: &Allocation, spec: Value) -> Result<Value, ApiError> {
    let mut object = service(spec);
    let reservation = allocation.reserve(&mut object, None, false).await?;
    allocation.finish(reservation, true).await;
    Ok(object)
}

#[tokio::test]
async fn what_is_taken_is_refused_until_it_is_given_back() {
    let (_dir, allocation) = allocation();
    let spec = json!({"type": "NodePort", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"],
                      "ports": [{"port": 80, "nodePort": 30001}]});
    let first = created(&allocation, spec.clone()).await.expect("all is free");
    let error = created(&allocation, spec.clone())
        .await
        .expect_err("the address is taken");
    assert_eq!(
        error.message,
        "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: failed to allocate IP 10.0.0.2: \
         provided IP is already allocated"
    );
    let error = created(
        &allocation,
        json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]}),
    )
    .await;
    assert_eq!(
        error.expect_err("the port is taken").message,
        "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated"
    );
    // The failure gave back the address that it had got: the first address is kept for others, four more are free.
    for _ in 0..4 {
        created(&allocation, json!({"type": "ClusterIP"}))
            .await
            .expect("an address is free");
    }
    let error = created(&allocation, json!({"type": "ClusterIP"}))
        .await
        .expect_err("no address is left");
    assert_eq!(
        error.message,
        "Internal error occurred: failed to allocate a serviceIP for Service \"s\": range is full"
    );
    allocation.release(&first).await;
    created(&allocation, spec).await.expect("all was given back");
}

#[tokio::test]
async fn dry_runs_fill_in_and_keep_nothing() {
    let (_dir, allocation) = allocation();
    let mut object = service(json!({"type": "NodePort", "ports": [
        {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80}, {"port": 81},
    ]}));
    for _ in 0..2 {
        let mut tried = object.clone();
        allocation.reserve(&mut tried, None, true).await.expect("all is free");
        let ports: Vec<i64> = node_ports(&tried);
        assert_eq!(ports.first(), ports.get(1), "one number, one node port");
        assert_eq!(ports.len(), 4);
    }
    allocation
        .reserve(&mut object, None, false)
        .await
        .expect("all is still free");
}

/// The series that a session leaves, without those of durations' buckets.
fn series(session: impl Future<Output = ()>) -> Vec<String> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    ::metrics::with_local_recorder(&recorder, || runtime.block_on(session));
    let page = recorder.handle().render();
    let mut series: Vec<String> = page
        .lines()
        .filter(|line| line.contains("_total{") || line.contains("_count{"))
        .map(str::to_owned)
        .collect();
    series.sort_unstable();
    series
}

#[test]
fn allocations_are_counted_by_range_and_by_what_was_wanted() {
    let (_dir, allocation) = allocation();
    let series = series(async {
        let fixed = json!({"type": "NodePort", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"],
                           "ports": [{"port": 80, "nodePort": 30001}, {"port": 81}]});
        created(&allocation, fixed.clone()).await.expect("all is free");
        created(&allocation, fixed).await.expect_err("the address is taken");
        let port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]});
        created(&allocation, port).await.expect_err("the port is taken");
        let mut tried = service(json!({"type": "ClusterIP"}));
        allocation.reserve(&mut tried, None, true).await.expect("it is free");
    });
    assert_eq!(
        series,
        [
            r#"kube_apiserver_clusterip_allocator_allocation_duration_seconds_count{cidr="10.0.0.0/29"} 2"#,
            r#"kube_apiserver_clusterip_allocator_allocation_errors_total{cidr="10.0.0.0/29",scope="static"} 1"#,
            r#"kube_apiserver_clusterip_allocator_allocation_total{cidr="10.0.0.0/29",scope="dynamic"} 1"#,
            r#"kube_apiserver_clusterip_allocator_allocation_total{cidr="10.0.0.0/29",scope="static"} 1"#,
            r#"kube_apiserver_nodeport_allocator_allocation_errors_total{scope="static"} 1"#,
            r#"kube_apiserver_nodeport_allocator_allocation_total{scope="dynamic"} 1"#,
            r#"kube_apiserver_nodeport_allocator_allocation_total{scope="static"} 1"#,
        ]
    );
}

#[tokio::test]
async fn a_change_of_the_type_gives_ports_back_once_it_is_stored() {
    let (_dir, allocation) = allocation();
    let ports = json!([{"port": 80, "nodePort": 30000}]);
    let old = created(
        &allocation,
        json!({"type": "NodePort", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"], "ports": ports}),
    );
    let old = old.await.expect("all is free");
    let mut new = service(
        json!({"type": "ClusterIP", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"], "ports": [{"port": 80}]}),
    );
    let wants_port = json!({"type": "NodePort", "clusterIP": "None", "clusterIPs": ["None"], "ports": ports});
    for committed in [false, true] {
        let reservation = allocation
            .reserve(&mut new, Some(&old), false)
            .await
            .expect("nothing new is wanted");
        allocation.finish(reservation, committed).await;
        assert_eq!(
            created(&allocation, wants_port.clone()).await.is_ok(),
            committed,
            "the port is free once stored"
        );
    }
}

#[test]
fn events_of_both_groups_are_one_resource() {
    let (_dir, settings) = settings();
    let resources = builtin::resources(&settings);
    let events: Vec<&ResourceDefinition> = resources
        .iter()
        .filter(|info| &*info.resource.resource == "events")
        .collect();
    let [events] = events.as_slice() else {
        panic!("{} resources of events", events.len())
    };
    let versions: Vec<String> = events
        .versions
        .iter()
        .map(|version| version.group_version.to_string())
        .collect();
    assert_eq!(versions, ["v1", "events.k8s.io/v1"]);
    assert_eq!((events.storage_version, events.ttl), (0, settings.event_ttl));
    let labels: Vec<&str> = events.selectable.iter().map(|field| &*field.label).collect();
    assert!(
        ["involvedObject.name", "regarding.name", "reportingController"]
            .iter()
            .all(|label| labels.contains(label))
    );
}
