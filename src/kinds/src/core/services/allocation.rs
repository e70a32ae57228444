//! Reserves the addresses and ports of services, and gives them back.

use std::{net::IpAddr, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, GroupKind,
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{
    ResourceLookup, SideEffects,
    allocate::{AddressAllocator, AllocateError, HeldAddresses, IpFamily, PortAllocator, ServiceRanges},
    delete_dependent,
    strategy::Reservation,
};

use super::{
    families::is_settled_preference,
    fields::{
        NONE, cluster_ips, has_address, health_check_port, is_external_name, may_have_node_ports,
        needs_health_check_port, node_ports, shown_list, texts,
    },
    ports::{self, NodePortRequest},
};
use crate::{
    settings::{KindSettings, MonotonicTime},
    values::{struct_mut, text_at},
};

mod metrics;
#[cfg(test)]
mod tests;

/// The two kinds of keys in a [`Reservation`].
const ADDRESS: &str = "address/";
const PORT: &str = "port/";

/// The allocators of services, and the Endpoints that go with them.
pub(super) struct Allocation {
    addresses: AddressAllocator,
    ports: PortAllocator,
    endpoints: ResourceLookup,
    now: MonotonicTime,
}

/// The addresses and ports that a write has taken.
struct Taken {
    keys: Vec<String>,
    /// Nothing is held, and it does not count.
    is_dry_run: bool,
}

/// An address to reserve: any of the family, or a certain one. Its place is that in `clusterIPs`.
struct AddressRequest {
    index: usize,
    family: IpFamily,
    address: Option<IpAddr>,
}

/// Validates requested addresses as far as that needs no store.
pub(super) fn validate_address_allocation(
    object: &Value,
    old: Option<&Value>,
    ranges: &ServiceRanges,
    dry_run: bool,
) -> ErrorList {
    let requests = address_requests(object, old);
    let errors = requests.iter().filter_map(|request| {
        let (usable, address) = (ranges.usable(request.family), request.address?);
        if usable.iter().any(|range| range.contains(address)) {
            return None;
        }
        let why = match usable.first().filter(|_| dry_run) {
            Some(range) => AllocateError::AddressOutside {
                address: address.to_string(),
                range: range.to_string(),
            },
            None => AllocateError::OtherNetwork,
        };
        Some(address_error(object, address, &why))
    });
    // One address after the other is reserved, and the first one that cannot be ends it.
    errors.take(1).collect()
}

/// The addresses that a write reserves: all, the second one of a service that gets two families, or none.
fn address_requests(object: &Value, old: Option<&Value>) -> Vec<AddressRequest> {
    if !has_address(object) {
        return Vec::new();
    }
    let families = texts(object, "ipFamilies");
    let first = match old.filter(|old| !is_external_name(old)) {
        None => 0,
        Some(old) if !has_address(old) || is_settled_preference(object, old) => return Vec::new(),
        Some(old) if texts(old, "ipFamilies").len() == 1 && families.len() == 2 => 1,
        Some(_) => return Vec::new(),
    };
    let addresses = cluster_ips(object);
    let requests = families.into_iter().enumerate().skip(first).map(|(index, family)| {
        let address = addresses.get(index).and_then(|text| names::parse_ip_sloppy(text));
        AddressRequest {
            index,
            family: if family == IpFamily::V6.name() {
                IpFamily::V6
            } else {
                IpFamily::V4
            },
            address,
        }
    });
    requests.collect()
}

fn address_error(object: &Value, address: IpAddr, why: &AllocateError) -> Error {
    let why = format!("failed to allocate IP {address}: {why}");
    Error::invalid(&Path::new("spec.clusterIPs"), shown_list(object, "clusterIPs"), &why)
}

fn invalid(object: &Value, error: Error) -> ApiError {
    let kind = GroupKind {
        group: "".into(),
        kind: "Service".into(),
    };
    ApiError::invalid(&kind, text_at(object, "/metadata/name"), &vec![error])
}

/// Puts an address into the place of `clusterIPs` that it was allocated for; the first one is `clusterIP`, too.
fn set_address(object: &mut Value, index: usize, address: IpAddr) {
    let text = Value::from(address.to_string());
    let fields = struct_mut(object, "spec");
    if index == 0 {
        fields.insert("clusterIP".into(), text.clone());
    }
    let list = fields.entry("clusterIPs").or_insert_with(|| json!([]));
    if let Value::Array(list) = list {
        list.truncate(index);
        list.push(text);
    }
}

/// The answer if a certain thing was wanted: the client's error, unless the store failed.
fn refused(object: &Value, why: AllocateError, failure: impl FnOnce(&AllocateError) -> Error) -> ApiError {
    match why {
        AllocateError::Store(error) => error,
        why => invalid(object, failure(&why)),
    }
}

/// The answer if anything was wanted and nothing is left.
fn exhausted(what: &str, why: AllocateError) -> ApiError {
    match why {
        AllocateError::Store(error) => error,
        why => ApiError::internal(format!("failed to allocate a {what}: {why}")),
    }
}

impl Allocation {
    /// With the allocators of the settings.
    pub(super) fn new(settings: &KindSettings) -> Self {
        Self {
            addresses: settings.addresses.clone(),
            ports: settings.ports.clone(),
            endpoints: settings.endpoints.clone(),
            now: Arc::clone(&settings.now),
        }
    }

    /// The same, of which nothing is held.
    fn trial(&self) -> Self {
        Self {
            addresses: self.addresses.trial(),
            ports: self.ports.trial(),
            endpoints: self.endpoints.clone(),
            now: Arc::clone(&self.now),
        }
    }

    async fn take(&self, new: &mut Value, old: Option<&Value>, taken: &mut Taken) -> Result<(), ApiError> {
        self.take_addresses(new, old, taken).await?;
        self.take_node_ports(new, old, taken).await?;
        self.take_health_check_port(new, old, taken).await
    }

    async fn take_addresses(&self, new: &mut Value, old: Option<&Value>, taken: &mut Taken) -> Result<(), ApiError> {
        for request in address_requests(new, old) {
            let address = self.take_address(new, &request, taken.is_dry_run).await?;
            taken.keys.push(format!("{ADDRESS}{address}"));
            if request.address.is_none() {
                set_address(new, request.index, address);
            }
        }
        Ok(())
    }

    async fn take_address(&self, new: &Value, request: &AddressRequest, is_dry_run: bool) -> Result<IpAddr, ApiError> {
        let (namespace, name) = (text_at(new, "/metadata/namespace"), text_at(new, "/metadata/name"));
        let (ranges, began) = (self.addresses.ranges(), (self.now)());
        let took = || (self.now)().saturating_duration_since(began);
        if let Some(address) = request.address {
            let reserved = self.addresses.reserve(address, namespace, name).await;
            if !is_dry_run {
                metrics::count_reserved(ranges, address, &reserved, took());
            }
            reserved.map_err(|why| refused(new, why, |why| address_error(new, address, why)))?;
            return Ok(address);
        }
        let allocated = self.addresses.allocate(request.family, namespace, name).await;
        if !is_dry_run {
            metrics::count_allocated(ranges, request.family, &allocated, took());
        }
        allocated.map_err(|why| exhausted(&format!("serviceIP for Service {name:?}"), why))
    }

    async fn take_node_ports(&self, new: &mut Value, old: Option<&Value>, taken: &mut Taken) -> Result<(), ApiError> {
        for (index, wanted) in ports::wanted(new, old) {
            let number = match wanted {
                NodePortRequest::Number(number) => {
                    let error = |why: &AllocateError| ports::node_port_error(index, number, why);
                    self.reserve_port(number, taken)
                        .await
                        .map_err(|why| refused(new, why, error))?;
                    number
                }
                NodePortRequest::Any => self.any_port(taken).await.map_err(|why| exhausted("nodePort", why))?,
                NodePortRequest::SameAs(first) => new
                    .pointer(&format!("/spec/ports/{first}"))
                    .map_or(0, super::fields::node_port),
            };
            if let Some(port) = new.pointer_mut(&format!("/spec/ports/{index}")) {
                port["nodePort"] = number.into();
            }
        }
        Ok(())
    }

    async fn take_health_check_port(
        &self,
        new: &mut Value,
        old: Option<&Value>,
        taken: &mut Taken,
    ) -> Result<(), ApiError> {
        if !needs_health_check_port(new) || old.is_some_and(needs_health_check_port) {
            return Ok(());
        }
        let asked = health_check_port(new);
        if asked == 0 {
            let number = self
                .any_port(taken)
                .await
                .map_err(|why| exhausted("HealthCheck NodePort", why))?;
            struct_mut(new, "spec").insert("healthCheckNodePort".into(), number.into());
            return Ok(());
        }
        let path = Path::new("spec.healthCheckNodePort");
        let error = |why: &AllocateError| Error::invalid(&path, &asked.into(), &why.to_string());
        self.reserve_port(asked, taken)
            .await
            .map_err(|why| refused(new, why, error))
    }

    async fn reserve_port(&self, number: i64, taken: &mut Taken) -> Result<(), AllocateError> {
        let reserved = match u16::try_from(number) {
            Ok(number) => self.ports.reserve(number).await,
            Err(_) => Err(AllocateError::PortOutside(self.ports.range().to_string())),
        };
        if !taken.is_dry_run {
            metrics::count_port(metrics::STATIC, &reserved);
        }
        reserved?;
        taken.keys.push(format!("{PORT}{number}"));
        Ok(())
    }

    async fn any_port(&self, taken: &mut Taken) -> Result<i64, AllocateError> {
        let allocated = self.ports.allocate().await;
        if !taken.is_dry_run {
            metrics::count_port(metrics::DYNAMIC, &allocated);
        }
        let number = allocated?;
        taken.keys.push(format!("{PORT}{number}"));
        Ok(number.into())
    }

    /// Releases the addresses and ports that it can. Those that the store refuses now stay held, and no request waits for them here.
    async fn give_back(&self, keys: &[String]) {
        let ports: Vec<u16> = keys
            .iter()
            .filter_map(|key| key.strip_prefix(PORT)?.parse().ok())
            .collect();
        let _stays_held = self.ports.release(&ports).await;
        for address in keys.iter().filter_map(|key| key.strip_prefix(ADDRESS)) {
            let _stays_held = self.addresses.release(address).await;
        }
    }
}

/// All that a service holds.
pub fn held_by_service(object: &Value) -> HeldAddresses {
    let mut held = HeldAddresses::default();
    if has_address(object) {
        let addresses = cluster_ips(object).into_iter().filter(|ip| *ip != NONE);
        held.addresses.extend(addresses.filter_map(names::parse_ip_sloppy));
    }
    let mut ports = Vec::new();
    if may_have_node_ports(object) {
        ports.extend(node_ports(object));
    }
    if needs_health_check_port(object) {
        ports.push(health_check_port(object));
    }
    ports.sort_unstable();
    ports.dedup();
    let numbers = ports.into_iter().filter(|port| *port != 0);
    held.ports.extend(numbers.filter_map(|port| u16::try_from(port).ok()));
    held
}

fn held_keys(object: &Value) -> Vec<String> {
    let held = held_by_service(object);
    let addresses = held.addresses.iter().map(|ip| format!("{ADDRESS}{ip}"));
    addresses
        .chain(held.ports.iter().map(|port| format!("{PORT}{port}")))
        .collect()
}

impl SideEffects for Allocation {
    fn reserve<'a>(
        &'a self,
        new: &'a mut Value,
        old: Option<&'a Value>,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<Reservation, ApiError>> {
        Box::pin(async move {
            let mut taken = Taken {
                keys: Vec::new(),
                is_dry_run: dry_run,
            };
            if dry_run {
                self.trial().take(new, old, &mut taken).await?;
                return Ok(Reservation::default());
            }
            let outcome = self.take(new, old, &mut taken).await;
            if outcome.is_err() {
                self.give_back(&taken.keys).await;
            }
            outcome?;
            let kept = held_keys(new);
            let dropped = old.map(held_keys).unwrap_or_default();
            Ok(Reservation {
                taken: taken.keys,
                dropped: dropped.into_iter().filter(|key| !kept.contains(key)).collect(),
            })
        })
    }

    fn release<'a>(&'a self, object: &'a Value) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (namespace, name) = (
                text_at(object, "/metadata/namespace"),
                text_at(object, "/metadata/name"),
            );
            delete_dependent(&self.endpoints, namespace, name).await;
            self.give_back(&held_keys(object)).await;
        })
    }

    fn finish(&self, reservation: Reservation, committed: bool) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let keys = if committed {
                reservation.dropped
            } else {
                reservation.taken
            };
            self.give_back(&keys).await;
        })
    }
}
