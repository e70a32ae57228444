//! From settings to a world that serves.

use std::net::SocketAddr;

use futures_util::future::try_join_all;
use trireme_ports::free_address;
use trireme_tests::process::find_program;

use super::balancer::Balancer;
use super::credentials::CredentialFiles;
use super::links::{LinkId, Links};
use super::pki::WorldPki;
use super::replica::{PeerPort, Surroundings, WorldReplica};
use super::run_dir::RunDir;
use super::settings::{WorldSettings, WorldTarget};
use super::wall_clock::WallClocks;
use super::{Part, Probe, World, WorldAuthority, WorldError, compose, etcd, replica};

impl World {
    /// Builds and starts everything, and returns when a request through the load balancer is answered. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// If a program is missing, says how to get it; if a part does not come up, shows the end of its log.
    pub async fn start(settings: WorldSettings) -> Result<Self, WorldError> {
        let world = match settings.target {
            WorldTarget::Loopback => Self::prepare(settings)?,
            WorldTarget::Compose => compose::prepare(settings).await?,
        };
        world.bring_up().await?;
        Ok(world)
    }

    /// Returns true if such a world could be made here, as far as can be said without making it.
    ///
    /// # Errors
    /// Says what is missing, and how to get it.
    pub async fn check(settings: &WorldSettings) -> Result<(), WorldError> {
        match settings.target {
            WorldTarget::Loopback => check(settings),
            WorldTarget::Compose => compose::check(settings).await.map(|_| ()),
        }
    }

    /// Starts everything, each part when what it talks to is there.
    async fn bring_up(&self) -> Result<(), WorldError> {
        try_join_all((0..self.etcd.len()).map(|index| self.launch(Part::Etcd(index)))).await?;
        self.wait_for_etcd().await?;
        try_join_all((0..self.replicas.len()).map(|index| self.launch(Part::Replica(index)))).await?;
        for index in 0..self.replicas.len() {
            self.wait_ready(Part::Replica(index)).await?;
        }
        self.launch(Part::Balancer).await?;
        self.wait_ready(Part::Balancer).await?;
        self.wait_for_leader().await?;
        self.wait_for_namespace().await
    }

    /// A world of processes.
    fn prepare(settings: WorldSettings) -> Result<Self, WorldError> {
        check(&settings)?;
        let run_dir = RunDir::make(settings.dir.as_deref())?;
        let (dir, logs) = (run_dir.path().to_owned(), run_dir.logs());
        let pki = WorldPki::make(&dir.join("pki"), settings.young_certificates)?;
        let credentials = CredentialFiles::make(dir.join("credentials"))?;
        let probe = Probe::new(pki.ca_pem())?;
        let etcd = etcd::prepare(settings.etcd_members, &dir, &logs, &settings.etcd_flags)?;
        let mut links = Links::on_the_loopback(settings.seed, settings.replicas);
        let members: Vec<SocketAddr> = etcd.iter().map(|member| member.client).collect();
        let wall_clocks = match settings.wall_clocks {
            true => Some(WallClocks::make(dir.join("clocks"), settings.replicas)?),
            false => None,
        };
        let replicas = replicas(
            &settings,
            (&pki, &credentials),
            wall_clocks.as_ref(),
            &run_dir,
            &members,
            &mut links,
        )?;
        let backends: Vec<SocketAddr> = replicas.iter().map(|replica| replica.linked).collect();
        let ca = WorldAuthority {
            pem: pki.ca_pem().to_owned(),
            file: pki.ca_file(),
        };
        let balancer = Balancer::prepare(&dir, run_dir.short(), &logs, free_address(), &ca.file, &backends)?;
        Ok(Self {
            balancer,
            replicas,
            wall_clocks,
            etcd,
            links,
            _project: None,
            ca,
            credentials,
            probe,
            settings,
            dir: run_dir,
        })
    }
}

fn check(settings: &WorldSettings) -> Result<(), WorldError> {
    if !settings.server.is_file() {
        return Err(WorldError::NotBuilt {
            path: settings.server.display().to_string(),
            build: "cargo build -p trireme",
        });
    }
    check_programs()?;
    if settings.proxied.peers && !settings.group {
        let why = "replicas that are no group have no links to each other";
        return Err(WorldError::Unsupported(why.to_owned()));
    }
    Ok(())
}

/// The parts of worlds of both kinds.
pub(super) fn check_programs() -> Result<(), WorldError> {
    match find_program("setpriv") {
        Some(_) => Ok(()),
        None => Err(WorldError::Missing {
            program: "setpriv",
            install: "sudo apt-get install -y util-linux",
        }),
    }
}

fn replicas(
    settings: &WorldSettings,
    (pki, credentials): (&WorldPki, &CredentialFiles),
    wall_clocks: Option<&WallClocks>,
    dir: &RunDir,
    members: &[SocketAddr],
    links: &mut Links,
) -> Result<Vec<WorldReplica>, WorldError> {
    let (peers, logs) = (peers(settings, links)?, dir.logs());
    let one = |index: usize| {
        let secure = free_address();
        let linked = match settings.proxied.clients {
            true => links.add(LinkId::Client { replica: index }, secure)?,
            false => secure,
        };
        let around = Surroundings {
            settings,
            pki,
            credentials,
            wall_clocks,
            dir: dir.path(),
            logs: &logs,
            etcd: ways_to_etcd(index, settings, members, links)?,
            peers: &peers,
        };
        replica::prepare(index, secure, linked, &around)
    };
    (0..settings.replicas).map(one).collect()
}

fn peers(settings: &WorldSettings, links: &mut Links) -> Result<Vec<PeerPort>, WorldError> {
    let count = if settings.group { settings.replicas } else { 0 };
    let one = |index: usize| {
        let listen = free_address();
        let advertise = match settings.proxied.peers {
            true => links.add_peers(index, listen)?,
            false => listen,
        };
        Ok(PeerPort { listen, advertise })
    };
    (0..count).map(one).collect()
}

fn ways_to_etcd(
    replica: usize,
    settings: &WorldSettings,
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
