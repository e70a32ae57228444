//! Addresses and ports that services hold: reserved in the store, so that all replicas agree.
//!
//! Layout as in kube-apiserver: a cluster IP is held by an `IPAddress` object of its own, made if it is absent; node
//! ports are bits of one `RangeAllocation`, changed by compare-and-put. Callers: the service kind's side effects.

mod addresses;
mod bitmap;
mod ports;
mod ranges;

pub use addresses::{AddressAllocator, AddressRange};
pub use ports::{PortAllocator, PortRange};
pub use ranges::{IpFamily, ServiceRanges};

use std::net::IpAddr;

use trireme_machinery::ApiError;

/// The addresses and ports that a service holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeldAddresses {
    /// Its cluster IPs.
    pub addresses: Vec<IpAddr>,
    /// Its node ports, and that of its health check.
    pub ports: Vec<u16>,
}

/// The reason that nothing was allocated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// The wanted address or port is held by another object.
    #[error("provided IP is already allocated")]
    AddressTaken,
    /// The wanted port is held by another object.
    #[error("provided port is already allocated")]
    PortTaken,
    /// The wanted address is in none of the ranges that may be used now.
    #[error("the provided network does not match the current range")]
    OtherNetwork,
    /// The same, as a dry run reports it.
    #[error("the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}")]
    AddressOutside {
        /// The address.
        address: String,
        /// The range.
        range: String,
    },
    /// The wanted port is outside the range.
    #[error("provided port is not in the valid range. The range of valid ports is {0}")]
    PortOutside(String),
    /// Nothing is free.
    #[error("range is full")]
    Full,
    /// The store refused.
    #[error("{0}")]
    Store(ApiError),
}
