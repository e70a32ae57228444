//! Resources that come, change and go while three replicas run: what their clients see of it, by kubectl. What is checked is
//! checked on each replica, however the write came in.

mod in_process;
mod widgets;

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use trireme_actors::{testkit::run_in_real_time, topology::Topology};
use trireme_registry::ResourceDefinition;

use self::{
    in_process::{Group, Replica, eventually},
    widgets::{Converted, WidgetSource, definition},
};

/// The time limit of anything.
const PATIENCE: Duration = Duration::from_secs(30);
const WIDGETS: &str = "/apis/example.com/v1/widgets";

/// A definition as it is at first.
fn first(converted: &Converted) -> Arc<ResourceDefinition> {
    definition(&["v1", "v1alpha1"], &["size"], WidgetSource::new("size"), converted)
}

/// With a column and a version more, and one version less.
fn later(converted: &Converted) -> Arc<ResourceDefinition> {
    let schemas = WidgetSource::new("colour");
    definition(&["v1", "v2"], &["size", "colour"], schemas, converted)
}

/// As [`later`], stored in the newer version.
fn last(converted: &Converted) -> Arc<ResourceDefinition> {
    let schemas = WidgetSource::new("colour");
    definition(&["v2", "v1"], &["size", "colour"], schemas, converted)
}

#[test]
fn a_resource_is_installed_used_replaced_and_removed_on_three_replicas_while_they_run() {
    run_in_real_time(Topology::trireme(), |_| async {
        let group = Group::start().await;
        for seen in group.each(|replica| replica.kubectl(&["get", "widgets"])).await {
            assert!(seen.is_err(), "there are none yet");
        }
        group.install(first).await;
        group.each(is_described).await;
        is_used(&group).await;
        is_replaced(&group).await;
        is_stored_in_another_version(&group).await;
        is_removed(&group).await;
        group.stop().await;
    });
}

async fn is_described(replica: &Replica) {
    let resources = replica.ok(&["api-resources", "--api-group=example.com"]).await;
    assert!(
        resources.contains("widgets") && resources.contains("example.com/v1"),
        "{resources}"
    );
    let v3 = replica.raw("/openapi/v3/apis/example.com/v1").await;
    assert!(
        v3.contains("com.example.v1.Widget") && v3.contains("WidgetList"),
        "{v3}"
    );
    let v2 = replica.raw("/openapi/v2").await;
    assert!(v2.contains("com.example.v1.Widget"));
    let explained = replica.ok(&["explain", "widgets.spec"]).await;
    assert!(explained.contains("size"), "{explained}");
}

