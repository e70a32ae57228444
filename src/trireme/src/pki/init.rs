//! The certificates and keys of replicas that serve one cluster together: `trireme pki init`.
//!
//! `main` calls [`init`] where the CA's key is to stay, which need not be a replica's machine. Promises: a second call
//! with the same words changes nothing; one that names more replicas adds their directories; certificates that are soon
//! over or lack a name are renewed by the same CA; a CA is never replaced.
//!
//! ```text
//! DIR/ca.crt  ca.key                    signs serving and client certificates
//! DIR/cluster-ca.crt  cluster-ca.key    signs the replicas of the group and nothing else
//! DIR/sa.key  sa.pub                    service-account tokens are signed with this (ECDSA P-256)
//! DIR/admin.crt  admin.key              user kubernetes-admin, group system:masters
//! DIR/admin.kubeconfig                  the same for kubectl
//! DIR/monitoring/                       for Prometheus and load balancers, which run as other users
//!   ca.crt  client.crt  client.key      group system:monitoring; the key is readable by its group
//! DIR/NAME/                             all that the replica NAME needs, to be copied to its host
//!   serving.crt  serving.key            for its hosts, the server's, and kubernetes.default.svc
//!   cluster.crt  cluster.key            for its peers, with the group's name
//!   ca.crt  cluster-ca.crt  sa.key  sa.pub
//! ```

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::SystemTime;

use trireme_cluster::PeerCertificates;

use super::certificates::{Authority, Leaf};
use super::{PkiError, authority, files, leaf, leaf_with_mode, service_account_key, serving_names, write_kubeconfig};
use crate::settings::PkiInit;

/// The required files.
#[derive(Debug)]
pub(crate) struct InitWanted<'a> {
    /// The settings of the command line.
    pub(crate) asked: &'a PkiInit,
    /// Wall time.
    pub(crate) now: SystemTime,
}

/// Brings the directory in order.
pub(crate) fn init(wanted: &InitWanted<'_>) -> Result<(), PkiError> {
    let (asked, now) = (wanted.asked, wanted.now);
    let dir = asked.dir.as_path();
    files::make_private_dir(dir)?;
    let ca = authority(dir, "ca", now)?;
    let cluster_ca = authority(dir, "cluster-ca", now)?;
    service_account_key(dir)?;
    leaf(dir, "admin", &ca, &Leaf::admin(), now)?;
    write_kubeconfig(&dir.join("admin.kubeconfig"), &asked.server, &dir.join("ca.crt"), dir)?;
    monitoring(dir, &ca, now)?;
    let peer = Leaf::peer(PeerCertificates::group_name(&asked.cluster_name));
    for replica in &asked.replicas {
        let own = dir.join(&replica.name);
        files::make_private_dir(&own)?;
        let hosts = replica.hosts.iter().chain([&asked.server_host]).cloned();
        let serving = Leaf::serving(serving_names(&[asked.service_address], hosts));
        leaf(&own, "serving", &ca, &serving, now)?;
        leaf(&own, "cluster", &cluster_ca, &peer, now)?;
        for (name, mode) in [
            ("ca.crt", files::PUBLIC),
            ("cluster-ca.crt", files::PUBLIC),
            ("sa.pub", files::PUBLIC),
            ("sa.key", files::PRIVATE),
        ] {
            copy(dir, &own, name, mode)?;
        }
    }
    Ok(())
}

/// The certificate of clients that read metrics and probes. Its directory is open to others, as they run as users of
/// their own.
fn monitoring(dir: &Path, ca: &Authority, now: SystemTime) -> Result<(), PkiError> {
    let own = dir.join("monitoring");
    files::make_public_dir(&own)?;
    leaf_with_mode(&own, "client", ca, &Leaf::monitoring(), now, files::GROUP)?;
    copy(dir, &own, "ca.crt", files::PUBLIC)
}

fn copy(from: &Path, to: &Path, name: &str, mode: u32) -> Result<(), PkiError> {
    let text = files::read(&from.join(name))?;
    Ok(files::write_if_different(&to.join(name), text.as_bytes(), mode)?)
}
