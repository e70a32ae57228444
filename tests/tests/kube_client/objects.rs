//! Objects, typed and not.

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::{Binding, ConfigMap, Namespace, Node, ObjectReference, Pod};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, EvictParams, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams, Preconditions, ValidationDirective,
};
use kube::core::{Expression, Selector};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::{Scene, code, configmap, value};

/// Each is deleted while others are: one of fifty would be let in if the watch cache alone was asked.
const NAMESPACES_DELETED: usize = 200;

pub(crate) async fn live_their_lives(scene: Scene) {
    let configmaps = scene.configmaps();
    let created = scene.configmap("settings", "1").await;
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());

    let mut changed = created.clone();
    changed.data = configmap("settings", "2").data;
    let replaced = configmaps.replace("settings", &PostParams::default(), &changed).await;
    assert_ne!(
        replaced.expect("replaced").resource_version(),
        created.resource_version()
    );
    assert_eq!(value(&configmaps.get("settings").await.expect("there")), "2");

    let entry = configmaps
        .entry("settings")
        .await
        .expect("an entry")
        .and_modify(|object| {
            object.data = configmap("settings", "3").data;
        });
    let entry = entry.or_insert(|| configmap("settings", "new"));
    assert_eq!(value(entry.get()), "3");
    let mut entry = entry;
    entry.commit(&PostParams::default()).await.expect("committed");
    assert_eq!(value(&configmaps.get("settings").await.expect("there")), "3");

    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    configmaps.create(&dry, &configmap("dry", "1")).await.expect("would do");
    assert!(configmaps.get_opt("dry").await.expect("an answer").is_none());

    configmaps
        .delete("settings", &DeleteParams::default())
        .await
        .expect("deleted");
    assert!(configmaps.get_opt("settings").await.expect("an answer").is_none());
}

pub(crate) async fn are_listed_in_pages(scene: Scene) {
    for number in 0..7 {
        let mut object = configmap(&format!("item-{number}"), "x");
        let parity = if number % 2 == 0 { "even" } else { "odd" };
        object.labels_mut().insert("parity".to_owned(), parity.to_owned());
        let created = scene.configmaps().create(&PostParams::default(), &object).await;
        created.expect("created");
    }
    let configmaps = scene.configmaps();
    let mut names = Vec::new();
    let mut params = ListParams::default().limit(3);
    loop {
        let page = configmaps.list_metadata(&params).await.expect("a page");
        assert!(page.items.len() <= 3);
        names.extend(page.items.iter().map(|item| item.name_any()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    let wanted: Vec<String> = (0..7).map(|number| format!("item-{number}")).collect();
    assert_eq!(names, wanted);

    let selector = Selector::from(Expression::In("parity".to_owned(), ["odd".to_owned()].into()));
    let odd = ListParams::default().labels_from(&selector);
    assert_eq!(configmaps.list(&odd).await.expect("a list").items.len(), 3);
    configmaps
        .delete_collection(&DeleteParams::default(), &odd)
        .await
        .expect("deleted");
    assert_eq!(
        configmaps
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .len(),
        4
    );
    let one = ListParams::default().fields("metadata.name=item-4");
    assert_eq!(configmaps.list(&one).await.expect("a list").items.len(), 1);
}

pub(crate) async fn are_patched(scene: Scene) {
    let configmaps = scene.configmaps();
    scene.configmap("patched", "1").await;
    let params = PatchParams::default();
    let merge = Patch::Merge(json!({"data": {"value": null, "b": "2"}}));
    let patched = configmaps.patch("patched", &params, &merge).await.expect("patched");
    assert_eq!(
        patched.data.map(|data| data.into_keys().collect()),
        Some(vec!["b".to_owned()])
    );

    let operations = json!([{"op": "test", "path": "/data/b", "value": "2"}, {"op": "copy", "from": "/data/b", "path": "/data/value"}]);
    let operations = serde_json::from_value(operations).expect("a JSON patch");
    let patched = configmaps
        .patch("patched", &params, &Patch::<()>::Json(operations))
        .await;
    assert_eq!(value(&patched.expect("patched")), "2");

    let deployments: Api<Deployment> = Api::namespaced(scene.client.clone(), &scene.namespace);
    deployments
        .create(&PostParams::default(), &deployment("web", 1))
        .await
        .expect("created");
    let strategic = Patch::Strategic(
        json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}}),
    );
    let patched = deployments.patch("web", &params, &strategic).await.expect("patched");
    let template = patched.spec.and_then(|spec| spec.template.spec).expect("a template");
    assert_eq!(template.containers.len(), 2, "containers are merged by their names");

    let labels = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let metadata = configmaps
        .patch_metadata("patched", &params, &labels)
        .await
        .expect("patched");
    assert_eq!(metadata.labels().get("a").map(String::as_str), Some("b"));

    // `kubectl rollout restart`
    let restarted = deployments.restart("web").await.expect("restarted");
    let annotations = restarted.spec.and_then(|spec| spec.template.metadata?.annotations);
    let restarted_at = annotations.is_some_and(|map| map.contains_key("kube.kubernetes.io/restartedAt"));
    assert!(restarted_at, "the template is marked");
}