/// Each write goes to another replica.
async fn is_used(group: &Group) {
    let mut watches = group
        .each(|replica| async {
            replica.background(&[
                "get",
                "widgets.v1alpha1.example.com",
                "-w",
                "-o",
                "jsonpath={.metadata.name}={.oldSpec.size} ",
            ])
        })
        .await;
    let [one, two, three] = &group.replicas[..] else {
        panic!("three replicas are started");
    };
    one.apply("example.com/v1", "a", r#""spec": {"size": "large"}"#).await;
    two.apply("example.com/v1alpha1", "b", r#""oldSpec": {"size": "small"}"#)
        .await;
    for watch in &watches {
        eventually(|| watch.printed().contains("a=large") && watch.printed().contains("b=small")).await;
    }
    group.each(shows_both_versions).await;

    three.apply("example.com/v1", "a", r#""spec": {"size": "huge"}"#).await;
    let patch = r#"{"oldSpec":{"size":"tiny"}}"#;
    one.ok(&[
        "patch",
        "widgets.v1alpha1.example.com",
        "b",
        "--type=merge",
        "-p",
        patch,
    ])
    .await;
    for watch in &mut watches {
        eventually(|| watch.printed().contains("a=huge") && watch.printed().contains("b=tiny")).await;
        watch.kill().await;
    }
    for table in group.each(|replica| replica.ok(&["get", "widgets"])).await {
        let cells: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(cells, [["NAME", "SIZE"], ["a", "huge"], ["b", "tiny"]]);
    }
    for name in ["a", "b"] {
        assert_eq!(group.stored_version(name).await.as_deref(), Some("example.com/v1"));
    }
}

async fn shows_both_versions(replica: &Replica) {
    let new = replica.raw("/apis/example.com/v1/namespaces/default/widgets/b").await;
    assert!(new.contains(r#""spec":{"size":"small"}"#), "{new}");
    let old = replica
        .raw("/apis/example.com/v1alpha1/namespaces/default/widgets/a")
        .await;
    assert!(old.contains(r#""oldSpec":{"size":"large"}"#), "{old}");
    replica.converted.forget();
    let list = replica.raw("/apis/example.com/v1alpha1/widgets").await;
    assert_eq!(list.matches(r#""oldSpec":{"#).count(), 2, "{list}");
    assert_eq!(replica.converted.batches(), [2], "a page is converted in one call");
}

/// The hashed address of a document in the index of OpenAPI v3.
async fn document_url(replica: &Replica, path: &str) -> Option<String> {
    let index: Value = serde_json::from_str(&replica.raw("/openapi/v3").await).expect("the index is JSON");
    index["paths"][path]["serverRelativeURL"].as_str().map(str::to_owned)
}

async fn document_urls(replica: &Replica) -> [Option<String>; 2] {
    [
        document_url(replica, "apis/apps/v1").await,
        document_url(replica, "apis/example.com/v1").await,
    ]
}

async fn is_replaced(group: &Group) {
    let watch = |resource: &'static str| {
        group.each(move |replica| async move { replica.background(&["get", resource, "-w", "-o", "name"]) })
    };
    let mut in_v1alpha1 = watch("widgets.v1alpha1.example.com").await;
    let mut in_v1 = watch("widgets.v1.example.com").await;
    for watch in in_v1alpha1.iter().chain(&in_v1) {
        eventually(|| watch.printed().contains("widget.example.com/a")).await;
    }
    let before = group.each(document_urls).await;
    group.replace(later).await;
    for watch in &mut in_v1alpha1 {
        watch.ended().await;
    }

    let body = r#""spec": {"size": "wide", "colour": "red"}"#;
    group.replicas[1].apply("example.com/v2", "c", body).await;
    for watch in &mut in_v1 {
        eventually(|| watch.printed().contains("widget.example.com/c")).await;
        watch.kill().await;
    }
    group.each(is_described_anew).await;
    let after = group.each(document_urls).await;
    assert!(
        after.iter().all(|urls| urls == &after[0]),
        "replicas agree on their documents: {after:?}"
    );
    assert_eq!(before[0][0], after[0][0], "documents of others stay as they are");
    assert_ne!(before[0][1], after[0][1]);
}

async fn is_described_anew(replica: &Replica) {
    let table = replica.ok(&["get", "widgets.v1.example.com"]).await;
    let cells: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[0], ["NAME", "SIZE", "COLOUR"]);
    assert_eq!(cells[1][..2], ["a", "huge"]);
    assert_eq!(cells[3], ["c", "wide", "red"]);
    let path = "/apis/example.com/v1alpha1/widgets";
    assert!(replica.kubectl(&["get", "--raw", path]).await.is_err());
    let discovery = replica.raw("/apis/example.com").await;
    assert!(
        discovery.contains("example.com/v2") && !discovery.contains("v1alpha1"),
        "{discovery}"
    );
    let v3 = replica.raw("/openapi/v3/apis/example.com/v1").await;
    assert!(v3.contains("colour"), "{v3}");
    let explained = replica.ok(&["explain", "widgets.spec"]).await;
    assert!(explained.contains("colour"), "{explained}");
}

/// Stores new writes in the newer version; the other objects stay as they are and are shown all the same.
async fn is_stored_in_another_version(group: &Group) {
    group.replace(last).await;
    let body = r#""spec": {"size": "wide", "colour": "blue"}"#;
    group.replicas[2].apply("example.com/v1", "c", body).await;
    assert_eq!(group.stored_version("a").await.as_deref(), Some("example.com/v1"));
    assert_eq!(group.stored_version("c").await.as_deref(), Some("example.com/v2"));
    for version in ["v1", "v2"] {
        let path = format!("/apis/example.com/{version}/widgets");
        for list in group.each(|replica| replica.raw(&path)).await {
            let list: Value = serde_json::from_str(&list).expect("a list is JSON");
            assert_eq!(list["apiVersion"], format!("example.com/{version}"));
            let sizes: Vec<_> = list["items"].as_array().into_iter().flatten().collect();
            let sizes: Vec<_> = sizes.into_iter().map(|object| &object["spec"]["size"]).collect();
            assert_eq!(sizes, ["huge", "tiny", "wide"], "{list}");
            assert_eq!(list["items"][2]["spec"]["colour"], "blue", "{list}");
        }
    }
}

/// The objects stay in the store, for a later definition of the resource.
async fn is_removed(group: &Group) {
    let mut watches = group
        .each(|replica| async { replica.background(&["get", "widgets.v1.example.com", "-w", "-o", "name"]) })
        .await;
    for watch in &watches {
        eventually(|| watch.printed().contains("widget.example.com/a")).await;
    }
    for replica in &group.replicas {
        let name = first(&replica.converted).resource.clone();
        replica.director.remove(&name).await.expect("the director answers");
    }
    for watch in &mut watches {
        watch.ended().await;
    }
    group.each(is_unknown).await;
    assert!(group.stored_version("a").await.is_some());

    group.install(last).await;
    for list in group.each(|replica| replica.raw(WIDGETS)).await {
        assert!(list.contains(r#""size":"huge""#), "{list}");
    }
}

async fn is_unknown(replica: &Replica) {
    let gone = replica.kubectl(&["get", "--raw", WIDGETS]).await;
    assert!(gone.is_err_and(|error| error.contains("could not find the requested resource")));
    let groups = replica.raw("/apis").await;
    assert!(!groups.contains("example.com"), "{groups}");
    let v2 = replica.raw("/openapi/v2").await;
    assert!(!v2.contains("com.example"));
    assert_eq!(document_url(replica, "apis/example.com/v1").await, None);
}
