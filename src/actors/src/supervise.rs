//! Supervision: a dead actor is replaced by a fresh one, until its budget is used up.
//!
//! ```text
//! spawn ─► start ─► Running ──stop──────────────► Stopped
//!            ▲         │ panic, fail, arbiter gone
//!            │         ▼
//!            └─wait─ Restarting ──budget used up─► Stopped + the fatal callback (the process exits)
//! ```
//!
//! Each actor has a parent, a named task outside the arbiters, that hears of the end through a guard dropped with the
//! instance. The first rebuild comes at once, the next ones after a growing pause, all well within a second.

use std::sync::Arc;

use actix_rt::ArbiterHandle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::{Actor, ExitGuard, InstanceLife, Shell, post_stop};
use crate::restart::{Fatal, OnFatal, RestartBudget};
use crate::shared::ActorShared;

/// The parent of one actor.
pub(crate) struct Parent<A: Actor> {
    pub(crate) shared: Arc<ActorShared<A>>,
    pub(crate) factory: Arc<dyn Fn() -> A + Send + Sync>,
    pub(crate) arbiter: ArbiterHandle,
    pub(crate) detached: TaskTracker,
    pub(crate) on_fatal: OnFatal,
}

impl<A: Actor> Parent<A> {
    /// Starts the first instance and returns the life of the parent, to be run as a task.
    pub(crate) fn start(self) -> impl Future<Output = ()> + Send {
        let (exits, deaths) = mpsc::unbounded_channel();
        self.start_instance(&exits);
        self.watch(exits, deaths)
    }

    async fn watch(self, exits: mpsc::UnboundedSender<String>, mut deaths: mpsc::UnboundedReceiver<String>) {
        let vitals = Arc::clone(&self.shared.vitals);
        let mut budget = RestartBudget::new(vitals.entry.restart);
        // `exits` is held here, so there is always a next death to wait for.
        while let Some(cause) = deaths.recv().await {
            if vitals.stopping.is_cancelled() {
                break;
            }
            let Some(pause) = budget.charge(vitals.clock.now()) else {
                self.give_up(cause, budget.deaths());
                break;
            };
            tracing::error!(actor = vitals.name(), cause, ?pause, "actor died and is being rebuilt");
            if !pause.is_zero() {
                tokio::select! {
                    () = vitals.clock.sleep(pause) => {}
                    () = vitals.stopping.cancelled() => break,
                }
            }
            vitals.restarted();
            self.start_instance(&exits);
        }
        self.shared.address.store(None);
        vitals.stopped();
    }

    fn start_instance(&self, exits: &mpsc::UnboundedSender<String>) {
        let shared = &self.shared;
        let life = InstanceLife {
            vitals: Arc::clone(&shared.vitals),
            ended: CancellationToken::new(),
            detached: self.detached.clone(),
        };
        let guard = ExitGuard::new(exits.clone(), &life);
        let factory = Arc::clone(&self.factory);
        shared.vitals.running();
        let address =
            <Shell<A> as actix::Actor>::start_in_arbiter(&self.arbiter, move |_| Shell::build(&*factory, life, guard));
        shared.address.store(Some(Arc::new(address)));
        shared.lives.send_modify(|lives| *lives += 1);
        // A stop that came while there was no instance has not reached this one.
        if shared.vitals.stopping.is_cancelled()
            && let Some(address) = shared.address.load().as_deref()
        {
            post_stop(address);
        }
    }

    fn give_up(&self, cause: String, deaths: usize) {
        let vitals = &self.shared.vitals;
        let fatal = Fatal {
            actor: vitals.name(),
            deaths,
            window: vitals.entry.restart.window,
            cause,
        };
        tracing::error!(error = %fatal, "the restart budget of an actor is used up");
        vitals.stopped();
        (self.on_fatal)(fatal);
    }
}
