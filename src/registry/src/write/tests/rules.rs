//! Changes by a rule of the server's own: the stages that they pass.

use std::sync::{Arc, Mutex};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_actors::{
    testkit::{TestKit, run},
    topology::Topology,
};
use trireme_machinery::{
    ApiError, Reason,
    field::{Error, ErrorList, Path},
};

use super::support::{Bench, Rules, refused, things};
use crate::{
    access::{RuleChange, RuleStages},
    admission::{Admission, Attributes},
    fixtures::target,
    request::{Answer, Subresource, WriteContext},
    strategy::Strategy,
};

/// A status update changes the status alone, which may not be bad.
struct StatusOnly;

impl Strategy for StatusOnly {
    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        new["data"] = old["data"].clone();
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        if new.pointer("/status/phase") == Some(&json!("Bad")) {
            return vec![Error::forbidden(&Path::new("status.phase"), "may not be bad")];
        }
        ErrorList::new()
    }
}

/// Notes what it is asked about updates, and sets a field of the status.
#[derive(Default)]
struct Recorder {
    asked: Mutex<Vec<(&'static str, Subresource, String)>>,
}

impl Recorder {
    fn note(&self, stage: &'static str, attributes: &Attributes) -> bool {
        let is_update = attributes.old_object.is_some();
        if is_update {
            let asked = (stage, attributes.subresource, attributes.context.user.name.clone());
            self.asked.lock().expect("no test has panicked").push(asked);
        }
        is_update
    }

    fn take(&self) -> Vec<(&'static str, Subresource, String)> {
        std::mem::take(&mut *self.asked.lock().expect("no test has panicked"))
    }
}

impl Admission for Recorder {
    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        if self.note("mutating", attributes)
            && let Some(object) = &mut attributes.object
        {
            object["status"]["admitted"] = true.into();
        }
        async { Ok(()) }.boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.note("validating", attributes);
        async { Ok(()) }.boxed()
    }
}

async fn bench(kit: &TestKit) -> (Bench, Arc<Recorder>) {
    let recorder = Arc::<Recorder>::default();
    let mut info = things(<Rules as Default>::default(), None);
    info.strategy = Arc::new(StatusOnly);
    let (bench, _) = Bench::start_admitting(kit, info, recorder.clone()).await;
    bench.made("a", json!({}), json!({ "data": { "kept": "x" } })).await;
    (bench, recorder)
}

/// A change of the data and of the phase by the user `system:apiserver`.
fn setting(stages: RuleStages, phase: &'static str) -> RuleChange {
    let mut target = target("ns", "a");
    target.user = crate::request::own_user();
    RuleChange::new(target, stages, move |_, object| {
        object["data"] = json!({ "set": "x" });
        object["status"]["phase"] = phase.into();
        Ok(())
    })
}

#[test]
fn a_change_past_the_strategy_is_stored_as_the_rule_made_it() {
    run(Topology::trireme(), |kit| async move {
        let (bench, recorder) = bench(&kit).await;
        let change = setting(RuleStages::CommitOnly, "Bad");
        bench.registry.change(change).await.expect("there are no checks");
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(object["data"], json!({ "set": "x" }));
        assert_eq!(object["status"], json!({ "phase": "Bad" }));
        assert_eq!(recorder.take(), []);
    });
}

#[test]
fn a_change_without_admission_is_prepared_and_validated() {
    run(Topology::trireme(), |kit| async move {
        let (bench, recorder) = bench(&kit).await;
        let stages = RuleStages::WithoutAdmission(Subresource::Status);
        assert_eq!(
            refused(bench.registry.change(setting(stages, "Bad")).await),
            (
                Reason::Invalid,
                "Thing.example.com \"a\" is invalid: status.phase: Forbidden: may not be bad".to_owned()
            )
        );
        bench
            .registry
            .change(setting(stages, "Good"))
            .await
            .expect("it is valid");
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(object["data"], json!({ "kept": "x" }));
        assert_eq!(object["status"], json!({ "phase": "Good" }));
        assert_eq!(recorder.take(), []);
    });
}

#[test]
fn a_change_through_all_stages_is_admitted_as_the_servers_own() {
    run(Topology::trireme(), |kit| async move {
        let (bench, recorder) = bench(&kit).await;
        let stages = RuleStages::All(Subresource::Status);
        assert_eq!(
            refused(bench.registry.change(setting(stages, "Bad")).await).0,
            Reason::Invalid
        );
        recorder.take();
        let before = bench.now("a").await;
        let dry = bench.registry.change(setting(stages, "Good").with_dry_run(true)).await;
        assert!(matches!(dry, Ok(Answer::Materialized(object)) if object["status"]["phase"] == "Good"));
        assert_eq!(bench.now("a").await, before);
        recorder.take();
        bench
            .registry
            .change(setting(stages, "Good"))
            .await
            .expect("it is valid");
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(object["data"], json!({ "kept": "x" }));
        assert_eq!(object["status"], json!({ "phase": "Good", "admitted": true }));
        let asked = |stage| (stage, Subresource::Status, "system:apiserver".to_owned());
        assert_eq!(recorder.take(), [asked("mutating"), asked("validating")]);
    });
}

#[test]
fn a_rule_that_changes_nothing_writes_nothing() {
    run(Topology::trireme(), |kit| async move {
        let (bench, _) = bench(&kit).await;
        let before = bench.revision().await;
        let idle = |name| RuleChange::new(target("ns", name), RuleStages::CommitOnly, |_, _| Ok(()));
        let kept = bench.registry.change(idle("a")).await;
        assert!(matches!(kept, Ok(Answer::Cached(_))));
        assert_eq!(bench.revision().await, before);
        assert_eq!(refused(bench.registry.change(idle("zz")).await).0, Reason::NotFound);
    });
}
