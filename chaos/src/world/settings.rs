//! The settings of the world.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The place where the parts of the world run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorldTarget {
    /// Plain processes on this machine's loopback.
    #[default]
    Loopback,
    /// Containers of the top-level `docker-compose.yml`.
    Compose,
}

impl fmt::Display for WorldTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "over processes on the loopback",
            Self::Compose => "over the containers of docker-compose.yml",
        })
    }
}

/// Which links go through fault proxies. A link that does not cannot be touched, and costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Proxied {
    /// From each replica to each etcd member.
    pub etcd: bool,
    /// From each replica to each other replica. Only with [`WorldSettings::group`].
    pub peers: bool,
    /// From the load balancer to each replica; clients can take the same way.
    pub clients: bool,
}

impl Proxied {
    /// Every link.
    pub const ALL: Self = Self {
        etcd: true,
        peers: true,
        clients: true,
    };
}

/// The settings of the world.
#[derive(Debug, Clone)]
pub struct WorldSettings {
    /// The place where it runs.
    pub target: WorldTarget,
    /// The server's binary. Containers have what is in their image.
    pub server: PathBuf,
    /// The run directory: data, certificates, logs. A temporary one, gone with the world, if `None`. Must be empty or
    /// absent, and is left as it is at the end.
    pub dir: Option<PathBuf>,
    /// The number of replicas.
    pub replicas: usize,
    /// The number of members of etcd.
    pub etcd_members: usize,
    /// True if the replicas are a group (`--cluster-peers` and what belongs to it), or do not know of each other.
    pub group: bool,
    /// Which links go through fault proxies.
    pub proxied: Proxied,
    /// True if the wall clocks of replicas can be set while they run. On the loopback only.
    pub wall_clocks: bool,
    /// True if certificates begin an hour before the world, as those of `trireme pki init`; else long ago. Those of
    /// containers always do.
    pub young_certificates: bool,
    /// More flags for every replica.
    pub server_flags: Vec<String>,
    /// More flags for every member of etcd.
    pub etcd_flags: Vec<String>,
    /// Decides jitter and losses.
    pub seed: u64,
}

impl WorldSettings {
    /// Three replicas of `server` that form a group, three members of etcd, no proxies.
    pub fn new(server: impl Into<PathBuf>) -> Self {
        Self {
            target: WorldTarget::Loopback,
            server: server.into(),
            dir: None,
            replicas: 3,
            etcd_members: 3,
            group: true,
            proxied: Proxied::default(),
            wall_clocks: false,
            young_certificates: false,
            server_flags: Vec::new(),
            etcd_flags: Vec::new(),
            seed: 0,
        }
    }
}
