use std::time::Duration;

use serde_json::json;
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::{
    ApiError, Reason,
    selector::{FieldSelector, LabelSelector},
};
use trireme_storage::Storage;

use crate::{
    fixtures::{ReadSide, configmaps, get, list, nodes},
    reads::{ListPage, Reader},
    request::{Freshness, ListRequest},
};

fn names(page: &ListPage) -> Vec<&str> {
    page.items.iter().map(|item| item.name()).collect()
}

fn page(namespace: &str, limit: usize, token: Option<&str>) -> ListRequest {
    let mut request = list(namespace);
    request.options.limit = limit;
    request.options.continue_token = token.map(str::to_owned);
    request
}

async fn read(reader: &Reader, request: ListRequest) -> Result<ListPage, ApiError> {
    reader.list(request).await
}

#[test]
fn a_read_without_a_version_sees_every_write_before_it() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps(), nodes()]).await;
        for number in 0..200 {
            let written = side
                .put("configmaps", "ns/a", json!({"data": {"n": number.to_string()}}))
                .await;
            let found = side
                .reader("configmaps")
                .get(get("ns/a"))
                .await
                .expect("it was written");
            assert_eq!(found.revision, written);
            let elsewhere = side.put("nodes", "n", json!({})).await;
            let page = side.reader("configmaps").list(list("ns")).await.expect("lists work");
            assert!(
                page.revision >= elsewhere,
                "a list is as new as the store, whichever server wrote last"
            );
        }
        side.delete("configmaps", "ns/a").await;
        let gone = side
            .reader("configmaps")
            .get(get("ns/a"))
            .await
            .expect_err("it was deleted");
        assert_eq!(
            (gone.reason, &*gone.message),
            (Reason::NotFound, "configmaps \"a\" not found")
        );
        assert!(side.reader("nodes").get(get("n")).await.is_ok());
    });
}

#[test]
fn pages_of_one_list_are_of_one_state() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        for number in 0..20 {
            side.put("configmaps", &format!("ns/{number:02}"), json!({})).await;
            side.put("configmaps", &format!("other/{number:02}"), json!({})).await;
        }
        let whole = reader.list(list("ns")).await.expect("lists work");
        let first = reader.list(page("ns", 6, None)).await.expect("lists work");
        assert_eq!(first.remaining, Some(14));
        let mut seen: Vec<(String, i64)> = Vec::new();
        let mut next = Some(first);
        let mut churn = 0;
        while let Some(this) = next {
            assert_eq!(this.revision, whole.revision);
            seen.extend(this.items.iter().map(|item| (item.name().to_owned(), item.revision)));
            for _ in 0..5 {
                churn += 1;
                side.put("configmaps", &format!("ns/{:02}", churn % 20), json!({}))
                    .await;
                side.put("configmaps", &format!("ns/{churn:02}x"), json!({})).await;
            }
            side.delete("configmaps", &format!("ns/{churn:02}x")).await;
            next = match this.continue_token {
                Some(token) => Some(reader.list(page("ns", 6, Some(&token))).await.expect("lists work")),
                None => None,
            };
        }
        let expected: Vec<_> = whole
            .items
            .iter()
            .map(|item| (item.name().to_owned(), item.revision))
            .collect();
        assert_eq!(seen, expected);
    });
}

