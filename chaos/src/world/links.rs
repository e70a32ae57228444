//! The links between the parts, each behind a fault proxy if the settings say so.
//!
//! A replica has one address at which all its peers reach it, so one proxy stands before its peer port and finds out
//! who dials by asking the kernel which process holds the other end. Links to etcd and to clients have a port each.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::WorldError;
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
    /// The process id of each replica that runs.
    replicas: Arc<RwLock<Vec<Option<u32>>>>,
}

impl Links {
    pub(super) fn new(seed: u64, replicas: usize) -> Self {
        Self {
            seed,
            links: HashMap::new(),
            proxies: Vec::new(),
            replicas: Arc::new(RwLock::new(vec![None; replicas])),
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
        let mut replicas = self.replicas.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(known) = replicas.get_mut(replica) {
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
        let proxy = Proxy::start(link, target).map_err(WorldError::io(format!("open a proxy for {id}")))?;
        let address = proxy.address();
        self.proxies.push(proxy);
        Ok(address)
    }

    /// One proxy for all links that lead to the peer port of a replica.
    pub(super) fn add_peers(&mut self, to: usize, target: SocketAddr) -> Result<SocketAddr, WorldError> {
        let count = self.replicas.read().map_or(0, |replicas| replicas.len());
        let dialling = (0..count).filter(|from| *from != to);
        let dialling: Vec<(usize, Link)> = dialling
            .map(|from| (from, self.make(LinkId::Peer { from, to })))
            .collect();
        // Whoever it is, not a peer: an unknown process gets a perfect link.
        let stranger = Link::new(format!("somebody -> replica-{to}"), self.seed);
        let replicas = Arc::clone(&self.replicas);
        let proxy = Proxy::start_sorted(target, move |client| {
            let known = replicas.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
            let dialler = dialler(client, &known);
            let link = dialling.iter().find(|(from, _)| Some(*from) == dialler);
            link.map_or_else(|| stranger.clone(), |(_, link)| link.clone())
        });
        let proxy = proxy.map_err(WorldError::io(format!("open a proxy for the peers of replica-{to}")))?;
        let address = proxy.address();
        self.proxies.push(proxy);
        Ok(address)
    }
}

/// A process that starts is dialling before its id is noted.
const NOTING_ATTEMPTS: u32 = 20;

/// Which of the processes holds the socket whose own address is `client`.
fn dialler(client: SocketAddr, known: &[Option<u32>]) -> Option<usize> {
    for _ in 0..NOTING_ATTEMPTS {
        let inode = inode_of(client)?;
        let socket = format!("socket:[{inode}]");
        let holds = |process: &Option<u32>| process.is_some_and(|id| holds_file(id, &socket));
        if let Some(found) = known.iter().position(holds) {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

fn holds_file(process: u32, file: &str) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    let names = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    names.into_iter().any(|name| name == Path::new(file))
}

/// The inode of the connected socket with this address of its own.
fn inode_of(own: SocketAddr) -> Option<String> {
    let SocketAddr::V4(own) = own else {
        return None;
    };
    // The kernel prints the address as a number in the machine's byte order.
    let address = u32::from_ne_bytes(own.ip().octets());
    let wanted = format!("{address:08X}:{:04X}", own.port());
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let mut rows = table
        .lines()
        .skip(1)
        .map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.get(1) == Some(&wanted.as_str()) && row.get(9).is_some_and(|inode| *inode != "0"))?;
    row.get(9).map(|inode| (*inode).to_owned())
}
