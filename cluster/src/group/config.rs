//! The configuration of a replica's group.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::transport::PeerCertificates;

/// A replica's settings for its group.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// The group's name, part of the name in its certificates.
    pub name: String,
    /// The Raft directory. On a disk that outlives the process: a replica that loses it comes back as another one.
    pub directory: PathBuf,
    /// The address that the peer port is bound to, `host:port`.
    pub listen: String,
    /// The address at which peers reach this replica, `host:port`.
    pub advertise: String,
    /// The addresses of the group's first members, the same set on each; this replica's own address is one of them
    /// if it is a first member. Later ones name members that they can join by. Empty: wait to be added.
    pub peers: BTreeSet<String>,
    /// The software version that peers see.
    pub version: String,
    /// The certificate that this replica shows to its peers.
    pub certificates: PeerCertificates,
}
