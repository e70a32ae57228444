use std::{collections::HashSet, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::json;
use trireme_actors::{
    testkit::{assert_topology_happened, eventually, run},
    topology::Topology,
};
use trireme_machinery::ApiError;
use trireme_storage::Storage;

use super::{ApiSurface, DirectorError, DirectorHandle, PublishedSurface, Registries};
use crate::{
    admission::{Admission, Attributes},
    definition::ResourceDefinition,
    fixtures::{
        SlowReadIndex, configmaps, get, list, metered, metrics_page, nodes, open_store, put, renamed, target, watch,
        widgets,
    },
    openapi_fragment::NoSchemas,
    reads::errors::superseded,
    request::{DeleteOptions, DeleteRequest, Freshness, WatchStart},
    store_watcher::StoreWatcherOptions,
};

/// Lets everything pass.
struct Open;

impl Admission for Open {
    fn mutate<'a>(&'a self, _attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, _attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Ok(()) })
    }
}

async fn start(
    system: &trireme_actors::ActorSystem,
    store: Arc<dyn Storage>,
    resources: Vec<ResourceDefinition>,
) -> DirectorHandle {
    let registries = Registries {
        system: system.clone(),
        store,
        store_watcher: StoreWatcherOptions::default(),
        admission: Arc::new(Open),
        published: PublishedSurface::default(),
        other_kinds: Arc::new(HashSet::new()),
        schemas: Arc::new(NoSchemas),
    };
    registries
        .start(resources.into_iter().map(Arc::new).collect())
        .await
        .expect("all resources differ")
}

fn found(table: &ApiSurface, group: &str, version: &str, plural: &str) -> Option<(String, usize)> {
    let route = table.find(group, version, plural)?;
    Some((route.registry.info().storage_prefix.to_string(), route.version))
}

#[test]
fn routes_lead_to_the_version_of_a_resource() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let director = start(&kit.system, store, vec![configmaps(), widgets()]).await;
        let table = director.surface();
        assert_eq!(
            found(&table, "", "v1", "configmaps"),
            Some(("/registry/configmaps".to_owned(), 0))
        );
        assert_eq!(
            found(&table, "example.com", "v1beta1", "widgets"),
            Some(("/registry/widgets".to_owned(), 1))
        );
        assert_eq!(found(&table, "example.com", "v2", "widgets"), None);
        assert_eq!(found(&table, "", "v1", "widgets"), None);
        assert_eq!(table.registries().count(), 2);
    });
}

#[test]
fn many_resources_are_loaded_at_the_start() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let resources: Vec<_> = (0..20)
            .map(|number| {
                let mut info = configmaps();
                info.resource.resource = format!("kind{number}").into();
                info.storage_prefix = format!("/registry/kind{number}").into();
                info
            })
            .collect();
        for info in &resources {
            put(&*store, info, "ns/a", json!({})).await;
        }
        let director = start(&kit.system, store, resources).await;
        for registry in director.surface().registries() {
            registry.get(get("ns/a")).await.expect("it was there before");
        }
        assert!(director.is_ready());
    });
}

#[test]
fn resources_come_and_go() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let director = start(&kit.system, store.clone(), vec![configmaps()]).await;
        // As if a write were under way in each for as long as the test goes on.
        let mut removed = Vec::new();
        for _ in 0..3 {
            director.install(vec![Arc::new(nodes())]).await.expect("it is new");
            let again = director.install(vec![Arc::new(nodes())]).await;
            assert!(matches!(again, Err(DirectorError::Duplicate(_))), "{again:?}");
            let written = put(&*store, &nodes(), "n", json!({})).await;
            let registry = director
                .surface()
                .find("", "v1", "nodes")
                .expect("it is routed")
                .registry;
            assert_eq!(registry.get(get("n")).await.expect("it was written").revision, written);
            let mut watcher = registry
                .watch(watch("", WatchStart::Now(Freshness::Latest)))
                .await
                .expect("the watch opens");

            director.remove(&nodes().resource).await.expect("the director answers");
            assert!(director.surface().find("", "v1", "nodes").is_none());
            assert!(watcher.next().await.is_none(), "its watches end");
            removed.push(registry);
        }
        let kept = director
            .surface()
            .find("", "v1", "configmaps")
            .expect("it is still there")
            .registry;
        assert!(kept.list(list("")).await.is_ok());
    });
}

#[test]
fn a_resource_that_is_gone_has_no_objects() {
    run(Topology::trireme(), |kit| async move {
        metrics_page();
        let (_dir, store) = open_store();
        let info = renamed(configmaps(), "gone");
        put(&*store, &info, "ns/a", json!({})).await;
        let director = start(&kit.system, store, vec![nodes(), info.clone()]).await;
        let shows = |objects: &str| {
            let page = metrics_page();
            let of_resource = format!("apiserver_storage_objects{{resource=\"gone.metered\"}} {objects}");
            metered(&page, "gone").contains(&format!("apiserver_resource_objects {objects}"))
                && page.lines().any(|line| line == of_resource)
        };
        let served = director
            .surface()
            .installed(&info.resource)
            .cloned()
            .expect("it is served");
        let registry = served.registry().expect("it is stored");
        registry.get(get("ns/a")).await.expect("it was there before");
        registry.reader().show_state();
        assert!(shows("1"));
        director.remove(&info.resource).await.expect("the director answers");
        eventually("its object is shown no longer", || shows("0")).await;
        registry.reader().show_state();
        assert!(shows("0"), "as when it was removed meanwhile");
    });
}

