//! Charges by the namespace: all that wait for one are charged together, with one write a quota
//! (`k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go`).
//!
//! ```text
//! writes ──Waiter──▶ queue ──▶ run(): one batch a namespace at a time ──▶ quotas from the cache ─ check all ─ compare-and-swap
//!        ◀─verdict────────────────────────────────────────────────────────┘                  ▲── fresh quota ◀── conflict ─┘
//! ```
//!
//! Promise: a write is admitted only after the quota that counts it is in the store. Other writers of the quota, here or in
//! another replica, charge it at the revision that they read; the one that loses reads again and checks again.

use std::{
    collections::{HashMap, HashSet},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::{mpsc, oneshot};
use trireme_machinery::{ApiError, Reason};
use trireme_registry::Item;

use super::{check::Charge, quota::Quota, store::QuotaStore};

/// The number of times that a batch reads again because others were faster. A replica among three that all charge the same
/// quota without a pause loses so often with a chance of one in three thousand.
const ATTEMPTS: usize = 20;
/// The number of namespaces whose last written quotas are remembered. A forgotten one costs one more attempt.
const REMEMBERED: usize = 1_000;

/// A write that waits for its verdict.
pub(super) struct Waiter {
    pub(super) namespace: String,
    pub(super) charge: Charge,
    pub(super) verdict: oneshot::Sender<Result<(), ApiError>>,
}

impl Waiter {
    fn answer(self, verdict: Result<(), ApiError>) {
        // Who does not wait any more has given up.
        let _ = self.verdict.send(verdict);
    }
}

/// The state of the task.
pub(super) struct Batches {
    store: QuotaStore,
    waiting: HashMap<String, Vec<Waiter>>,
    in_progress: HashSet<String>,
    /// The quotas of a namespace as they were written here last: the cache may be behind.
    written: HashMap<String, Vec<Arc<Item>>>,
}

/// The end of a batch: its namespace and the quotas that it wrote.
type BatchEnd = (String, Vec<Arc<Item>>);

impl Batches {
    pub(super) fn new(store: QuotaStore) -> Self {
        Self {
            store,
            waiting: HashMap::new(),
            in_progress: HashSet::new(),
            written: HashMap::new(),
        }
    }

    /// Runs until all senders are gone.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Waiter>) {
        let mut running: FuturesUnordered<BoxFuture<'static, BatchEnd>> = FuturesUnordered::new();
        loop {
            let namespace = tokio::select! {
                waiter = queue.recv() => match waiter {
                    Some(waiter) => self.queue(waiter),
                    None => return,
                },
                Some(done) = running.next() => self.finish(done),
            };
            running.extend(self.start(namespace));
        }
    }

    fn queue(&mut self, waiter: Waiter) -> String {
        let namespace = waiter.namespace.clone();
        self.waiting.entry(namespace.clone()).or_default().push(waiter);
        namespace
    }

    fn finish(&mut self, (namespace, written): BatchEnd) -> String {
        self.in_progress.remove(&namespace);
        if self.written.len() >= REMEMBERED {
            self.written.clear();
        }
        if !written.is_empty() {
            let remembered = self.written.entry(namespace.clone()).or_default();
            remembered.retain(|old| written.iter().all(|new| new.key != old.key));
            remembered.extend(written);
        }
        namespace
    }

    /// The batch of all that wait in a namespace, unless one is under way there.
    fn start(&mut self, namespace: String) -> Option<BoxFuture<'static, BatchEnd>> {
        if self.in_progress.contains(&namespace) {
            return None;
        }
        let waiters = self.waiting.remove(&namespace)?;
        self.in_progress.insert(namespace.clone());
        let batch = QuotaBatch {
            store: self.store.clone(),
            namespace: namespace.clone(),
            remembered: self.written.remove(&namespace).unwrap_or_default(),
            written: Vec::new(),
        };
        let run = AssertUnwindSafe(batch.run(waiters)).catch_unwind();
        // After a panic no write of the batch gets a verdict, which is an answer too.
        Some(run.map(|written| (namespace, written.unwrap_or_default())).boxed())
    }
}

/// The charges of one namespace at one moment.
struct QuotaBatch {
    store: QuotaStore,
    namespace: String,
    remembered: Vec<Arc<Item>>,
    written: Vec<Arc<Item>>,
}

impl QuotaBatch {
    async fn run(mut self, waiters: Vec<Waiter>) -> Vec<Arc<Item>> {
        match self.quotas().await {
            Ok(quotas) => self.charge(quotas, waiters).await,
            Err(error) => waiters.into_iter().for_each(|waiter| waiter.answer(Err(error.clone()))),
        }
        self.written
    }

    async fn quotas(&self) -> Result<Vec<Quota>, ApiError> {
        let cached = self.store.cached(&self.namespace).await?;
        let newest = cached.into_iter().map(|item| {
            let mut own = self.remembered.iter();
            let own = own.find(|own| own.key == item.key && own.uid == item.uid && own.revision > item.revision);
            Quota::read(own.cloned().unwrap_or(item))
        });
        newest.collect()
    }

    /// Checks all, writes what they use, and does so again for the quotas that others wrote meanwhile.
    async fn charge(&mut self, mut quotas: Vec<Quota>, mut waiters: Vec<Waiter>) {
        for attempt in 1.. {
            let before = quotas.clone();
            waiters = admit(&mut quotas, waiters);
            let mut beaten = Vec::new();
            let mut failed = None;
            for (quota, _) in quotas
                .iter()
                .zip(&before)
                .filter(|(now, then)| now.state.used != then.state.used)
            {
                match self.store.write(quota).await {
                    Ok(item) => self.written.extend(item),
                    Err(error) if is_beaten(&error) && attempt < ATTEMPTS => beaten.push(quota.state.name.clone()),
                    Err(error) => failed = Some(error),
                }
            }
            if failed.is_none() && !beaten.is_empty() {
                match self.store.newest(&self.namespace, &beaten).await {
                    Ok(newest) => {
                        quotas = newest;
                        continue;
                    }
                    Err(error) => failed = Some(error),
                }
            }
            let verdict = failed.map_or(Ok(()), Err);
            return waiters.into_iter().for_each(|waiter| waiter.answer(verdict.clone()));
        }
    }
}

/// Charges one after the other; gives back those whose verdict depends on the write.
fn admit(quotas: &mut [Quota], waiters: Vec<Waiter>) -> Vec<Waiter> {
    let mut charged = Vec::new();
    for waiter in waiters {
        match waiter.charge.against(quotas.iter().map(|quota| &quota.state)) {
            Ok(changes) if changes.is_empty() || waiter.charge.dry_run => waiter.answer(Ok(())),
            Ok(changes) => {
                for (index, used) in changes {
                    if let Some(quota) = quotas.get_mut(index) {
                        quota.state.used = used;
                    }
                }
                charged.push(waiter);
            }
            Err(refusal) => waiter.answer(Err(refusal)),
        }
    }
    charged
}

fn is_beaten(error: &ApiError) -> bool {
    matches!(error.reason, Reason::Conflict | Reason::NotFound)
}