#[test]
fn the_shape_of_pages() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        for number in 0..5 {
            let parity = if number % 2 == 0 { "even" } else { "odd" };
            side.put("configmaps", &format!("ns/c{number}"), json!({"labels": {"p": parity}}))
                .await;
        }
        let shape = async |limit, labels: &str, fields: &str| {
            let mut request = page("ns", limit, None);
            request.selection.labels = LabelSelector::parse(labels).expect("it is sound");
            request.selection.fields = FieldSelector::parse(fields).expect("it is sound");
            let page = read(&reader, request).await.expect("lists work");
            let names = names(&page).join(" ");
            (names, page.continue_token.is_some(), page.remaining)
        };
        let is = |names: &str, more, remaining| (names.to_owned(), more, remaining);
        assert_eq!(shape(2, "", "").await, is("c0 c1", true, Some(3)));
        assert_eq!(shape(5, "", "").await, is("c0 c1 c2 c3 c4", false, None));
        assert_eq!(shape(1, "p=even", "").await, is("c0", true, None));
        assert_eq!(shape(2, "p=odd", "").await, is("c1 c3", true, None));
        assert_eq!(shape(1, "p=none", "").await, is("", false, None));
        assert_eq!(shape(0, "p=none", "").await, is("", false, None));
        assert_eq!(shape(1, "", "metadata.name!=c0").await, is("c1", true, None));
        assert_eq!(shape(0, "", "metadata.name=c1").await, is("c1", false, None));
        assert_eq!(
            shape(0, "", "metadata.name=c1,metadata.name=c2").await,
            is("", false, None)
        );
        assert_eq!(shape(0, "", "metadata.namespace=zz").await, is("", false, None));
        let elsewhere = reader.list(list("none")).await.expect("lists work");
        assert!(elsewhere.items.is_empty());
    });
}

#[test]
fn an_exact_list_is_the_state_of_then() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        side.put("configmaps", "ns/a", json!({})).await;
        let then = side.put("configmaps", "ns/b", json!({})).await;
        side.delete("configmaps", "ns/a").await;
        side.put("configmaps", "ns/c", json!({})).await;
        let mut request = list("ns");
        request.options.freshness = Freshness::Exact(then);
        let page = reader.list(request).await.expect("history is kept");
        assert_eq!((names(&page), page.revision), (vec!["a", "b"], then));
        let now = reader.list(list("ns")).await.expect("lists work");
        assert_eq!(names(&now), ["b", "c"]);
    });
}

#[test]
fn older_states_come_from_the_store_and_gone_ones_are_expired() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = crate::fixtures::open_store();
        let info = configmaps();
        for number in 0..30 {
            let labels = json!({"labels": {"p": if number % 2 == 0 { "even" } else { "odd" }}});
            crate::fixtures::put(&*store, &info, &format!("ns/{number:02}"), labels).await;
        }
        let then = store.read_index().await.expect("the store answers");
        for number in 0..300 {
            crate::fixtures::put(&*store, &info, &format!("ns/{:02}", number % 40), json!({})).await;
        }
        // The caches start with less history than that.
        let side = ReadSide::start_over(&kit.system, store.clone(), vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let old = |limit, token: Option<&str>, labels: &str| {
            let mut request = page("ns", limit, token);
            request.options.freshness = Freshness::Exact(then);
            request.selection.labels = LabelSelector::parse(labels).expect("it is sound");
            request
        };
        let first = reader.list(old(12, None, "")).await.expect("the store has it");
        assert!(
            reader.cache.snapshot().log.start() > then,
            "the cache cannot have answered"
        );
        assert_eq!(
            (first.items.len(), first.remaining, first.revision),
            (12, Some(18), then)
        );
        let token = first.continue_token.expect("there is more");
        let second = reader.list(old(0, Some(&token), "")).await.expect("the store has it");
        assert_eq!(
            second.items.iter().map(|item| item.name()).collect::<Vec<_>>(),
            (12..30).map(|n| format!("{n:02}")).collect::<Vec<_>>()
        );
        assert!(second.continue_token.is_none());
        let odd = reader.list(old(0, None, "p=odd")).await.expect("the store has it");
        assert_eq!((odd.items.len(), odd.revision), (15, then));

        store.compact(then + 1).await.expect("it can be compacted");
        let error = reader.list(old(5, None, "")).await.expect_err("it is gone");
        assert_eq!(error.message, "The resourceVersion for the provided list is too old.");
        let error = reader.list(page("ns", 5, Some(&token))).await.expect_err("it is gone");
        assert_eq!(error.reason, Reason::Expired);
        assert!(
            error.message.starts_with("The provided continue parameter is too old"),
            "{}",
            error.message
        );
        let fresh = error.continue_token.expect("there is a way to go on");
        let rest = reader
            .list(page("ns", 5, Some(&fresh)))
            .await
            .expect("it goes on at the newest state");
        assert_eq!(names(&rest), ["12", "13", "14", "15", "16"]);
        assert!(rest.revision > then);
    });
}

