//! Cluster IPs.

use std::{collections::HashSet, net::IpAddr, str::FromStr, sync::Arc};

use bytes::Bytes;
use jiff::Timestamp;
use rand::Rng as _;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_storage::{Compare, PutOptions, RangeRequest, Storage, WriteOutcome};

use trireme_machinery::time::Time;

use super::{AllocateError, IpFamily, ServiceRanges};
use crate::{encode, fence::WriteFence, store_error};

const API_VERSION: &str = "networking.k8s.io/v1";
/// The client that kube-apiserver's allocator has of its own server.
const FIELD_MANAGER: &str = "kube-apiserver";
/// The number of random addresses that are tried before the range is walked.
const RANDOM_ATTEMPTS: usize = 16;

/// A range of addresses in CIDR form. Its network address, and for IPv4 its broadcast address, are never allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    network: u128,
    prefix: u8,
    is_v4: bool,
}

/// The text is no CIDR.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a range of addresses such as 10.96.0.0/12")]
pub struct NotARange;

impl FromStr for AddressRange {
    type Err = NotARange;

    fn from_str(text: &str) -> Result<Self, NotARange> {
        let (address, prefix) = text.split_once('/').ok_or(NotARange)?;
        let address: IpAddr = address.parse().map_err(|_| NotARange)?;
        let prefix: u8 = prefix.parse().map_err(|_| NotARange)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        if prefix > width - 2 {
            return Err(NotARange);
        }
        let range = Self {
            network: 0,
            prefix,
            is_v4: address.is_ipv4(),
        };
        Ok(Self {
            network: number(address) & !range.host_mask(),
            ..range
        })
    }
}

impl std::fmt::Display for AddressRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address(0), self.prefix)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

impl AddressRange {
    fn host_mask(&self) -> u128 {
        let bits = u32::from(if self.is_v4 { 32 } else { 128 } - self.prefix);
        1_u128.checked_shl(bits).map_or(u128::MAX, |size| size - 1)
    }

    fn address(&self, offset: u128) -> IpAddr {
        let number = self.network + offset;
        if self.is_v4 {
            IpAddr::from(u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes())
        } else {
            IpAddr::from(number.to_be_bytes())
        }
    }

    /// The family of its addresses.
    pub fn family(&self) -> IpFamily {
        if self.is_v4 { IpFamily::V4 } else { IpFamily::V6 }
    }

    pub(super) fn prefix(&self) -> u8 {
        self.prefix
    }

    /// The first address, which in the range of the settings belongs to the `kubernetes` service.
    pub fn first(&self) -> IpAddr {
        self.address(1)
    }

    /// Reports whether an address is one that services may have.
    pub fn contains(&self, address: IpAddr) -> bool {
        let offset = number(address).wrapping_sub(self.network);
        address.is_ipv4() == self.is_v4 && offset >= 1 && offset <= self.last_offset()
    }

    /// The last offset of the lower part of the range, which is left to addresses that are asked for (KEP-3070); 0 if
    /// the range is too small for that.
    fn asked_for(&self) -> u128 {
        let size = self.host_mask().saturating_add(1);
        if size <= 16 { 0 } else { (size / 16).clamp(16, 256) }
    }

    fn last_offset(&self) -> u128 {
        self.host_mask() - u128::from(self.is_v4)
    }
}

/// Hands out cluster IPs.
#[derive(Clone)]
pub struct AddressAllocator {
    store: Arc<dyn Storage>,
    clock: Clock,
    prefix: Arc<str>,
    ranges: ServiceRanges,
    fence: Option<WriteFence>,
    is_trial: bool,
}

impl AddressAllocator {
    /// Keeps its `IPAddress` objects under `prefix`, such as `/registry/ipaddresses`.
    pub fn new(store: Arc<dyn Storage>, clock: Clock, prefix: &str, ranges: ServiceRanges) -> Self {
        Self {
            store,
            clock,
            prefix: prefix.into(),
            ranges,
            fence: None,
            is_trial: false,
        }
    }

    /// The same ranges, of which nothing is taken: for a dry run, which only has to know what is free.
    #[must_use]
    pub fn trial(&self) -> Self {
        Self {
            is_trial: true,
            ..self.clone()
        }
    }

    /// The same ranges, of which is reserved only as long as the fence holds.
    #[must_use]
    pub fn under(&self, fence: &WriteFence) -> Self {
        Self {
            fence: Some(fence.clone()),
            ..self.clone()
        }
    }

    /// The ranges.
    pub fn ranges(&self) -> &ServiceRanges {
        &self.ranges
    }

    /// Reserves a certain address for the service `namespace/name`.
    pub async fn reserve(&self, address: IpAddr, namespace: &str, name: &str) -> Result<(), AllocateError> {
        let usable = self.ranges.usable(IpFamily::of(address));
        if !usable.iter().any(|range| range.contains(address)) {
            return Err(AllocateError::OtherNetwork);
        }
        if self.try_reserve(address, namespace, name).await? {
            Ok(())
        } else {
            Err(AllocateError::AddressTaken)
        }
    }

    /// Reserves any free address of a family for the service `namespace/name`.
    pub async fn allocate(&self, family: IpFamily, namespace: &str, name: &str) -> Result<IpAddr, AllocateError> {
        for range in self.ranges.usable(family) {
            if let Some(address) = self.allocate_in(&range, namespace, name).await? {
                return Ok(address);
            }
        }
        Err(AllocateError::Full)
    }

