use futures_util::future::join_all;
use serde_json::json;
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::Reason;

use super::support::{Bench, MODIFIED, Rules, answered, patching, refused, strictness};
use crate::request::{FieldValidation, PatchKind};

#[test]
fn concurrent_patches_all_take_effect() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({})).await;
        let patches = (0..16).map(|n: u32| bench.merge("a", json!({"data": {n.to_string(): "x"}})));
        for written in join_all(patches).await {
            written.expect("a patch without a revision never conflicts");
        }
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(object["data"].as_object().map(serde_json::Map::len), Some(16));
    });
}

#[test]
fn tests_and_replacements_count_without_loss() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({"spec": {"count": 0}})).await;
        let one_more = || async {
            loop {
                let count = bench.now("a").await.expect("it is there")["spec"]["count"]
                    .as_i64()
                    .unwrap_or_default();
                let patch = json!([
                    {"op": "test", "path": "/spec/count", "value": count},
                    {"op": "replace", "path": "/spec/count", "value": count + 1},
                ]);
                match bench.registry.patch(patching("a", PatchKind::Json, &patch)).await {
                    Ok(_) => return,
                    Err(error) => assert_eq!(error.reason, Reason::Invalid, "{error}"),
                }
            }
        };
        join_all((0..16).map(|_| one_more())).await;
        assert_eq!(bench.now("a").await.expect("it is there")["spec"]["count"], 16);
    });
}

#[test]
fn a_patch_may_name_the_revision_it_is_for() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let item = bench.made("a", json!({}), json!({})).await;
        let patch = |value: &str| {
            let metadata = json!({"resourceVersion": item.revision.to_string()});
            bench.merge("a", json!({"metadata": metadata, "data": {"k": value}}))
        };
        patch("v").await.expect("the revision is right");
        assert_eq!(refused(patch("w").await), (Reason::Conflict, MODIFIED.to_owned()));
        let written = bench
            .merge("a", json!({"data": {"k": "v"}}))
            .await
            .expect("it changes nothing");
        assert_eq!(
            answered(&written)["metadata"]["resourceVersion"],
            bench.revision().await.to_string()
        );
    });
}

#[test]
fn a_patch_cannot_turn_an_object_into_another() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({})).await;
        let before = bench.now("a").await;
        let name = bench.merge("a", json!({"metadata": {"name": "b"}})).await;
        let expected = "the name of the object (b) does not match the name on the URL (a)";
        assert_eq!(refused(name), (Reason::BadRequest, expected.to_owned()));
        let (reason, message) = refused(bench.merge("a", json!({"metadata": {"uid": "u"}})).await);
        assert_eq!(reason, Reason::Invalid);
        assert!(
            message.contains("metadata.uid: Invalid value: \"u\": field is immutable"),
            "{message}"
        );
        let (reason, message) = refused(bench.merge("a", json!({"kind": "Pod"})).await);
        assert_eq!(reason, Reason::Invalid);
        assert!(
            message.contains("no kind \"Pod\" is registered for version \"example.com/v1\""),
            "{message}"
        );
        let renamed = patching(
            "a",
            PatchKind::StrategicMerge,
            &json!({"kind": "Pod", "apiVersion": "v9"}),
        );
        let written = bench.registry.patch(renamed).await.expect("its kind is not checked");
        assert_eq!(answered(&written)["kind"], "Thing");
        let missing = bench.merge("b", json!({"data": {"k": "v"}})).await;
        assert_eq!(
            refused(missing),
            (Reason::NotFound, "things.example.com \"b\" not found".to_owned())
        );
        assert_eq!(bench.now("a").await, before);
    });
}

