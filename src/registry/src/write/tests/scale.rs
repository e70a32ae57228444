use serde_json::{Value, json};
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::Reason;

use super::support::{Bench, MODIFIED, Rules, answered, patching, refused, replacement, things};
use crate::{
    definition::ScalePaths,
    fixtures::get,
    request::{PatchKind, Subresource, UpdateRequest},
};

fn scale(metadata: Value, replicas: i64) -> UpdateRequest {
    let mut object = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata});
    object["metadata"]["name"] = "a".into();
    object["spec"] = json!({ "replicas": replicas });
    UpdateRequest {
        subresource: Subresource::Scale,
        ..replacement("a", object)
    }
}

#[test]
fn a_scale_shows_the_replicas_of_its_object() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let fields = json!({
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}},
            "status": {"replicas": 2},
        });
        let item = bench.made("a", json!({}), fields).await;
        let shown = bench.registry.scale(get("ns/a")).await.expect("it is there");
        assert_eq!(shown["spec"], json!({"replicas": 3}));
        assert_eq!(shown["status"], json!({"replicas": 2, "selector": "app=x"}));
        assert_eq!(shown["metadata"]["resourceVersion"], item.revision.to_string());
        assert_eq!(refused(bench.registry.scale(get("ns/b")).await).0, Reason::NotFound);
    });
}

#[test]
fn a_scale_changes_nothing_but_the_replicas() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let item = bench
            .made(
                "a",
                json!({}),
                json!({"spec": {"replicas": 3, "count": 7}, "data": {"k": "v"}}),
            )
            .await;
        let written = bench
            .registry
            .update(scale(json!({}), 5))
            .await
            .expect("it is unconditional");
        assert_eq!(answered(&written)["spec"], json!({"replicas": 5}));
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(
            (&object["spec"], &object["data"]),
            (&json!({"replicas": 5, "count": 7}), &json!({"k": "v"}))
        );
        assert_eq!(object["metadata"]["generation"], 2);
        let stale = scale(json!({"resourceVersion": item.revision.to_string()}), 6);
        assert_eq!(
            refused(bench.registry.update(stale).await),
            (Reason::Conflict, MODIFIED.to_owned())
        );
        let other = scale(json!({"uid": "u"}), 6);
        assert_eq!(refused(bench.registry.update(other).await).0, Reason::Conflict);
        let expected = "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or \
                    equal to 0";
        let negative = bench.registry.update(scale(json!({}), -1)).await;
        assert_eq!(refused(negative), (Reason::Invalid, expected.to_owned()));
        assert_eq!(bench.now("a").await, Some(object));
    });
}

#[test]
fn a_scale_makes_the_field_that_it_sets() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({})).await;
        let written = bench.registry.update(scale(json!({}), 5)).await;
        assert_eq!(answered(&written.expect("it is sound"))["spec"], json!({"replicas": 5}));
        assert_eq!(
            bench.now("a").await.expect("it is there")["spec"],
            json!({"replicas": 5})
        );
    });
}

#[test]
fn a_scale_of_a_path_through_what_is_no_object_is_refused() {
    run(Topology::trireme(), |kit| async move {
        let mut definition = things(Rules::default(), None);
        definition.is_custom = true;
        definition.scale = Some(ScalePaths {
            spec_replicas: "spec.selector.replicas".into(),
            status_replicas: "status.list.0".into(),
            selector: None,
        });
        let (bench, _) = Bench::start_with(&kit, definition).await;
        let wrong = "accessor error: [1 2] is of the type []interface {}, expected map[string]interface{}";
        bench.made("a", json!({}), json!({"spec": {"selector": [1, 2]}})).await;
        let status = json!({"spec": {"selector": {"replicas": 1}}, "status": {"list": [1, 2]}});
        bench.made("b", json!({}), status).await;
        for (name, path) in [("a", ".spec.selector.replicas"), ("b", ".status.list.0")] {
            let expected = (Reason::BadRequest, format!("{path} {wrong}"));
            let shown = bench.registry.scale(get(&format!("ns/{name}"))).await;
            assert_eq!(refused(shown), expected);
        }
        let expected = (Reason::BadRequest, format!(".spec.selector.replicas {wrong}"));
        assert_eq!(refused(bench.registry.update(scale(json!({}), 5)).await), expected);
        let kept = bench.now("a").await.expect("it is there");
        assert_eq!(kept["spec"], json!({"selector": [1, 2]}));
    });
}

#[test]
fn a_scale_can_be_patched() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({"spec": {"replicas": 3}})).await;
        let patch = |patch: Value| {
            let mut request = patching("a", PatchKind::Merge, &patch);
            request.subresource = Subresource::Scale;
            bench.registry.patch(request)
        };
        let written = patch(json!({"spec": {"replicas": 4}})).await.expect("it is sound");
        assert_eq!(answered(&written)["spec"], json!({"replicas": 4}));
        let (reason, message) = refused(patch(json!({"metadata": {"name": "b"}})).await);
        assert_eq!(
            (reason, &*message),
            (
                Reason::BadRequest,
                "the name of the object (b) does not match the name on the URL (a)"
            )
        );
        assert_eq!(bench.now("a").await.expect("it is there")["spec"]["replicas"], 4);
    });
}

#[test]
fn a_change_of_a_scale_that_is_not_there_is_refused_as_kube_apiserver_does() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        let mut of_another = scale(json!({}), 5);
        of_another.target.name = "b".into();
        let (reason, message) = refused(bench.registry.update(of_another).await);
        assert_eq!(
            (reason, &*message),
            (
                Reason::BadRequest,
                "the name of the object (a) does not match the name on the URL (b)"
            ),
            "before the object is looked for"
        );
        for subresource in [Subresource::Scale, Subresource::Status] {
            let mut apply = patching("b", PatchKind::Apply, &json!({"apiVersion": "x/v1", "kind": "Odd"}));
            apply.subresource = subresource;
            let (reason, _) = refused(bench.registry.patch(apply).await);
            assert_eq!(reason, Reason::NotFound, "before the body is checked: {subresource:?}");
        }
    });
}
