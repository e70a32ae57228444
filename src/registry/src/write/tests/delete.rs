use serde_json::{Value, json};
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::{Reason, selector::LabelSelector};

use super::{
    store::Meddling,
    support::{Bench, Rules, answered, refused, thing, things},
};
use crate::{
    fixtures::target,
    request::{DeleteCollectionRequest, DeleteOptions, ListOptions, Propagation, Selection},
};

fn asking(propagation: Propagation) -> DeleteOptions {
    DeleteOptions {
        propagation: Some(propagation),
        ..DeleteOptions::default()
    }
}

fn within(seconds: i64) -> DeleteOptions {
    DeleteOptions {
        grace_period_seconds: Some(seconds),
        ..DeleteOptions::default()
    }
}

fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn what_nothing_holds_goes_at_once() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let item = bench.made("a", json!({}), json!({})).await;
        let deleted = bench.delete("a", DeleteOptions::default()).await.expect("it is there");
        assert!(deleted.removed && deleted.as_status);
        assert_eq!(deleted.object.uid, item.uid);
        assert_eq!(
            deleted.object.revision,
            bench.revision().await,
            "a deletion has a revision of its own"
        );
        assert_eq!(bench.now("a").await, None);
        let again = bench.delete("a", DeleteOptions::default()).await;
        assert_eq!(
            refused(again),
            (Reason::NotFound, "things.example.com \"a\" not found".to_owned())
        );
    });
}

#[test]
fn a_delete_may_be_for_one_incarnation_or_state_only() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let item = bench.made("a", json!({}), json!({})).await;
        let uid = |uid: &str| DeleteOptions {
            uid: Some(uid.to_owned()),
            ..DeleteOptions::default()
        };
        let expected = format!(
            "Operation cannot be fulfilled on Thing.example.com \"a\": the UID in the precondition (u) does not match \
             the UID in record ({}). The object might have been deleted and then recreated",
            item.uid
        );
        assert_eq!(refused(bench.delete("a", uid("u")).await), (Reason::Conflict, expected));
        let options = DeleteOptions {
            resource_version: Some("1".to_owned()),
            ..uid(&item.uid)
        };
        let expected = format!(
            "Operation cannot be fulfilled on Thing.example.com \"a\": the ResourceVersion in the precondition (1) \
             does not match the ResourceVersion in record ({}). The object might have been modified",
            item.revision
        );
        assert_eq!(refused(bench.delete("a", options).await), (Reason::Conflict, expected));
        let options = DeleteOptions {
            resource_version: Some(item.revision.to_string()),
            ..uid(&item.uid)
        };
        assert!(bench.delete("a", options).await.expect("both hold").removed);
    });
}

#[test]
fn finalizers_hold_an_object_until_the_last_is_gone() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench
            .made(
                "a",
                json!({"finalizers": ["example.com/f", "example.com/g"]}),
                json!({}),
            )
            .await;
        let deleted = bench.delete("a", DeleteOptions::default()).await.expect("it is there");
        assert!(!deleted.removed && !deleted.as_status);
        let marked = bench.now("a").await.expect("it waits");
        assert!(marked["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
        assert_eq!(marked["metadata"]["generation"], 2);
        bench
            .delete("a", DeleteOptions::default())
            .await
            .expect("it may be asked for again");
        assert_eq!(bench.now("a").await.as_ref(), Some(&marked), "which changes nothing");
        let more = bench
            .merge(
                "a",
                json!({"metadata": {"finalizers": ["example.com/f", "example.com/new"]}}),
            )
            .await;
        let (reason, message) = refused(more);
        assert_eq!(reason, Reason::Invalid);
        assert!(
            message.contains("no new finalizers can be added if the object is being deleted"),
            "{message}"
        );
        bench
            .merge("a", json!({"metadata": {"finalizers": ["example.com/g"]}}))
            .await
            .expect("one may go");
        assert!(bench.now("a").await.is_some());
        let last = bench
            .merge("a", json!({"metadata": {"finalizers": null}}))
            .await
            .expect("the last may go");
        assert!(finalizers(&answered(&last)).is_empty());
        assert_eq!(bench.now("a").await, None);
    });
}

#[test]
fn the_last_finalizer_takes_the_object_with_it_in_one_write() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench
            .made("a", json!({"finalizers": ["example.com/f"]}), json!({}))
            .await;
        bench.delete("a", DeleteOptions::default()).await.expect("it is there");
        let mut object = bench.now("a").await.expect("it waits");
        let before = bench.revision().await;
        object["metadata"]["finalizers"] = json!([]);
        bench.put("a", object).await.expect("its own revision is named");
        assert_eq!(bench.revision().await, before + 1);
        assert_eq!(bench.now("a").await, None);
    });
}

#[test]
fn dependents_are_orphaned_awaited_or_left_to_the_collector() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        for (name, propagation, expected) in [
            ("o", Propagation::Orphan, Some("orphan")),
            ("f", Propagation::Foreground, Some("foregroundDeletion")),
            ("b", Propagation::Background, None),
        ] {
            bench.made(name, json!({}), json!({})).await;
            let deleted = bench.delete(name, asking(propagation)).await.expect("it is there");
            assert_eq!(deleted.removed, expected.is_none());
            let now = bench.now(name).await;
            assert_eq!(now.as_ref().map(finalizers), expected.map(|finalizer| vec![finalizer]));
        }
        bench
            .delete("o", asking(Propagation::Foreground))
            .await
            .expect("the policy may change");
        assert_eq!(
            finalizers(&bench.now("o").await.expect("it waits")),
            ["foregroundDeletion"]
        );
        bench
            .delete("o", asking(Propagation::Background))
            .await
            .expect("the policy may change");
        assert_eq!(bench.now("o").await, None);
    });
}

