//! Admission that takes seconds and writes the object that it is asked about.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture, future::join_all};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use trireme_actors::{
    Clock,
    testkit::{TestKit, run},
    topology::Topology,
};
use trireme_machinery::{ApiError, Reason};

use super::{
    store::Moody,
    support::{Bench, Rules, answered, creation, patching, refused, replacement, thing, things},
};
use crate::{
    admission::{Admission, Attributes},
    audit_notes::AuditNotes,
    fixtures::{get, target},
    registry::RegistryHandle,
    request::{
        DeleteCollectionRequest, DeleteOptions, DeleteRequest, PatchKind, PatchRequest, Subresource, UserInfo,
        WriteOptions,
    },
};

const SLOW: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Mutating,
    Validating,
}

/// Takes 5 s for each write of the user `slow` and writes the object itself meanwhile. As a mutating plugin it also changes
/// what is written into something else each time.
struct Slow {
    stage: Stage,
    clock: Clock,
    registry: OnceLock<RegistryHandle>,
    /// Its own writes differ each time.
    restless: bool,
    rounds: AtomicUsize,
    /// Gets a permit each time that it begins to sleep.
    asked: Semaphore,
}

impl Slow {
    /// Gives back the number of the round, if the write is one of the slow ones.
    async fn take_time(&self, stage: Stage, attributes: &Attributes) -> Result<Option<usize>, ApiError> {
        if stage != self.stage || attributes.context.user.name != "slow" {
            return Ok(None);
        }
        let round = self.rounds.fetch_add(1, Ordering::SeqCst) + 1;
        // Known before any reader sees it: the clock may be moved by another thread.
        let until = self.clock.now() + SLOW;
        self.asked.add_permits(1);
        self.clock.sleep_until(until).await;
        if attributes.old_object.is_some() {
            let seen = if self.restless { round } else { 0 };
            let registry = self.registry.get().expect("it is bound");
            registry
                .patch(merging(&attributes.name, &json!({"data": {"seen": seen.to_string()}})))
                .await?;
            // A consistent read: from here on the watch cache has it, so that the next round does not start from an older one.
            registry.get(get(&format!("ns/{}", attributes.name))).await?;
        }
        attributes.warn(format!("round {round}"));
        attributes.annotate("round", round.to_string());
        Ok(Some(round))
    }

    /// Waits until it has begun to sleep once more.
    async fn asleep(&self) {
        self.asked.acquire().await.expect("it is never closed").forget();
    }
}

impl Admission for Slow {
    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        async {
            let round = self.take_time(Stage::Mutating, attributes).await?;
            if let (Some(round), Some(object)) = (round, &mut attributes.object) {
                object["metadata"]["labels"] = json!({"round": round.to_string()});
            }
            Ok(())
        }
        .boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.take_time(Stage::Validating, attributes)
            .map(|done| done.map(drop))
            .boxed()
    }
}

fn merging(name: &str, patch: &Value) -> PatchRequest {
    patching(name, PatchKind::Merge, patch)
}

fn slow_user() -> UserInfo {
    UserInfo {
        name: "slow".to_owned(),
        ..UserInfo::default()
    }
}

/// A bench with the thing `a` and a slow plugin.
async fn beside(kit: &TestKit, stage: Stage, restless: bool) -> (Bench, Arc<Moody>, Arc<Slow>) {
    let slow = Arc::new(Slow {
        stage,
        clock: kit.system.clock().clone(),
        registry: OnceLock::new(),
        restless,
        rounds: AtomicUsize::new(0),
        asked: Semaphore::new(0),
    });
    let (bench, store) = Bench::start_admitting(kit, things(Rules::default(), None), slow.clone()).await;
    assert!(slow.registry.set(bench.registry.clone()).is_ok(), "it is bound once");
    bench.made("a", json!({}), json!({})).await;
    (bench, store, slow)
}

/// Another writes `a`, and the watch cache gets to know it.
async fn write_other(bench: &Bench, patch: Value) {
    bench.merge("a", patch).await.expect("there is no wait");
    assert!(bench.now("a").await.is_some());
}

