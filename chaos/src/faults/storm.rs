//! Fault 14: a storm of resets.

use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::network::{Where, look};
use super::task::Task;
use super::{ActiveFault, Observation, Refusal, skip};
use crate::proxy::{Counts, Link};
use crate::world::{World, WorldError};

/// Between two resets of all connections of one link, in milliseconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=400;

#[derive(Debug)]
struct Storm {
    links: Vec<(Link, Counts)>,
    task: Task<()>,
}

pub(super) fn begin(world: &World, place: Where, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    let links: Vec<(Link, Counts)> = place
        .links(world)
        .into_iter()
        .map(|link| (link.clone(), link.counts()))
        .collect();
    if links.is_empty() {
        return skip("these links do not go through fault proxies");
    }
    let targets: Vec<Link> = links.iter().map(|(link, _)| link.clone()).collect();
    let mut chance = StdRng::seed_from_u64(chance.random());
    let task = Task::spawn(|mut stop| async move {
        while stop.pause(Duration::from_millis(chance.random_range(PAUSE_MS))).await {
            if let Some(link) = targets.get(chance.random_range(0..targets.len())) {
                link.reset_connections();
            }
        }
    });
    Ok(Box::new(Storm { links, task }))
}

impl ActiveFault for Storm {
    fn targets(&self) -> Vec<String> {
        self.links.iter().map(|(link, _)| link.name().to_owned()).collect()
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(async { look(&self.links) })
    }

    fn heal<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            self.task.end().await;
            Ok(Vec::new())
        })
    }
}
