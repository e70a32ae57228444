//! The doings of real clients, recorded: requests through the balancer and to each replica, watches that go from
//! replica to replica, samples of what the replicas say of themselves.
//!
//! ```text
//!  clients ───── 10 or 20, HTTP/1.1 and HTTP/2 ──► balancer ──► replicas      one record a request
//!  clients ───── one a replica ─────────────────────────► replicas
//!  candidates ── 3, one election by a Lease ─────────────► balancer
//!  readers ───── of what is in memory only ────────────► both
//!  users ─────── who are no administrators ──────────────► replicas      one record a request
//!  holders ───── of credentials that come and go ────────► replicas      one record a request
//!  followers ─── list, watch, watch on elsewhere ───────► both          one record an event; their copies at the end
//!  watchdogs ─── /readyz, /debug/replicas, a write ─────► replicas      samples; probes
//! ```
//!
//! One seed gives one load, as far as the answers are the same. Nothing here judges anything.

mod access;
mod audit;
mod cached;
mod candidate;
mod client;
mod credentials;
mod desk;
mod finale;
mod follower;
mod lines;
mod logs;
mod objects;
mod plan;
mod uses;
mod watchdog;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use tokio::task::JoinSet;
use trireme_http::client::Method;

use crate::history::{BALANCER, CACHED_READERS, Purpose};
use crate::world::{ADMIN_TOKEN, ClientRoute, World, WorldError};
use client::TrafficClient;
use credentials::CredentialIssuer;
use desk::Asker;
use follower::{Manner, WatchFollower};
use objects::{COLOURS, NAMESPACES, ObjectPath, Resource};
use plan::{Plan, Scope};
use uses::Uses;
use wire::{Address, Call, HttpCaller, HttpReply, Protocol};

pub use audit::record_audit;
pub use desk::{Desk, Phase};
pub use finale::{record_caches, record_the_end};
pub use logs::read_logs;
pub(crate) use objects::{ATTEMPT, COUNT};
pub(crate) use watchdog::FENCED;

/// Of those that read from memory only, so many ask through the balancer: one a protocol.
const CACHED_CLIENTS: u32 = 2;
/// Between two steps of a client that asks one replica.
const DIRECT_PACE: Duration = Duration::from_millis(300);
/// The rate at which slow followers read.
const SLOW_BYTES_PER_SECOND: u64 = 1_000;
/// The kernel's buffer of a slow follower.
const SLOW_BUFFER_BYTES: u32 = 4_096;
/// The most attempts to make a namespace or a counter.
const SETUP_ATTEMPTS: usize = 50;
/// The neighbours of the traffic's objects in etcd: prefixes of keys that the servers write of their own accord.
pub const INTERNAL: &[&str] = &[
    "/registry/namespaces/",
    "/registry/events/",
    "/registry/leases/kube-system/",
    "/registry/services/",
    "/registry/endpointslices/",
    "/registry/serviceaccounts/",
    "/registry/secrets/access/",
    "/registry/pods/access/",
    "/registry/clusterroles/",
    "/registry/clusterrolebindings/",
    "/registry/roles/",
    "/registry/rolebindings/",
    "/registry/priorityclasses/",
    "/registry/flowschemas/",
    "/registry/prioritylevelconfigurations/",
    "/registry/apiregistration.k8s.io/",
    "/registry/ranges/",
    "/registry/masterleases/",
    "/registry/configmaps/nemesis",
    "/registry/configmaps/kube-system/",
    "/registry/configmaps/kube-public/",
    "/registry/configmaps/kube-node-lease/",
    "/registry/configmaps/default/",
    "/registry/configmaps/access/kube-root-ca.crt",
    "/registry/configmaps/chaos-a/kube-root-ca.crt",
    "/registry/configmaps/chaos-b/kube-root-ca.crt",
    "/trireme/",
];

/// The group's addresses, as histories name them.
#[derive(Debug, Clone)]
pub struct Addresses {
    balancer: Address,
    replicas: Vec<Address>,
}

impl Addresses {
    /// Those of a world.
    ///
    /// # Errors
    /// In words.
    pub fn of(world: &World) -> Result<Self, String> {
        let address = |name: &str, at: &str| Address::new(name, at, world.ca_pem().as_bytes(), ADMIN_TOKEN);
        let replica = |index| {
            let at = world.replica_address(index, ClientRoute::Direct);
            let at = at.map_err(|error: WorldError| error.to_string())?.to_string();
            address(&at, &at)
        };
        Ok(Self {
            balancer: address(BALANCER, &world.address().to_string())?,
            replicas: (0..world.replicas()).map(replica).collect::<Result<_, _>>()?,
        })
    }

