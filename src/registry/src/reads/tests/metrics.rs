//! The figures of caches and of the reads from them, as `/metrics` shows them.

use serde_json::json;
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::selector::{FieldSelector, LabelSelector};

use super::support::{STATE, events, open};
use crate::{
    fixtures::{ReadSide, get, list, metered, metrics_page, pods, put, renamed, watch},
    request::{Freshness, WatchStart},
};

/// The lines of a page that begin with one of the prefixes.
fn shown(plural: &str, prefixes: &[&str]) -> Vec<String> {
    let mut lines = metered(&metrics_page(), plural);
    lines.retain(|line| prefixes.iter().any(|prefix| line.starts_with(prefix)));
    lines
}

#[test]
fn lists_are_counted_by_index_with_what_they_looked_at() {
    run(Topology::trireme(), |kit| async move {
        metrics_page();
        let side = ReadSide::start(&kit, vec![renamed(pods(), "listed")]).await;
        let reader = side.reader("listed");
        for (key, node) in [("a/1", "n1"), ("a/2", "n2"), ("b/1", "n1")] {
            let fields = json!({"spec": {"nodeName": node}, "labels": {"node": node}});
            side.put("listed", key, fields).await;
        }
        reader.list(list("a")).await.expect("lists work");
        let mut by_node = list("");
        by_node.selection.fields = FieldSelector::parse("spec.nodeName=n1").expect("it is sound");
        by_node.selection.labels = LabelSelector::parse("node=n2").expect("it is sound");
        reader.list(by_node).await.expect("lists work");
        let mut any = list("");
        any.options.freshness = Freshness::Any;
        any.options.limit = 1;
        reader.list(any).await.expect("lists work");
        let expected = [
            "apiserver_cache_list_fetched_objects_total{index=\"\"} 3",
            "apiserver_cache_list_fetched_objects_total{index=\"f:spec.nodeName\"} 2",
            "apiserver_cache_list_returned_objects_total 3",
            "apiserver_cache_list_total{index=\"\"} 2",
            "apiserver_cache_list_total{index=\"f:spec.nodeName\"} 1",
            "apiserver_watch_cache_consistent_read_total{success=\"true\",fallback=\"false\"} 2",
        ];
        let prefixes = ["apiserver_cache_list", "apiserver_watch_cache_consistent"];
        assert_eq!(shown("listed", &prefixes), expected);
    });
}

#[test]
fn lists_that_go_to_the_store_are_counted_with_loads() {
    run(Topology::trireme(), |kit| async move {
        metrics_page();
        let (_dir, store) = crate::fixtures::open_store();
        let info = renamed(pods(), "archived");
        for number in 0..30 {
            let labels = json!({"labels": {"last": (number == 29).to_string()}});
            put(&*store, &info, &format!("ns/{number:02}"), labels).await;
        }
        let then = trireme_storage::Storage::read_index(&*store).await.expect("it answers");
        for _ in 0..200 {
            put(&*store, &info, "ns/00", json!({})).await;
        }
        let side = ReadSide::start_over(&kit.system, store.clone(), vec![info]).await;
        let mut old = list("ns");
        old.options.freshness = Freshness::Exact(then);
        old.selection.labels = LabelSelector::parse("last=true").expect("it is sound");
        let page = side.reader("archived").list(old).await.expect("the store has it");
        assert_eq!(page.items.len(), 1);
        let expected = [
            "apiserver_storage_list_evaluated_objects_total 60",
            "apiserver_storage_list_fetched_objects_total 60",
            "apiserver_storage_list_returned_objects_total 31",
            "apiserver_storage_list_total 2",
        ];
        assert_eq!(shown("archived", &["apiserver_storage_list"]), expected);
        assert_eq!(shown("archived", &["apiserver_cache_list"]), [""; 0]);
    });
}

#[test]
fn events_are_counted_on_their_way_to_watchers() {
    run(Topology::trireme(), |kit| async move {
        metrics_page();
        let side = ReadSide::start(&kit, vec![renamed(pods(), "watched")]).await;
        let reader = side.reader("watched");
        let first = side.put("watched", "ns/a", json!({})).await;
        side.put("watched", "ns/b", json!({})).await;
        side.put("watched", "ns/b", json!({"x": 1})).await;
        let last = side.delete("watched", "ns/a").await;
        side.put("watched", "ns/c", json!({})).await;
        reader.get(get("ns/c")).await.expect("it is there");
        events(&mut open(&reader, watch("", STATE)).await, 2).await;
        events(&mut open(&reader, watch("", WatchStart::After(first))).await, 4).await;
        reader.show_state();
        let expected = [
            "apiserver_init_events_total 6".to_owned(),
            "apiserver_storage_events_received_total 5".to_owned(),
            "apiserver_watch_cache_events_dispatched_total 5".to_owned(),
            "apiserver_watch_cache_events_received_total 5".to_owned(),
            "apiserver_watch_cache_initializations_total 1".to_owned(),
            format!("apiserver_watch_cache_resource_version {}", last + 1),
        ];
        let prefixes = [
            "apiserver_init",
            "apiserver_storage_events",
            "apiserver_watch_cache_events",
            "apiserver_watch_cache_init",
            "apiserver_watch_cache_resource",
        ];
        assert_eq!(shown("watched", &prefixes), expected);
        // The get, and the state of the first watch.
        let waits = shown("watched", &["apiserver_watch_cache_read_wait_seconds_count"]);
        assert_eq!(waits, ["apiserver_watch_cache_read_wait_seconds_count 2"]);
    });
}

#[test]
fn objects_are_shown_with_those_that_cannot_be_read() {
    run(Topology::trireme(), |kit| async move {
        metrics_page();
        let side = ReadSide::start(&kit, vec![renamed(pods(), "kept")]).await;
        side.put("kept", "ns/a", json!({})).await;
        side.put_bytes("kept", "ns/b", b"?").await;
        let reader = side.reader("kept");
        reader.get(get("ns/a")).await.expect("it is there");
        reader.show_state();
        let expected = [
            "apiserver_resource_objects 2".to_owned(),
            format!("apiserver_resource_size_estimate_bytes {}", reader.size().1),
        ];
        assert_eq!(shown("kept", &["apiserver_resource"]), expected);
        assert!(reader.size().1 > 0);
        assert!(metrics_page().contains("apiserver_storage_objects{resource=\"kept.metered\"} 2\n"));
    });
}
