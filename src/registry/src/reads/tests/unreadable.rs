use std::{sync::Arc, time::SystemTime};

use serde_json::json;
use trireme_actors::{
    testkit::{eventually, run},
    topology::Topology,
};
use trireme_machinery::{ApiError, Reason, selector::FieldSelector};
use trireme_storage::{
    Storage,
    encryption::{
        CurrentProviders, EncryptedResources, EncryptedStore, EncryptionConfig, EncryptionProviders, KeyResources,
        KmsOptions, NamedKey, Provider, ReadableSignal, ResourceName, ShownKeyIds,
    },
};

use super::support::{STATE, events, labelled, open, until_error};
use crate::{
    event_kind::EventKind,
    fixtures::{ReadSide, configmaps, get, list, open_store, put, watch},
    request::{Freshness, ListRequest, WatchStart},
};

/// The keys that an error names.
fn named(error: &ApiError) -> Vec<&str> {
    assert_eq!(error.reason, Reason::StorageReadError, "{error}");
    let details = error.details.as_deref().expect("there are details");
    details.causes.iter().map(|cause| &*cause.field).collect()
}

fn at(namespace: &str, freshness: Freshness) -> ListRequest {
    let mut request = list(namespace);
    request.options.freshness = freshness;
    request
}

#[test]
fn reads_of_what_cannot_be_read_fail_and_name_it() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        side.put("configmaps", "ns0/a", json!({})).await;
        side.put("configmaps", "ns0/b", json!({})).await;
        let before = side.put("configmaps", "ns1/c", json!({})).await;
        let broken = side.put_bytes("configmaps", "ns0/a", b"junk").await;
        let key = ["/registry/configmaps/ns0/a"];

        let error = reader.get(get("ns0/a")).await.expect_err("it is unreadable");
        assert_eq!(named(&error), key);
        assert!(error.message.contains("corrupt object"), "{error}");
        assert!(reader.get(get("ns0/b")).await.is_ok());
        for request in [
            list(""),
            list("ns0"),
            at("ns0", Freshness::Any),
            at("", Freshness::Exact(broken)),
        ] {
            let error = reader.list(request).await.expect_err("it would have to be in the list");
            assert_eq!(named(&error), key);
        }
        assert_eq!(reader.list(list("ns1")).await.expect("it is elsewhere").items.len(), 1);
        let mut other = list("ns0");
        other.selection.fields = FieldSelector::exactly("metadata.name", "b");
        assert_eq!(reader.list(other).await.expect("it is another").items.len(), 1);
        let readable = reader.all_readable(Freshness::Latest).await.expect("the store answers");
        let names: Vec<&str> = readable.iter().map(|item| item.name()).collect();
        assert_eq!(names, ["b", "c"]);
        let was = reader
            .list(at("", Freshness::Exact(before)))
            .await
            .expect("it was readable then");
        assert_eq!(was.items.len(), 3);
        let error = reader
            .watch(watch("", STATE))
            .await
            .err()
            .expect("the state is not known");
        assert_eq!(named(&error), key);
        let unknown = reader.all_owned_by("u", "ns0", Freshness::Latest).await;
        assert_eq!(named(&unknown.expect_err("it may have the owner")), key);
        let elsewhere = reader.all_owned_by("u", "ns1", Freshness::Latest).await;
        assert!(elsewhere.is_ok_and(|owned| owned.is_empty()));

        side.put("configmaps", "ns0/a", json!({})).await;
        assert!(reader.get(get("ns0/a")).await.is_ok());
        assert_eq!(reader.list(list("")).await.expect("all is well").items.len(), 3);
        side.put_bytes("configmaps", "ns0/a", b"junk").await;
        side.delete("configmaps", "ns0/a").await;
        let gone = reader.get(get("ns0/a")).await.expect_err("it is gone");
        assert_eq!(gone.reason, Reason::NotFound);
        assert_eq!(reader.list(list("")).await.expect("all is well").items.len(), 2);
    });
}

#[test]
fn pages_fail_from_where_they_begin() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        for name in ["ns0/a", "ns0/b", "ns0/c"] {
            side.put("configmaps", name, json!({})).await;
        }
        let mut page = list("");
        page.options.limit = 1;
        let first = reader.list(page.clone()).await.expect("all is well");
        side.put_bytes("configmaps", "ns0/a", b"junk").await;
        page.options.continue_token = first.continue_token;
        let second = reader.list(page.clone()).await.expect("it was well then");
        assert_eq!(second.items.len(), 1);
        page.options.continue_token = None;
        assert_eq!(
            named(&reader.list(page).await.expect_err("it is broken now")),
            ["/registry/configmaps/ns0/a"]
        );
    });
}

