//! The network plan of a world of containers: two networks of this machine that nothing else uses, and a fixed address
//! on them for each part, as containers that are started again get whichever is free.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::super::WorldError;

/// The kernel's table of the addresses that are routed to.
const ROUTES: &str = "/proc/net/route";
/// The blocks that networks are looked for in: less used ones of the private ranges.
const BLOCKS: [[u8; 2]; 6] = [[10, 213], [10, 247], [172, 29], [172, 31], [192, 168], [10, 87]];
/// Both networks have so many bits of network: the last byte is the host's.
const PREFIX: u8 = 24;
/// The first byte of a host that is ours; what has no fixed address gets one below.
const REPLICAS: u8 = 11;
const BALANCER: u8 = 21;
const MEMBERS: u8 = 31;
const SECURE_PORT: u16 = 6443;
const PEER_PORT: u16 = 7443;
const ETCD_PORT: u16 = 2379;
const STATISTICS_PORT: u16 = 8404;

/// The networks of `docker-compose.yml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NetworkPlan {
    /// `default`: what clients reach.
    front: [u8; 3],
    /// `store`: etcd, and who talks to it.
    store: [u8; 3],
}

impl NetworkPlan {
    /// Two networks that no route of this machine leads to. `chance` decides between those that are free, so that worlds
    /// that are made at the same time hardly ever take the same ones.
    pub(super) fn choose(chance: u8) -> Result<Self, WorldError> {
        let routes = fs::read_to_string(ROUTES).map_err(WorldError::io(format!("read {ROUTES}")))?;
        Self::among(&taken(&routes), chance).ok_or_else(|| {
            let why = "every network that containers could have is in use on this machine: see `ip route`";
            WorldError::Unsupported(why.to_owned())
        })
    }

    fn among(taken: &[Range], chance: u8) -> Option<Self> {
        let blocks = BLOCKS.into_iter();
        let networks = blocks.flat_map(|[a, b]| (0..=u8::MAX).map(move |c| [a, b, c.wrapping_add(chance)]));
        let mut free = networks.filter(|network| !taken.iter().any(|range| range.meets(*network)));
        Some(Self {
            front: free.next()?,
            store: free.next()?,
        })
    }

    /// The two networks as Docker writes them: `default`, `store`.
    pub(super) fn subnets(&self) -> [String; 2] {
        [self.front, self.store].map(|network| format!("{}/{PREFIX}", host(network, 0)))
    }

    /// The address at which containers reach this machine: Docker gives the bridge the first address.
    pub(super) fn gateway(&self) -> Ipv4Addr {
        host(self.front, 1)
    }

    /// A replica on `default`, where it serves clients and talks to its peers.
    pub(super) fn replica(&self, index: usize) -> Ipv4Addr {
        host(self.front, nth(REPLICAS, index))
    }

    /// A replica on `store`.
    pub(super) fn replica_at_store(&self, index: usize) -> Ipv4Addr {
        host(self.store, nth(REPLICAS, index))
    }

    /// A member of etcd on `store`.
    pub(super) fn member(&self, index: usize) -> Ipv4Addr {
        host(self.store, nth(MEMBERS, index))
    }

    /// HAProxy on `default`.
    pub(super) fn balancer(&self) -> Ipv4Addr {
        host(self.front, BALANCER)
    }

    /// The address at which a replica serves clients.
    pub(super) fn secure(&self, replica: usize) -> SocketAddr {
        (self.replica(replica), SECURE_PORT).into()
    }

    /// The address at which peers reach a replica.
    pub(super) fn peer(&self, replica: usize) -> SocketAddr {
        (self.replica(replica), PEER_PORT).into()
    }

    /// The address at which a member of etcd serves.
    pub(super) fn etcd(&self, member: usize) -> SocketAddr {
        (self.member(member), ETCD_PORT).into()
    }

    /// The address at which HAProxy accepts clients.
    pub(super) fn front_door(&self) -> SocketAddr {
        (self.balancer(), SECURE_PORT).into()
    }

    /// The address of HAProxy's statistics.
    pub(super) fn statistics(&self) -> SocketAddr {
        (self.balancer(), STATISTICS_PORT).into()
    }

    /// The addresses that so many replicas dial their peers from.
    pub(super) fn diallers(&self, replicas: usize) -> Vec<IpAddr> {
        (0..replicas).map(|index| self.replica(index).into()).collect()
    }
}

fn host(network: [u8; 3], host: u8) -> Ipv4Addr {
    let [a, b, c] = network;
    Ipv4Addr::new(a, b, c, host)
}

/// The parts of a kind are next to each other. There are a handful.
fn nth(first: u8, index: usize) -> u8 {
    first.saturating_add(u8::try_from(index).unwrap_or(u8::MAX))
}

/// The addresses that a route leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    base: u32,
    mask: u32,
}

impl Range {
    /// Returns true if it has an address of this network, or all of them.
    fn meets(self, network: [u8; 3]) -> bool {
        let first = host(network, 0).to_bits();
        let mask = self.mask & (u32::MAX << (32 - PREFIX));
        first & mask == self.base & mask
    }
}

/// All routes but the default one.
fn taken(routes: &str) -> Vec<Range> {
    let rows = routes.lines().skip(1);
    let ranges = rows.filter_map(|row| {
        let mut columns = row.split_whitespace().skip(1);
        // The kernel prints addresses as numbers in the machine's byte order.
        let number = |text: &str| u32::from_str_radix(text, 16).map(u32::to_be).ok();
        let base = number(columns.next()?)?;
        let mask = number(columns.nth(5)?)?;
        Some(Range { base, mask })
    });
    ranges.filter(|range| range.mask != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    fn routes(networks: &[(&str, u32)]) -> String {
        let rows = networks.iter().map(|(network, bits)| {
            let base: Ipv4Addr = network.parse().unwrap();
            let mask = Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - bits).unwrap_or(0));
            let hex = |address: Ipv4Addr| format!("{:08X}", u32::from_ne_bytes(address.octets()));
            format!("eth0\t{}\t00000000\t0001\t0\t0\t0\t{}\t0\t0\t0\n", hex(base), hex(mask))
        });
        HEADER.to_owned() + &rows.collect::<String>()
    }

    #[test]
    fn networks_are_those_that_no_route_leads_to() {
        // The default route, and one that holds a whole block, and one within the next.
        let taken = taken(&routes(&[("0.0.0.0", 0), ("10.213.0.0", 16), ("10.247.7.128", 25)]));
        let plan = NetworkPlan::among(&taken, 6).unwrap();
        assert_eq!(plan.subnets(), ["10.247.6.0/24", "10.247.8.0/24"]);
        assert_eq!(plan.gateway(), Ipv4Addr::new(10, 247, 6, 1));
        assert_eq!(plan.etcd(2).to_string(), "10.247.8.33:2379");
        assert_eq!(plan.secure(0).to_string(), "10.247.6.11:6443");
    }

    #[test]
    fn there_may_be_none() {
        let all = taken(&routes(&[("0.0.0.0", 1), ("128.0.0.0", 1)]));
        assert_eq!(all.len(), 2);
        assert_eq!(NetworkPlan::among(&all, 0), None);
    }
}