#[test]
fn what_the_store_has_forgotten_expires_though_the_cache_knows_it() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let (reader, store) = (side.reader("configmaps"), &side.store);
        for name in ["a", "b", "c"] {
            side.put("configmaps", &format!("ns/{name}"), json!({})).await;
        }
        let first = reader.list(page("ns", 1, None)).await.expect("lists work");
        let token = first.continue_token.expect("there is more");
        let now = side.put("configmaps", "ns/d", json!({})).await;
        let second = reader.list(page("ns", 1, Some(&token))).await.expect("it is kept");
        assert_eq!((names(&second), second.revision), (vec!["b"], first.revision));
        let exact = |revision| {
            let mut request = list("ns");
            request.options.freshness = Freshness::Exact(revision);
            request
        };

        store.compact(now).await.expect("it can be compacted");
        assert!(
            reader.cache.snapshot().log.start() < first.revision,
            "the cache could have answered"
        );
        let error = reader.list(exact(first.revision)).await.expect_err("it is gone");
        assert_eq!(error.message, "The resourceVersion for the provided list is too old.");
        reader.list(exact(now)).await.expect("the horizon itself is kept");
        let error = reader.list(page("ns", 1, Some(&token))).await.expect_err("it is gone");
        assert_eq!(error.reason, Reason::Expired);
        let fresh = error.continue_token.expect("there is a way to go on");
        let rest = reader.list(page("ns", 9, Some(&fresh))).await.expect("it goes on");
        assert_eq!((names(&rest), rest.revision), (vec!["b", "c", "d"], now));
    });
}

#[test]
fn junk_and_foreign_tokens_stay_within_the_collection() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps(), nodes()]).await;
        let reader = side.reader("configmaps");
        side.put("nodes", "a", json!({})).await;
        side.put("nodes", "b", json!({})).await;
        side.put("configmaps", "other/x", json!({})).await;
        let error = reader
            .list(page("ns", 1, Some("garbage")))
            .await
            .expect_err("it is junk");
        assert_eq!(error.reason, Reason::BadRequest);
        let of_nodes = side.reader("nodes").list(page("", 1, None)).await.expect("lists work");
        let token = of_nodes.continue_token.expect("there is more");
        let page = reader
            .list(page("ns", 5, Some(&token)))
            .await
            .expect("it is well-formed");
        assert!(
            page.items.is_empty(),
            "nothing of another namespace is shown: {:?}",
            names(&page)
        );
    });
}

#[test]
fn a_version_from_the_future_is_waited_for_and_refused() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        let now = side.put("configmaps", "ns/a", json!({})).await;
        reader.list(list("ns")).await.expect("the cache is loaded");
        let mut request = list("ns");
        request.options.freshness = Freshness::NotOlderThan(now + 50);
        let waiting = tokio::spawn(async move { reader.list(request).await });
        kit.clock.elapse(Duration::from_secs(3)).await;
        let error = waiting.await.expect("no panic").expect_err("it never came");
        assert_eq!(error.reason, Reason::Timeout);
        assert_eq!(
            error.message,
            format!("Timeout: Too large resource version: {}, current: {now}", now + 50)
        );
    });
}

#[test]
fn any_version_will_do_when_zero_is_asked_for() {
    run(Topology::trireme(), |kit| async move {
        let side = ReadSide::start(&kit, vec![configmaps()]).await;
        let reader = side.reader("configmaps");
        side.put("configmaps", "ns/a", json!({})).await;
        reader.list(list("ns")).await.expect("the cache has it now");
        let mut request = list("");
        request.options.freshness = Freshness::Any;
        assert_eq!(names(&reader.list(request).await.expect("lists work")), ["a"]);
        assert!(reader.is_ready());
    });
}
