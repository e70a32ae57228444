//! Brings the addresses and ports that are reserved in line with the services that have them (there the controllers
//! `ipallocator-repair-controller` and `portallocator-repair-controller`).
//!
//! A replica that dies between a reservation and the write of the service leaves a reservation that is not released, and
//! an etcd that another server wrote may lack some. Without this duty the range of addresses gets smaller with every
//! crash.

mod suspects;

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_actors::Clock;
use trireme_cluster::Duty;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    OwnObjects, RegistryHandle, WriteFence,
    allocate::{AddressAllocator, AllocateError, HeldAddresses, PortAllocator},
    request::DeleteOptions,
};

use self::suspects::{Reserved, Suspects};
use crate::{LeaseTenure, Reconciler, SERVER};

/// The allocator of services' addresses puts this label on its `IPAddress` objects; others are users' own.
const MANAGED_BY: (&str, &str) = ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

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
}

/// The reservations of all services.
#[derive(Default)]
struct InUse {
    /// With the service's namespace and name.
    addresses: HashMap<IpAddr, (String, String)>,
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
        }
    }

    async fn repair(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        // In this order: what is reserved before the services are looked at and is not theirs then is being given to one,
        // was just given back by one, or is left over.
        let addresses = self.addresses.all().await?;
        let ports = self.reservations.port_allocator.held().await.map_err(failed)?;
        let services = self.in_use(self.services.all().await?);
        self.reserve_missing(&services, &addresses, &ports, term.fence())
            .await?;
        let orphans = orphans(&services, &addresses, &ports);
        let (now, patience) = (self.reservations.clock.now(), self.reservations.patience);
        let left_over = {
            let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
            suspects.found(term.lease().token, orphans, now, patience)
        };
        self.give_back(left_over, term.fence()).await
    }

    fn in_use(&self, services: Vec<Value>) -> InUse {
        let mut in_use = InUse::default();
        for service in services {
            let held = (self.reservations.held)(&service);
            let [namespace, name] = ["namespace", "name"].map(|field| text(&service["metadata"][field]).to_owned());
            for address in held.addresses {
                in_use.addresses.insert(address, (namespace.clone(), name.clone()));
            }
            in_use.ports.extend(held.ports);
        }
        in_use
    }

    async fn reserve_missing(
        &self,
        services: &InUse,
        addresses: &[Value],
        ports: &HashSet<u16>,
        fence: &WriteFence,
    ) -> Result<(), ApiError> {
        let reserved: HashSet<IpAddr> = addresses.iter().filter_map(address_of).collect();
        let allocator = self.reservations.address_allocator.under(fence);
        for (address, (namespace, name)) in &services.addresses {
            if !reserved.contains(address) {
                note(allocator.reserve(*address, namespace, name).await, address)?;
            }
        }
        let allocator = self.reservations.port_allocator.under(fence);
        for port in services.ports.difference(ports) {
            note(allocator.reserve(*port).await, port)?;
        }
        Ok(())
    }

    async fn give_back(&self, left_over: Vec<Reserved>, fence: &WriteFence) -> Result<(), ApiError> {
        let mut ports = Vec::new();
        for reserved in left_over {
            tracing::warn!(?reserved, "a reservation without a service is given back");
            match reserved {
                Reserved::Port(port) => ports.push(port),
                Reserved::Address(name, uid) => self.delete(&name, uid, fence).await?,
            }
        }
        let released = self.reservations.port_allocator.under(fence).release(&ports).await;
        released.map_err(failed)
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
        let labels = &address["metadata"]["labels"];
        labels[MANAGED_BY.0] == MANAGED_BY.1
            && address_of(address).is_some_and(|address| !services.addresses.contains_key(&address))
    };
    let addresses = addresses.iter().filter(unused).map(|address| {
        let [name, uid] = ["name", "uid"].map(|field| text(&address["metadata"][field]).to_owned());
        Reserved::Address(name, uid)
    });
    let ports = ports.difference(&services.ports).copied().map(Reserved::Port);
    addresses.chain(ports).collect()
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

impl Reconciler for RepairReservations {
    fn duty(&self) -> Duty {
        Duty::named("repair-service-reservations")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(180)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.repair(term))
    }
}

#[cfg(test)]
mod tests;