#[test]
fn a_grace_period_may_be_shortened_and_zero_ends_it() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(
            &kit,
            Rules {
                grace: Some(30),
                ..Rules::default()
            },
        )
        .await;
        bench.made("a", json!({}), json!({})).await;
        let period = |object: &Value| object["metadata"]["deletionGracePeriodSeconds"].as_i64();
        let deleted = bench.delete("a", DeleteOptions::default()).await.expect("it is there");
        assert!(!deleted.removed);
        let first = bench.now("a").await.expect("it waits");
        assert_eq!(
            (period(&first), &first["metadata"]["generation"]),
            (Some(30), &json!(2))
        );
        for longer in [DeleteOptions::default(), within(30), within(60)] {
            bench.delete("a", longer).await.expect("it is there");
            assert_eq!(
                bench.now("a").await.as_ref(),
                Some(&first),
                "a period only gets shorter"
            );
        }
        bench.delete("a", within(10)).await.expect("it is there");
        let second = bench.now("a").await.expect("it waits");
        assert_eq!(
            (period(&second), &second["metadata"]["generation"]),
            (Some(10), &json!(2))
        );
        let at = |object: &Value| {
            let text = object["metadata"]["deletionTimestamp"].as_str().expect("it is marked");
            text.parse::<jiff::Timestamp>().expect("it is a time").as_second()
        };
        assert_eq!(at(&first) - at(&second), 20);
        let deleted = bench.delete("a", within(0)).await.expect("it is there");
        assert!(
            deleted.removed && !deleted.as_status,
            "this kind answers with the object"
        );
        assert_eq!(bench.now("a").await, None);
    });
}

#[test]
fn no_grace_period_still_waits_for_finalizers() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(
            &kit,
            Rules {
                grace: Some(30),
                ..Rules::default()
            },
        )
        .await;
        bench.made("a", json!({"finalizers": ["orphan"]}), json!({})).await;
        assert!(!bench.delete("a", within(0)).await.expect("it is there").removed);
        assert_eq!(finalizers(&bench.now("a").await.expect("it waits")), ["orphan"]);
        bench
            .delete("a", asking(Propagation::Background))
            .await
            .expect("its period is over");
        assert_eq!(bench.now("a").await, None);
    });
}

#[test]
fn other_writes_and_removals_of_a_terminating_object_do_no_harm() {
    run(Topology::trireme(), |kit| async move {
        let rules = Rules {
            grace: Some(30),
            ..Rules::default()
        };
        let (bench, store) = Bench::start_with(&kit, things(rules, None)).await;
        for how in [Meddling::Touch, Meddling::Remove] {
            bench.made("a", json!({}), json!({})).await;
            store.meddle(how);
            let deleted = bench.delete("a", within(0)).await.expect("it was there");
            assert!(deleted.removed, "{how:?}");
            assert_eq!(bench.now("a").await, None);
        }
        bench
            .made("a", json!({"finalizers": ["example.com/f"]}), json!({}))
            .await;
        bench.delete("a", within(0)).await.expect("it is there");
        store.meddle(Meddling::Touch);
        let none = json!({"metadata": {"finalizers": null}});
        bench.merge("a", none).await.expect("the patch is applied again");
        assert_eq!(bench.now("a").await, None);
    });
}

#[test]
fn a_precondition_holds_for_the_object_that_is_removed() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, things(Rules::default(), None)).await;
        let item = bench.made("a", json!({}), json!({})).await;
        store.meddle(Meddling::Touch);
        let options = DeleteOptions {
            resource_version: Some(item.revision.to_string()),
            ..DeleteOptions::default()
        };
        assert_eq!(refused(bench.delete("a", options).await).0, Reason::Conflict);
        store.meddle(Meddling::Touch);
        let deleted = bench.delete("a", DeleteOptions::default()).await.expect("it is there");
        assert!(deleted.removed, "without one the newer object goes");
    });
}

#[test]
fn a_collection_goes_as_far_as_it_is_selected() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        for number in 0..20 {
            let app = if number < 15 { "x" } else { "y" };
            let held = if number == 0 {
                json!(["example.com/f"])
            } else {
                json!([])
            };
            let metadata = json!({"labels": {"app": app}, "finalizers": held});
            bench
                .create(thing(&format!("t{number:02}"), metadata, json!({})))
                .await
                .expect("it is sound");
        }
        let labels = LabelSelector::parse("app=x").expect("it is sound");
        let request = DeleteCollectionRequest {
            target: target("ns", ""),
            selection: Selection {
                labels,
                ..Selection::default()
            },
            list: ListOptions::default(),
            options: DeleteOptions::default(),
        };
        let deleted = bench
            .registry
            .delete_collection(request)
            .await
            .expect("all can be deleted");
        assert_eq!(deleted.page.items.len(), 15);
        let mut left = Vec::new();
        for number in 0..20 {
            left.extend(bench.now(&format!("t{number:02}")).await);
        }
        assert_eq!(left.len(), 6, "those of another label and the one that is held");
        assert!(left[0]["metadata"]["deletionTimestamp"].is_string());
    });
}