pub(crate) async fn have_subresources(scene: Scene) {
    let deployments: Api<Deployment> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let params = PostParams::default();
    deployments
        .create(&params, &deployment("web", 2))
        .await
        .expect("created");

    let scale = deployments.get_scale("web").await.expect("a scale");
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(2));
    let five = Patch::Merge(json!({"spec": {"replicas": 5}}));
    deployments
        .patch_scale("web", &PatchParams::default(), &five)
        .await
        .expect("scaled");

    let mut object = deployments.get_status("web").await.expect("a status");
    object.status = Some(DeploymentStatus {
        replicas: Some(5),
        ..DeploymentStatus::default()
    });
    object.spec.as_mut().expect("a spec").replicas = Some(9);
    let replaced = deployments
        .replace_status("web", &params, &object)
        .await
        .expect("replaced");
    let replicas = |object: &Deployment| object.spec.as_ref().and_then(|spec| spec.replicas);
    assert_eq!(replicas(&replaced), Some(5), "only the status is taken");
    assert_eq!(replaced.status.and_then(|status| status.replicas), Some(5));
    let ready = Patch::Merge(json!({"status": {"readyReplicas": 1}}));
    let patched = deployments.patch_status("web", &PatchParams::default(), &ready).await;
    assert_eq!(
        patched
            .expect("patched")
            .status
            .and_then(|status| status.ready_replicas),
        Some(1)
    );
}

pub(crate) async fn pods_are_bound_and_evicted(scene: Scene) {
    let pods: Api<Pod> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let pod = json!({"metadata": {"name": "lone"}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}});
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    pods.create(&PostParams::default(), &pod).await.expect("created");
    let binding = Binding {
        metadata: pod.metadata.clone(),
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some("node-1".to_owned()),
            ..ObjectReference::default()
        },
    };
    let bound: Value = pods
        .create_subresource("binding", "lone", &PostParams::default(), &binding)
        .await
        .expect("bound");
    assert_eq!(bound["status"], "Success");
    let on_node = ListParams::default().fields("spec.nodeName=node-1");
    assert_eq!(pods.list(&on_node).await.expect("a list").items.len(), 1);
    let evicted = pods.evict("lone", &EvictParams::default()).await.expect("evicted");
    assert!(evicted.is_success());
    let dying = pods.get("lone").await.expect("it is asked to go");
    assert!(dying.metadata.deletion_timestamp.is_some());
    let now = DeleteParams::default().grace_period(0);
    pods.delete("lone", &now).await.expect("deleted");
    assert!(pods.get_opt("lone").await.expect("an answer").is_none());
}

pub(crate) async fn nodes_are_cordoned(scene: Scene) {
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "node-2"}})).expect("a node");
    nodes.create(&PostParams::default(), &node).await.expect("created");
    let unschedulable = |node: Node| node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
    assert!(unschedulable(nodes.cordon("node-2").await.expect("cordoned")));
    assert!(!unschedulable(nodes.uncordon("node-2").await.expect("uncordoned")));
}

