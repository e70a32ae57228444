//! The `kube` crate against real servers on both stores: what programs in Rust that use it rely on.
//!
//! | module | what it is about |
//! | --- | --- |
//! | `objects` | typed and dynamic objects, patches, subresources, errors |
//! | `watching` | watchers, reflectors, and how they come back after a restart |
//! | `controllers` | controllers, finalizers, leases, events |
//! | `custom` | an operator with a resource of its own |

mod controllers;
mod custom;
mod objects;
mod watching;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use trireme_tests::server::COMPACTS_OFTEN;
use trireme_tests::{Server, StoreChoice};

/// The time limit of waits for things that come in milliseconds, or never.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client, and a namespace that only one case uses.
#[derive(Clone)]
struct Scene {
    client: Client,
    namespace: String,
}

impl Scene {
    async fn new(client: &Client, namespace: &str) -> Self {
        let metadata = ObjectMeta {
            name: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        let object = Namespace {
            metadata,
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &object)
            .await
            .expect("created");
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    fn configmaps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates a ConfigMap with one value.
    async fn configmap(&self, name: &str, value: &str) -> ConfigMap {
        let configmap = configmap(name, value);
        let created = self.configmaps().create(&PostParams::default(), &configmap).await;
        created.expect("created")
    }
}

fn configmap(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// The one value of such a ConfigMap.
fn value(configmap: &ConfigMap) -> &str {
    let data = configmap.data.as_ref();
    data.and_then(|data| data.get("value")).map_or("", String::as_str)
}

/// The next of a stream that does not end.
async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    let next = tokio::time::timeout(PATIENCE, stream.next()).await;
    next.expect("it comes in time").expect("the stream goes on")
}

/// The code in the Status that a call was refused with.
#[track_caller]
fn code<T: std::fmt::Debug>(refused: kube::Result<T>) -> u16 {
    match refused {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("no Status but {other:?}"),
    }
}

async fn connect(server: &Server) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("the server made a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it is complete")).expect("a client")
}

type Case = (&'static str, fn(Scene) -> BoxFuture<'static, ()>);

/// They run at the same time, as programs do.
const CASES: &[Case] = &[
    ("typed", |scene| objects::live_their_lives(scene).boxed()),
    ("lists", |scene| objects::are_listed_in_pages(scene).boxed()),
    ("patches", |scene| objects::are_patched(scene).boxed()),
    ("subresources", |scene| objects::have_subresources(scene).boxed()),
    ("pods", |scene| objects::pods_are_bound_and_evicted(scene).boxed()),
    ("nodes", |scene| objects::nodes_are_cordoned(scene).boxed()),
    ("namespaces", |scene| {
        objects::nothing_gets_into_a_deleted_namespace(scene).boxed()
    }),
    ("dynamic", |scene| objects::are_found_by_discovery(scene).boxed()),
    ("refusals", |scene| objects::refusals_reach_the_client(scene).boxed()),
    ("list-watch", |scene| watching::with_list_and_watch(scene).boxed()),
    ("streaming", |scene| watching::with_a_streaming_list(scene).boxed()),
    ("metadata", |scene| watching::metadata_alone(scene).boxed()),
    ("reflector", |scene| {
        watching::a_reflector_holds_what_a_list_shows(scene).boxed()
    }),
    ("conditions", |scene| watching::conditions_are_waited_for(scene).boxed()),
    ("finalizer", |scene| {
        controllers::finalizers_run_to_the_end(scene).boxed()
    }),
    ("lease", |scene| controllers::a_lease_has_one_holder(scene).boxed()),
    ("controller", |scene| {
        controllers::a_controller_keeps_what_it_owns(scene).boxed()
    }),
    ("operator", |scene| custom::objects_are_reconciled(scene).boxed()),
    ("events", |scene| controllers::events_are_counted(scene).boxed()),
];

fn check(store: StoreChoice) {
    let server = Server::start(store);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = connect(&server).await;
        let cases = CASES.iter().map(|(name, case)| {
            let client = client.clone();
            async move { case(Scene::new(&client, name).await).await }
        });
        join_all(cases).await;
    });
    let mut server = Server::try_start(store, &[COMPACTS_OFTEN]).unwrap_or_else(|error| panic!("{error}"));
    runtime.block_on(async {
        let scene = Scene::new(&connect(&server).await, "restart").await;
        watching::watchers_come_back_after_a_restart(scene, &mut server).await;
    });
}

#[test]
fn the_kube_crate_works_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn the_kube_crate_works_over_etcd() {
    check(StoreChoice::Etcd);
}
