//! A world of the containers of the top-level `docker-compose.yml`.
//!
//! ```text
//!   this process ── clients, probes ──► container addresses on the networks `default` and `store`
//!        ▲
//!        └── fault proxies at the gateway of `default` ◄── HAProxy, replicas (by a second file of Compose)
//! ```
//!
//! Differences from a deployment are in [`overrides`]. The containers run on this machine, so that their processes are
//! signalled and looked at as those of the loopback are; that needs root. Compose makes them and takes them down; in
//! between `docker start` starts them, one by one, like the parts of any world.

mod overrides;
mod plan;
mod project;

use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use overrides::{BALANCER, Overrides, PKI};
use plan::NetworkPlan;

use super::balancer::Balancer;
use super::build::check_programs;
use super::container::{Container, Engine};
use super::credentials::CredentialFiles;
use super::etcd::Member;
use super::links::{LinkId, Links};
use super::process::Process;
use super::replica::WorldReplica;
use super::run_dir::RunDir;
use super::settings::WorldSettings;
use super::{Probe, World, WorldAuthority, WorldError};

pub(super) use project::Project;

/// As many as the file has.
const REPLICAS: usize = 3;
const MEMBERS: usize = 3;
/// The network of etcd, which replicas are on beside `default`.
const STORE: &str = "store";
/// Making keys takes a debug build a while.
const PKI_PATIENCE: Duration = Duration::from_secs(60);

/// Makes everything and starts nothing but what makes certificates.
pub(super) async fn prepare(settings: WorldSettings) -> Result<World, WorldError> {
    let (engine, root) = check(&settings).await?;
    let dir = RunDir::make(settings.dir.as_deref())?;
    let plan = NetworkPlan::choose(rand::random())?;
    let mut links = Links::at_the_gateway(settings.seed, plan.gateway(), plan.diallers(REPLICAS));
    let linked = linked(&settings, &plan, &mut links)?;
    let credentials = CredentialFiles::make(dir.path().join("credentials"))?;
    let overrides = Overrides {
        plan,
        replicas: REPLICAS,
        members: MEMBERS,
        credentials: credentials.dir().to_owned(),
        server_flags: &settings.server_flags,
        etcd_flags: &settings.etcd_flags,
        ways_to_etcd: ways_to_etcd(&settings, &plan, &mut links)?,
        ways_to_peers: ways_to_peers(&settings, &plan, &mut links)?,
        balancer_configuration: match settings.proxied.clients {
            true => Some(dir.write("haproxy.cfg", &behind_links(&root, &linked)?)?),
            false => None,
        },
    };
    let file = dir.write("overrides.yml", &overrides.text())?;
    let project = Project::make(engine, &root, &file, &dir.logs(), &services()).await?;
    let mut parts = Parts {
        containers: project.containers().await?,
        logs: dir.logs(),
    };
    let ca = certificates(&project, &mut parts, &dir).await?;
    Ok(World {
        balancer: Balancer::contained(
            plan.front_door(),
            plan.statistics(),
            parts.take(BALANCER, BALANCER.to_owned())?,
        ),
        replicas: replicas(&project, &mut parts, &plan, &linked).await?,
        wall_clocks: None,
        etcd: members(&mut parts, &plan)?,
        links,
        probe: Probe::new(&ca.pem)?,
        ca,
        credentials,
        settings,
        _project: Some(project),
        dir,
    })
}

/// The engine, and the folder of `docker-compose.yml`, if such a world can be made here.
pub(super) async fn check(settings: &WorldSettings) -> Result<(Engine, PathBuf), WorldError> {
    if !settings.group || (settings.replicas, settings.etcd_members) != (REPLICAS, MEMBERS) {
        let why = "docker-compose.yml has a group of three replicas over three members of etcd: a world of containers \
                   is no other";
        return Err(WorldError::Unsupported(why.to_owned()));
    }
    if !rustix::process::geteuid().is_root() {
        let why = "the processes of containers are signalled and looked at from here, which needs root: use sudo";
        return Err(WorldError::Unsupported(why.to_owned()));
    }
    check_programs()?;
    Ok((Engine::find().await?, project::root()?))
}

fn services() -> Vec<String> {
    let replicas = (0..REPLICAS).map(overrides::replica);
    let members = (0..MEMBERS).map(overrides::member);
    let others = [PKI, BALANCER].map(str::to_owned);
    others.into_iter().chain(members).chain(replicas).collect()
}

