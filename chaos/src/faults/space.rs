//! Fault 16: etcd's space is used up, and it raises the alarm NOSPACE.

use std::time::Duration;

use etcd_client::{Client, CompactionOptions, DeleteOptions};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{ActiveFault, Observation, Refusal, skip};
use crate::world::{World, WorldError};

/// Makes filling quick. Room for the objects of a run, too little for the junk on top.
pub(super) const QUOTA: &str = "--quota-backend-bytes=67108864";
/// Outside of what the server keeps.
const JUNK: &str = "/chaos/junk/";
/// Half of the quota: a file that is smaller holds none of the junk.
const ROOMY_BYTES: i64 = 32 * 1024 * 1024;
/// Between two attempts to defragment a member.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Below etcd's limit for a request, 1.5 MiB.
const PIECE_BYTES: usize = 1024 * 1024;
/// Other keys up to twice the quota; from then on each has another version, which needs as much space.
const MOST_PIECES: usize = 128;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct FullDisk;

pub(super) async fn fill(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    if !world.settings().etcd_flags.iter().any(|flag| flag == QUOTA) {
        return skip("etcd has no small quota; see Fault::prepare");
    }
    let end = Instant::now() + PATIENCE;
    let mut client = world.etcd_client().await?;
    for piece in 0.. {
        let put = client.put(format!("{JUNK}{}", piece % MOST_PIECES), vec![b'x'; PIECE_BYTES], None);
        // What fails for another reason, such as a slow disk, is tried again.
        let is_refused = put.await.is_err();
        if is_refused
            && world
                .etcd_members_without_space()
                .await
                .is_ok_and(|full| !full.is_empty())
        {
            return Ok(Box::new(FullDisk));
        }
        if Instant::now() > end {
            break;
        }
    }
    Err(Refusal::Failed(WorldError::Unsupported(format!(
        "etcd was filled for {PATIENCE:?} and raised no alarm"
    ))))
}

/// Makes room again: what an administrator would do.
async fn make_room(world: &World) -> Result<(), WorldError> {
    let mut client = world.etcd_client().await?;
    let etcd_error = |what: &'static str| move |error| WorldError::Etcd(what, error);
    let deleted = client.delete(JUNK, Some(DeleteOptions::new().with_prefix())).await;
    let deleted = deleted.map_err(etcd_error("delete the junk"))?;
    let revision = deleted.header().map_or(0, etcd_client::ResponseHeader::revision);
    let options = CompactionOptions::new().with_physical();
    // The server may compact further in the same moment.
    let _ = client.compact(revision, Some(options)).await;
    for address in world.etcd_addresses() {
        make_room_in(&address.to_string()).await?;
    }
    world.etcd_disarm().await
}

/// Defragments a member until its file is small. Each member compacts for itself, and a request for compaction waits for one of them:
/// the first attempt may find junk that is not compacted yet, and a member that is still full raises the alarm anew.
async fn make_room_in(address: &str) -> Result<(), WorldError> {
    let etcd_error = |what: &'static str| move |error| WorldError::Etcd(what, error);
    let member = Client::connect([format!("http://{address}")], None).await;
    let mut member = member.map_err(etcd_error("let us connect"))?;
    let end = Instant::now() + PATIENCE;
    loop {
        member.defragment().await.map_err(etcd_error("defragment"))?;
        let status = member.status().await.map_err(etcd_error("tell its size"))?;
        if status.db_size() < ROOMY_BYTES {
            return Ok(());
        }
        if Instant::now() > end {
            let size = status.db_size();
            return Err(WorldError::Unsupported(format!(
                "{address} has {size} bytes after {PATIENCE:?} of defragmentation"
            )));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

impl ActiveFault for FullDisk {
    fn targets(&self) -> Vec<String> {
        vec!["etcd".to_owned()]
    }

    fn observe<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(async {
            match world.etcd_members_without_space().await {
                Ok(members) => {
                    let evidence = format!("{} members have raised the alarm NOSPACE", members.len());
                    Observation::of(!members.is_empty(), evidence)
                }
                Err(error) => Observation::NotSeen(super::text_of(&error)),
            }
        })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            make_room(world).await?;
            for part in world.parts() {
                world.wait_ready(part).await?;
            }
            Ok(Vec::new())
        })
    }
}