    /// The replicas' names in a history.
    pub fn replica_names(&self) -> Vec<String> {
        self.replicas.iter().map(|address| address.name.clone()).collect()
    }
}

/// The amount of load by the clients that ask through the balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficPace {
    /// With what a step takes, about 100 requests a second from all: the load that figures are given for.
    Usual,
    /// Up to five times as much, as far as the servers keep up.
    Brisk,
}

impl TrafficPace {
    fn clients(self) -> u32 {
        match self {
            Self::Usual => 10,
            Self::Brisk => 20,
        }
    }

    /// Between two steps of a client.
    fn period(self) -> Duration {
        Duration::from_millis(match self {
            Self::Usual => 125,
            Self::Brisk => 40,
        })
    }
}

/// Load that goes on until its desk says otherwise.
pub struct Traffic {
    /// They end when the run settles.
    writers: JoinSet<()>,
    /// They end when it stops.
    watchers: JoinSet<()>,
    /// Of each credential.
    uses: Vec<Uses>,
}

impl Traffic {
    /// Makes the namespaces and counters.
    ///
    /// # Errors
    /// In words, if the group does not take them.
    pub async fn prepare(desk: &Desk, addresses: &Addresses) -> Result<(), String> {
        let mut caller = HttpCaller::new(addresses.balancer.clone(), Protocol::Http1);
        for namespace in NAMESPACES {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            let call = Call::with_body(Method::POST, "/api/v1/namespaces", "application/json", body.to_string());
            insist(async || created(&caller.call(&call).await)).await?;
        }
        access::prepare(&mut caller).await?;
        credentials::prepare(&mut caller).await?;
        let mut asker = Asker::new(
            desk.clone(),
            "setup".to_owned(),
            Purpose::Probe,
            addresses.balancer.clone(),
            Protocol::Http1,
        );
        for place in Plan::counters() {
            insist(async || finale::make_counter(&mut asker, &place).await).await?;
        }
        Ok(())
    }

    /// Starts everything.
    pub fn start(desk: &Desk, world: &Arc<World>, addresses: &Addresses, pace: TrafficPace, seed: u64) -> Self {
        let (mut writers, mut watchers) = (JoinSet::new(), JoinSet::new());
        let mut seeds = StdRng::seed_from_u64(seed);
        let mut next = || StdRng::seed_from_u64(seeds.random());
        for number in 0..pace.clients() {
            let asker = asker(
                desk,
                format!("client-{number}"),
                Purpose::Traffic,
                &addresses.balancer,
                number,
            );
            writers.spawn(TrafficClient::new(asker, Plan::new(next(), number), pace.period()).run());
        }
        for (number, address) in (pace.clients()..).zip(&addresses.replicas) {
            let asker = asker(desk, format!("direct-{number}"), Purpose::Probe, address, number);
            writers.spawn(TrafficClient::new(asker, Plan::new(next(), number), DIRECT_PACE).run());
        }
        for number in 0..candidate::CANDIDATES {
            let name = format!("candidate-{number}");
            let asker = asker(desk, name, Purpose::Traffic, &addresses.balancer, number);
            writers.spawn(candidate::stand(asker));
        }
        for (number, address, purpose) in cached_readers(addresses) {
            let asker = asker(desk, format!("{CACHED_READERS}{number}"), purpose, address, number);
            writers.spawn(cached::read(asker, first_counter()));
        }
        for (number, manner) in (0..).zip(manners(addresses)) {
            let asker = asker(
                desk,
                format!("follower-{number}"),
                Purpose::Probe,
                &manner.addresses[0],
                number,
            );
            watchers.spawn(WatchFollower::new(asker, manner, next()).run());
        }
        for (replica, (number, address)) in (0..).zip(&addresses.replicas).enumerate() {
            watchers.spawn(watchdog::sample(desk.clone(), world.clone(), replica, address.clone()));
            let asker = asker(desk, format!("probe-{replica}"), Purpose::Probe, address, number);
            writers.spawn(watchdog::probe(asker, probed(replica), next()));
        }
        let bound = Uses::default();
        for address in &addresses.replicas {
            writers.spawn(access::matrix(desk.clone(), address.clone(), next()));
            writers.spawn(access::revocable(desk.clone(), address.clone(), bound.clone()));
        }
        writers.spawn(access::grant_and_revoke(
            desk.clone(),
            addresses.balancer.clone(),
            bound.clone(),
        ));
        let issuers = CredentialIssuer::all(desk, world, &addresses.balancer);
        for address in &addresses.replicas {
            let given = issuers.iter().map(CredentialIssuer::given).collect();
            writers.spawn(credentials::hold(desk.clone(), world.clone(), address.clone(), given));
        }
        let mut uses = vec![bound];
        for issuer in issuers {
            uses.push(issuer.uses().clone());
            writers.spawn(issuer.run());
        }
        Self {
            writers,
            watchers,
            uses,
        }
    }