/// The addresses at which clients and the load balancer reach each replica.
fn linked(settings: &WorldSettings, plan: &NetworkPlan, links: &mut Links) -> Result<Vec<SocketAddr>, WorldError> {
    let way = |replica| match settings.proxied.clients {
        true => links.add(LinkId::Client { replica }, plan.secure(replica)),
        false => Ok(plan.secure(replica)),
    };
    (0..REPLICAS).map(way).collect()
}

fn ways_to_etcd(
    settings: &WorldSettings,
    plan: &NetworkPlan,
    links: &mut Links,
) -> Result<Option<Vec<Vec<SocketAddr>>>, WorldError> {
    if !settings.proxied.etcd {
        return Ok(None);
    }
    let mut ways = |replica| {
        let way = |member| links.add(LinkId::Etcd { replica, member }, plan.etcd(member));
        (0..MEMBERS).map(way).collect::<Result<Vec<_>, _>>()
    };
    (0..REPLICAS).map(&mut ways).collect::<Result<_, _>>().map(Some)
}

fn ways_to_peers(
    settings: &WorldSettings,
    plan: &NetworkPlan,
    links: &mut Links,
) -> Result<Option<Vec<SocketAddr>>, WorldError> {
    if !settings.proxied.peers {
        return Ok(None);
    }
    let way = |replica| links.add_peers(replica, plan.peer(replica));
    (0..REPLICAS).map(way).collect::<Result<_, _>>().map(Some)
}

/// HAProxy's configuration, with links between it and the replicas.
fn behind_links(root: &Path, linked: &[SocketAddr]) -> Result<String, WorldError> {
    let file = root.join("deploy/haproxy/haproxy.cfg");
    let text = fs::read_to_string(&file).map_err(WorldError::io(format!("read {}", file.display())))?;
    overrides::behind_links(&text, linked).ok_or_else(|| {
        let why = format!("{} does not name the replicas as it used to", file.display());
        WorldError::Unsupported(why)
    })
}

/// The containers that are not parts of the world yet.
struct Parts {
    containers: HashMap<String, Container>,
    logs: PathBuf,
}

impl Parts {
    /// The program of a service, under the name that it has here.
    fn take(&mut self, service: &str, name: String) -> Result<Process, WorldError> {
        let container = self.containers.remove(service);
        let container = container.ok_or_else(|| WorldError::NoSuch(format!("container of {service}")))?;
        Ok(Process::contained(name, container, &self.logs))
    }
}

/// Has certificates and keys made, and believes their CA.
async fn certificates(project: &Project, parts: &mut Parts, dir: &RunDir) -> Result<WorldAuthority, WorldError> {
    let pki = parts.take(PKI, PKI.to_owned())?;
    // It may be over before its process was seen.
    pki.spawn()?;
    let ended = pki.wait_for_end(PKI_PATIENCE).await?;
    if !ended.success() {
        return Err(pki.ended_with("done", ended));
    }
    let file = project.volume(PKI).await?.join("ca.crt");
    let pem = fs::read_to_string(&file).map_err(WorldError::io(format!("read {}", file.display())))?;
    let file = dir.write("ca.crt", &pem)?;
    Ok(WorldAuthority { pem, file })
}

fn members(parts: &mut Parts, plan: &NetworkPlan) -> Result<Vec<Member>, WorldError> {
    let mut member = |index| {
        Ok(Member {
            process: parts.take(&overrides::member(index), format!("etcd-{index}"))?,
            client: plan.etcd(index),
        })
    };
    (0..MEMBERS).map(&mut member).collect()
}

async fn replicas(
    project: &Project,
    parts: &mut Parts,
    plan: &NetworkPlan,
    linked: &[SocketAddr],
) -> Result<Vec<WorldReplica>, WorldError> {
    let mut replicas = Vec::new();
    for (index, linked) in linked.iter().enumerate() {
        let service = overrides::replica(index);
        if let Some(container) = parts.containers.get(&service) {
            project.join(container, STORE, plan.replica_at_store(index)).await?;
        }
        replicas.push(WorldReplica {
            process: parts.take(&service, format!("replica-{index}"))?,
            secure: plan.secure(index),
            linked: *linked,
            // Each has a volume of its own name.
            data_dir: project.volume(&service).await?,
        });
    }
    Ok(replicas)
}
