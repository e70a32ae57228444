//! Faults 11 to 13: what links do.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde::{Deserialize, Serialize};

use super::{ActiveFault, Observation, Refusal, skip};
use crate::proxy::{Conditions, Counts, Link, LinkConditions, OnLoss, Way};
use crate::world::{LinkId, Part, World, WorldError, WorldSettings};

/// Which links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// All links to etcd.
    ToEtcd,
    /// All links between replicas.
    BetweenReplicas,
    /// All links from the load balancer.
    ToReplicas,
    /// Every link.
    Everywhere,
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToEtcd => "links to etcd",
            Self::BetweenReplicas => "links between replicas",
            Self::ToReplicas => "links to replicas",
            Self::Everywhere => "all links",
        })
    }
}

impl Where {
    fn has(self, id: LinkId) -> bool {
        match self {
            Self::ToEtcd => matches!(id, LinkId::Etcd { .. }),
            Self::BetweenReplicas => matches!(id, LinkId::Peer { .. }),
            Self::ToReplicas => matches!(id, LinkId::Client { .. }),
            Self::Everywhere => true,
        }
    }

    pub(super) fn links(self, world: &World) -> Vec<Link> {
        let links = world.links().into_iter().filter(|(id, _)| self.has(*id));
        links.map(|(_, link)| link).collect()
    }

    pub(super) fn prepare(self, settings: &mut WorldSettings) {
        let proxied = &mut settings.proxied;
        proxied.etcd |= matches!(self, Self::ToEtcd | Self::Everywhere);
        proxied.clients |= matches!(self, Self::ToReplicas | Self::Everywhere);
        proxied.peers |= settings.group && matches!(self, Self::BetweenReplicas | Self::Everywhere);
    }
}

/// The replicas that cannot reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// The leader and all others: neither hears the other.
    Symmetric,
    /// The others do not hear the leader, but it hears them.
    OneWay,
    /// The leader and one other do not hear each other, but both hear the rest.
    Bridge,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Symmetric => "the leader from all others",
            Self::OneWay => "no replica hears the leader",
            Self::Bridge => "the leader from one, both hear the rest",
        })
    }
}

/// Links that do something, and what they had done before.
#[derive(Debug)]
struct Weather {
    links: Vec<(Link, Counts)>,
}

pub(super) fn cut_from_etcd(world: &World, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    // One that is dead or paused cannot come back as long as it is cut off, so healing that first would wait for ever.
    let works = |replica: &usize| {
        let part = Part::Replica(*replica);
        world.is_running(part) && !world.is_paused(part)
    };
    let working: Vec<usize> = (0..world.replicas()).filter(works).collect();
    let Some(replica) = working.choose(chance).copied() else {
        return skip("no replica runs");
    };
    let links = world.links().into_iter();
    let links = links.filter(|(id, _)| matches!(id, LinkId::Etcd { replica: from, .. } if *from == replica));
    set(links.map(|(_, link)| (link, Conditions::cut())).collect())
}

pub(super) async fn cut_peers(world: &World, cut: Cut, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    let Some(leader) = world.settled_raft_leader().await else {
        return skip("no replica leads a group");
    };
    let others: Vec<usize> = (0..world.replicas()).filter(|index| *index != leader).collect();
    let Some(other) = others.choose(chance).copied() else {
        return skip("there is one replica only");
    };
    let links = world.links().into_iter();
    let touched = links.filter_map(|(id, link)| {
        let LinkId::Peer { from, to } = id else {
            return None;
        };
        conditions_of(cut, from, to, leader, other).map(|conditions| (link, conditions))
    });
    set(touched.collect())
}

/// The condition of the link `from` → `to` during a cut; `None` if it is not touched.
fn conditions_of(cut: Cut, from: usize, to: usize, leader: usize, other: usize) -> Option<Conditions> {
    match cut {
        Cut::Symmetric => (from == leader || to == leader).then(Conditions::cut),
        Cut::OneWay if from == leader => Some(Conditions::one_way(Way::ToServer, LinkConditions::blackhole())),
        Cut::OneWay if to == leader => Some(Conditions::one_way(Way::ToClient, LinkConditions::blackhole())),
        Cut::OneWay => None,
        // Two followers would not notice: they do not talk to each other.
        Cut::Bridge => {
            let pair = [leader, other];
            (pair.contains(&from) && pair.contains(&to)).then(Conditions::cut)
        }
    }
}