/// A client that got the answer that a namespace is being deleted may count the objects in it: the count does not grow.
pub(crate) async fn nothing_gets_into_a_deleted_namespace(scene: Scene) {
    let attempts = (0..NAMESPACES_DELETED).map(|number| {
        let client = scene.client.clone();
        async move {
            let scene = Scene::new(&client, &format!("deleted-{number}")).await;
            scene.configmap("before", "1").await;
            let namespaces: Api<Namespace> = Api::all(client);
            let deleted = namespaces.delete(&scene.namespace, &DeleteParams::default()).await;
            deleted.expect("deleted");
            let late = scene.configmaps();
            late.create(&PostParams::default(), &configmap("late", "1")).await
        }
    });
    let late: Vec<_> = stream::iter(attempts).buffered(4).collect().await;
    assert_eq!(
        late.into_iter().map(code).collect::<Vec<_>>(),
        [403; NAMESPACES_DELETED]
    );
}

pub(crate) async fn are_found_by_discovery(scene: Scene) {
    let client = scene.client.clone();
    let version = client.apiserver_version().await.expect("a version");
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
    for aggregated in [false, true] {
        let discovery = Discovery::new(client.clone());
        let discovery = match aggregated {
            true => discovery.run_aggregated().await,
            false => discovery.run().await,
        };
        let discovery = discovery.expect("the kinds");
        let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
        let (resource, capabilities) = discovery.resolve_gvk(&kind).expect("deployments are served");
        assert_eq!(
            (resource.plural.as_str(), &capabilities.scope),
            ("deployments", &Scope::Namespaced)
        );
        for verb in [verbs::CREATE, verbs::PATCH, verbs::WATCH, verbs::DELETE_COLLECTION] {
            assert!(capabilities.supports_operation(verb), "{verb}");
        }
        let subresources = capabilities
            .subresources
            .iter()
            .map(|(resource, _)| resource.plural.as_str());
        assert!(
            subresources.into_iter().any(|plural| plural.ends_with("scale")),
            "aggregated: {aggregated}"
        );
        assert!(discovery.groups().count() > 15, "aggregated: {aggregated}");
    }

    let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let (resource, _) = kube::discovery::pinned_kind(&client, &kind).await.expect("served");
    let objects: Api<DynamicObject> = Api::namespaced_with(client, &scene.namespace, &resource);
    let object = DynamicObject::new("free", &resource).data(json!({"data": {"value": "1"}}));
    let mut created = objects.create(&PostParams::default(), &object).await.expect("created");
    created.data["data"]["value"] = json!("2");
    objects
        .replace("free", &PostParams::default(), &created)
        .await
        .expect("replaced");
    assert_eq!(objects.get("free").await.expect("there").data["data"]["value"], "2");
    assert_eq!(ApiResource::erase::<ConfigMap>(&()).plural, resource.plural);
    objects.delete("free", &DeleteParams::default()).await.expect("deleted");
}

pub(crate) async fn refusals_reach_the_client(scene: Scene) {
    let configmaps = scene.configmaps();
    let params = PostParams::default();
    let stale = scene.configmap("taken", "1").await;
    assert_eq!(code(configmaps.create(&params, &configmap("taken", "2")).await), 409);
    assert_eq!(code(configmaps.get("missing").await), 404);
    let bump = Patch::Merge(json!({"data": {"value": "2"}}));
    configmaps
        .patch("taken", &PatchParams::default(), &bump)
        .await
        .expect("patched");
    assert_eq!(code(configmaps.replace("taken", &params, &stale).await), 409);
    assert_eq!(code(configmaps.create(&params, &configmap("No_Name", "1")).await), 422);
    let another = DeleteParams::default().preconditions(Preconditions {
        uid: Some("another".to_owned()),
        ..Preconditions::default()
    });
    assert_eq!(code(configmaps.delete("taken", &another).await), 409);
    let strict = PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let unknown = Patch::Merge(json!({"dta": {"value": "2"}}));
    assert_eq!(code(configmaps.patch("taken", &strict, &unknown).await), 422);
    let broken = ListParams::default().labels("==");
    assert_eq!(code(configmaps.list(&broken).await), 400);
}

fn deployment(name: &str, replicas: i32) -> Deployment {
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]},
            },
        },
    });
    serde_json::from_value(deployment).expect("a deployment")
}