/// As when definitions of several resources come at once, one of which would shadow a resource that is served.
#[test]
fn a_resource_can_be_served_after_it_came_with_one_that_cannot() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let director = start(&kit.system, store, vec![configmaps()]).await;
        for other in [configmaps(), nodes()] {
            let both = director.install(vec![Arc::new(nodes()), Arc::new(other)]).await;
            assert!(matches!(both, Err(DirectorError::Duplicate(_))), "{both:?}");
        }
        director.install(vec![Arc::new(nodes())]).await.expect("it is new");
    });
}

#[test]
fn the_declared_edges_and_timers_are_those_that_happen() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let slow = SlowReadIndex::over(store.clone(), 1_000);
        let director = start(&kit.system, slow.clone(), vec![configmaps(), widgets()]).await;
        let fewer = ResourceDefinition {
            versions: widgets().versions.into_iter().take(1).collect(),
            ..widgets()
        };
        director.replace(Arc::new(fewer)).await.expect("it is served");
        let route = director.surface().find("", "v1", "configmaps").expect("it is served");
        let info = route.registry.info().clone();
        put(&*store, &info, "n/one", json!({})).await;
        slow.let_through.forget_permits(usize::MAX);
        let mut reads = [1, 2].map(|_| Box::pin(route.registry.get(get("n/one"))));
        for read in &mut reads {
            assert!(read.now_or_never().is_none(), "it waits for the store");
        }
        slow.let_through.add_permits(1_000);
        for read in reads {
            read.await.expect("it is there");
        }
        let _watcher = route.registry.watch(watch("n", WatchStart::Now(Freshness::Any))).await;
        let mut held = route.registry.key(&target("n", "one")).expect("there are permits");
        held.lock().await.expect("it is free");
        let delete = DeleteRequest {
            target: target("n", "one"),
            options: DeleteOptions::default(),
        };
        let mut deleting = Box::pin(route.registry.delete(delete));
        assert!(deleting.as_mut().now_or_never().is_none(), "it waits for the key");
        drop(held);
        deleting.await.expect("it is deleted");
        route.registry.reader().cache().crash();
        put(&*store, &info, "n/two", json!({})).await;
        route
            .registry
            .get(get("n/two"))
            .await
            .expect("the rebuilt cache is loaded");
        assert_topology_happened(&kit.system, "registry");
    });
}

#[test]
fn a_settled_surface_shows_what_was_defined_before() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let director = start(&kit.system, store.clone(), vec![configmaps()]).await;
        let surface = director.surface();
        let route = surface.find("", "v1", "configmaps").expect("it is served");
        let definitions = route.registry.reader().clone();
        put(&*store, &configmaps(), "ns/widgets", json!({})).await;
        let read = route.registry.get(get("ns/widgets")).await.expect("it is there");
        let (shown, receiver) = tokio::sync::watch::channel(0);
        director.follow_definitions(definitions, receiver);
        let mut waiting = Box::pin(director.settled_surface());
        assert!(waiting.as_mut().now_or_never().is_none());
        director.install(vec![Arc::new(widgets())]).await.expect("it is new");
        shown.send_replace(read.revision);
        let settled = waiting.await;
        assert!(found(&settled, "example.com", "v1", "widgets").is_some());
        assert!(director.settled_surface().now_or_never().is_some());
    });
}

/// As when another replica serves a new version first, and stores in it.
#[test]
fn what_was_stored_in_a_version_before_it_was_known_is_read_when_it_is() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let mut known_later = widgets();
        let before = Arc::new(ResourceDefinition {
            versions: known_later.versions.split_off(1),
            ..widgets()
        });
        let stored_as_v1 = known_later;
        let director = start(&kit.system, store.clone(), vec![(*before).clone()]).await;
        let registry = || {
            let route = director.surface().find("example.com", "v1beta1", "widgets");
            route.expect("it is served").registry
        };
        put(&*store, &stored_as_v1, "ns/a", json!({})).await;
        let unreadable = registry().get(get("ns/a")).await.expect_err("v1 is not known");
        assert!(unreadable.message.contains("ns/a"), "{unreadable}");
        let mut after = (*before).clone();
        after.versions.extend(stored_as_v1.versions);
        director.replace(Arc::new(after)).await.expect("it is served");
        eventually("it is read by the new definition", || {
            registry().reader().unreadable().is_empty()
        })
        .await;
        registry().get(get("ns/a")).await.expect("v1 is known");
    });
}

/// As a request that was routed before the change, and reads after it.
#[test]
fn a_registry_whose_definition_was_replaced_shows_no_old_state_as_new() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let director = start(&kit.system, store.clone(), vec![widgets()]).await;
        let registry = || {
            let route = director.surface().find("example.com", "v1", "widgets");
            route.expect("it is served").registry
        };
        let before = registry();
        put(&*store, &widgets(), "ns/a", json!({})).await;
        before.get(get("ns/a")).await.expect("it was written");

        let mut stored_otherwise = widgets();
        stored_otherwise.versions.swap(0, 1);
        director
            .replace(Arc::new(stored_otherwise))
            .await
            .expect("it is served");
        put(&*store, &widgets(), "ns/b", json!({})).await;
        registry().get(get("ns/b")).await.expect("it is followed anew");
        assert_eq!(
            before.list(list("")).await.expect_err("b is not in its cache"),
            superseded()
        );
        assert_eq!(
            before.get(get("ns/a")).await.expect_err("it may have changed"),
            superseded()
        );
        let watched = before.watch(watch("", WatchStart::State(Freshness::Latest))).await;
        assert_eq!(watched.err(), Some(superseded()));
        let after = registry();
        assert!(before.is_superseded() && !after.is_superseded());
        director.remove(&widgets().resource).await.expect("it is served");
        put(&*store, &configmaps(), "ns/c", json!({})).await;
        eventually("the removed cache is followed no longer", || after.is_superseded()).await;
        assert_eq!(
            after.get(get("ns/b")).await.expect_err("it may have changed"),
            superseded()
        );
    });
}
