use std::{collections::BTreeSet, sync::Arc};

use serde_json::json;
use trireme_actors::{
    testkit::{self, TestKit},
    topology::Topology,
};
use trireme_admission::Chain;
use trireme_kinds::{ApiSelection, KindSettings, TokenIssuer};
use trireme_registry::{
    DirectorHandle, Fences, PublishedSurface, Registries, StorageMediaType, StoreWatcherOptions,
    allocate::ServiceRanges,
};
use trireme_storage::{Compare, EmbeddedOptions, EmbeddedStore, PutOptions, Storage};

use super::*;
use crate::{acquire_alone, keep};

const PATIENCE: Duration = Duration::from_secs(300);

/// Services and what they hold.
struct Cluster {
    store: Arc<dyn Storage>,
    services: OwnObjects,
    addresses: OwnObjects,
    settings: KindSettings,
}

fn settings(store: &Arc<dyn Storage>, clock: Clock, published: &PublishedSurface) -> KindSettings {
    let addresses = ServiceRanges::fixed(["10.0.0.0/28".parse().expect("a range")]);
    let ports = "30000-30009".parse().expect("a range");
    KindSettings {
        apis: ApiSelection::default(),
        features: trireme_machinery::Features::default(),
        storage_media_type: StorageMediaType::Json,
        storage_root: "/registry".to_owned(),
        event_ttl: Some(Duration::from_secs(3600).into()),
        addresses: AddressAllocator::new(Arc::clone(store), clock.clone(), "/registry/ipaddresses", addresses),
        ports: PortAllocator::new(Arc::clone(store), "/registry/ranges/servicenodeports", ports),
        allow_privileged: false,
        endpoints: published.resource("", "v1", "endpoints"),
        tokens: TokenIssuer {
            extend: true,
            max_seconds: None,
            audiences: Vec::new(),
            sign: Arc::new(|claims| Ok(claims.to_string())),
        },
        now: Arc::new(move || clock.now()),
    }
}

async fn serve(
    kit: &TestKit,
    store: &Arc<dyn Storage>,
    published: PublishedSurface,
    settings: &KindSettings,
) -> DirectorHandle {
    let registries = Registries {
        system: kit.system.clone(),
        store: Arc::clone(store),
        store_watcher: StoreWatcherOptions::default(),
        admission: Arc::new(Chain::default()),
        published,
        other_kinds: Arc::new(trireme_kinds::other_kinds()),
        schemas: trireme_kinds::schemas(settings.features),
    };
    let resources = trireme_kinds::resources(settings).into_iter().map(Arc::new);
    registries
        .start(resources.collect())
        .await
        .expect("all resources differ")
}

impl Cluster {
    async fn start(kit: &TestKit, store: Arc<dyn Storage>) -> Self {
        let published = PublishedSurface::default();
        let settings = settings(&store, kit.system.clock().clone(), &published);
        let director = serve(kit, &store, published, &settings).await;
        let objects = |group, resource| {
            let route = director.surface().find(group, "v1", resource).expect("it is served");
            OwnObjects::new(route.registry, SERVER)
        };
        let (services, addresses) = (objects("", "services"), objects("networking.k8s.io", "ipaddresses"));
        Self {
            store,
            services,
            addresses,
            settings,
        }
    }

    fn start_duty(&self, kit: &TestKit) {
        let duty = RepairReservations::new(Reservations {
            services: self.services.registry().clone(),
            addresses: self.addresses.registry().clone(),
            address_allocator: self.settings.addresses.clone(),
            port_allocator: self.settings.ports.clone(),
            held: trireme_kinds::held_by_service,
            patience: PATIENCE,
            clock: kit.system.clock().clone(),
        });
        let fences = Fences::new(Arc::clone(&self.store), "/registry");
        let lease = acquire_alone(&kit.system, &fences, duty.duty());
        keep(&kit.system, fences, lease, duty);
    }

    async fn create_service(&self, name: &str, address: &str, port: u16) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "n" },
            "spec": {
                "type": "NodePort", "clusterIP": address, "clusterIPs": [address],
                "ports": [{ "port": 80, "nodePort": port }],
            },
        });
        assert!(
            self.services.create("n", &service).await.expect("created"),
            "{name} is new"
        );
    }

    /// All that is reserved: addresses and ports.
    async fn reserved(&self) -> BTreeSet<String> {
        let addresses = self.addresses.all().await.expect("listed");
        let addresses = addresses
            .iter()
            .map(|object| text(&object["metadata"]["name"]).to_owned());
        let ports = self.settings.ports.held().await.expect("read");
        addresses.chain(ports.iter().map(u16::to_string)).collect()
    }

    /// Lets time go by, a second at a time, until these are reserved; returns how long it took, which may be long where the
    /// duty gets little of the machine.
    async fn until_reserved(&self, kit: &TestKit, wanted: &[&str]) -> Duration {
        let start = kit.system.clock().now();
        let wanted: BTreeSet<String> = wanted.iter().map(|text| (*text).to_owned()).collect();
        loop {
            let passed = kit.system.clock().now().duration_since(start);
            let reserved = self.reserved().await;
            if reserved == wanted {
                return passed;
            }
            kit.clock.advance(Duration::from_secs(1));
        }
    }
}

