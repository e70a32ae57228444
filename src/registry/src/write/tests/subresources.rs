//! Subresources of a kind's own: an update of one field, and a create that counts up.

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::{
    ApiError, GroupVersion, Reason,
    field::{Error, ErrorList, Path},
};

use super::support::{Bench, Rules, answered, body, dry_run, patching, refused, replacement, things};
use crate::{
    access::{ObjectAccess, ResourceIndex, RuleChange, RuleStages},
    fixtures::target,
    request::{PatchKind, Subresource, WriteContext, WriteOptions},
    strategy::Strategy,
    subresource::{Create, CreateBody, CreateCall, SubresourceRole, Update},
    subresource_request::SubresourceCreateRequest,
};

struct Own;

impl Strategy for Own {
    fn has_generation(&self) -> bool {
        true
    }

    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        vec!["of the spec".to_owned()]
    }

    fn status_warnings(&self, _new: &Value) -> Vec<String> {
        vec!["of the status".to_owned()]
    }

    fn subresource(&self, name: &str) -> Option<SubresourceRole<'_>> {
        match name {
            "slot" => Some(SubresourceRole::Update(&Slot)),
            "count" => Some(SubresourceRole::Create(&Count)),
            _ => None,
        }
    }
}

/// No resources.
struct Nothing;

impl ResourceIndex for Nothing {
    fn objects(&self, _group: &str, _version: &str, _plural: &str) -> Option<Arc<dyn ObjectAccess>> {
        None
    }
}

/// Changes `spec.slot` alone.
struct Slot;

impl Update for Slot {
    fn name(&self) -> &'static str {
        "slot"
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        let slot = new.pointer("/spec/slot").cloned().unwrap_or_default();
        new.clone_from(old);
        new["spec"]["slot"] = slot;
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        if new["spec"]["slot"] == "bad" {
            return vec![Error::forbidden(&Path::new("spec.slot"), "may not be bad")];
        }
        ErrorList::new()
    }
}

/// Adds one to `spec.count`, up to three.
struct Count;

impl Create for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn body(&self) -> CreateBody {
        CreateBody {
            kind: GroupVersion::new("autoscaling", "v1").with_kind("Scale"),
            also: Vec::new(),
            type_name: "io.k8s.api.autoscaling.v1.Scale",
        }
    }

    fn check(&self, _target: &crate::request::Target, body: &Value) -> Result<(), ApiError> {
        match body.pointer("/spec/replicas") {
            Some(_) => Ok(()),
            None => Err(ApiError::bad_request("say how many")),
        }
    }

    fn run<'a>(&'a self, call: &'a CreateCall) -> BoxFuture<'a, Result<Option<Value>, ApiError>> {
        Box::pin(async move {
            let rule = |_: &WriteContext, object: &mut Value| {
                let count = object.pointer("/spec/count").and_then(Value::as_i64).unwrap_or(0);
                if count == 3 {
                    return Err(ApiError::new(Reason::TooManyRequests, "three are enough"));
                }
                object["spec"]["count"] = (count + 1).into();
                Ok(())
            };
            let change = RuleChange::new(call.target.clone(), RuleStages::CommitOnly, rule);
            call.registry
                .change(change.with_dry_run(call.dry_run))
                .await
                .map(|_| call.dry_run.then(|| call.body.clone()))
        })
    }
}

async fn bench(kit: &trireme_actors::testkit::TestKit) -> Bench {
    let mut info = things(<Rules as Default>::default(), None);
    info.strategy = Arc::new(Own);
    let bench = Bench::start_with(kit, info).await.0;
    bench
        .made("a", json!({}), json!({ "spec": { "count": 0, "slot": "s" } }))
        .await;
    bench
}

fn count(name: &str, content: Value, options: WriteOptions) -> SubresourceCreateRequest {
    SubresourceCreateRequest {
        target: target("ns", name),
        subresource: "count".to_owned(),
        collection: None,
        body: body(&content),
        options,
        routes: Arc::new(Nothing),
    }
}

fn scale(name: &str) -> Value {
    json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": name }, "spec": { "replicas": 1 } })
}

