//! The replicas of the server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::WorldError;
use super::credentials::CredentialFiles;
use super::pki::WorldPki;
use super::process::{Process, Recipe};
use super::settings::WorldSettings;
use super::wall_clock::WallClocks;

/// The audit log in the data directory of a replica; rotated ones lie beside it.
pub(super) const AUDIT_LOG: &str = "audit.log";
/// The group's name in certificates.
const GROUP: &str = "trireme";
/// The time for which a replica goes on serving after SIGTERM: longer than the load balancer takes to find it not ready.
const SHUTDOWN_DELAY: &str = "2s";

/// One replica.
#[derive(Debug)]
pub(super) struct WorldReplica {
    pub(super) process: Process,
    /// The address at which it serves clients.
    pub(super) secure: SocketAddr,
    /// The address at which it serves clients over the proxied link, or the same.
    pub(super) linked: SocketAddr,
    pub(super) data_dir: PathBuf,
}

/// The world's addresses and files in a replica's settings.
pub(super) struct Surroundings<'a> {
    pub(super) settings: &'a WorldSettings,
    pub(super) pki: &'a WorldPki,
    pub(super) credentials: &'a CredentialFiles,
    /// If they can be set.
    pub(super) wall_clocks: Option<&'a WallClocks>,
    pub(super) dir: &'a Path,
    pub(super) logs: &'a Path,
    /// The addresses at which this replica reaches each member of etcd.
    pub(super) etcd: Vec<SocketAddr>,
    /// The addresses at which peers reach each replica.
    pub(super) peers: &'a [PeerPort],
}

/// The peer port of a replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerPort {
    /// The address that it listens on.
    pub(super) listen: SocketAddr,
    /// The address at which others reach it.
    pub(super) advertise: SocketAddr,
}

/// Prepares replica `index` to listen on `secure`.
pub(super) fn prepare(
    index: usize,
    secure: SocketAddr,
    linked: SocketAddr,
    around: &Surroundings<'_>,
) -> Result<WorldReplica, WorldError> {
    let name = format!("replica-{index}");
    let data_dir = around.dir.join(&name);
    let serving = around.pki.serving(&name)?;
    let etcd: Vec<String> = around.etcd.iter().map(|address| format!("http://{address}")).collect();
    let mut recipe = Recipe::new(&around.settings.server)
        .arg("serve")
        .arg("--bind-address=127.0.0.1")
        .arg(format!("--secure-port={}", secure.port()))
        .arg(format!("--data-dir={}", data_dir.display()))
        .args(CredentialFiles::flags(
            around.credentials.dir(),
            &data_dir.join(AUDIT_LOG),
        ))
        .arg(format!(
            "--service-account-signing-key-file={}",
            around.pki.service_account_key_file().display()
        ))
        .arg(format!("--tls-cert-file={}", serving.certificate.display()))
        .arg(format!("--tls-private-key-file={}", serving.key.display()))
        .arg(format!("--etcd-servers={}", etcd.join(",")))
        .arg(format!("--shutdown-delay-duration={SHUTDOWN_DELAY}"));
    if around.settings.group {
        recipe = recipe.args(group_flags(index, &name, around)?);
    }
    if let Some(clocks) = around.wall_clocks {
        recipe = recipe.envs(clocks.environment(index));
    }
    // Last, so that an experiment can overrule anything.
    let recipe = recipe.args(&around.settings.server_flags);
    let process = Process::new(name, recipe, around.logs);
    Ok(WorldReplica {
        process,
        secure,
        linked,
        data_dir,
    })
}

fn group_flags(index: usize, name: &str, around: &Surroundings<'_>) -> Result<Vec<String>, WorldError> {
    let pair = around.pki.peer(name, GROUP)?;
    let own = around.peers.get(index);
    let own = own.ok_or_else(|| WorldError::NoSuch(format!("peer port of {name}")))?;
    let peers: Vec<String> = around.peers.iter().map(|peer| peer.advertise.to_string()).collect();
    Ok(vec![
        format!("--cluster-name={GROUP}"),
        format!("--cluster-peers={}", peers.join(",")),
        format!("--cluster-listen={}", own.listen),
        format!("--cluster-advertise={}", own.advertise),
        format!("--cluster-ca-file={}", around.pki.ca_file().display()),
        format!("--cluster-cert-file={}", pair.certificate.display()),
        format!("--cluster-key-file={}", pair.key.display()),
    ])
}
