//! The changes in etcd, as etcd itself reports them: one watch on each member over every key, from the first revision
//! on. It does not know Trireme beyond the keys and the JSON of the stored objects.
//!
//! A member that dies or hangs is followed again from where it was; each member is a witness of its own, so a history is
//! whole as long as one of them saw all of it.

mod compactions;
mod entry;

use std::net::SocketAddr;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, GetOptions, WatchOptions, WatchStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::history::{Revision, TruthRecord};
use crate::traffic::Desk;

/// Between two attempts to follow a member.
const RETRY: Duration = Duration::from_millis(200);
/// For a connection, and for a request of the end.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time limit for each member to send the rest once the last revision is known.
const CATCH_UP: Duration = Duration::from_secs(10);

/// Watches on all members, which go on until this is dropped.
pub struct Truth {
    members: Vec<(String, tokio::sync::watch::Receiver<Revision>)>,
    addresses: Vec<SocketAddr>,
    tasks: JoinSet<()>,
}

impl Truth {
    /// Begins to watch.
    pub fn begin(desk: &Desk, addresses: &[SocketAddr]) -> Self {
        let mut tasks = JoinSet::new();
        let mut members = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let name = format!("etcd-{index}");
            let (seen, receiver) = tokio::sync::watch::channel(0);
            members.push((name.clone(), receiver));
            tasks.spawn(follow(desk.clone(), name, *address, seen));
        }
        tasks.spawn(compactions::follow(desk.clone(), addresses.to_vec()));
        Self {
            members,
            addresses: addresses.to_vec(),
            tasks,
        }
    }

    /// The newest revision, by a linearizable read of whichever member answers.
    pub async fn newest(&self) -> Option<Revision> {
        for address in &self.addresses {
            let read = async {
                let mut client = connect(*address).await?;
                let options = GetOptions::new().with_count_only();
                let answer = client
                    .get("/", Some(options))
                    .await
                    .map_err(|error| error.to_string())?;
                answer
                    .header()
                    .map(|header| header.revision())
                    .ok_or_else(|| "no header".to_owned())
            };
            if let Ok(Ok(revision)) = timeout(PATIENCE, read).await {
                return Revision::try_from(revision).ok();
            }
        }
        None
    }

    /// Waits until every member has reported all changes up to `revision`, and records the end of each that has.
    ///
    /// # Errors
    /// If not one of them has: then nothing is known about the run.
    pub async fn end(mut self, desk: &Desk, revision: Revision) -> Result<(), String> {
        let mut complete = 0;
        for (member, seen) in &mut self.members {
            let all = timeout(CATCH_UP, seen.wait_for(|seen| *seen >= revision)).await;
            if matches!(all, Ok(Ok(_))) {
                complete += 1;
                desk.recorder.truth(&TruthRecord::End {
                    member: member.clone(),
                    revision,
                    at: desk.now(),
                });
            }
        }
        self.tasks.shutdown().await;
        match complete {
            0 => Err(format!(
                "no member of etcd has reported all changes up to revision {revision}"
            )),
            _ => Ok(()),
        }
    }
}

async fn connect(address: SocketAddr) -> Result<Client, String> {
    let options = ConnectOptions::new()
        .with_connect_timeout(PATIENCE)
        .with_keep_alive(Duration::from_secs(1), PATIENCE)
        .with_keep_alive_while_idle(true);
    let client = Client::connect([format!("http://{address}")], Some(options)).await;
    client.map_err(|error| error.to_string())
}

/// Follows one member for good.
async fn follow(desk: Desk, member: String, address: SocketAddr, seen: tokio::sync::watch::Sender<Revision>) {
    loop {
        let after = *seen.borrow();
        if let Ok(stream) = open(address, after).await {
            relay(&desk, &member, stream, &seen).await;
        }
        sleep(RETRY).await;
    }
}

async fn open(address: SocketAddr, after: Revision) -> Result<(Client, WatchStream), String> {
    let client = connect(address).await?;
    let from = i64::try_from(after + 1).map_err(|error| error.to_string())?;
    let options = WatchOptions::new()
        .with_all_keys()
        .with_start_revision(from)
        .with_progress_notify();
    let mut watches = client.watch_client().max_decoding_message_size(usize::MAX);
    let stream = timeout(PATIENCE, watches.watch(vec![0], Some(options))).await;
    let stream = stream
        .map_err(|_| "timeout".to_owned())?
        .map_err(|error| error.to_string())?;
    Ok((client, stream))
}

/// Records what comes until the stream ends. What was compacted before it could be read is a gap.
async fn relay(
    desk: &Desk,
    member: &str,
    (_client, mut stream): (Client, WatchStream),
    seen: &tokio::sync::watch::Sender<Revision>,
) {
    while let Ok(Some(answer)) = stream.message().await {
        if answer.canceled() {
            if let Ok(compacted) = Revision::try_from(answer.compact_revision())
                && compacted > 0
            {
                desk.recorder.truth(&TruthRecord::Gap {
                    member: member.to_owned(),
                    after: *seen.borrow(),
                    until: compacted,
                });
                seen.send_replace(compacted - 1);
            }
            return;
        }
        for event in answer.events() {
            if let Some(entry) = entry::of(event, member, desk.now()) {
                let revision = entry.revision;
                desk.recorder.truth(&TruthRecord::Entry(entry));
                seen.send_replace(revision);
            }
        }
    }
}