#[test]
fn unknown_fields_of_a_patch_are_dropped_warned_of_or_refused() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({})).await;
        let patch = |how, count: i64| {
            let mut request = patching("a", PatchKind::Merge, &json!({"spec": {"count": count, "alien": 1}}));
            request.options = strictness(how);
            bench.registry.patch(request)
        };
        let (reason, message) = refused(patch(FieldValidation::Strict, 1).await);
        assert_eq!(reason, Reason::Invalid);
        assert!(
            message.ends_with("strict decoding error: unknown field \"spec.alien\""),
            "{message}"
        );
        let warned = patch(FieldValidation::Warn, 2).await.expect("it is only warned of");
        assert_eq!(warned.warnings, ["unknown field \"spec.alien\""]);
        let ignored = patch(FieldValidation::Ignore, 3).await.expect("it is ignored");
        assert!(ignored.warnings.is_empty());
        assert_eq!(answered(&ignored)["spec"], json!({"count": 3}));
    });
}

#[test]
fn a_patched_object_says_its_kind_in_texts() {
    use PatchKind::{Json, Merge, StrategicMerge};
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({"data": {"k": "v"}})).await;
        let before = bench.now("a").await;
        let copied = json!([{"op": "copy", "from": "/data", "path": "/apiVersion"}]);
        for (kind, patch, told) in [
            (
                Merge,
                json!({"kind": {}}),
                "cannot unmarshal object into Go struct field .kind of type string",
            ),
            (
                Json,
                copied,
                "cannot unmarshal object into Go struct field .apiVersion of type string",
            ),
            (
                Merge,
                json!({"apiVersion": "a/b/c"}),
                "unexpected GroupVersion string: a/b/c",
            ),
            (StrategicMerge, json!({"kind": []}), "unrecognized type: string"),
            (
                StrategicMerge,
                json!({"apiVersion": 1}),
                "cannot convert int64 to string",
            ),
        ] {
            let (reason, message) = refused(bench.registry.patch(patching("a", kind, &patch)).await);
            assert_eq!(reason, Reason::Invalid, "{patch}");
            assert!(message.ends_with(told), "{patch}: {message}");
        }
        for (kind, patch) in [
            (Merge, json!({"kind": null})),
            (StrategicMerge, json!({"apiVersion": null})),
        ] {
            let written = bench.registry.patch(patching("a", kind, &patch)).await;
            answered(&written.expect("it is filled in"));
        }
        assert_eq!(bench.now("a").await, before);
    });
}

#[test]
fn a_patched_object_keeps_its_version() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({"data": {"k": "v"}})).await;
        for (kind, patch) in [
            (PatchKind::Merge, json!({"apiVersion": null})),
            (PatchKind::Merge, json!({"apiVersion": ""})),
            (PatchKind::Json, json!([{"op": "remove", "path": "/apiVersion"}])),
        ] {
            let told = "the name of the object (a based on URL) was undeterminable: name must be provided";
            let mut request = patching("a", kind, &patch);
            request.options = strictness(FieldValidation::Warn);
            let error = bench
                .registry
                .patch(request)
                .await
                .map(drop)
                .expect_err("it has no name");
            assert_eq!((error.reason, &*error.message), (Reason::BadRequest, told), "{patch}");
            assert_eq!(error.warnings, ["unknown field \"data\"", "unknown field \"metadata\""]);
            let mut request = patching("a", kind, &patch);
            request.options = strictness(FieldValidation::Strict);
            let (_, message) = refused(bench.registry.patch(request).await);
            let told = "strict decoding error: unknown field \"data\", unknown field \"metadata\"";
            assert!(message.ends_with(told), "{message}");
        }
    });
}

#[test]
fn finalizers_need_no_domain_where_the_kind_does_not_ask_for_one() {
    run(Topology::trireme(), |kit| async move {
        let rules = Rules {
            plain_finalizers: true,
            ..Rules::default()
        };
        let bench = Bench::start(&kit, rules).await;
        bench.made("a", json!({}), json!({})).await;
        let patched = bench.merge("a", json!({"metadata": {"finalizers": ["x"]}})).await;
        assert_eq!(
            answered(&patched.expect("it is well formed"))["metadata"]["finalizers"],
            json!(["x"])
        );
        let error = bench.merge("a", json!({"metadata": {"labels": {"a": "b c"}}})).await;
        let error = error.map(drop).expect_err("it is no label");
        assert_eq!(
            error.details.map(|details| details.causes.len()),
            Some(4),
            "the checks are repeated"
        );
    });
}