fn with_cluster<F: Future<Output = ()>>(test: impl FnOnce(TestKit, Arc<dyn Storage>) -> F) {
    let dir = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Storage> =
        Arc::new(EmbeddedStore::open(dir.path(), EmbeddedOptions::default()).expect("an empty store opens"));
    testkit::run(Topology::trireme(), |kit| test(kit, store));
}

#[test]
fn what_no_service_has_is_given_back_when_no_request_can_be_making_one_for_it() {
    with_cluster(|kit, store| async move {
        let cluster = Cluster::start(&kit, store).await;
        cluster.create_service("here", "10.0.0.2", 30001).await;
        let address = "10.0.0.3".parse().expect("an address");
        cluster
            .settings
            .addresses
            .reserve(address, "n", "crashed")
            .await
            .expect("free");
        cluster.settings.ports.reserve(30002).await.expect("free");
        let own = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": { "name": "10.0.0.9" },
            "spec": { "parentRef": { "group": "example.com", "resource": "gateways", "name": "g" } },
        });
        assert!(cluster.addresses.create("", &own).await.expect("created"));
        cluster.start_duty(&kit);
        let waited = cluster.until_reserved(&kit, &["10.0.0.2", "10.0.0.9", "30001"]).await;
        assert!(waited >= PATIENCE, "{waited:?}");
        cluster.create_service("next", "10.0.0.3", 30002).await;
    });
}

#[test]
fn what_a_service_has_is_reserved_again() {
    with_cluster(|kit, store| async move {
        let cluster = Cluster::start(&kit, store).await;
        cluster.create_service("here", "10.0.0.2", 30001).await;
        cluster
            .settings
            .addresses
            .release("10.0.0.2")
            .await
            .expect("given back");
        cluster.settings.ports.release(&[30001]).await.expect("given back");
        assert_eq!(cluster.reserved().await, BTreeSet::new());
        cluster.start_duty(&kit);
        cluster.until_reserved(&kit, &["10.0.0.2", "30001"]).await;
        let object = cluster
            .addresses
            .find("", "10.0.0.2")
            .await
            .expect("read")
            .expect("there");
        let parent = json!({ "resource": "services", "namespace": "n", "name": "here" });
        assert_eq!(object["spec"]["parentRef"], parent);
    });
}

#[test]
fn an_address_that_is_deleted_while_its_service_has_it_is_reserved_at_once() {
    with_cluster(|kit, store| async move {
        let cluster = Cluster::start(&kit, store).await;
        cluster.create_service("here", "10.0.0.2", 30001).await;
        cluster.start_duty(&kit);
        kit.clock.wait_for_sleep(PERIOD).await;
        let address = async || cluster.addresses.find("", "10.0.0.2").await.expect("read");
        let uid = |address: Option<Value>| address.map(|object| object["metadata"]["uid"].clone());
        let deleted = uid(address().await).expect("it is reserved");
        let options = DeleteOptions::default();
        let done = cluster.addresses.delete_with("", "10.0.0.2", options).await;
        done.expect("deleted");
        while uid(address().await).is_none_or(|uid| uid == deleted) {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn the_address_of_a_service_that_another_server_stores_is_reserved_at_once() {
    with_cluster(|kit, store| async move {
        let cluster = Cluster::start(&kit, store).await;
        cluster.start_duty(&kit);
        kit.clock.wait_for_sleep(PERIOD).await;
        let key = "/registry/services/specs/n/here";
        let value = r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"here","namespace":"n","uid":"u"},"#;
        let value = format!(r#"{value}"spec":{{"clusterIP":"10.0.0.2","ports":[{{"port":80}}]}}}}"#).into();
        let put = cluster.store.put(key, value, Compare::Absent, PutOptions::default());
        put.await.expect("stored");
        while cluster.reserved().await.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(cluster.reserved().await, BTreeSet::from(["10.0.0.2".to_owned()]));
    });
}
