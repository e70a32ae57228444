//! Resources that come, change and go while the server runs: what a client of it sees, by kubectl.

mod in_process;
mod widgets;

use std::{sync::Arc, time::Duration};

use trireme_actors::{testkit::run_in_real_time, topology::Topology};

use self::{
    in_process::{Server, eventually},
    widgets::{Converted, WidgetSource, definition},
};

/// A definition as it is at first, and as it is later: with a column and a version more, and one version less.
fn first(converted: &Converted) -> Arc<trireme_registry::ResourceDefinition> {
    definition(&["v1", "v1alpha1"], &["size"], WidgetSource::new("size"), converted)
}

fn later(converted: &Converted) -> Arc<trireme_registry::ResourceDefinition> {
    definition(
        &["v1", "v2"],
        &["size", "colour"],
        WidgetSource::new("colour"),
        converted,
    )
}

#[test]
fn a_resource_is_installed_used_replaced_and_removed_while_the_server_runs() {
    run_in_real_time(Topology::trireme(), |kit| async move {
        let server = Server::start(&kit.system).await;
        let converted = Converted::default();
        let director = &server.director;
        assert!(server.kubectl(&["get", "widgets"]).await.is_err(), "there are none yet");

        director.install(vec![first(&converted)]).await.expect("it is new");
        used(&server, &converted).await;
        replaced(&server, &converted).await;

        let mut watch = server.background(&["get", "widgets.v1.example.com", "-w", "-o", "name"]);
        eventually(|| watch.printed().contains("widget.example.com/a")).await;
        director
            .remove(&first(&converted).resource)
            .await
            .expect("the director answers");
        watch.ended().await;
        let gone = server.kubectl(&["get", "--raw", "/apis/example.com/v1/widgets"]).await;
        assert!(gone.is_err_and(|error| error.contains("could not find the requested resource")));
        let groups = server.raw("/apis").await;
        assert!(!groups.contains("example.com"), "{groups}");
    });
}

async fn used(server: &Server, converted: &Converted) {
    let resources = server.ok(&["api-resources", "--api-group=example.com"]).await;
    assert!(
        resources.contains("widgets") && resources.contains("example.com/v1"),
        "{resources}"
    );
    let mut watch = server.background(&[
        "get",
        "widgets.v1alpha1.example.com",
        "-w",
        "-o",
        "jsonpath={.metadata.name}={.oldSpec.size} ",
    ]);

    server
        .apply("example.com/v1", "a", r#""spec": {"size": "large"}"#)
        .await;
    server
        .apply("example.com/v1alpha1", "b", r#""oldSpec": {"size": "small"}"#)
        .await;
    let stored = server.raw("/apis/example.com/v1/namespaces/default/widgets/b").await;
    assert!(stored.contains(r#""spec":{"size":"small"}"#), "{stored}");
    let old = server
        .raw("/apis/example.com/v1alpha1/namespaces/default/widgets/a")
        .await;
    assert!(old.contains(r#""oldSpec":{"size":"large"}"#), "{old}");
    eventually(|| watch.printed().contains("a=large") && watch.printed().contains("b=small")).await;

    converted.forget();
    let list = server.raw("/apis/example.com/v1alpha1/widgets").await;
    assert_eq!(list.matches(r#""oldSpec":{"#).count(), 2, "{list}");
    assert_eq!(converted.batches(), [2], "a page is converted in one call");

    let patch = [
        "patch",
        "widgets.v1alpha1.example.com",
        "b",
        "--type=merge",
        "-p",
        r#"{"oldSpec":{"size":"tiny"}}"#,
    ];
    server.ok(&patch).await;
    let stored = server.raw("/apis/example.com/v1/namespaces/default/widgets/b").await;
    assert!(stored.contains(r#""spec":{"size":"tiny"}"#), "{stored}");
    eventually(|| watch.printed().contains("b=tiny")).await;

    let table = server.ok(&["get", "widgets"]).await;
    assert!(
        table.contains("NAME") && table.contains("SIZE") && table.contains("large"),
        "{table}"
    );
    let v3 = server.raw("/openapi/v3/apis/example.com/v1").await;
    assert!(
        v3.contains("com.example.v1.Widget") && v3.contains("WidgetList"),
        "{v3}"
    );
    let v2 = server.raw("/openapi/v2").await;
    assert!(v2.contains("com.example.v1.Widget"));
    let explained = server.ok(&["explain", "widgets.spec"]).await;
    assert!(explained.contains("size"), "{explained}");
    watch.kill().await;
}

async fn replaced(server: &Server, converted: &Converted) {
    let mut in_v1alpha1 = server.background(&["get", "widgets.v1alpha1.example.com", "-w", "-o", "name"]);
    let mut in_v1 = server.background(&["get", "widgets.v1.example.com", "-w", "-o", "name"]);
    for watch in [&mut in_v1alpha1, &mut in_v1] {
        eventually(|| watch.printed().contains("widget.example.com/a")).await;
    }
    let before = server.raw("/openapi/v3").await;
    server.director.replace(later(converted)).await.expect("it is served");
    in_v1alpha1.ended().await;

    let body = r#""spec": {"size": "huge", "colour": "red"}"#;
    server.apply("example.com/v2", "c", body).await;
    eventually(|| in_v1.printed().contains("widget.example.com/c")).await;
    in_v1.kill().await;
    let table = server.ok(&["get", "widgets.v1.example.com"]).await;
    assert!(
        table.contains("COLOUR") && table.contains("red") && table.contains("large"),
        "{table}"
    );
    let old = server
        .kubectl(&["get", "--raw", "/apis/example.com/v1alpha1/widgets"])
        .await;
    assert!(old.is_err());
    let discovery = server.raw("/apis/example.com").await;
    assert!(
        discovery.contains("example.com/v2") && !discovery.contains("v1alpha1"),
        "{discovery}"
    );
    let after = server.raw("/openapi/v3").await;
    let url = |index: &str, path: &str| {
        let index: serde_json::Value = serde_json::from_str(index).expect("the index is JSON");
        index["paths"][path]["serverRelativeURL"].as_str().map(str::to_owned)
    };
    assert_eq!(url(&before, "apis/apps/v1"), url(&after, "apis/apps/v1"));
    assert_ne!(url(&before, "apis/example.com/v1"), url(&after, "apis/example.com/v1"));
    let v3 = server.raw("/openapi/v3/apis/example.com/v1").await;
    assert!(v3.contains("colour"), "{v3}");
}

/// The time limit of anything.
const PATIENCE: Duration = Duration::from_secs(30);
