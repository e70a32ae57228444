//! Faults 1 to 4, 7 and 8: SIGKILL.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{ActiveFault, Observation, Refusal, skip};
use crate::world::{ClientRoute, Part, World, WorldError};

/// A port of a machine that is there refuses at once or not at all.
const PATIENCE: Duration = Duration::from_secs(1);

/// The role whose holder's death needs a successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Led {
    Nothing,
    Group,
    Etcd,
}

#[derive(Debug)]
struct Kill {
    parts: Vec<Part>,
    led: Led,
}

pub(super) async fn replica(world: &World, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    let leader = world.settled_raft_leader().await;
    let others: Vec<usize> = (0..world.replicas()).filter(|index| Some(*index) != leader).collect();
    match others.choose(chance) {
        Some(index) => kill(world, vec![Part::Replica(*index)], Led::Nothing).await,
        None => skip("there is no replica that does not lead"),
    }
}

pub(super) async fn leader(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    match world.settled_raft_leader().await {
        Some(index) => kill(world, vec![Part::Replica(index)], Led::Group).await,
        None => skip("no replica leads a group"),
    }
}

pub(super) async fn all_but_one(world: &World, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    let mut replicas: Vec<Part> = (0..world.replicas()).map(Part::Replica).collect();
    replicas.shuffle(chance);
    replicas.truncate(replicas.len().saturating_sub(1));
    if replicas.is_empty() {
        return skip("there is one replica only");
    }
    kill(world, replicas, Led::Nothing).await
}

pub(super) async fn all(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    let replicas = (0..world.replicas()).map(Part::Replica).collect();
    kill(world, replicas, Led::Nothing).await
}

pub(super) async fn etcd_follower(world: &World, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    let leader = world.etcd_leader().await;
    let others: Vec<usize> = (0..world.etcd_members())
        .filter(|index| Some(*index) != leader)
        .collect();
    match (leader, others.choose(chance)) {
        (Some(_), Some(index)) => kill(world, vec![Part::Etcd(*index)], Led::Nothing).await,
        _ => skip("no member of etcd follows"),
    }
}

pub(super) async fn etcd_leader(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    match world.etcd_leader().await {
        Some(index) if world.etcd_members() > 2 => kill(world, vec![Part::Etcd(index)], Led::Etcd).await,
        _ => skip("no member of etcd leads others that are a quorum"),
    }
}

async fn kill(world: &World, parts: Vec<Part>, led: Led) -> Result<Box<dyn ActiveFault>, Refusal> {
    for part in &parts {
        world.kill(*part).await?;
    }
    Ok(Box::new(Kill { parts, led }))
}

/// Returns true if nothing listens at an address. That of a container is gone with it, and then connections are not refused either.
pub(super) async fn is_deserted(address: SocketAddr) -> bool {
    let connected = timeout(PATIENCE, TcpStream::connect(address)).await;
    match connected {
        Ok(Ok(_)) => false,
        Ok(Err(error)) => matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable),
        Err(_) => !address.ip().is_loopback(),
    }
}

fn address_of(world: &World, part: Part) -> Option<SocketAddr> {
    match part {
        Part::Replica(index) => world.replica_address(index, ClientRoute::Direct).ok(),
        Part::Etcd(index) => world.etcd_addresses().get(index).copied(),
        Part::Balancer => Some(world.address()),
    }
}

impl Kill {
    /// The leader in the place of the killed one.
    async fn successor(&self, world: &World) -> Option<Part> {
        let leader = match self.led {
            Led::Nothing => return None,
            Led::Group => world.raft_leader().await.map(Part::Replica),
            Led::Etcd => world.etcd_leader().await.map(Part::Etcd),
        };
        leader.filter(|leader| !self.parts.contains(leader))
    }

    async fn look(&self, world: &World) -> Observation {
        for part in &self.parts {
            let Some(address) = address_of(world, *part) else {
                return Observation::NotSeen(format!("{part} is not known"));
            };
            if world.is_running(*part) || !is_deserted(address).await {
                return Observation::NotSeen(format!("{part} is not gone, or its port is served"));
            }
        }
        let gone = "the processes are gone and nothing listens at their ports";
        match (self.led, self.successor(world).await) {
            (Led::Nothing, _) => Observation::Seen(gone.to_owned()),
            (_, Some(next)) => Observation::Seen(format!("{gone}; {next} leads now")),
            (_, None) => Observation::NotSeen(format!("{gone}, but there is no new leader")),
        }
    }
}

impl ActiveFault for Kill {
    fn targets(&self) -> Vec<String> {
        self.parts.iter().map(ToString::to_string).collect()
    }

    fn observe<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(self.look(world))
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            for part in &self.parts {
                world.launch(*part).await?;
            }
            for part in &self.parts {
                world.wait_ready(*part).await?;
            }
            Ok(Vec::new())
        })
    }
}
