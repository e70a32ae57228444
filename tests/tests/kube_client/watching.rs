//! Watchers and what is built on them.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, future};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt as _, reflector};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::timeout;
use trireme_tests::Server;

use crate::{PATIENCE, Scene, next, value};

pub(crate) async fn with_list_and_watch(scene: Scene) {
    // Pages of two, so that the list takes more than one.
    events_are_complete(scene, watcher::Config::default().page_size(2)).await;
}

pub(crate) async fn with_a_streaming_list(scene: Scene) {
    events_are_complete(scene, watcher::Config::default().streaming_lists()).await;
}

async fn events_are_complete(scene: Scene, config: watcher::Config) {
    for name in ["a", "b", "c"] {
        scene.configmap(name, "1").await;
    }
    // A streaming list begins with any state that the server has in memory.
    let has_all = async {
        let any = ListParams::default().match_any();
        while scene.configmaps().list(&any).await.expect("a list").items.len() < 3 {}
    };
    timeout(PATIENCE, has_all).await.expect("the server has them in memory");
    let mut events = pin!(watcher(scene.configmaps(), config));
    assert_eq!(initial(&mut events).await, ["a", "b", "c"]);

    scene.configmap("d", "1").await;
    let two = Patch::Merge(json!({"data": {"value": "2"}}));
    let configmaps = scene.configmaps();
    configmaps
        .patch("a", &PatchParams::default(), &two)
        .await
        .expect("patched");
    configmaps.delete("b", &DeleteParams::default()).await.expect("deleted");
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match next(&mut events).await.expect("no error") {
            Event::Apply(object) => format!("{}={}", object.name_any(), value(&object)),
            Event::Delete(object) => format!("-{}", object.name_any()),
            other => panic!("the list is over: {other:?}"),
        });
    }
    assert_eq!(seen, ["d=1", "a=2", "-b"]);
}

/// The names that come between the beginning and the end of a list.
async fn initial(events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin)) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        match next(events).await.expect("no error") {
            Event::Init => names.clear(),
            Event::InitApply(object) => names.push(object.name_any()),
            Event::InitDone => return names,
            other => panic!("the list is not over: {other:?}"),
        }
    }
}

pub(crate) async fn metadata_alone(scene: Scene) {
    scene.configmap("a", "1").await;
    let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let mut events = pin!(watcher(metadata, watcher::Config::default()).touched_objects());
    let first = next(&mut events).await.expect("no error");
    assert_eq!(
        (
            first.name_any().as_str(),
            first.types.map(|types| types.kind).as_deref()
        ),
        ("a", Some("PartialObjectMetadata"))
    );
    scene.configmap("b", "1").await;
    assert_eq!(next(&mut events).await.expect("no error").name_any(), "b");
}

pub(crate) async fn a_reflector_holds_what_a_list_shows(scene: Scene) {
    for number in 0..5 {
        scene.configmap(&format!("early-{number}"), "1").await;
    }
    for (round, config) in [watcher::Config::default(), watcher::Config::default().streaming_lists()]
        .into_iter()
        .enumerate()
    {
        let (store, writer) = reflector::store();
        let events = watcher(scene.configmaps(), config).default_backoff();
        let mut reflected = pin!(reflector(writer, events));
        change_a_lot(&scene, round).await;
        let list = scene.configmaps().list(&ListParams::default()).await.expect("a list");
        let wanted: BTreeMap<String, String> = list.items.iter().map(version).collect();
        loop {
            next(&mut reflected).await.expect("no error");
            let held: BTreeMap<String, String> = store.state().iter().map(|object| version(object)).collect();
            if held == wanted {
                break;
            }
        }
        let key = reflector::ObjectRef::new("early-1").within(&scene.namespace);
        let held: Option<Arc<ConfigMap>> = store.get(&key);
        assert_eq!(
            held.as_deref(),
            list.items.iter().find(|object| object.name_any() == "early-1")
        );
    }
}

fn version(object: &ConfigMap) -> (String, String) {
    (object.name_any(), object.resource_version().unwrap_or_default())
}

async fn change_a_lot(scene: &Scene, round: usize) {
    let configmaps = scene.configmaps();
    for number in 0..20 {
        scene.configmap(&format!("late-{round}-{number}"), "1").await;
    }
    let bump = Patch::Merge(json!({"data": {"value": format!("round {round}")}}));
    let patches = (0..5).map(|number| {
        let (configmaps, bump) = (&configmaps, &bump);
        async move {
            configmaps
                .patch(&format!("early-{number}"), &PatchParams::default(), bump)
                .await
        }
    });
    future::try_join_all(patches).await.expect("patched");
    for number in 0..10 {
        let name = format!("late-{round}-{number}");
        configmaps
            .delete(&name, &DeleteParams::default())
            .await
            .expect("deleted");
    }
}

pub(crate) async fn conditions_are_waited_for(scene: Scene) {
    let configmaps = scene.configmaps();
    let created = {
        let is_there = await_condition(configmaps.clone(), "awaited", conditions::is_created());
        let (is_there, created) = future::join(is_there, scene.configmap("awaited", "1")).await;
        assert!(is_there.expect("it comes").is_some());
        created
    };
    let uid = created.uid().expect("a uid");
    let is_gone = await_condition(configmaps.clone(), "awaited", conditions::is_deleted(&uid));
    let params = DeleteParams::default();
    let (is_gone, deleted) = future::join(is_gone, configmaps.delete("awaited", &params)).await;
    is_gone.expect("it goes");
    deleted.expect("deleted");
}

/// A watcher whose revision was compacted while it was away gets 410 and lists anew.
pub(crate) async fn watchers_come_back_after_a_restart(scene: Scene, server: &mut Server) {
    let seen = scene.configmap("seen", "1").await;
    let config = watcher::Config::default().fields("metadata.name!=unseen");
    let mut events = pin!(watcher(scene.configmaps(), config).default_backoff());
    assert_eq!(initial(&mut events).await, ["seen"]);
    // The watcher learns nothing of this, so what it goes on from is older than what the server knows then.
    scene.configmap("unseen", "1").await;
    let collection = format!("/api/v1/namespaces/{}/configmaps", scene.namespace);
    server.forget(&collection, &seen.resource_version().unwrap_or_default());

    let mut got_expired = false;
    let recovered = async {
        while let Some(event) = events.next().await {
            match event {
                Err(watcher::Error::WatchError(status)) => got_expired |= status.code == 410,
                // The connection that broke.
                Err(_) => {}
                Ok(Event::InitDone) => return,
                Ok(_) => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, recovered)
        .await
        .expect("it comes back in time");
    assert!(got_expired, "a watch from before the restart gets 410");
    scene.configmap("live", "1").await;
    let live = events.try_filter(|event| future::ready(matches!(event, Event::Apply(_))));
    match next(&mut pin!(live)).await.expect("no error") {
        Event::Apply(object) => assert_eq!(object.name_any(), "live"),
        other => panic!("{other:?}"),
    }
}