    /// Returns true if each credential was good, was revoked, and was shown after the second that a revocation may take.
    pub fn has_revoked_all(&self) -> bool {
        self.uses.iter().all(Uses::is_judged)
    }

    /// Waits until no client writes any more; the desk must have stopped them.
    ///
    /// # Errors
    /// If one of them has panicked.
    pub async fn settled(&mut self) -> Result<(), String> {
        joined(&mut self.writers).await
    }

    /// Waits until all have ended; the desk must have stopped them.
    ///
    /// # Errors
    /// If one of them has panicked.
    pub async fn ended(mut self) -> Result<(), String> {
        self.settled().await?;
        joined(&mut self.watchers).await
    }
}

async fn joined(tasks: &mut JoinSet<()>) -> Result<(), String> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| format!("a client of the load: {error}"))?;
    }
    Ok(())
}

/// Even numbers speak HTTP/1.1, odd ones HTTP/2.
fn asker(desk: &Desk, name: String, purpose: Purpose, address: &Address, number: u32) -> Asker {
    Asker::new(desk.clone(), name, purpose, address.clone(), protocol(number))
}

fn protocol(number: u32) -> Protocol {
    if number.is_multiple_of(2) {
        Protocol::Http1
    } else {
        Protocol::Http2
    }
}

/// Through the balancer as part of the load, and at each replica to see whether it would have answered.
fn cached_readers(addresses: &Addresses) -> impl Iterator<Item = (u32, &Address, Purpose)> {
    let through = (0..CACHED_CLIENTS).map(|number| (number, &addresses.balancer, Purpose::Traffic));
    let direct = (CACHED_CLIENTS..).zip(&addresses.replicas);
    through.chain(direct.map(|(number, address)| (number, address, Purpose::Probe)))
}

/// It is there all the time.
fn first_counter() -> ObjectPath {
    Plan::counters().swap_remove(0)
}

fn probed(replica: usize) -> ObjectPath {
    ObjectPath {
        resource: Resource::ConfigMaps,
        namespace: NAMESPACES[0],
        name: format!("probe-{replica}"),
    }
}

/// All kinds of followers: over the balancer and from replica to replica, with and without selectors, short and long.
fn manners(addresses: &Addresses) -> Vec<Manner> {
    let through = |address: &Address, number, resource, namespace, colour| Manner {
        scope: Scope {
            resource,
            namespace,
            colour,
        },
        addresses: vec![address.clone()],
        protocol: protocol(number),
        hops: false,
        streams_state: false,
        bytes_per_second: None,
    };
    let over = |manner: Manner, from: usize| {
        let mut replicas = addresses.replicas.clone();
        replicas.rotate_left(from % addresses.replicas.len());
        Manner {
            addresses: replicas,
            hops: true,
            ..manner
        }
    };
    let balancer = &addresses.balancer;
    let slow = balancer.with_small_buffer(SLOW_BUFFER_BYTES);
    let (busy, quiet) = (Resource::ConfigMaps, Resource::PodTemplates);
    let (first, second) = (Some(NAMESPACES[0]), Some(NAMESPACES[1]));
    vec![
        through(balancer, 0, busy, None, None),
        through(balancer, 1, busy, first, Some(COLOURS[0])),
        through(balancer, 0, quiet, None, None),
        Manner {
            streams_state: true,
            ..through(balancer, 1, busy, second, None)
        },
        over(through(balancer, 0, busy, None, None), 0),
        over(through(balancer, 1, busy, None, Some(COLOURS[1])), 1),
        over(through(balancer, 1, busy, second, Some(COLOURS[2])), 2),
        over(through(balancer, 0, quiet, first, None), 0),
        Manner {
            streams_state: true,
            ..over(through(balancer, 0, busy, first, None), 1)
        },
        Manner {
            bytes_per_second: Some(SLOW_BYTES_PER_SECOND),
            ..through(&slow, 0, busy, None, None)
        },
    ]
}

/// Tries until it works.
async fn insist(mut attempt: impl AsyncFnMut() -> Result<(), String>) -> Result<(), String> {
    let mut last = Ok(());
    for _ in 0..SETUP_ATTEMPTS {
        last = attempt().await;
        if last.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    last
}

fn created(reply: &HttpReply) -> Result<(), String> {
    match reply {
        HttpReply::Answer { code: 201 | 409, .. } => Ok(()),
        other => Err(format!("{other:?}")),
    }
}
