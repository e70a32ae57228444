//! Looking out for an election while requests wait for answers that will not come.
//!
//! Callers: [`Endpoints`](super::endpoints::Endpoints), for each attempt. An attempt that has waited for a while has the
//! members asked, in turn, whether there is a leader; one of all who wait does so for all, so a cluster that is away gets
//! a few small reads a second, however many requests wait. When a later term shows, or the first answer after no member
//! gave one, all attempts from before are overtaken: what they were waiting for is probably lost.

use std::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use etcd_client::{
    Client, CompactionResponse, GetOptions, GetResponse, LeaseGrantResponse, LeaseRevokeResponse, ResponseHeader,
    TxnResponse,
};
use tokio::{
    sync::{Mutex, watch},
    time::{sleep, timeout},
};

/// An attempt without an answer for this time starts the probe.
const GRACE: Duration = Duration::from_millis(250);
/// For one member's answer to the scout, and between two members.
const STEP: Duration = Duration::from_millis(100);

/// An answer that says in which term it was given.
pub(super) trait Headed {
    /// The header.
    fn head(&self) -> Option<&ResponseHeader>;
}

macro_rules! headed {
    ($($answer:ty),*) => {
        $(impl Headed for $answer {
            fn head(&self) -> Option<&ResponseHeader> {
                self.header()
            }
        })*
    };
}

headed!(
    GetResponse,
    TxnResponse,
    LeaseGrantResponse,
    LeaseRevokeResponse,
    CompactionResponse
);

/// Knowledge about elections.
pub(super) struct LeaderProbe {
    term: AtomicU64,
    /// Grows when all attempts that are under way are overtaken.
    turn: watch::Sender<u64>,
    out: Mutex<()>,
}

impl Default for LeaderProbe {
    fn default() -> Self {
        Self {
            term: AtomicU64::new(0),
            turn: watch::Sender::new(0),
            out: Mutex::default(),
        }
    }
}

impl LeaderProbe {
    /// Takes note of an answer.
    pub(super) fn heard(&self, answer: &impl Headed) {
        let term = answer.head().map_or(0, ResponseHeader::raft_term);
        let before = self.term.fetch_max(term, Ordering::Relaxed);
        if before > 0 && term > before {
            self.overtake();
        }
    }

    /// Waits for an attempt, or until it is overtaken.
    pub(super) async fn unless_overtaken<T>(&self, members: &[Client], attempt: impl Future<Output = T>) -> Option<T> {
        let mut turn = self.turn.subscribe();
        let overtaken = async {
            sleep(GRACE).await;
            tokio::select! {
                // The sender lives as long as this.
                _ = turn.changed() => {}
                () = self.go(members) => {}
            }
        };
        tokio::select! {
            biased;
            output = attempt => Some(output),
            () = pin!(overtaken) => None,
        }
    }

    /// Asks one member after the other; ends when all from before are overtaken.
    async fn go(&self, members: &[Client]) {
        let _out = self.out.lock().await;
        // In a row. One member that is dead while the others answer is no news.
        let mut missed = 0;
        for member in members.iter().cycle() {
            let mut client = member.kv_client();
            let count = GetOptions::new().with_count_only();
            match timeout(STEP, client.get([0], Some(count))).await {
                Ok(Ok(answer)) => {
                    self.heard(&answer);
                    if missed >= members.len() {
                        return self.overtake();
                    }
                    missed = 0;
                }
                Ok(Err(_)) | Err(_) => missed += 1,
            }
            sleep(STEP).await;
        }
    }

    fn overtake(&self) {
        self.turn.send_modify(|turn| *turn = turn.wrapping_add(1));
    }
}
