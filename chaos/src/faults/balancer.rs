//! Fault 19: the load balancer.

use futures_util::future::BoxFuture;

use super::kill::is_deserted;
use super::{ActiveFault, Observation, Refusal};
use crate::world::{Part, World, WorldError};

#[derive(Debug)]
struct Killed;

#[derive(Debug)]
struct Reloaded {
    old: Option<u32>,
}

pub(super) async fn kill(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    world.kill(Part::Balancer).await?;
    Ok(Box::new(Killed))
}

pub(super) fn reload(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    let old = world.id(Part::Balancer);
    world.reload_balancer()?;
    Ok(Box::new(Reloaded { old }))
}

fn targets() -> Vec<String> {
    vec![Part::Balancer.to_string()]
}

impl ActiveFault for Killed {
    fn targets(&self) -> Vec<String> {
        targets()
    }

    fn observe<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(async {
            let gone = !world.is_running(Part::Balancer) && is_deserted(world.address()).await;
            Observation::of(gone, "the process is gone, and nothing listens at its port")
        })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            world.launch(Part::Balancer).await?;
            world.wait_ready(Part::Balancer).await?;
            Ok(Vec::new())
        })
    }
}

impl ActiveFault for Reloaded {
    fn targets(&self) -> Vec<String> {
        targets()
    }

    fn observe<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(async {
            let new = world.id(Part::Balancer);
            let serves = new.is_some() && new != self.old && world.is_ready(Part::Balancer).await;
            Observation::of(serves, format!("process {new:?} serves in the place of {:?}", self.old))
        })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            world.wait_ready(Part::Balancer).await?;
            Ok(Vec::new())
        })
    }
}
