//! A controller of a resource that it defines itself: what an operator that is built on the crate does.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, future};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Error, Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;

use crate::{PATIENCE, Scene, next};

const DEFINITION: &str = "ships.tests.example.com";
const FINALIZER: &str = "tests.example.com/harbour";
const MANAGER: &str = "ship-operator";

fn definition() -> CustomResourceDefinition {
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": "tests.example.com",
            "scope": "Namespaced",
            "names": {"plural": "ships", "singular": "ship", "kind": "Ship", "shortNames": ["sh"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["cargo"], "properties": {
                        "cargo": {"type": "string"}, "crew": {"type": "integer", "default": 3},
                    }},
                    "status": {"type": "object", "properties": {
                        "loaded": {"type": "string"}, "observedGeneration": {"type": "integer", "format": "int64"},
                    }},
                }}},
            }],
        },
    });
    serde_json::from_value(object).expect("it is a definition")
}

/// The clients and objects that the controller works with.
struct Harbour {
    scene: Scene,
    kind: ApiResource,
}

impl Harbour {
    fn ships(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.scene.client.clone(), &self.scene.namespace, &self.kind)
    }

    /// Keeps a manifest beside the ship, and says in its status what it has loaded.
    async fn load(&self, ship: &DynamicObject) -> kube::Result<Action> {
        let params = PatchParams::apply(MANAGER).force();
        let cargo = &ship.data["spec"]["cargo"];
        let manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": ship.name_any(), "ownerReferences": [ship.controller_owner_ref(&self.kind)]},
            "data": {"value": cargo},
        });
        let manifests = self.scene.configmaps();
        manifests
            .patch(&ship.name_any(), &params, &Patch::Apply(&manifest))
            .await?;
        let status = json!({
            "apiVersion": self.kind.api_version, "kind": self.kind.kind,
            "status": {"loaded": cargo, "observedGeneration": ship.metadata.generation},
        });
        let ships = self.ships();
        ships
            .patch_status(&ship.name_any(), &params, &Patch::Apply(&status))
            .await?;
        Ok(Action::await_change())
    }

    /// Leaves word that the ship is gone.
    async fn sink(&self, ship: &DynamicObject) -> kube::Result<Action> {
        let word = crate::configmap(&format!("sunk-{}", ship.name_any()), "1");
        match self.scene.configmaps().create(&PostParams::default(), &word).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made?),
        }
        Ok(Action::await_change())
    }
}

async fn reconcile(ship: Arc<DynamicObject>, harbour: Arc<Harbour>) -> Result<Action, Error<kube::Error>> {
    let ships = harbour.ships();
    finalizer(&ships, FINALIZER, ship, |event| async {
        match event {
            Event::Apply(ship) => harbour.load(&ship).await,
            Event::Cleanup(ship) => harbour.sink(&ship).await,
        }
    })
    .await
}

/// Acts as the user of the operator.
async fn sail(harbour: &Harbour) {
    let ships = harbour.ships();
    let config = watcher::Config::default();
    let mut seen = Box::pin(watcher(ships.clone(), config).touched_objects());
    let mut until_loaded = async |cargo: &str| loop {
        let ship = next(&mut seen).await.expect("no error");
        if ship.data["status"]["loaded"] == cargo {
            return ship;
        }
    };
    let ship = DynamicObject::new("argo", &harbour.kind).data(json!({"spec": {"cargo": "wool"}}));
    let made = ships.create(&PostParams::default(), &ship).await.expect("created");
    assert_eq!(made.data["spec"]["crew"], 3);
    let loaded = until_loaded("wool").await;
    assert_eq!(loaded.data["status"]["observedGeneration"], 1);
    assert_eq!(loaded.finalizers(), [FINALIZER]);
    let change = Patch::Merge(json!({"spec": {"cargo": "amphorae"}, "status": {"loaded": "nothing"}}));
    let changed = ships.patch("argo", &PatchParams::default(), &change).await;
    let changed = changed.expect("patched");
    assert_eq!(
        changed.data["status"]["loaded"], "wool",
        "the status has an endpoint of its own"
    );
    let again = until_loaded("amphorae").await;
    assert_eq!(
        again.metadata.generation,
        Some(2),
        "the status and the finalizers are in no generation"
    );
    let manifest = harbour.scene.configmaps().get("argo").await.expect("there");
    assert_eq!(crate::value(&manifest), "amphorae");
    assert_eq!(manifest.owner_references()[0].kind, "Ship");

    harbour
        .scene
        .configmaps()
        .delete("argo", &DeleteParams::default())
        .await
        .expect("deleted");
    let manifests: Api<ConfigMap> = harbour.scene.configmaps();
    let back = await_condition(manifests.clone(), "argo", |manifest: Option<&ConfigMap>| {
        manifest.is_some_and(|manifest| manifest.metadata.deletion_timestamp.is_none())
    });
    back.await.expect("the controller makes it again");

    let uid = again.uid().expect("a uid");
    ships.delete("argo", &DeleteParams::default()).await.expect("deleted");
    await_condition(ships.clone(), "argo", conditions::is_deleted(&uid))
        .await
        .expect("the finalizer is taken out");
    manifests.get("sunk-argo").await.expect("the cleanup has run");
    let odd = DynamicObject::new("odd", &harbour.kind).data(json!({"spec": {}}));
    assert_eq!(crate::code(ships.create(&PostParams::default(), &odd).await), 422);
}

pub(crate) async fn objects_are_reconciled(scene: Scene) {
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    let params = PatchParams::apply(MANAGER);
    for _ in 0..2 {
        // An operator applies its definitions at each start.
        let applied = definitions
            .patch(DEFINITION, &params, &Patch::Apply(&definition()))
            .await;
        applied.expect("applied");
        await_condition(definitions.clone(), DEFINITION, conditions::is_crd_established())
            .await
            .expect("established");
    }
    let kind = GroupVersionKind::gvk("tests.example.com", "v1", "Ship");
    let (kind, _) = kube::discovery::pinned_kind(&scene.client, &kind)
        .await
        .expect("served");
    let harbour = Arc::new(Harbour {
        scene: scene.clone(),
        kind: kind.clone(),
    });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = Controller::new_with(harbour.ships(), watcher::Config::default(), kind)
        .owns(scene.configmaps(), watcher::Config::default())
        .graceful_shutdown_on(stopped.map(|_| ()))
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_millis(100)),
            harbour.clone(),
        )
        .for_each(|_| future::ready(()));
    let user = async {
        sail(&harbour).await;
        let _ = stop.send(());
    };
    tokio::time::timeout(PATIENCE, future::join(controller, user))
        .await
        .expect("the operator does its work and stops");
    definitions
        .delete(DEFINITION, &DeleteParams::default())
        .await
        .expect("deleted");
}
