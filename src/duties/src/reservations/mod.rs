//! Brings the addresses and ports that are reserved in line with the services that have them (there the controllers
//! `ipallocator-repair-controller` and `portallocator-repair-controller`).
//!
//! A replica that dies between a reservation and the write of the service leaves a reservation that is not released, and
//! an etcd that another server wrote may lack some. Without this duty the range of addresses gets smaller with every
//! crash.
//!
//! The addresses of a service are looked at when it changes and when one of them is deleted, ports and what is left over
//! in every full pass.

mod metrics;
mod suspects;

use std::{
    collections::HashSet,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_actors::Clock;
use trireme_cluster::Duty;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    EventKind, Item, OwnObjects, RegistryHandle, WriteFence,
    allocate::{AddressAllocator, AllocateError, HeldAddresses, PortAllocator},
    item::parse,
    request::{DeleteOptions, Freshness},
};

use self::{
    metrics::PortMeters,
    suspects::{Reserved, Suspects},
};
use crate::{Controller, LeaseTenure, ObjectChange, ReconcileResult, SERVER};

/// The allocator of services' addresses puts this label on its `IPAddress` objects; others are users' own.
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

/// The time between two full passes.
const PERIOD: Duration = Duration::from_secs(180);

/// Reservations by their holders, and the ranges that they lie in.
pub struct Reservations {
    /// The registry of services.
    pub services: RegistryHandle,
    /// The registry of `IPAddress` objects.
    pub addresses: RegistryHandle,
    /// The allocator of addresses.
    pub address_allocator: AddressAllocator,
    /// The allocator of node ports.
    pub port_allocator: PortAllocator,
    /// The reservations of a service.
    pub held: fn(&Value) -> HeldAddresses,
    /// The time for which a reservation may be there before its service. No request lasts as long.
    pub patience: Duration,
    /// Measures it.
    pub clock: Clock,
}

/// The duty.
pub struct RepairReservations {
    services: OwnObjects,
    addresses: OwnObjects,
    reservations: Reservations,
    suspects: Mutex<Suspects>,
    meters: PortMeters,
}

/// The part of the reservations that is brought in line at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReservationKey {
    /// The addresses of a service.
    Service {
        /// The service's namespace.
        namespace: Arc<str>,
        /// The service's name.
        name: Arc<str>,
    },
    /// The ports of all services, and the reservations that no service has.
    Rest,
}

/// The reservations of all services.
#[derive(Default)]
struct InUse {
    addresses: HashSet<IpAddr>,
    ports: HashSet<u16>,
}

impl RepairReservations {
    /// Looks after these.
    pub fn new(reservations: Reservations) -> Self {
        Self {
            services: OwnObjects::new(reservations.services.clone(), SERVER),
            addresses: OwnObjects::new(reservations.addresses.clone(), SERVER),
            reservations,
            suspects: Mutex::default(),
            meters: PortMeters::new(),
        }
    }

    /// Reserves the addresses of a service that are not reserved.
    async fn repair_service(&self, namespace: &str, name: &str, fence: &WriteFence) -> Result<(), ApiError> {
        // Most addresses are reserved, so what is at hand is looked at first.
        if self.missing(namespace, name, Freshness::Any).await?.is_empty() {
            return Ok(());
        }
        let allocator = self.reservations.address_allocator.under(fence);
        for address in self.missing(namespace, name, Freshness::Latest).await? {
            note(allocator.reserve(address, namespace, name).await, &address)?;
        }
        Ok(())
    }

    /// The addresses of a service that are not reserved.
    async fn missing(&self, namespace: &str, name: &str, freshness: Freshness) -> Result<Vec<IpAddr>, ApiError> {
        let Some(service) = self.services.find_item(namespace, name, freshness).await? else {
            return Ok(Vec::new());
        };
        let mut missing = Vec::new();
        for address in (self.reservations.held)(&parse(&service)?).addresses {
            let reserved = self.addresses.find_item("", &address.to_string(), freshness).await?;
            if reserved.is_none() {
                missing.push(address);
            }
        }
        Ok(missing)
    }

    async fn repair_rest(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        // In this order: what is reserved before the services are looked at and is not theirs then is being given to one,
        // was just given back by one, or is left over.
        let addresses = self.addresses.all().await?;
        let ports = self.meters.note(self.reservations.port_allocator.held().await);
        let ports = ports.map_err(failed)?;
        self.show(&addresses, &ports);
        let services = self.in_use(self.meters.note(self.services.all().await)?);
        let allocator = self.reservations.port_allocator.under(term.fence());
        for port in services.ports.difference(&ports) {
            let reserved = allocator.reserve(*port).await;
            metrics::count_repair(&reserved);
            self.meters.note(note(reserved, port))?;
        }
        let orphans = orphans(&services, &addresses, &ports);
        let (now, patience) = (self.reservations.clock.now(), self.reservations.patience);
        let left_over = {
            let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
            suspects.found(term.lease().token, orphans, now, patience)
        };
        self.give_back(left_over, term.fence()).await
    }

