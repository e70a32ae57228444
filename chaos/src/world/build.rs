//! From settings to a world that serves.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use tempfile::TempDir;
use trireme_tests::ports::free_address;
use trireme_tests::process::find_program;

use super::balancer::Balancer;
use super::links::{LinkId, Links};
use super::pki::Pki;
use super::replica::{Peer, Replica, Surroundings};
use super::settings::{Settings, Target};
use super::{Part, Probe, World, WorldError, etcd, replica};

impl World {
    /// Builds and starts everything, and returns when a request through the load balancer is answered. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// If a program is missing, says how to get it; if a part does not come up, shows the end of its log.
    pub async fn start(settings: Settings) -> Result<Self, WorldError> {
        let world = Self::prepare(settings)?;
        for member in &world.etcd {
            member.process.start()?;
        }
        world.wait_for_etcd().await?;
        for index in 0..world.replicas.len() {
            world.launch(Part::Replica(index))?;
        }
        for index in 0..world.replicas.len() {
            world.wait_ready(Part::Replica(index)).await?;
        }
        world.launch(Part::Balancer)?;
        world.wait_ready(Part::Balancer).await?;
        world.wait_for_leader().await?;
        world.wait_for_namespace().await?;
        Ok(world)
    }

    fn prepare(settings: Settings) -> Result<Self, WorldError> {
        check(&settings)?;
        let temporary = TempDir::with_prefix("trireme-chaos-").map_err(WorldError::io("make a directory"))?;
        let dir = settings.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
        let logs = dir.join("logs");
        fs::create_dir_all(&logs).map_err(WorldError::io(format!("make {}", logs.display())))?;
        // Relative paths would mean something else to a program that changes its directory.
        let dir = fs::canonicalize(&dir).map_err(WorldError::io("find the run directory"))?;
        let logs = dir.join("logs");
        let pki = Pki::make(&dir.join("pki"))?;
        let probe = Probe::new(pki.ca_pem()).map_err(|why| WorldError::Answer {
            part: "the CA".to_owned(),
            what: "its certificate",
            why,
        })?;
        let etcd = etcd::prepare(settings.etcd_members, &dir, &logs, &settings.etcd_flags)?;
        let mut links = Links::new(settings.seed, settings.replicas);
        let members: Vec<SocketAddr> = etcd.iter().map(|member| member.client).collect();
        let replicas = replicas(&settings, &pki, &dir, &logs, &members, &mut links)?;
        let backends: Vec<SocketAddr> = replicas.iter().map(|replica| replica.linked).collect();
        let (ca, address) = (pki.ca_file(), free_address());
        let balancer = Balancer::prepare(&dir, temporary.path(), &logs, address, &ca, &backends)?;
        Ok(Self {
            balancer,
            replicas,
            etcd,
            links,
            pki,
            probe,
            settings,
            dir,
            _temporary: temporary,
        })
    }
}

fn check(settings: &Settings) -> Result<(), WorldError> {
    if settings.target == Target::Compose {
        let why = "a world of containers cannot be built yet: use the loopback target";
        return Err(WorldError::Unsupported(why.to_owned()));
    }
    if !settings.server.is_file() {
        return Err(WorldError::NotBuilt {
            path: settings.server.display().to_string(),
            build: "cargo build -p trireme",
        });
    }
    if find_program("setpriv").is_none() {
        return Err(WorldError::Missing {
            program: "setpriv",
            install: "sudo apt-get install -y util-linux",
        });
    }
    if settings.proxied.peers && !settings.group {
        let why = "replicas that are no group have no links to each other";
        return Err(WorldError::Unsupported(why.to_owned()));
    }
    let dir = settings.dir.as_deref().map(fs::read_dir);
    if let Some(Ok(mut entries)) = dir
        && entries.next().is_some()
    {
        let why = "the run directory has files of an earlier run: name another, or empty it";
        return Err(WorldError::Unsupported(why.to_owned()));
    }
    Ok(())
}

fn replicas(
    settings: &Settings,
    pki: &Pki,
    dir: &Path,
    logs: &Path,
    members: &[SocketAddr],
    links: &mut Links,
) -> Result<Vec<Replica>, WorldError> {
    let peers = peers(settings, links)?;
    let one = |index: usize| {
        let secure = free_address();
        let linked = match settings.proxied.clients {
            true => links.add(LinkId::Client { replica: index }, secure)?,
            false => secure,
        };
        let around = Surroundings {
            settings,
            pki,
            dir,
            logs,
            etcd: ways_to_etcd(index, settings, members, links)?,
            peers: &peers,
        };
        replica::prepare(index, secure, linked, &around)
    };
    (0..settings.replicas).map(one).collect()
}

fn peers(settings: &Settings, links: &mut Links) -> Result<Vec<Peer>, WorldError> {
    let count = if settings.group { settings.replicas } else { 0 };
    let one = |index: usize| {
        let listen = free_address();
        let advertise = match settings.proxied.peers {
            true => links.add_peers(index, listen)?,
            false => listen,
        };
        Ok(Peer { listen, advertise })
    };
    (0..count).map(one).collect()
}

fn ways_to_etcd(
    replica: usize,
    settings: &Settings,
    members: &[SocketAddr],
    links: &mut Links,
) -> Result<Vec<SocketAddr>, WorldError> {
    let members = members.iter().enumerate();
    let way = |(member, address): (usize, &SocketAddr)| match settings.proxied.etcd {
        true => links.add(LinkId::Etcd { replica, member }, *address),
        false => Ok(*address),
    };
    members.map(way).collect()
}
