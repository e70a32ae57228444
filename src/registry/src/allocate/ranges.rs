//! The ranges that cluster IPs come from: those of the ready ServiceCIDRs (KEP-1880).

use std::{net::IpAddr, sync::Arc};

use serde_json::Value;
use trireme_actors::ActorSystem;

use super::AddressRange;
use crate::{
    ResourceLookup,
    item::parse,
    view::{Entries, Readiness, View, compile_entries},
};

/// The shortest prefix that an IPv6 range of cluster IPs may have, as in kube-apiserver.
const SHORTEST_V6_PREFIX: u8 = 64;

/// An IP family of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpFamily {
    /// IP version 4.
    V4,
    /// IP version 6.
    V6,
}

impl IpFamily {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The name that it has in `ipFamilies`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// The ranges of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct ServiceRanges {
    configured: Arc<[AddressRange]>,
    defined: Option<View<Entries<DefinedRanges>>>,
}

/// The ranges of one ServiceCIDR.
#[derive(Debug, PartialEq, Eq)]
struct DefinedRanges {
    ranges: Vec<AddressRange>,
    is_ready: bool,
}

impl ServiceRanges {
    /// The ranges of the settings alone: one of each family that the cluster has, that of the default family first.
    pub fn fixed(configured: impl Into<Arc<[AddressRange]>>) -> Self {
        Self {
            configured: configured.into(),
            defined: None,
        }
    }

    /// The same in a cluster whose users may define more of them: from the moment at which there is a ServiceCIDR of a family,
    /// those that are ready are used and no others.
    pub fn following(
        configured: impl Into<Arc<[AddressRange]>>,
        system: &ActorSystem,
        service_cidrs: ResourceLookup,
    ) -> Self {
        let fold = || compile_entries(|item| Some(DefinedRanges::compile(&parse(item).ok()?)));
        Self {
            defined: Some(View::start_when_served(
                system,
                "service-cidrs",
                vec![service_cidrs],
                fold,
            )),
            ..Self::fixed(configured)
        }
    }

    /// The view of ServiceCIDRs, which readiness waits for.
    pub fn readiness(&self) -> Option<Arc<dyn Readiness>> {
        let view = self.defined.clone()?;
        Some(Arc::new(view))
    }

    /// The families of the cluster, the default one first.
    pub fn families(&self) -> impl Iterator<Item = IpFamily> {
        self.configured.iter().map(AddressRange::family)
    }

    /// The ranges from which addresses of a family may be taken now, that of the settings first. None if the cluster does
    /// not have the family.
    pub fn usable(&self, family: IpFamily) -> Vec<AddressRange> {
        let Some(configured) = self.configured.iter().find(|range| range.family() == family) else {
            return Vec::new();
        };
        let snapshot = self.defined.as_ref().map(View::load);
        let defined = snapshot.iter().flat_map(|snapshot| snapshot.value.iter());
        let defined = defined.flat_map(|(_, defined)| defined.ranges.iter().map(|range| (*range, defined.is_ready)));
        let of_family: Vec<_> = defined.filter(|(range, _)| range.family() == family).collect();
        if of_family.is_empty() {
            return vec![*configured];
        }
        let ready = of_family
            .into_iter()
            .filter(|(_, is_ready)| *is_ready)
            .map(|(range, _)| range);
        let mut usable: Vec<AddressRange> = Vec::new();
        for range in ready {
            if !usable.contains(&range) {
                usable.push(range);
            }
        }
        usable.sort_by_key(|range| range != configured);
        usable
    }

    /// Reports whether an address is that of the service `default/kubernetes`, which is taken by name only.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.configured.first().is_some_and(|range| range.first() == address)
    }
}

impl DefinedRanges {
    fn compile(object: &Value) -> Self {
        let blocks = object.pointer("/spec/cidrs").and_then(Value::as_array);
        let texts = blocks.into_iter().flatten().filter_map(Value::as_str);
        let ranges = texts.filter_map(|text| text.parse::<AddressRange>().ok());
        let is_short = |range: &AddressRange| range.family() == IpFamily::V6 && range.prefix() < SHORTEST_V6_PREFIX;
        Self {
            ranges: ranges.filter(|range| !is_short(range)).collect(),
            is_ready: is_ready(object),
        }
    }
}

/// Returns true if a range may be used: unless its `Ready` condition says that it may not, or it is being deleted.
fn is_ready(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    object.pointer("/metadata/deletionTimestamp").is_none() && ready.is_none_or(|ready| ready["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().expect("a range")
    }

    #[test]
    fn a_range_is_ready_unless_its_condition_says_otherwise() {
        let of = |metadata: Value, conditions: Value| {
            let object = json!({ "metadata": metadata, "status": { "conditions": conditions } });
            is_ready(&object)
        };
        let ready = |status: &str| json!([{ "type": "Ready", "status": status }]);
        assert!(of(json!({}), json!([])), "there are no conditions");
        assert!(of(json!({}), ready("True")));
        assert!(!of(json!({}), ready("False")));
        assert!(!of(json!({}), ready("Unknown")));
        assert!(!of(
            json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }),
            ready("True")
        ));
    }

    #[test]
    fn ranges_that_hold_no_services_are_left_out() {
        let cidrs = json!({ "spec": { "cidrs": ["10.0.0.0/24", "10.1.0.0/32", "fd00::/48", "fd01::/64"] } });
        let compiled = DefinedRanges::compile(&cidrs);
        assert_eq!(compiled.ranges, ["10.0.0.0/24", "fd01::/64"].map(range));
    }

    #[test]
    fn the_settings_name_the_families_and_their_first_ranges() {
        let ranges = ServiceRanges::fixed(["fd00::/112", "10.0.0.0/24"].map(range));
        assert_eq!(ranges.families().collect::<Vec<_>>(), [IpFamily::V6, IpFamily::V4]);
        assert_eq!(ranges.usable(IpFamily::V4), [range("10.0.0.0/24")]);
        assert!(ranges.is_own("fd00::1".parse().expect("an address")));
        assert!(!ranges.is_own("10.0.0.1".parse().expect("an address")));
        let one = ServiceRanges::fixed([range("10.0.0.0/24")]);
        assert_eq!(one.usable(IpFamily::V6), []);
    }
}