    /// Shows what is reserved, for services and by others.
    fn show(&self, addresses: &[Value], ports: &HashSet<u16>) {
        let range = self.reservations.port_allocator.range();
        let all = (0..=u16::MAX).filter(|port| range.contains(*port)).count();
        metrics::show_ports(ports.len(), all);
        let managed = addresses.iter().filter(|address| is_managed(address));
        let managed: Vec<IpAddr> = managed.filter_map(address_of).collect();
        metrics::show_addresses(self.reservations.address_allocator.ranges(), &managed);
    }

    fn in_use(&self, services: Vec<Value>) -> InUse {
        let mut in_use = InUse::default();
        for service in services {
            let held = (self.reservations.held)(&service);
            in_use.addresses.extend(held.addresses);
            in_use.ports.extend(held.ports);
        }
        in_use
    }

    async fn give_back(&self, left_over: Vec<Reserved>, fence: &WriteFence) -> Result<(), ApiError> {
        let mut ports = Vec::new();
        for reserved in left_over {
            tracing::warn!(?reserved, "a reservation without a service is given back");
            match reserved {
                Reserved::Port(port) => {
                    metrics::count_leak();
                    ports.push(port);
                }
                Reserved::Address(name, uid) => self.delete(&name, uid, fence).await?,
            }
        }
        let released = self.reservations.port_allocator.under(fence).release(&ports).await;
        self.meters.note(released).map_err(failed)
    }

    async fn delete(&self, name: &str, uid: String, fence: &WriteFence) -> Result<(), ApiError> {
        let options = DeleteOptions {
            uid: Some(uid),
            ..DeleteOptions::default()
        };
        match self.addresses.under(fence).delete_with("", name, options).await {
            // Another one of this name: it was released and taken again.
            Err(error) if error.reason == Reason::Conflict => Ok(()),
            other => other,
        }
    }
}

/// The reservations that no service has.
fn orphans(services: &InUse, addresses: &[Value], ports: &HashSet<u16>) -> HashSet<Reserved> {
    let unused = |address: &&Value| {
        is_managed(address) && address_of(address).is_some_and(|address| !services.addresses.contains(&address))
    };
    let addresses = addresses.iter().filter(unused).map(|address| {
        let [name, uid] = ["name", "uid"].map(|field| text(&address["metadata"][field]).to_owned());
        Reserved::Address(name, uid)
    });
    let ports = ports.difference(&services.ports).copied().map(Reserved::Port);
    addresses.chain(ports).collect()
}

/// Reports whether the allocator of services' addresses has made this one.
fn is_managed(address: &Value) -> bool {
    address["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1
}

fn address_of(object: &Value) -> Option<IpAddr> {
    text(&object["metadata"]["name"]).parse().ok()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Goes on after conflicts with newer reservations and values outside the ranges of today.
fn note(reserved: Result<(), AllocateError>, what: &dyn std::fmt::Display) -> Result<(), ApiError> {
    match reserved {
        Ok(()) => tracing::warn!(%what, "what a service has was not reserved; it is now"),
        Err(AllocateError::Store(error)) => return Err(error),
        Err(why) => tracing::debug!(%what, %why, "what a service has is not reserved"),
    }
    Ok(())
}

fn failed(error: AllocateError) -> ApiError {
    match error {
        AllocateError::Store(error) => error,
        other => ApiError::internal(other),
    }
}

/// The service that a deleted `IPAddress` was reserved for.
fn holder_of(address: &Item) -> Option<ReservationKey> {
    let object = parse(address).ok()?;
    let parent = &object["spec"]["parentRef"];
    (text(&parent["group"]).is_empty() && parent["resource"] == "services").then(|| ReservationKey::Service {
        namespace: text(&parent["namespace"]).into(),
        name: text(&parent["name"]).into(),
    })
}

impl Controller for RepairReservations {
    type Key = ReservationKey;

    fn duty(&self) -> Duty {
        Duty::named("repair-service-reservations")
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        [&self.services, &self.addresses]
            .map(|objects| objects.registry().clone())
            .into()
    }

    fn always(&self) -> Vec<ReservationKey> {
        vec![ReservationKey::Rest]
    }

    fn concerned(&self, change: &ObjectChange) -> Vec<ReservationKey> {
        let item = &change.item;
        let (is_service, is_deleted) = (change.info.namespaced, change.kind == EventKind::Deleted);
        let key = match (is_service, is_deleted) {
            (true, false) => Some(ReservationKey::Service {
                namespace: item.namespace().into(),
                name: item.name().into(),
            }),
            (false, true) => holder_of(item),
            (true, true) | (false, false) => None,
        };
        key.into_iter().collect()
    }

    fn run<'a>(
        &'a self,
        key: &'a ReservationKey,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<ReservationKey>, ApiError>> {
        Box::pin(async move {
            match key {
                ReservationKey::Service { namespace, name } => {
                    self.repair_service(namespace, name, term.fence()).await?;
                }
                ReservationKey::Rest => self.repair_rest(term).await?,
            }
            Ok(ReconcileResult::done())
        })
    }
}

#[cfg(test)]
mod tests;