/// Another writes `a` while the plugin sleeps; then the plugin is asked once more.
async fn write_once_meanwhile(kit: &TestKit, bench: &Bench, slow: &Slow) {
    slow.asleep().await;
    write_other(bench, json!({"data": {"other": "x"}})).await;
    kit.clock.advance(SLOW);
    slow.asleep().await;
    kit.clock.advance(SLOW);
}

/// Others write `a` while the plugin sleeps, at a clock that stands still; then the plugin is asked once more.
async fn write_meanwhile(kit: &TestKit, bench: &Bench, slow: &Slow) {
    slow.asleep().await;
    for n in ["1", "2"] {
        write_other(bench, json!({"data": {"other": n}})).await;
    }
    kit.clock.advance(SLOW);
    slow.asleep().await;
    write_other(bench, json!({"metadata": {"annotations": {"touched": "x"}}})).await;
    kit.clock.advance(SLOW);
    slow.asleep().await;
    kit.clock.advance(SLOW);
}

fn check_slow_patch(stage: Stage, subresource: Subresource, mine: &str, untouched: &str) {
    run(Topology::trireme(), |kit| async move {
        let (bench, _, slow) = beside(&kit, stage, false).await;
        let mut request = merging("a", &json!({"data": {"mine": "x"}, "status": {"mine": "x"}}));
        request.target.user = slow_user();
        request.subresource = subresource;
        request.target.audit = AuditNotes::begin(false);
        let notes = request.target.audit.clone();
        let (written, ()) = tokio::join!(bench.registry.patch(request), write_meanwhile(&kit, &bench, &slow));
        let written = written.expect("it is committed in the end");
        assert_eq!(written.warnings, ["round 3"], "warnings of earlier rounds are dropped");
        assert_eq!(notes.noted().annotations["round"], "3");
        let object = answered(&written);
        let labels = match stage {
            Stage::Mutating => Some(json!({"round": "3"})),
            Stage::Validating => None,
        };
        assert_eq!(object["metadata"].get("labels"), labels.as_ref());
        assert_eq!(
            (&object["data"]["other"], &object["data"]["seen"]),
            (&json!("2"), &json!("0"))
        );
        assert_eq!(object.pointer(mine), Some(&json!("x")));
        assert_eq!(object.pointer(untouched), None);
        assert_eq!(bench.now("a").await, Some(object));
    });
}

#[test]
fn no_write_waits_for_a_slow_plugin_and_its_last_answer_counts() {
    for stage in [Stage::Mutating, Stage::Validating] {
        check_slow_patch(stage, Subresource::None, "/data/mine", "/metadata/finalizers");
        check_slow_patch(stage, Subresource::Status, "/status/mine", "/data/mine");
    }
}

#[test]
fn a_deadline_ends_the_wait_for_a_validating_plugin() {
    run(Topology::trireme(), |kit| async move {
        let (bench, _, slow) = beside(&kit, Stage::Validating, false).await;
        let mut request = merging("a", &json!({"data": {"mine": "x"}}));
        request.target.user = slow_user();
        request.target.deadline = Some(kit.system.clock().now() + Duration::from_secs(2));
        let before = bench.now("a").await;
        let (written, ()) = tokio::join!(bench.registry.patch(request), async {
            slow.asleep().await;
            kit.clock.advance(Duration::from_secs(2));
        });
        assert_eq!(refused(written).0, Reason::Timeout);
        assert_eq!(bench.now("a").await, before, "nothing of it was written");
    });
}

#[test]
fn a_put_with_a_revision_is_refused_if_a_plugin_has_written_meanwhile() {
    run(Topology::trireme(), |kit| async move {
        let (bench, _, slow) = beside(&kit, Stage::Mutating, false).await;
        let mut request = replacement("a", bench.now("a").await.expect("it is there"));
        request.target.user = slow_user();
        let others = write_once_meanwhile(&kit, &bench, &slow);
        let (written, ()) = tokio::join!(bench.registry.update(request), others);
        assert_eq!(refused(written).0, Reason::Conflict);
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(object["data"], json!({"other": "x", "seen": "0"}));
    });
}

