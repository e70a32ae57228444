use std::{ops::Bound, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use trireme_storage::{Event as StoreEvent, KeyValue, Revision};

use super::logic::{Backoff, CacheRoute, Loaded, Routes, into_turns, load_entries, route_events};
use crate::{
    definition::ResourceDefinition,
    encode,
    fixtures::{configmaps, metrics_page, nodes, object, pods, renamed, widgets_that_panic},
    watch_cache::CacheChange,
};

fn at(prefix: &str, info: ResourceDefinition) -> Arc<ResourceDefinition> {
    Arc::new(ResourceDefinition {
        storage_prefix: prefix.into(),
        ..info
    })
}

fn routes() -> Routes {
    routes_of([
        Arc::new(pods()),
        Arc::new(nodes()),
        at("/registry/services/specs", configmaps()),
        at("/registry/a/b", pods()),
    ])
}

fn routes_of<const N: usize>(resources: [Arc<ResourceDefinition>; N]) -> Routes {
    Routes::new(resources.map(|info| CacheRoute {
        info,
        items: Arc::default(),
    }))
}

fn entry(key: &str, value: &[u8], revision: Revision) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Bytes::copy_from_slice(value),
        create_revision: revision,
        mod_revision: revision,
    }
}

fn pod(name: &str, revision: Revision) -> KeyValue {
    let value = encode::object(&object(&pods(), &format!("ns/{name}"), json!({})));
    entry(&format!("/registry/pods/ns/{name}"), &value, revision)
}

#[test]
fn a_key_belongs_to_the_longest_prefix_of_whole_segments() {
    let routes = routes();
    let found = |key| routes.find(key).map(|route| route.info.storage_prefix.to_string());
    assert_eq!(found("/registry/pods/ns/a").as_deref(), Some("/registry/pods"));
    assert_eq!(found("/registry/nodes/a").as_deref(), Some("/registry/nodes"));
    assert_eq!(
        found("/registry/services/specs/ns/a").as_deref(),
        Some("/registry/services/specs")
    );
    assert_eq!(found("/registry/a/b/ns/x").as_deref(), Some("/registry/a/b"));
    assert_eq!(found("/registry/podsx/ns/a"), None);
    assert_eq!(found("/registry/services/endpoints/ns/a"), None);
    assert_eq!(found("compact_rev_key"), None);
}

