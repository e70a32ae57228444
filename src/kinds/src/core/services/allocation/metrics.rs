//! Counts of what is allocated, by kube-apiserver's names (`pkg/registry/core/service/{ip,port}allocator/metrics.go`). A dry run counts
//! nothing.

use std::{net::IpAddr, time::Duration};

use metrics::{counter, histogram};
use trireme_registry::allocate::{AddressRange, AllocateError, IpFamily, ServiceRanges};

/// A certain value was wanted.
pub(super) const STATIC: &str = "static";
/// Any value will do.
pub(super) const DYNAMIC: &str = "dynamic";

/// Counts a reservation of a certain address. One outside of all ranges is nobody's error.
pub(super) fn count_reserved(
    ranges: &ServiceRanges,
    address: IpAddr,
    reserved: &Result<(), AllocateError>,
    took: Duration,
) {
    let Some(range) = range_of(ranges, address) else { return };
    match reserved {
        Ok(()) => count_address(&range, STATIC, took),
        Err(_) => count_address_error(&range, STATIC),
    }
}

/// Counts an address that was found, or all the ranges in which there was none.
pub(super) fn count_allocated(
    ranges: &ServiceRanges,
    family: IpFamily,
    allocated: &Result<IpAddr, AllocateError>,
    took: Duration,
) {
    match allocated {
        Ok(address) => {
            if let Some(range) = range_of(ranges, *address) {
                count_address(&range, DYNAMIC, took);
            }
        }
        Err(_) => ranges
            .usable(family)
            .iter()
            .for_each(|range| count_address_error(range, DYNAMIC)),
    }
}

/// Counts a node port that was allocated, or was not.
pub(super) fn count_port<T>(scope: &'static str, allocated: &Result<T, AllocateError>) {
    let name = match allocated {
        Ok(_) => "kube_apiserver_nodeport_allocator_allocation_total",
        Err(_) => "kube_apiserver_nodeport_allocator_allocation_errors_total",
    };
    counter!(name, "scope" => scope).increment(1);
}

fn range_of(ranges: &ServiceRanges, address: IpAddr) -> Option<AddressRange> {
    let mut usable = ranges.usable(IpFamily::of(address)).into_iter();
    usable.find(|range| range.contains(address))
}

fn count_address(range: &AddressRange, scope: &'static str, took: Duration) {
    let cidr = range.to_string();
    histogram!("kube_apiserver_clusterip_allocator_allocation_duration_seconds", "cidr" => cidr.clone())
        .record(took.as_secs_f64());
    counter!("kube_apiserver_clusterip_allocator_allocation_total", "cidr" => cidr, "scope" => scope).increment(1);
}

fn count_address_error(range: &AddressRange, scope: &'static str) {
    counter!(
        "kube_apiserver_clusterip_allocator_allocation_errors_total",
        "cidr" => range.to_string(), "scope" => scope
    )
    .increment(1);
}
