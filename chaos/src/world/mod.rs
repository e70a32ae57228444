//! The world that experiments break: etcd, replicas of the server, a load balancer, and the links between them.
//!
//! ```text
//!   clients ─► HAProxy ─► [link] ─► replica-0 ─┐          [link] = a fault proxy, if the settings want it
//!                    ├──► [link] ─► replica-1 ─┼─► [link] ─► etcd-0, etcd-1, etcd-2
//!                    └──► [link] ─► replica-2 ─┘
//!                                   replica-i ◄─► [link] ◄─► replica-j
//! ```
//!
//! [`World::start`] makes certificates, starts everything and returns when it serves. What can be done to a part is a
//! method that takes a [`Part`]; faults use nothing else. So a world of processes (`build`) and one of the containers of
//! `docker-compose.yml` (`compose`) have the same faults. All methods take `&self`: traffic, checks and the nemesis
//! share one world.
//!
//! Processes are known by their ids and nothing else is ever signalled. They die with the world: when it is dropped, and,
//! by the kernel's hand, when this process dies in any way. Containers are taken down by a process that waits for that.

mod balancer;
mod build;
mod compose;
mod container;
mod credentials;
mod dialler;
mod error;
mod etcd;
mod facts;
mod links;
mod parts;
mod pki;
mod probe;
mod process;
mod replica;
mod run_dir;
mod settings;
mod wall_clock;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::proxy::Link;

use balancer::Balancer;
use compose::Project;
use links::Links;
use replica::WorldReplica;
use run_dir::RunDir;
use wall_clock::WallClocks;

pub use credentials::{
    ACCESS_USERS, ADMIN_TOKEN, CredentialFiles, REVOCABLE, RevocableCertificate, USER_TOKEN, access_token,
};
pub use error::WorldError;
pub use etcd::EtcdStatus;
pub use facts::PartVitals;
pub(crate) use facts::{FENCES, total};
pub use links::LinkId;
pub use probe::Probe;
pub use settings::{Proxied, WorldSettings, WorldTarget};
pub use wall_clock::WallClock;

/// Something that runs in a world, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// A replica of the server.
    Replica(usize),
    /// A member of etcd.
    Etcd(usize),
    /// The load balancer.
    Balancer,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Replica(index) => write!(f, "replica-{index}"),
            Self::Etcd(index) => write!(f, "etcd-{index}"),
            Self::Balancer => f.write_str("haproxy"),
        }
    }
}

/// The way of a client to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRoute {
    /// Past all proxies: for probes and final reads.
    Direct,
    /// Over the link that the load balancer takes too, if [`Proxied::clients`] is set; else the same.
    Linked,
}

/// A world that runs until it is dropped.
#[derive(Debug)]
pub struct World {
    // Dropped in this order: those who talk before those they talk to, everything before its files.
    balancer: Balancer,
    replicas: Vec<WorldReplica>,
    /// Those of the replicas, if they can be set.
    wall_clocks: Option<WallClocks>,
    etcd: Vec<etcd::Member>,
    links: Links,
    /// The Compose project of the containers, if there are any.
    _project: Option<Project>,
    ca: WorldAuthority,
    credentials: CredentialFiles,
    probe: Probe,
    settings: WorldSettings,
    dir: RunDir,
}

/// The certificate of the CA that signed every serving certificate.
#[derive(Debug)]
struct WorldAuthority {
    pem: String,
    file: PathBuf,
}

impl World {
    /// `https://ADDRESS:PORT` of the load balancer.
    pub fn url(&self) -> String {
        format!("https://{}", self.balancer.address)
    }

    /// The address that the load balancer listens on.
    pub fn address(&self) -> SocketAddr {
        self.balancer.address
    }

    /// The address at which a replica serves clients.
    ///
    /// # Errors
    /// If there is no such replica.
    pub fn replica_address(&self, replica: usize, route: ClientRoute) -> Result<SocketAddr, WorldError> {
        let replica = self.replica(replica)?;
        Ok(match route {
            ClientRoute::Direct => replica.secure,
            ClientRoute::Linked => replica.linked,
        })
    }

    /// The address at which each member of etcd serves clients, past all proxies.
    pub fn etcd_addresses(&self) -> Vec<SocketAddr> {
        self.etcd.iter().map(|member| member.client).collect()
    }

    /// The number of replicas there are, running or not.
    pub fn replicas(&self) -> usize {
        self.replicas.len()
    }

    /// The number of members etcd has, running or not.
    pub fn etcd_members(&self) -> usize {
        self.etcd.len()
    }

    /// All parts.
    pub fn parts(&self) -> Vec<Part> {
        let replicas = (0..self.replicas.len()).map(Part::Replica);
        let members = (0..self.etcd.len()).map(Part::Etcd);
        replicas.chain(members).chain([Part::Balancer]).collect()
    }

    /// The CA that signed every serving certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca.pem
    }

    /// The same as a file.
    pub fn ca_file(&self) -> PathBuf {
        self.ca.file.clone()
    }

    /// The run directory: `logs/PART.log`, the data of each part, certificates.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The `--data-dir` of a replica.
    ///
    /// # Errors
    /// If there is no such replica.
    pub fn data_dir(&self, replica: usize) -> Result<&Path, WorldError> {
        Ok(&self.replica(replica)?.data_dir)
    }

    /// The `--audit-log-path` of a replica; rotated logs lie beside it.
    ///
    /// # Errors
    /// If there is no such replica.
    pub fn audit_log(&self, replica: usize) -> Result<PathBuf, WorldError> {
        Ok(self.data_dir(replica)?.join(replica::AUDIT_LOG))
    }

    /// The files by which all replicas know users.
    pub fn credentials(&self) -> &CredentialFiles {
        &self.credentials
    }

    /// The settings that this world was built from.
    pub fn settings(&self) -> &WorldSettings {
        &self.settings
    }

    /// A link that goes through a fault proxy.
    ///
    /// # Errors
    /// If it does not; see [`WorldSettings::proxied`].
    pub fn link(&self, id: LinkId) -> Result<&Link, WorldError> {
        let found = self.links.find(id);
        found.ok_or_else(|| WorldError::NoSuch(format!("proxied link {id}")))
    }

    /// Every link that goes through a fault proxy.
    pub fn links(&self) -> Vec<(LinkId, Link)> {
        self.links.all()
    }

    /// A client that believes this world's CA and asks as the administrator.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    fn replica(&self, index: usize) -> Result<&WorldReplica, WorldError> {
        let replica = self.replicas.get(index);
        replica.ok_or_else(|| WorldError::NoSuch(Part::Replica(index).to_string()))
    }

    fn member(&self, index: usize) -> Result<&etcd::Member, WorldError> {
        let member = self.etcd.get(index);
        member.ok_or_else(|| WorldError::NoSuch(Part::Etcd(index).to_string()))
    }
}