#[test]
fn a_slow_delete_and_a_slow_create_hold_up_no_other_write() {
    run(Topology::trireme(), |kit| async move {
        let (bench, _, slow) = beside(&kit, Stage::Mutating, false).await;
        let mut target = target("ns", "a");
        target.user = slow_user();
        let request = DeleteRequest {
            target,
            options: DeleteOptions::default(),
        };
        let others = write_once_meanwhile(&kit, &bench, &slow);
        let (deleted, ()) = tokio::join!(bench.registry.delete(request), others);
        let deleted = deleted.expect("it goes in the end");
        assert!(deleted.removed);
        assert_eq!(
            (deleted.warnings, bench.now("a").await),
            (vec!["round 2".to_owned()], None)
        );

        let mut request = creation(thing("b", json!({}), json!({})), WriteOptions::default());
        request.target.user = slow_user();
        let (created, ()) = tokio::join!(bench.registry.create(request), async {
            slow.asleep().await;
            bench.made("b", json!({}), json!({})).await;
            kit.clock.advance(SLOW);
        });
        assert_eq!(refused(created).0, Reason::AlreadyExists, "the other was faster");
    });
}

#[test]
fn a_deadline_ends_the_wait_for_admission_and_for_a_key() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store, slow) = beside(&kit, Stage::Mutating, true).await;
        let deadline = |seconds| Some(kit.system.clock().now() + Duration::from_secs(seconds));
        let mut request = merging("a", &json!({"data": {"mine": "x"}}));
        request.target.user = slow_user();
        request.target.deadline = deadline(12);
        let (written, ()) = tokio::join!(bench.registry.patch(request), async {
            for _ in 0..2 {
                slow.asleep().await;
                kit.clock.advance(SLOW);
            }
            slow.asleep().await;
            kit.clock.advance(Duration::from_secs(2));
        });
        assert_eq!(
            refused(written).0,
            Reason::Timeout,
            "the object never stays as the plugin saw it"
        );
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(object["data"], json!({"seen": "2"}), "nothing of it was written");

        store.arrived.forget_permits(usize::MAX);
        store.gate.forget_permits(usize::MAX);
        let mut request = merging("a", &json!({"data": {"late": "x"}}));
        request.target.deadline = deadline(3);
        let (first, late, ()) = tokio::join!(
            bench.merge("a", json!({"data": {"first": "x"}})),
            bench.registry.patch(request),
            async {
                store.arrived.acquire().await.expect("the store is open").forget();
                kit.clock.advance(Duration::from_secs(3));
                tokio::task::yield_now().await;
                store.gate.add_permits(100);
            }
        );
        first.expect("it had the key");
        assert_eq!(refused(late).0, Reason::Timeout);
        let object = bench.now("a").await.expect("it is there");
        assert_eq!(object["data"], json!({"seen": "2", "first": "x"}));
    });
}

#[test]
fn creates_and_collection_deletions_take_a_permit_each() {
    run(Topology::trireme(), |kit| async move {
        let (bench, store, _) = beside(&kit, Stage::Mutating, false).await;
        store.gate.forget_permits(usize::MAX);
        let permits = Topology::trireme()
            .entry(trireme_actors::ActorKind::REGISTRY)
            .expect("it is in the table")
            .permits;
        let create = |n: usize| Box::pin(bench.create(thing(&format!("t{n}"), json!({}), json!({}))));
        let mut under_way: Vec<_> = (0..permits).map(create).collect();
        for one in &mut under_way {
            assert!(one.now_or_never().is_none(), "it waits for the store");
        }
        assert_eq!(refused(create(permits).await).0, Reason::TooManyRequests);
        let all = || DeleteCollectionRequest {
            target: target("ns", ""),
            selection: Default::default(),
            list: Default::default(),
            options: DeleteOptions::default(),
        };
        let full = bench.registry.delete_collection(all()).await;
        assert_eq!(refused(full).0, Reason::TooManyRequests);
        store.gate.add_permits(permits + 1);
        for created in join_all(under_way).await {
            created.expect("it had a permit");
        }
        bench
            .registry
            .delete_collection(all())
            .await
            .expect("all permits are free again");
        assert_eq!(bench.now("a").await, None);
    });
}