#[test]
fn a_batch_is_sorted_by_resource_and_keeps_its_order() {
    let put = |entry| StoreEvent::Put { entry, previous: None };
    let node = entry(
        "/registry/nodes/n",
        &encode::object(&object(&nodes(), "n", json!({}))),
        6,
    );
    let gone = StoreEvent::Delete {
        key: "/registry/pods/ns/a".into(),
        revision: 7,
        previous: None,
    };
    let parts = route_events(
        &routes(),
        &[put(pod("a", 5)), put(node), gone, put(entry("/other", b"x", 8))],
    );
    let dispatched: Vec<_> = parts
        .iter()
        .map(|part| {
            (
                &*part.prefix,
                part.changes.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(
        dispatched,
        [("/registry/pods", vec![5, 7]), ("/registry/nodes", vec![6])]
    );
}

#[test]
fn what_cannot_be_read_is_kept_as_such() {
    let broken = StoreEvent::Put {
        entry: entry("/registry/pods/ns/a", b"junk", 9),
        previous: Some(pod("a", 5)),
    };
    let parts = route_events(&routes(), &[broken]);
    let changes = &parts.first().expect("it concerns the pods").changes;
    assert!(
        matches!(&changes[..], [(9, CacheChange::Unreadable(value))] if *value.key == *"ns/a" && value.revision == 9)
    );
    let mut loaded = Loaded::new();
    load_entries(
        &routes(),
        &[
            entry("/registry/pods/no-object-has-this-key", b"junk", 1),
            entry("/registry/pods/ns/x", b"junk", 1),
            pod("b", 2),
        ],
        &mut loaded,
    );
    let unreadable = loaded["/registry/pods"].unreadable_in((Bound::Unbounded, Bound::Unbounded));
    assert_eq!(unreadable.map(|value| &*value.key).collect::<Vec<_>>(), ["ns/x"]);
    assert_eq!(
        loaded["/registry/pods"]
            .range((Bound::Unbounded, Bound::Unbounded))
            .map(|item| item.key.to_string())
            .collect::<Vec<_>>(),
        ["ns/b"]
    );
}

#[test]
fn a_load_goes_on_where_there_can_be_keys_of_a_resource() {
    let next = [
        ("/registry/example.com/widgets/ns/w", Some("/registry/nodes/")),
        ("/registry/nodes-of-others/n", Some("/registry/nodes/")),
        ("/registry/nodes/n", Some("/registry/nodes/n\0")),
        ("/registry/nodes0", Some("/registry/pods/")),
        ("/registry/zebras/z", None),
    ];
    for (key, place) in next {
        assert_eq!(routes().next_place(key).as_deref(), place, "{key}");
    }
}

#[test]
fn a_decoder_that_panics_cannot_read_the_value() {
    metrics_page();
    let routes = routes_of([Arc::new(renamed(widgets_that_panic(), "panicking"))]);
    let value = br#"{"apiVersion":"example.com/v1alpha1","kind":"Widget","metadata":{"name":"w","namespace":"ns"},"oldSpec":{}}"#;
    let entry = entry("/registry/panicking/ns/w", value, 3);
    // A replica that panicked while it loads would do so at each start.
    let mut loaded = Loaded::new();
    load_entries(&routes, std::slice::from_ref(&entry), &mut loaded);
    let unreadable = loaded["/registry/panicking"].unreadable_in((Bound::Unbounded, Bound::Unbounded));
    let causes: Vec<_> = unreadable.map(|value| (&*value.key, &*value.cause)).collect();
    assert!(
        matches!(&causes[..], [("ns/w", cause)] if cause.contains("this conversion has a bug")),
        "{causes:?}"
    );

    let broken = StoreEvent::Put { entry, previous: None };
    let parts = route_events(&routes, &[broken]);
    let changes = &parts.first().expect("it concerns the widgets").changes;
    assert!(
        matches!(&changes[..], [(3, CacheChange::Unreadable(value))] if value.cause.contains("this conversion has a bug")),
        "{changes:?}"
    );
    let page = metrics_page();
    for counter in [
        "trireme_store_decoder_panics_total",
        "trireme_store_undecodable_objects_total",
    ] {
        let twice = format!("{counter}{{resource=\"panicking.metered\"}} 2\n");
        assert!(page.contains(&twice), "{page}");
    }
}

#[test]
fn turns_end_with_whole_revisions() {
    let change = |revision: Revision| {
        (
            revision,
            CacheChange::Delete {
                key: "ns/a".into(),
                revision,
            },
        )
    };
    let turns = into_turns(
        (1..=200)
            .map(|number| change(if number <= 90 { number } else { 91 + (number - 91) / 60 }))
            .collect(),
    );
    assert_eq!(turns.iter().map(|(changes, _)| changes.len()).sum::<usize>(), 200);
    let mut last = 0;
    for (changes, revision) in turns {
        let revisions: Vec<_> = changes
            .iter()
            .map(|change| match change {
                CacheChange::Delete { revision, .. } => *revision,
                CacheChange::Put(item) => item.revision,
                CacheChange::Unreadable(value) => value.revision,
            })
            .collect();
        assert!(revisions[0] > last, "a revision is split");
        assert_eq!(revisions.last(), Some(&revision));
        last = revision;
    }
}

#[test]
fn waits_grow_and_start_over() {
    let mut backoff = Backoff::default();
    let waits: Vec<_> = (0..8).map(|_| backoff.next(1.0)).collect();
    assert_eq!(waits[0], Duration::from_millis(50));
    assert_eq!(waits[1], Duration::from_millis(100));
    assert_eq!(waits[7], Duration::from_secs(2));
    backoff.reset();
    assert_eq!(backoff.next(0.0), Duration::from_millis(25));
}
