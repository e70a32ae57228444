//! Tests of the parts of controllers, run as their users run it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::Either;
use futures_util::{FutureExt as _, StreamExt as _, future};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event as StoredEvent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::json;

use crate::{PATIENCE, Scene, next, value};

const FINALIZER: &str = "tests.example.com/cleanup";

pub(crate) async fn finalizers_run_to_the_end(scene: Scene) {
    let configmaps = scene.configmaps();
    scene.configmap("guarded", "1").await;
    let step = async |seen: &mut Vec<&'static str>| {
        let object = configmaps.get("guarded").await.expect("there");
        let reconcile = async |event| {
            seen.push(match event {
                finalizer::Event::Apply(_) => "apply",
                finalizer::Event::Cleanup(_) => "cleanup",
            });
            Ok::<_, std::io::Error>(Action::await_change())
        };
        finalizer(&configmaps, FINALIZER, Arc::new(object), reconcile)
            .await
            .expect("reconciled")
    };
    let mut seen = Vec::new();
    step(&mut seen).await;
    let held = configmaps.get("guarded").await.expect("there");
    assert_eq!(held.finalizers(), [FINALIZER]);
    step(&mut seen).await;
    configmaps
        .delete("guarded", &DeleteParams::default())
        .await
        .expect("marked");
    let dying = configmaps.get("guarded").await.expect("the finalizer keeps it");
    assert!(dying.metadata.deletion_timestamp.is_some());
    step(&mut seen).await;
    assert_eq!(seen, ["apply", "cleanup"]);
    assert!(configmaps.get_opt("guarded").await.expect("an answer").is_none());
}

/// Takes the lease, if it is free, ours or expired, as candidates of an election do: a conflict is a lost race.
async fn acquire(leases: &Api<Lease>, candidate: &str, now: MicroTime) -> bool {
    let taken = |spec: Option<&LeaseSpec>| {
        let transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(candidate.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(now.clone()),
            lease_transitions: Some(transitions + 1),
            ..LeaseSpec::default()
        }
    };
    let written = match leases.get_opt("leader").await.expect("an answer") {
        None => {
            let metadata = ObjectMeta {
                name: Some("leader".to_owned()),
                ..ObjectMeta::default()
            };
            let lease = Lease {
                metadata,
                spec: Some(taken(None)),
            };
            leases.create(&PostParams::default(), &lease).await
        }
        Some(mut lease) => {
            let spec = lease.spec.as_ref();
            let mine = spec.and_then(|spec| spec.holder_identity.as_deref()) == Some(candidate);
            let renewed = spec.and_then(|spec| spec.renew_time.clone());
            let expired = renewed.is_none_or(|renewed| now.0.duration_since(renewed.0).as_secs() > 15);
            if !mine && !expired {
                return false;
            }
            lease.spec = Some(taken(lease.spec.as_ref()));
            leases.replace("leader", &PostParams::default(), &lease).await
        }
    };
    match written {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 409 => false,
        Err(error) => panic!("{error}"),
    }
}

fn time(text: &str) -> MicroTime {
    serde_json::from_value(json!(text)).expect("a time")
}

pub(crate) async fn a_lease_has_one_holder(scene: Scene) {
    let leases: Api<Lease> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let candidates: Vec<String> = (0..8).map(|number| format!("candidate-{number}")).collect();
    let (start, later) = (time("2026-01-01T00:00:00.123456Z"), time("2026-01-01T00:01:00.000001Z"));
    let race = async |at: &MicroTime| {
        let attempts = candidates
            .iter()
            .map(|candidate| acquire(&leases, candidate, at.clone()));
        let won = future::join_all(attempts).await;
        let lease = leases.get("leader").await.expect("there").spec.expect("a spec");
        (won.into_iter().filter(|won| *won).count(), lease)
    };
    let (winners, lease) = race(&start).await;
    assert_eq!(winners, 1);
    assert_eq!(lease.renew_time, Some(start.clone()), "microseconds are kept");
    let holder = lease.holder_identity.expect("a holder");
    assert!(acquire(&leases, &holder, start.clone()).await, "who has it renews it");
    let (winners, lease) = race(&later).await;
    assert_eq!(winners, 1, "one takes it over once it has expired");
    assert_eq!(lease.lease_transitions, Some(3));
}

