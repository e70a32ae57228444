//! Fault 23: etcd's history is compacted all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::Client;
use futures_util::future::BoxFuture;

use super::task::{Stop, Task};
use super::{ActiveFault, Observation, Refusal};
use crate::world::{World, WorldError};

const PERIOD: Duration = Duration::from_millis(200);
/// The length of history that is left: watches from −100 to +100 revisions of now find both sides of the edge.
const KEPT: i64 = 50;

#[derive(Debug, Default)]
struct CompactionProgress {
    compactions: AtomicU64,
    edge: AtomicI64,
}

#[derive(Debug)]
struct Compacting {
    progress: Arc<CompactionProgress>,
    task: Task<()>,
}

pub(super) async fn begin(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    let client = world.etcd_client().await?;
    let progress = Arc::<CompactionProgress>::default();
    let task = Task::spawn(|stop| compact(client, Arc::clone(&progress), stop));
    Ok(Box::new(Compacting { progress, task }))
}

async fn compact(mut client: Client, progress: Arc<CompactionProgress>, mut stop: Stop) {
    while stop.pause(PERIOD).await {
        // Another fault may be at etcd at the same time, and the server compacts too; there is a next time.
        let Ok(status) = client.get("/", None).await else {
            continue;
        };
        let edge = status.header().map_or(0, etcd_client::ResponseHeader::revision) - KEPT;
        if edge > progress.edge.load(Ordering::Relaxed) && client.compact(edge, None).await.is_ok() {
            progress.edge.store(edge, Ordering::Relaxed);
            progress.compactions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Compacting {
    /// etcd itself says that the history below the edge is gone.
    async fn look(&self, world: &World) -> Observation {
        let compactions = self.progress.compactions.load(Ordering::Relaxed);
        let edge = self.progress.edge.load(Ordering::Relaxed);
        let below = etcd_client::GetOptions::new().with_revision(edge - 1);
        let refused = match world.etcd_client().await {
            Ok(mut client) => client.get("/", Some(below)).await.err().map(|error| error.to_string()),
            Err(error) => return Observation::NotSeen(super::text_of(&error)),
        };
        let is_gone = refused.as_ref().is_some_and(|error| error.contains("compacted"));
        let evidence = format!("{compactions} compactions up to revision {edge}; below it etcd says {refused:?}");
        Observation::of(compactions > 1 && is_gone, evidence)
    }
}

impl ActiveFault for Compacting {
    fn targets(&self) -> Vec<String> {
        vec!["etcd".to_owned()]
    }

    fn observe<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(self.look(world))
    }

    fn heal<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            self.task.end().await;
            let compactions = self.progress.compactions.load(Ordering::Relaxed);
            Ok(vec![format!("{compactions} compactions")])
        })
    }
}