#[test]
fn watches_end_where_an_object_is_unreadable() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        side.put("configmaps", "ns0/a", json!({"labels": {"p": "q"}})).await;
        let mut live = open(&reader, watch("", STATE)).await;
        let mut selecting = open(&reader, labelled(watch("ns0", STATE), "p=q")).await;
        let mut slow = open(&reader, watch("", WatchStart::Now(Freshness::Latest))).await;
        assert_eq!(events(&mut live, 1).await.len(), 1);
        assert_eq!(events(&mut selecting, 1).await.len(), 1);
        side.put("configmaps", "ns0/b", json!({})).await;
        assert_eq!(events(&mut live, 1).await.len(), 1);
        assert_eq!(events(&mut slow, 1).await.len(), 1);

        let broken = side.put_bytes("configmaps", "ns0/a", b"junk").await;
        let last = side.put("configmaps", "ns0/c", json!({})).await;
        assert!(reader.get(get("ns0/c")).await.is_ok(), "the cache has it all");
        for watcher in [&mut live, &mut selecting, &mut slow] {
            let (seen, error) = until_error(watcher).await;
            assert!(seen.is_empty(), "above all no deletion: {seen:?}");
            assert_eq!(error.reason, Reason::Expired);
        }
        let mut resumed = open(&reader, watch("", WatchStart::After(broken))).await;
        assert_eq!(
            events(&mut resumed, 1).await,
            [(EventKind::Added, "ns0/c".to_owned(), last)]
        );
    });
}

#[test]
fn a_watcher_that_was_busy_during_a_reload_notices_what_it_missed() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let mut busy = open(&reader, watch("", WatchStart::Now(Freshness::Latest))).await;
        side.put("configmaps", "ns0/a", json!({})).await;
        assert_eq!(events(&mut busy, 1).await.len(), 1);
        // The watcher is not read while history is lost and goes on.
        let next = reader.cache().snapshot().log.next_sequence();
        side.reload("configmaps").await;
        eventually("history is lost", || !reader.cache().snapshot().log.reaches(next)).await;
        side.put("configmaps", "ns0/b", json!({})).await;
        assert!(reader.get(get("ns0/b")).await.is_ok(), "the cache has it");
        let (seen, error) = until_error(&mut busy).await;
        assert!(seen.is_empty(), "{seen:?}");
        assert_eq!(error.reason, Reason::Expired);
    });
}

/// Keys of these bytes for all configmaps.
fn providers(keys: &[u8]) -> EncryptionProviders {
    let keys = keys.iter().map(|byte| NamedKey {
        name: format!("k{byte}"),
        secret: vec![*byte; 32].into(),
    });
    let configmaps = EncryptedResources {
        resources: vec![ResourceName::parse("configmaps")],
        providers: vec![Provider::Secretbox(keys.collect())],
    };
    let kms = KmsOptions {
        server: String::new(),
        wall: Arc::new(|| SystemTime::UNIX_EPOCH),
        readable: ReadableSignal::default(),
        key_ids: ShownKeyIds::default(),
    };
    let config = EncryptionConfig {
        resources: vec![configmaps],
    };
    EncryptionProviders::new(&config, &kms).expect("the configuration is sound")
}

fn encrypted(raw: &Arc<dyn Storage>, keys: &[u8]) -> (Arc<dyn Storage>, Arc<CurrentProviders>) {
    let current = CurrentProviders::new(providers(keys), ReadableSignal::default());
    let resources = KeyResources::new(
        "/registry",
        [("configmaps".to_owned(), ResourceName::parse("configmaps"))],
    );
    let store = EncryptedStore::new(raw.clone(), current.clone(), resources);
    (Arc::new(store), current)
}

/// From a load, and from an event.
#[test]
fn what_can_be_decrypted_later_is_read_again_then() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, raw) = open_store();
        let raw: Arc<dyn Storage> = raw;
        let (foreign, _) = encrypted(&raw, &[2]);
        let (store, current) = encrypted(&raw, &[1]);
        put(&*foreign, &configmaps(), "ns/loaded", json!({})).await;
        let side = ReadSide::start_over(&kit.system, store, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        side.put("configmaps", "ns/own", json!({})).await;
        put(&*foreign, &configmaps(), "ns/seen", json!({})).await;
        for name in ["ns/loaded", "ns/seen"] {
            let error = reader.get(get(name)).await.expect_err("its key is not there");
            assert_eq!(named(&error), [format!("/registry/configmaps/{name}")]);
        }
        let mut watcher = open(&reader, watch("", WatchStart::Now(Freshness::Latest))).await;
        current.replace(providers(&[1, 2]));
        // A list says what no event could.
        let (_, error) = until_error(&mut watcher).await;
        assert_eq!(error.reason, Reason::Expired);
        for name in ["ns/loaded", "ns/own", "ns/seen"] {
            reader.get(get(name)).await.expect("it is readable");
        }
    });
}
