use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use serde_json::json;
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::Reason;

use super::support::{Bench, MODIFIED, Rules, answered, refused, thing, things};
use crate::request::DeleteOptions;

#[test]
fn a_put_must_know_the_object_that_it_replaces() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let first = bench.made("a", json!({}), json!({"spec": {"count": 1}})).await;
        let put = |revision: &str, count| {
            let metadata = json!({"resourceVersion": revision});
            bench.put("a", thing("a", metadata, json!({"spec": {"count": count}})))
        };
        let second = put(&first.revision.to_string(), 2)
            .await
            .expect("the revision is right");
        assert!(!second.created);
        let object = answered(&second);
        assert_eq!(
            (&object["spec"]["count"], &object["metadata"]["generation"]),
            (&json!(2), &json!(2))
        );
        assert_eq!(object["metadata"]["uid"], *first.uid);
        let stale = put(&first.revision.to_string(), 3).await;
        assert_eq!(refused(stale), (Reason::Conflict, MODIFIED.to_owned()));
        assert_eq!(refused(put("x", 3).await).0, Reason::BadRequest);
        for (revision, count) in [("0", 4), ("", 5)] {
            let written = put(revision, count).await.expect("it is unconditional");
            assert_eq!(answered(&written)["spec"]["count"], count);
        }
        assert_eq!(bench.now("a").await.expect("it is there")["spec"]["count"], 5);
    });
}

#[test]
fn a_put_from_a_state_that_is_surely_over_is_refused_without_asking_the_store() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, things(Rules::default(), None)).await;
        let first = bench.made("a", json!({}), json!({"spec": {"count": 1}})).await;
        let put = |count| {
            let metadata = json!({"resourceVersion": first.revision.to_string()});
            bench.put("a", thing("a", metadata, json!({"spec": {"count": count}})))
        };
        put(2).await.expect("the revision is right");
        let seen = bench.now("a").await.expect("it is there");
        assert_eq!(seen["spec"]["count"], 2, "the cache knows of the write, too");
        let gets = store.gets.load(Ordering::SeqCst);
        assert_eq!(refused(put(3).await), (Reason::Conflict, MODIFIED.to_owned()));
        assert_eq!(store.gets.load(Ordering::SeqCst), gets);
    });
}

#[test]
fn a_kind_may_insist_on_a_revision() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(
            &kit,
            Rules {
                needs_revision: true,
                ..Rules::default()
            },
        )
        .await;
        bench.made("a", json!({}), json!({})).await;
        let expected = "things.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified \
                    for an update";
        let put = bench.put("a", thing("a", json!({}), json!({"data": {"k": "v"}}))).await;
        assert_eq!(refused(put), (Reason::Invalid, expected.to_owned()));
    });
}

#[test]
fn a_put_is_for_the_object_that_it_names() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let item = bench.made("a", json!({}), json!({})).await;
        let other = bench.put("a", thing("a", json!({"uid": "u"}), json!({}))).await;
        let expected = format!(
            "Operation cannot be fulfilled on things.example.com \"a\": StorageError: invalid object, Code: 4, Key: \
             /registry/things/ns/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: \
             u, UID in object meta: {}",
            item.uid
        );
        assert_eq!(refused(other), (Reason::Conflict, expected));
        let cases = [
            (
                thing("b", json!({}), json!({})),
                "the name of the object (b) does not match the name on the URL (a)",
            ),
            (
                thing("", json!({}), json!({})),
                "the name of the object (a based on URL) was undeterminable: name must be provided",
            ),
            (
                thing("a", json!({"namespace": "other"}), json!({})),
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(
                refused(bench.put("a", object).await),
                (Reason::BadRequest, expected.to_owned())
            );
        }
        let missing = bench.put("b", thing("b", json!({}), json!({}))).await;
        assert_eq!(
            refused(missing),
            (Reason::NotFound, "things.example.com \"b\" not found".to_owned())
        );
        let (reason, _) = refused(bench.put("b", thing("b", json!({"uid": "u"}), json!({}))).await);
        assert_eq!(reason, Reason::NotFound, "a uid matters where a PUT could create");
    });
}

#[test]
fn a_put_that_changes_nothing_writes_nothing() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let item = bench.made("a", json!({}), json!({"data": {"k": "v"}})).await;
        let written = bench
            .put("a", thing("a", json!({}), json!({"data": {"k": "v"}})))
            .await
            .expect("it is sound");
        assert_eq!(answered(&written), super::support::tree(&item));
        assert_eq!(bench.revision().await, item.revision);
    });
}

#[test]
fn sixteen_who_count_lose_no_step() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({"spec": {"count": 0}})).await;
        let one_more = || async {
            loop {
                let mut object = bench.now("a").await.expect("it is there");
                let count = object["spec"]["count"].as_i64().expect("it is a number");
                object["spec"]["count"] = (count + 1).into();
                match bench.put("a", object).await {
                    Ok(_) => return,
                    Err(error) => assert_eq!((error.reason, &*error.message), (Reason::Conflict, MODIFIED)),
                }
            }
        };
        join_all((0..16).map(|_| one_more())).await;
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(
            (&object["spec"]["count"], &object["metadata"]["generation"]),
            (&json!(16), &json!(17))
        );
    });
}

#[test]
fn a_kind_may_be_created_by_put() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(
            &kit,
            Rules {
                put_creates: true,
                ..Rules::default()
            },
        )
        .await;
        let put = |metadata| bench.put("a", thing("a", metadata, json!({"data": {"k": "v"}})));
        let (reason, message) = refused(put(json!({"uid": "u"})).await);
        assert_eq!(reason, Reason::Conflict);
        assert!(
            message.ends_with("UID in precondition: u, UID in object meta: "),
            "{message}"
        );
        let all = join_all((0..8).map(|_| put(json!({})))).await;
        let created = all
            .into_iter()
            .map(|written| written.expect("all may put"))
            .filter(|written| written.created);
        assert_eq!(created.count(), 1, "one creates it, the others replace it");
        bench
            .delete("a", DeleteOptions::default())
            .await
            .expect("it can be deleted");
        assert!(put(json!({})).await.expect("it is gone").created);
    });
}

/// An object that can be created can be changed and deleted, however deep it nests.
#[test]
fn a_deep_object_is_no_dead_end() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let deep = (0..500).fold(json!(1), |value, _| json!({ "a": value }));
        bench.made("a", json!({}), json!({"spec": {"selector": deep}})).await;
        let put = bench.put("a", thing("a", json!({}), json!({"data": {"k": "v"}}))).await;
        assert_eq!(answered(&put.expect("it can be changed"))["data"]["k"], "v");
    });
}

#[test]
fn warnings_about_a_body_come_with_the_error_that_follows() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({"spec": {"count": 1}})).await;
        let alien = |name: &str, metadata| thing(name, metadata, json!({"alien": 1}));
        let stale = json!({"resourceVersion": "1"});
        let refusals = [
            bench.put("a", alien("a", stale.clone())).await,
            bench.put("b", alien("b", stale)).await,
            bench.put("a", alien("other", json!({}))).await,
            bench.create(alien("a", json!({}))).await,
            bench.create(alien("c", json!({"resourceVersion": "5"}))).await,
        ];
        for refusal in refusals {
            let error = refusal.expect_err("it is refused");
            assert_eq!(error.warnings, [r#"unknown field "alien""#], "{}", error.message);
        }
    });
}
