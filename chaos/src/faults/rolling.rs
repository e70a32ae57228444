//! Fault 22: rolling restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};

use super::task::{Stop, Task};
use super::{ActiveFault, Observation, text_of};
use crate::world::{Part, World, WorldError};

/// A planned stop takes the shutdown delay and what open requests take.
const STOP_PATIENCE: Duration = Duration::from_secs(60);
/// The load balancer takes a replica back after two checks.
const UP_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Rolling {
    wanted: usize,
    restarts: Arc<AtomicUsize>,
    task: Task<Result<Vec<String>, WorldError>>,
}

pub(super) fn begin(world: &Arc<World>, rounds: usize) -> Box<dyn ActiveFault> {
    let restarts = Arc::new(AtomicUsize::new(0));
    let (count, all) = (Arc::clone(&restarts), Arc::clone(world));
    let wanted = rounds * world.replicas();
    let task = Task::spawn(|stop| roll(all, rounds, count, stop));
    Box::new(Rolling { wanted, restarts, task })
}

/// Gives notes about replicas that did not end in order.
async fn roll(
    world: Arc<World>,
    rounds: usize,
    restarts: Arc<AtomicUsize>,
    mut stop: Stop,
) -> Result<Vec<String>, WorldError> {
    let mut notes = Vec::new();
    for replica in (0..rounds).flat_map(|_| 0..world.replicas()) {
        let part = Part::Replica(replica);
        let status = world.terminate(part, STOP_PATIENCE).await?;
        if !status.success() {
            notes.push(format!("{part} ended with {status} after SIGTERM"));
        }
        world.launch(part).await?;
        world.wait_ready(part).await?;
        wait_until_up(&world, replica).await?;
        restarts.fetch_add(1, Ordering::Relaxed);
        if !stop.pause(Duration::ZERO).await {
            break;
        }
    }
    Ok(notes)
}

/// The next one must not go before the load balancer has this one back.
async fn wait_until_up(world: &World, replica: usize) -> Result<(), WorldError> {
    let end = Instant::now() + UP_PATIENCE;
    loop {
        let statuses = world.balancer_statuses().await?;
        // `UP 1/2` is on its way down.
        if statuses.get(replica).is_some_and(|status| status == "UP") {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(WorldError::NotInTime {
                part: Part::Replica(replica).to_string(),
                what: "taken back by the load balancer",
                patience: UP_PATIENCE,
                log: statuses.join(", "),
            });
        }
        sleep(Duration::from_millis(20)).await;
    }
}

impl ActiveFault for Rolling {
    fn targets(&self) -> Vec<String> {
        vec!["every replica in turn".to_owned()]
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        let (done, wanted) = (self.restarts.load(Ordering::Relaxed), self.wanted);
        Box::pin(async move { Observation::of(done >= wanted, format!("{done} of {wanted} restarts are done")) })
    }

    fn done(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.task.done())
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            let notes = match self.task.end().await {
                Some(Ok(notes)) => notes.clone(),
                Some(Err(error)) => vec![format!("the restarts ended early: {}", text_of(error))],
                None => vec!["the restarts ended in a panic".to_owned()],
            };
            for replica in 0..world.replicas() {
                world.launch(Part::Replica(replica)).await?;
                world.wait_ready(Part::Replica(replica)).await?;
            }
            Ok(notes)
        })
    }
}