    /// Reserves any free address of a range; none if there is none.
    async fn allocate_in(
        &self,
        range: &AddressRange,
        namespace: &str,
        name: &str,
    ) -> Result<Option<IpAddr>, AllocateError> {
        let last = range.last_offset();
        let upper = (range.asked_for() + 1).min(last);
        for _ in 0..RANDOM_ATTEMPTS {
            let address = range.address(rand::rng().random_range(upper..=last));
            if !self.ranges.is_own(address) && self.try_reserve(address, namespace, name).await? {
                return Ok(Some(address));
            }
        }
        // Nearly full: one look at what is held, instead of a try at every address of what may be millions.
        let held = self.held().await?;
        for offset in (upper..=last).chain(1..upper) {
            let address = range.address(offset);
            let is_free = !self.ranges.is_own(address) && !held.contains(&address);
            if is_free && self.try_reserve(address, namespace, name).await? {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }

    async fn held(&self) -> Result<HashSet<IpAddr>, AllocateError> {
        let prefix = self.key("");
        let request = RangeRequest {
            prefix: prefix.clone(),
            ..RangeRequest::default()
        };
        let page = self
            .store
            .range(request)
            .await
            .map_err(|error| AllocateError::Store(store_error(error)))?;
        let addresses = page
            .entries
            .iter()
            .filter_map(|entry| entry.key.strip_prefix(&*prefix)?.parse().ok());
        Ok(addresses.collect())
    }

    /// Gives an address back, however it is written. One that is not held is no error.
    pub async fn release(&self, address: &str) -> Result<(), AllocateError> {
        let Ok(address) = address.parse::<IpAddr>() else {
            return Ok(());
        };
        let key = self.key(&address.to_string());
        let store = |error| AllocateError::Store(store_error(error));
        let (mut found, _) = self.store.get(&key, None).await.map_err(store)?;
        while let Some(entry) = found {
            found = match self.store.delete(&key, entry.mod_revision, None).await.map_err(store)? {
                WriteOutcome::Committed(_) => None,
                WriteOutcome::Conflict(current) => current,
            };
        }
        Ok(())
    }

    fn key(&self, address: &str) -> String {
        format!("{}/{address}", self.prefix)
    }

    async fn try_reserve(&self, address: IpAddr, namespace: &str, name: &str) -> Result<bool, AllocateError> {
        let key = self.key(&address.to_string());
        if self.is_trial {
            let found = self.store.get(&key, None).await;
            let (found, _) = found.map_err(|error| AllocateError::Store(store_error(error)))?;
            return Ok(found.is_none());
        }
        let now = Timestamp::try_from(self.clock.wall()).unwrap_or(Timestamp::UNIX_EPOCH);
        let object = ip_address(address, namespace, name, &Time::from(now).to_string());
        let bytes = Bytes::from(encode::object(&object));
        let options = PutOptions {
            fence: self.fence.as_ref().map(WriteFence::at),
            ..PutOptions::default()
        };
        let written = self.store.put(&key, bytes, Compare::Absent, options).await;
        WriteFence::note(self.fence.as_ref(), &written);
        match written.map_err(|error| AllocateError::Store(store_error(error)))? {
            WriteOutcome::Committed(_) => Ok(true),
            WriteOutcome::Conflict(_) => Ok(false),
        }
    }
}

/// The `IPAddress` of a service, as kube-apiserver's allocator posts it and its registry completes it.
fn ip_address(address: IpAddr, namespace: &str, name: &str, now: &str) -> Value {
    let fields = json!({
        "f:metadata": { "f:labels": { ".": {}, "f:ipaddress.kubernetes.io/ip-family": {}, "f:ipaddress.kubernetes.io/managed-by": {} } },
        "f:spec": { "f:parentRef": { ".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {} } },
    });
    json!({
        "apiVersion": API_VERSION,
        "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(),
            "uid": uuid::Uuid::new_v4().to_string(),
            "creationTimestamp": now,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": IpFamily::of(address).name(),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
            "managedFields": [{
                "manager": FIELD_MANAGER,
                "operation": "Update",
                "apiVersion": API_VERSION,
                "time": now,
                "fieldsType": "FieldsV1",
                "fieldsV1": fields,
            }],
        },
        "spec": { "parentRef": { "resource": "services", "namespace": namespace, "name": name } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_know_what_services_may_have() {
        let range: AddressRange = "10.96.0.9/30".parse().expect("a range");
        assert_eq!(range.to_string(), "10.96.0.8/30");
        assert_eq!(range.first().to_string(), "10.96.0.9");
        let inside = [
            "10.96.0.8",
            "10.96.0.9",
            "10.96.0.10",
            "10.96.0.11",
            "10.96.0.12",
            "fd00::1",
        ]
        .map(|text| range.contains(text.parse().expect("an address")));
        assert_eq!(
            inside,
            [false, true, true, false, false, false],
            "network and broadcast are not handed out"
        );
        let range: AddressRange = "fd00::/112".parse().expect("a range");
        assert!(range.contains("fd00::ffff".parse().expect("an address")));
    }

    #[test]
    fn the_lower_part_is_left_to_what_is_asked_for() {
        let asked_for = |text: &str| text.parse::<AddressRange>().expect("a range").asked_for();
        assert_eq!(
            ["10.0.0.0/28", "10.0.0.0/24", "10.0.0.0/20", "10.0.0.0/16", "fd00::/64"].map(asked_for),
            [0, 16, 256, 256, 256]
        );
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/31", "x/8", "10.0.0.0/"] {
            assert_eq!(text.parse::<AddressRange>(), Err(NotARange), "{text}");
        }
    }
}
