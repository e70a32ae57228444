//! Measures the effect of lost members on writers of a cluster of three etcd members.
//!
//! `cargo run -p trireme-storage --features testing --example lost_members -- leader-killed 5` starts a cluster five
//! times, has ten writers write a hundred times a second, loses members, brings the frozen ones back, and prints what
//! became of the writes. The faults are `leader-killed`, `leader-frozen` (for 10 s) and `quorum-frozen` (for 8 s).

#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own: no actors, the machine's time"
)]

use std::{error::Error, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::{Instant, interval, sleep};
use trireme_storage::{
    Compare, EtcdOptions, EtcdStore, PutOptions, Storage, StorageError, WriteOutcome, testing::EtcdCluster,
};

const WRITERS: usize = 10;
/// Of each writer.
const PERIOD: Duration = Duration::from_millis(100);
const BEFORE: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    LeaderKilled,
    LeaderFrozen,
    QuorumFrozen,
}

/// One write.
struct Done {
    began: Instant,
    ended: Instant,
    outcome: Result<WriteOutcome, StorageError>,
}

impl Done {
    fn went_well(&self) -> bool {
        matches!(self.outcome, Ok(WriteOutcome::Committed(_)))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let fault = match args.next().as_deref() {
        Some("leader-killed") => Fault::LeaderKilled,
        Some("leader-frozen") => Fault::LeaderFrozen,
        Some("quorum-frozen") => Fault::QuorumFrozen,
        other => return Err(format!("no fault: {other:?}; leader-killed, leader-frozen or quorum-frozen").into()),
    };
    let rounds: usize = args.next().map_or(Ok(1), |rounds| rounds.parse())?;
    println!(
        "| {fault:?} | writes | failed | longest pause without a write, s | longest answer, s | first write after the end, s |"
    );
    for round in 1..=rounds {
        println!("| {round} | {} |", run(fault).await?);
    }
    Ok(())
}

async fn run(fault: Fault) -> Result<String, Box<dyn Error>> {
    let (mut cluster, store) = EtcdCluster::start(EtcdOptions::new).await?;
    let store = Arc::new(store);
    let held = match fault {
        Fault::LeaderKilled => Duration::ZERO,
        Fault::LeaderFrozen => Duration::from_secs(10),
        Fault::QuorumFrozen => Duration::from_secs(8),
    };
    let end = Instant::now() + BEFORE + held + AFTER;
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer, end)));
    let writers = writers.collect::<Vec<_>>();
    sleep(BEFORE).await;
    let leader = cluster.leader().await?;
    let lost = Instant::now();
    match fault {
        Fault::LeaderKilled => cluster.members[leader].kill(),
        Fault::LeaderFrozen => freeze(&cluster, &[leader], held).await?,
        Fault::QuorumFrozen => freeze(&cluster, &[leader, (leader + 1) % 3], held).await?,
    }
    let healed = Instant::now();
    let mut done = Vec::new();
    for writer in join_all(writers).await {
        done.extend(writer?);
    }
    Ok(report(&done, lost, healed))
}

async fn freeze(cluster: &EtcdCluster, members: &[usize], held: Duration) -> Result<(), StorageError> {
    for member in members {
        cluster.members[*member].pause()?;
    }
    sleep(held).await;
    for member in members {
        cluster.members[*member].resume()?;
    }
    Ok(())
}

async fn write(store: Arc<EtcdStore>, writer: usize, end: Instant) -> Vec<Done> {
    let mut done = Vec::new();
    let mut tick = interval(PERIOD);
    while Instant::now() < end {
        tick.tick().await;
        let key = format!("/load/{writer}/{}", done.len());
        let began = Instant::now();
        let value = Bytes::from(vec![b'x'; 1_000]);
        let outcome = store.put(&key, value, Compare::Absent, PutOptions::default()).await;
        let ended = Instant::now();
        done.push(Done { began, ended, outcome });
    }
    done
}

fn report(done: &[Done], lost: Instant, healed: Instant) -> String {
    let mut acknowledged: Vec<Instant> = done
        .iter()
        .filter(|done| done.went_well())
        .map(|done| done.ended)
        .collect();
    acknowledged.sort_unstable();
    let from_the_fault = acknowledged.iter().skip_while(|at| **at < lost).copied();
    let pauses = std::iter::once(lost)
        .chain(from_the_fault.clone())
        .zip(from_the_fault.clone());
    let pause = pauses.map(|(one, next)| next - one).max().unwrap_or_default();
    let answer = done
        .iter()
        .map(|done| done.ended - done.began)
        .max()
        .unwrap_or_default();
    let after = from_the_fault
        .clone()
        .find(|at| *at > healed)
        .map_or(AFTER, |at| at - healed);
    let failed = done.len() - acknowledged.len();
    format!(
        "{} | {failed} | {:.2} | {:.2} | {:.2}",
        done.len(),
        pause.as_secs_f64(),
        answer.as_secs_f64(),
        after.as_secs_f64()
    )
}