pub(super) fn delay(
    world: &World,
    place: Where,
    delay: Duration,
    jitter: Duration,
) -> Result<Box<dyn ActiveFault>, Refusal> {
    let conditions = Conditions::both(LinkConditions::delayed(delay, jitter));
    set(with(place.links(world), conditions))
}

pub(super) fn loss(world: &World, place: Where, probability: f64) -> Result<Box<dyn ActiveFault>, Refusal> {
    let conditions = Conditions::both(LinkConditions::lossy(probability, OnLoss::Stall));
    set(with(place.links(world), conditions))
}

fn with(links: Vec<Link>, conditions: Conditions) -> Vec<(Link, Conditions)> {
    links.into_iter().map(|link| (link, conditions)).collect()
}

fn set(links: Vec<(Link, Conditions)>) -> Result<Box<dyn ActiveFault>, Refusal> {
    if links.is_empty() {
        return skip("these links do not go through fault proxies");
    }
    let mut touched = Vec::new();
    for (link, conditions) in links {
        // Counted from before, so that nothing that it does is missed.
        let before = link.counts();
        link.set(conditions);
        touched.push((link, before));
    }
    Ok(Box::new(Weather { links: touched }))
}

/// The effects of the links since, and whether they have touched anything. One of many is enough: traffic decides which
/// of them are used.
pub(super) fn look(links: &[(Link, Counts)]) -> Observation {
    let since: Vec<Counts> = links.iter().map(|(link, before)| link.counts().since(before)).collect();
    let touched = since.iter().filter(|counts| counts.touched() > 0).count();
    let sum = |count: fn(&Counts) -> u64| since.iter().map(count).sum::<u64>();
    let evidence = format!(
        "{touched} of {} links touched something: {} bytes held, {} pieces delayed, {} segments lost, {} connections \
         reset, {} kept waiting",
        links.len(),
        sum(|counts| counts.held_bytes),
        sum(|counts| counts.delayed),
        sum(|counts| counts.losses),
        sum(|counts| counts.resets),
        sum(|counts| counts.hung),
    );
    Observation::of(touched > 0, evidence)
}

impl ActiveFault for Weather {
    fn targets(&self) -> Vec<String> {
        self.links.iter().map(|(link, _)| link.name().to_owned()).collect()
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(async { look(&self.links) })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            for (link, _) in &self.links {
                link.heal();
            }
            for part in world.parts() {
                // What another fault has ended is for that one to bring back.
                if world.is_running(part) && !world.is_paused(part) {
                    world.wait_ready(part).await?;
                }
            }
            Ok(Vec::new())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs whose bytes do not arrive, in a world of three led by 0.
    fn deaf(cut: Cut) -> Vec<(usize, usize)> {
        let mut deaf = Vec::new();
        for from in 0..3 {
            for to in (0..3).filter(|to| *to != from) {
                let Some(conditions) = conditions_of(cut, from, to, 0, 2) else {
                    continue;
                };
                if conditions.to_server.blackhole {
                    deaf.push((from, to));
                }
                if conditions.to_client.blackhole {
                    deaf.push((to, from));
                }
            }
        }
        deaf.sort_unstable();
        deaf.dedup();
        deaf
    }

    #[test]
    fn cuts_are_what_their_names_say() {
        assert_eq!(deaf(Cut::Symmetric), [(0, 1), (0, 2), (1, 0), (2, 0)]);
        assert_eq!(deaf(Cut::OneWay), [(0, 1), (0, 2)]);
        assert_eq!(deaf(Cut::Bridge), [(0, 2), (2, 0)]);
    }

    #[test]
    fn an_idle_link_was_not_seen_to_bite() {
        let link = Link::new("idle", 1);
        let before = link.counts();
        link.set(Conditions::cut());
        assert!(!look(&[(link, before)]).is_seen());
    }
}