#[test]
fn a_part_changes_what_it_is_for() {
    run(Topology::trireme(), |kit| async move {
        let bench = bench(&kit).await;
        let mut request = patching("a", PatchKind::Merge, &json!({ "spec": { "slot": "t", "count": 9 } }));
        request.subresource = Subresource::Update("slot");
        let changed = answered(&bench.registry.patch(request).await.expect("it is allowed"));
        assert_eq!(changed["spec"], json!({ "count": 0, "slot": "t" }));
        assert_eq!(changed["metadata"]["generation"], 2);

        let mut wanted = changed.clone();
        wanted["spec"]["slot"] = "bad".into();
        let mut request = replacement("a", wanted);
        request.subresource = Subresource::Update("slot");
        assert_eq!(
            refused(bench.registry.update(request).await),
            (
                Reason::Invalid,
                "Thing.example.com \"a\" is invalid: spec.slot: Forbidden: may not be bad".to_owned()
            )
        );
        assert_eq!(bench.now("a").await, Some(changed));
    });
}

#[test]
fn commands_that_race_all_count() {
    run(Topology::trireme(), |kit| async move {
        let bench = bench(&kit).await;
        let calls = (0..5).map(|_| {
            bench
                .registry
                .create_subresource(count("a", scale("a"), WriteOptions::default()))
        });
        let done = join_all(calls).await;
        assert_eq!(done.iter().filter(|result| result.is_ok()).count(), 3);
        for result in done.into_iter().filter(Result::is_err) {
            assert_eq!(
                refused(result),
                (Reason::TooManyRequests, "three are enough".to_owned())
            );
        }
        assert_eq!(bench.now("a").await.expect("it is there")["spec"]["count"], 3);
    });
}

#[test]
fn commands_to_a_collection_are_for_what_the_body_names() {
    run(Topology::trireme(), |kit| async move {
        let bench = bench(&kit).await;
        let call = |body| {
            bench.registry.create_subresource(SubresourceCreateRequest {
                collection: Some(Arc::clone(bench.registry.info())),
                ..count("", body, WriteOptions::default())
            })
        };
        let done = call(scale("a")).await.expect("the body names it");
        assert!(done.object.is_none(), "{done:?}");
        assert_eq!(bench.now("a").await.expect("it is there")["spec"]["count"], 1);
        assert_eq!(
            refused(call(scale("../a")).await),
            (
                Reason::BadRequest,
                "Name parameter invalid: \"../a\": may not contain '/'".to_owned()
            )
        );
        assert_eq!(
            refused(call(scale("")).await),
            (Reason::BadRequest, "Name parameter required.".to_owned())
        );
    });
}

#[test]
fn commands_are_checked_before_anything_is_done() {
    run(Topology::trireme(), |kit| async move {
        let bench = bench(&kit).await;
        let before = bench.now("a").await;
        let call = |content, options| bench.registry.create_subresource(count("a", content, options));
        let empty = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "a" } });
        assert_eq!(
            refused(call(empty, WriteOptions::default()).await),
            (Reason::BadRequest, "say how many".to_owned())
        );
        let thing = json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": "a" } });
        assert_eq!(
            refused(call(thing, WriteOptions::default()).await).0,
            Reason::BadRequest
        );
        let mut labelled = scale("a");
        labelled["metadata"]["labels"] = json!({ "refused": "" });
        assert_eq!(
            refused(call(labelled, WriteOptions::default()).await),
            (Reason::Forbidden, "refused by a plugin".to_owned())
        );
        let done = call(scale("a"), dry_run()).await.expect("it would be done");
        let object = done.object.expect("this command tells what it would do");
        assert_eq!(object["spec"]["replicas"], 1);
        assert_eq!(bench.now("a").await, before);
    });
}

#[test]
fn who_writes_the_status_is_not_warned_of_the_spec() {
    run(Topology::trireme(), |kit| async move {
        let bench = bench(&kit).await;
        let cases = [
            (Subresource::None, vec!["of the spec"]),
            (Subresource::Status, vec!["of the status"]),
            (Subresource::Update("slot"), vec![]),
        ];
        for (subresource, expected) in cases {
            let mut request = patching(
                "a",
                PatchKind::Merge,
                &json!({ "metadata": { "labels": { "a": "b" } } }),
            );
            request.subresource = subresource;
            let written = bench.registry.patch(request).await.expect("it is allowed");
            assert_eq!(written.warnings, expected, "{subresource:?}");
        }
    });
}
