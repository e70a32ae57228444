//! The times of etcd's compactions.

use std::net::SocketAddr;
use std::time::Duration;

use etcd_client::WatchOptions;
use tokio::time::{sleep, timeout};

use super::{PATIENCE, connect};
use crate::history::{Revision, TruthRecord};
use crate::traffic::Desk;

/// Between two questions.
const PERIOD: Duration = Duration::from_millis(200);

/// Asks again and again up to where history was dropped, and records what is new. etcd says it only to who wants a
/// revision that is gone; so the first revision is asked for.
pub(super) async fn follow(desk: Desk, members: Vec<SocketAddr>) {
    let mut before: Option<Revision> = None;
    let mut called = desk.now();
    for member in members.iter().cycle() {
        let asked = desk.now();
        if let Ok(Ok(revision)) = timeout(PATIENCE, dropped(*member)).await {
            if revision > before.unwrap_or_default() {
                desk.recorder.truth(&TruthRecord::Compacted {
                    revision,
                    // It may have happened at any time since it was known not to have.
                    called,
                    returned: desk.now(),
                });
                before = Some(revision);
            }
            called = asked;
        }
        sleep(PERIOD).await;
    }
}

async fn dropped(member: SocketAddr) -> Result<Revision, String> {
    let client = connect(member).await?;
    // No key has this name: there is nothing else to hear.
    let options = WatchOptions::new().with_start_revision(1);
    let watch = client.watch_client().watch(vec![0], Some(options)).await;
    let mut watch = watch.map_err(|error| error.to_string())?;
    let first = timeout(PERIOD, async {
        while let Ok(Some(answer)) = watch.message().await {
            if answer.canceled() {
                return Revision::try_from(answer.compact_revision()).unwrap_or_default();
            }
        }
        0
    });
    Ok(first.await.unwrap_or_default())
}