/// Keeps a Secret beside each ConfigMap, with the same value.
async fn reconcile(configmap: Arc<ConfigMap>, client: Arc<Client>) -> kube::Result<Action> {
    let namespace = configmap.namespace().unwrap_or_default();
    let secrets: Api<Secret> = Api::namespaced((*client).clone(), &namespace);
    let data = BTreeMap::from([("value".to_owned(), value(&configmap).to_owned())]);
    let wanted = Secret {
        metadata: ObjectMeta {
            name: configmap.metadata.name.clone(),
            owner_references: configmap.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        string_data: Some(data),
        ..Secret::default()
    };
    let name = configmap.name_any();
    match secrets.get_opt(&name).await? {
        None => secrets.create(&PostParams::default(), &wanted).await?,
        Some(_) => {
            let data = json!({"stringData": wanted.string_data});
            secrets
                .patch(&name, &PatchParams::default(), &Patch::Merge(data))
                .await?
        }
    };
    Ok(Action::await_change())
}

pub(crate) async fn a_controller_keeps_what_it_owns(scene: Scene) {
    let secrets: Api<Secret> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = Controller::new(scene.configmaps(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default())
        .graceful_shutdown_on(stopped.map(|_| ()))
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(100)),
            Arc::new(scene.client.clone()),
        )
        .for_each(async |reconciled| println!("{reconciled:?}"));
    let user = async {
        let mut seen = Box::pin(watcher(secrets.clone(), watcher::Config::default()).touched_objects());
        let mut until = async |wanted: &str| loop {
            let secret = next(&mut seen).await.expect("no error");
            let value = secret.data.as_ref().and_then(|data| data.get("value"));
            let value = value.map(|value| String::from_utf8_lossy(&value.0).into_owned());
            println!("a Secret with {value:?} came, {wanted} is waited for");
            if value.as_deref() == Some(wanted) {
                return secret;
            }
        };
        let owner = scene.configmap("pair", "1").await;
        let secret = until("1").await;
        assert_eq!(secret.owner_references()[0].uid, owner.uid().expect("a uid"));
        let two = Patch::Merge(json!({"data": {"value": "2"}}));
        let configmaps = scene.configmaps();
        configmaps
            .patch("pair", &PatchParams::default(), &two)
            .await
            .expect("patched");
        let secret = until("2").await;
        secrets.delete("pair", &DeleteParams::default()).await.expect("deleted");
        while until("2").await.uid() == secret.uid() {}
        let _ = stop.send(());
    };
    // Longer than the limit of each wait for a Secret, which says more.
    let (controller, user) = (pin!(controller), pin!(user));
    let done = tokio::time::timeout(PATIENCE * 4, future::select(controller, user)).await;
    let controller = match done.expect("every request of the user is answered") {
        Either::Left(_) => panic!("the controller stopped before it was told"),
        Either::Right(((), controller)) => controller,
    };
    let stopped = tokio::time::timeout(PATIENCE, controller).await;
    stopped.expect("the controller stops when it is told");
}

pub(crate) async fn events_are_counted(scene: Scene) {
    let object = scene.configmap("subject", "1").await;
    let reporter = Reporter::from("tests.example.com/controller".to_owned());
    let recorder = Recorder::new(scene.client.clone(), reporter);
    let event = Event {
        type_: EventType::Normal,
        reason: "Tested".to_owned(),
        note: Some("it happens".to_owned()),
        action: "Testing".to_owned(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder
            .publish(&event, &object.object_ref(&()))
            .await
            .expect("published");
    }
    let events: Api<StoredEvent> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let about = format!("regarding.uid={}", object.uid().expect("a uid"));
    let found = events
        .list(&ListParams::default().fields(&about))
        .await
        .expect("a list");
    let counts: Vec<i32> = found
        .items
        .iter()
        .filter_map(|event| Some(event.series.as_ref()?.count))
        .collect();
    assert_eq!(counts, [3], "one event, counted");
}
