//! The links between the parts, each behind a fault proxy if the settings say so.
//!
//! A replica has one address at which all its peers reach it, so one proxy stands before its peer port and finds out
//! which one dials: containers have addresses of their own, and of processes on the loopback the kernel says which one holds
//! the other end. Links to etcd and to clients have a port each.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, RwLock};

use serde::{Deserialize, Serialize};

use super::WorldError;
use super::dialler::dialler;
use crate::proxy::{Link, Proxy};

/// A link, by the index of its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkId {
    /// From a replica to a member of etcd.
    Etcd {
        /// The replica, which dials.
        replica: usize,
        /// The member of etcd.
        member: usize,
    },
    /// From a replica to another one.
    Peer {
        /// The replica that dials.
        from: usize,
        /// The one that listens.
        to: usize,
    },
    /// From the load balancer, or a client that takes this way, to a replica.
    Client {
        /// The replica.
        replica: usize,
    },
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd { replica, member } => write!(f, "replica-{replica} -> etcd-{member}"),
            Self::Peer { from, to } => write!(f, "replica-{from} -> replica-{to}"),
            Self::Client { replica } => write!(f, "client -> replica-{replica}"),
        }
    }
}

/// All proxied links of a world.
#[derive(Debug)]
pub(super) struct Links {
    seed: u64,
    links: HashMap<LinkId, Link>,
    proxies: Vec<Proxy>,
    /// This machine's address that the parts reach the proxies at.
    on: Ipv4Addr,
    replicas: Diallers,
}

/// The addresses that the replicas dial from, in their order.
#[derive(Debug, Clone)]
enum Diallers {
    /// The process of each that runs.
    Processes(Arc<RwLock<Vec<Option<u32>>>>),
    /// The addresses that each dials from.
    Addresses(Vec<IpAddr>),
}

impl Links {
    /// Between processes on the loopback.
    pub(super) fn on_the_loopback(seed: u64, replicas: usize) -> Self {
        let processes = Arc::new(RwLock::new(vec![None; replicas]));
        Self::new(seed, Ipv4Addr::LOCALHOST, Diallers::Processes(processes))
    }

    /// Between containers that reach this machine at `gateway`; each replica dials from its own address.
    pub(super) fn at_the_gateway(seed: u64, gateway: Ipv4Addr, replicas: Vec<IpAddr>) -> Self {
        Self::new(seed, gateway, Diallers::Addresses(replicas))
    }

    fn new(seed: u64, on: Ipv4Addr, replicas: Diallers) -> Self {
        Self {
            seed,
            links: HashMap::new(),
            proxies: Vec::new(),
            on,
            replicas,
        }
    }

    pub(super) fn find(&self, id: LinkId) -> Option<&Link> {
        self.links.get(&id)
    }

    /// All of them in order.
    pub(super) fn all(&self) -> Vec<(LinkId, Link)> {
        let mut all: Vec<_> = self.links.iter().map(|(id, link)| (*id, link.clone())).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Takes note of the process that is a replica now.
    pub(super) fn replica_is(&self, replica: usize, process: Option<u32>) {
        if let Diallers::Processes(known) = &self.replicas
            && let Some(known) = known
                .write()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .get_mut(replica)
        {
            *known = process;
        }
    }

    fn make(&mut self, id: LinkId) -> Link {
        // Each link has random numbers of its own, so that the traffic of one does not move those of another.
        let count = u64::try_from(self.links.len()).unwrap_or_default();
        let link = Link::new(id.to_string(), self.seed.wrapping_add(count));
        self.links.insert(id, link.clone());
        link
    }

    /// A proxy of its own for a link; gives its address.
    pub(super) fn add(&mut self, id: LinkId, target: SocketAddr) -> Result<SocketAddr, WorldError> {
        let link = self.make(id);
        let proxy = Proxy::start(self.on, link, target).map_err(WorldError::io(format!("open a proxy for {id}")))?;
        let address = proxy.address();
        self.proxies.push(proxy);
        Ok(address)
    }

    /// One proxy for all links that lead to the peer port of a replica.
    pub(super) fn add_peers(&mut self, to: usize, target: SocketAddr) -> Result<SocketAddr, WorldError> {
        let count = self.replicas.count();
        let dialling = (0..count).filter(|from| *from != to);
        let dialling: Vec<(usize, Link)> = dialling
            .map(|from| (from, self.make(LinkId::Peer { from, to })))
            .collect();
        // It is no peer: an unknown process gets a perfect link.
        let stranger = Link::new(format!("unknown -> replica-{to}"), self.seed);
        let replicas = self.replicas.clone();
        let proxy = Proxy::start_sorted(self.on, target, move |client, server| {
            let dialler = replicas.find(client, server);
            let link = dialling.iter().find(|(from, _)| Some(*from) == dialler);
            link.map_or_else(|| stranger.clone(), |(_, link)| link.clone())
        });
        let proxy = proxy.map_err(WorldError::io(format!("open a proxy for the peers of replica-{to}")))?;
        let address = proxy.address();
        self.proxies.push(proxy);
        Ok(address)
    }
}

impl Diallers {
    fn count(&self) -> usize {
        match self {
            Self::Processes(known) => known.read().map_or(0, |known| known.len()),
            Self::Addresses(known) => known.len(),
        }
    }

    /// Which replica has dialled from `client` to `server`.
    fn find(&self, client: SocketAddr, server: SocketAddr) -> Option<usize> {
        match self {
            Self::Processes(known) => dialler(client, server, || {
                known.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
            }),
            Self::Addresses(known) => known.iter().position(|address| *address == client.ip()),
        }
    }
}
