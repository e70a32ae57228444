//! Keeps the endpoints of the Service `default/kubernetes`: the addresses of all replicas that are alive, as Endpoints and
//! as an EndpointSlice (the lease endpoint reconciler of kube-apiserver).

use std::{net::IpAddr, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_actors::{ActorSystem, Clock, TaskHandle};
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{AnnouncedAddresses, OwnObjects, RegistryHandle};

use crate::{LeaseTenure, Reconciler, SERVER};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
/// The interval at which a replica renews its address: one renewal may fail.
const RENEW: Duration = Duration::from_secs(5);
/// The delay after a failed renewal.
const RETRY: Duration = Duration::from_secs(1);
/// The time for which an orderly end waits for the store.
const WITHDRAW_WITHIN: Duration = Duration::from_secs(2);

/// This replica's address, announced for as long as it is not withdrawn.
pub struct AddressPresence {
    announced: AnnouncedAddresses,
    address: IpAddr,
    renewing: TaskHandle,
    clock: Clock,
}

impl AddressPresence {
    /// Spawns the task that announces the address again and again.
    pub fn announce(system: &ActorSystem, announced: AnnouncedAddresses, address: IpAddr) -> Self {
        let (clock, ours) = (system.clock().clone(), announced.clone());
        let renewing = system.tasks().spawn_restarting("announce-address", move || {
            announce_for_ever(clock.clone(), ours.clone(), address)
        });
        Self {
            announced,
            address,
            renewing,
            clock: system.clock().clone(),
        }
    }

    /// New connections of pods go to other replicas from now on. If the store does not answer, the address expires.
    pub async fn withdraw(&self) {
        self.renewing.cancel();
        self.renewing.done().await;
        let deadline = self.clock.now() + WITHDRAW_WITHIN;
        let withdrawn = self.clock.timeout_at(deadline, self.announced.withdraw(self.address));
        match withdrawn.await {
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::warn!(%error, "the address could not be taken back; it expires"),
            None => tracing::warn!("the address could not be taken back in time; it expires"),
        }
    }
}

async fn announce_for_ever(clock: Clock, announced: AnnouncedAddresses, address: IpAddr) {
    loop {
        match announced.renew(address).await {
            Ok(()) => clock.sleep(RENEW).await,
            Err(error) => {
                tracing::debug!(%error, "the address could not be announced");
                clock.sleep(RETRY).await;
            }
        }
    }
}

/// The duty.
pub struct KubernetesEndpoints {
    endpoints: OwnObjects,
    slices: OwnObjects,
    announced: AnnouncedAddresses,
    is_v4: bool,
    port: u16,
}

impl KubernetesEndpoints {
    /// Works on the registries of Endpoints and of EndpointSlices. `address` is that of this replica, whose family the
    /// others must have as well; `port` is the one that all listen on.
    pub fn new(
        endpoints: RegistryHandle,
        slices: RegistryHandle,
        announced: AnnouncedAddresses,
        address: IpAddr,
        port: u16,
    ) -> Self {
        Self {
            endpoints: OwnObjects::new(endpoints, SERVER),
            slices: OwnObjects::new(slices, SERVER),
            announced,
            is_v4: address.is_ipv4(),
            port,
        }
    }

    async fn keep(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let mut addresses = self.announced.all().await?;
        addresses.retain(|address| address.is_ipv4() == self.is_v4);
        // The client that reads this is served by a replica: rather an outdated address than none.
        if addresses.is_empty() {
            return Ok(());
        }
        keep(
            &self.endpoints.under(term.fence()),
            self.as_endpoints(&addresses),
            &["subsets"],
        )
        .await?;
        let fields = ["addressType", "endpoints", "ports"];
        keep(&self.slices.under(term.fence()), self.as_slice(&addresses), &fields).await
    }

    fn ports(&self) -> Value {
        json!([{ "name": "https", "port": self.port, "protocol": "TCP" }])
    }

    fn as_endpoints(&self, addresses: &[IpAddr]) -> Value {
        let addresses: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip.to_string() })).collect();
        json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
            },
            "subsets": [{ "addresses": addresses, "ports": self.ports() }],
        })
    }

    fn as_slice(&self, addresses: &[IpAddr]) -> Value {
        let endpoint = |ip: &IpAddr| json!({ "addresses": [ip.to_string()], "conditions": { "ready": true } });
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "labels": { "kubernetes.io/service-name": NAME },
            },
            "addressType": if self.is_v4 { "IPv4" } else { "IPv6" },
            "endpoints": addresses.iter().map(endpoint).collect::<Vec<Value>>(),
            "ports": self.ports(),
        })
    }
}

/// Makes the object, or gives it these fields and labels if it has others.
async fn keep(objects: &OwnObjects, wanted: Value, fields: &[&str]) -> Result<(), ApiError> {
    let Some(found) = objects.find(NAMESPACE, NAME).await? else {
        return objects.create(NAMESPACE, &wanted).await.map(drop);
    };
    let mut changed = found.clone();
    for field in fields {
        changed[*field] = wanted[*field].clone();
    }
    if changed["metadata"].get("labels").is_none() {
        changed["metadata"]["labels"] = json!({});
    }
    for (label, value) in wanted["metadata"]["labels"].as_object().into_iter().flatten() {
        changed["metadata"]["labels"][label] = value.clone();
    }
    if changed == found {
        return Ok(());
    }
    if changed["addressType"] != found["addressType"] {
        // It cannot be changed: the next look makes the object anew.
        return objects.delete(NAMESPACE, NAME).await;
    }
    tracing::info!(resource = %objects.registry().info().resource, "the endpoints of the Service kubernetes change");
    objects.replace(NAMESPACE, NAME, &changed).await
}

impl Reconciler for KubernetesEndpoints {
    fn duty(&self) -> Duty {
        Duty::named("kubernetes-endpoints")
    }

    /// The addresses are in no watch cache, so this is how soon a change of theirs is seen.
    fn period(&self) -> Duration {
        Duration::from_secs(3)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.keep(term))
    }
}
