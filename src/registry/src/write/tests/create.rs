use std::{sync::atomic::Ordering, time::Duration};

use serde_json::json;
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::Reason;

use super::{
    store::Puts,
    support::{Bench, Rules, answered, creation, dry_run, patching, refused, replacement, strictness, thing, things},
};
use crate::request::{DeleteOptions, FieldValidation, PatchKind, Propagation, WriteOptions};

#[test]
fn a_new_object_gets_what_the_server_owns() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let metadata = json!({"uid": "mine", "generation": 9, "deletionTimestamp": "2020-01-01T00:00:00Z"});
        let written = bench
            .create(thing("a", metadata, json!({"data": {"k": "v"}})))
            .await
            .expect("it is sound");
        assert!(written.created);
        let object = answered(&written);
        let metadata = &object["metadata"];
        assert_eq!(metadata["namespace"], "ns");
        assert_eq!(metadata["generation"], 1);
        assert_eq!(
            metadata["uid"].as_str().map(str::len),
            Some(36),
            "the server's uid, not the client's"
        );
        assert!(metadata.get("deletionTimestamp").is_none() && metadata.get("creationTimestamp").is_some());
        assert_eq!(metadata["resourceVersion"], bench.revision().await.to_string());
        assert_eq!(bench.now("a").await, Some(object));
    });
}

#[test]
fn a_taken_name_is_refused_and_nothing_changes() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench
            .made("a", json!({"finalizers": ["example.com/f"]}), json!({}))
            .await;
        let before = bench.now("a").await;
        let again = || bench.create(thing("a", json!({}), json!({"data": {"k": "v"}})));
        let taken = "things.example.com \"a\" already exists";
        assert_eq!(refused(again().await), (Reason::AlreadyExists, taken.to_owned()));
        assert_eq!(bench.now("a").await, before);
        bench
            .delete("a", DeleteOptions::default())
            .await
            .expect("it can be deleted");
        let going = format!("object is being deleted: {taken}");
        assert_eq!(refused(again().await), (Reason::AlreadyExists, going));
    });
}

#[test]
fn names_are_generated_for_those_who_ask() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let generated = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"generateName": "web-"}});
        let mut names = Vec::new();
        for _ in 0..3 {
            let object = answered(&bench.create(generated.clone()).await.expect("it is sound"));
            names.push(object["metadata"]["name"].as_str().expect("it has a name").to_owned());
        }
        assert!(
            names.iter().all(|name| name.starts_with("web-") && name.len() == 9),
            "{names:?}"
        );
        names.dedup();
        assert_eq!(names.len(), 3);
        let nameless = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {}});
        let (reason, message) = refused(bench.create(nameless).await);
        assert_eq!(reason, Reason::Invalid);
        assert!(
            message.ends_with("metadata.name: Required value: name or generateName is required"),
            "{message}"
        );
    });
}

#[test]
fn a_name_is_generated_eight_times_at_most() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store) = Bench::start_with(&kit, things(Rules::default(), None)).await;
        store.next_puts(Puts::Taken);
        let generated = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"generateName": "web-"}});
        let error = bench.create(generated).await.expect_err("every name is taken");
        assert_eq!(error.reason, Reason::AlreadyExists);
        let expected = " already exists, the server was not able to generate a unique name for the object";
        assert!(error.message.ends_with(expected), "{error}");
        assert_eq!(error.details.map(|details| details.retry_after_seconds), Some(1));
        assert_eq!(store.arrived.available_permits(), 8);
    });
}

#[test]
fn what_expires_goes_on_to_expire_after_a_change() {
    run(Topology::trireme(), |kit| async move {
        let mut info = things(Rules::default(), None);
        info.ttl = Some(Duration::from_secs(3600).into());
        let (bench, store) = Bench::start_with(&kit, info).await;
        bench.made("a", json!({}), json!({})).await;
        bench
            .merge("a", json!({"data": {"k": "v"}}))
            .await
            .expect("it is there");
        assert_eq!(store.leased.load(Ordering::SeqCst), 2, "both writes have a lease");
    });
}

#[test]
fn a_body_that_does_not_fit_is_refused_with_the_reason() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let named = |api_version: &str, kind: &str, metadata| json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        let cases = [
            (
                named("v1", "Pod", json!({"name": "a"})),
                "Pod in version \"v1\" cannot be handled as a Thing: converting (v1.Pod) to (example.Thing): unknown \
                 conversion",
            ),
            (
                named("example.com/v1", "Thong", json!({"name": "a"})),
                "Thong in version \"v1\" cannot be handled as a Thing: no kind \"Thong\" is registered for version \
                 \"example.com/v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"",
            ),
            (
                named("example.com/v1", "Thing", json!({"name": "a", "namespace": "other"})),
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
            (
                named("example.com/v1", "Thing", json!({"name": "a", "resourceVersion": "5"})),
                "resourceVersion should not be set on objects to be created",
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(
                refused(bench.create(object).await),
                (Reason::BadRequest, expected.to_owned())
            );
        }
        let labelled = thing("a", json!({"labels": {"refused": "yes"}}), json!({}));
        assert_eq!(
            refused(bench.create(labelled).await),
            (Reason::Forbidden, "refused by a plugin".to_owned())
        );
        assert_eq!(bench.now("a").await, None);
    });
}

#[test]
fn what_cannot_be_converted_is_refused_by_every_write() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let odd = json!({"data": {"odd": "x"}});
        let expected = "Thing in version \"v1\" cannot be handled as a Thing: \"x\" is odd";
        let created = bench.create(thing("b", json!({}), odd.clone())).await;
        assert_eq!(refused(created), (Reason::BadRequest, expected.to_owned()));
        bench.made("a", json!({}), json!({})).await;
        let replaced = bench.put("a", thing("a", json!({}), odd.clone())).await;
        assert_eq!(refused(replaced), (Reason::BadRequest, expected.to_owned()));
        let (reason, message) = refused(bench.merge("a", odd).await);
        assert_eq!(reason, Reason::Invalid);
        assert!(message.ends_with("\"x\" is odd"), "{message}");
    });
}

#[test]
fn unknown_fields_are_dropped_warned_of_or_refused() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let create = |name, how| {
            let object = thing(name, json!({}), json!({"spec": {"count": 1, "alien": true}}));
            bench.registry.create(creation(object, strictness(how)))
        };
        let expected = "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \
                    \"spec.alien\"";
        let strict = create("strict", FieldValidation::Strict).await;
        assert_eq!(refused(strict), (Reason::BadRequest, expected.to_owned()));
        let warned = create("warn", FieldValidation::Warn)
            .await
            .expect("it is only warned of");
        assert_eq!(warned.warnings, ["unknown field \"spec.alien\""]);
        let ignored = create("ignore", FieldValidation::Ignore).await.expect("it is ignored");
        assert!(ignored.warnings.is_empty());
        for written in [warned, ignored] {
            assert_eq!(answered(&written)["spec"], json!({"count": 1}));
        }
    });
}

#[test]
fn a_dry_run_of_any_verb_stores_nothing() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({"spec": {"count": 1}})).await;
        let (before, revision) = (bench.now("a").await, bench.revision().await);
        let create = |name| {
            bench
                .registry
                .create(creation(thing(name, json!({}), json!({})), dry_run()))
        };
        let written = create("b").await.expect("it could be created");
        assert!(written.created && answered(&written)["metadata"].get("resourceVersion").is_none());
        assert_eq!(refused(create("a").await).0, Reason::AlreadyExists);
        // Only the store minds a revision, and it is not asked to write.
        let revised = thing("b", json!({"resourceVersion": "7"}), json!({}));
        let written = bench.registry.create(creation(revised, dry_run())).await;
        assert!(written.expect("it could be created").created);
        let changed = thing("a", json!({}), json!({"spec": {"count": 2}}));
        let mut put = replacement("a", changed);
        put.options = dry_run();
        let written = bench.registry.update(put).await.expect("it could be replaced");
        assert_eq!(answered(&written)["metadata"]["generation"], 2);
        let patch = json!({"spec": {"count": 3}});
        let mut patch = patching("a", PatchKind::Merge, &patch);
        patch.options = dry_run();
        let written = bench.registry.patch(patch).await.expect("it could be patched");
        assert_eq!(answered(&written)["spec"]["count"], 3);
        for (propagation, removed) in [(None, true), (Some(Propagation::Orphan), false)] {
            let options = DeleteOptions {
                dry_run: true,
                propagation,
                ..DeleteOptions::default()
            };
            let deleted = bench.delete("a", options).await.expect("it could be deleted");
            assert_eq!((deleted.removed, deleted.as_status), (removed, removed));
        }
        assert_eq!((bench.now("a").await, bench.now("b").await), (before, None));
        assert_eq!(bench.revision().await, revision);
    });
}

#[test]
fn who_creates_what_is_there_already_is_warned_all_the_same() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let object = || thing("a", json!({}), json!({"data": {"warned": "of this"}}));
        assert_eq!(bench.create(object()).await.expect("it is new").warnings, ["of this"]);
        for options in [WriteOptions::default(), dry_run()] {
            let taken = bench.registry.create(creation(object(), options)).await;
            let error = taken.map(drop).expect_err("it is there");
            assert_eq!(
                (error.reason, &*error.warnings),
                (Reason::AlreadyExists, &["of this".to_owned()][..])
            );
        }
    });
}
