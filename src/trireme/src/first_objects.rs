//! Holds readiness back until the objects are there that clients take for granted: the system's namespaces and priority
//! classes, and the roles and bindings of the bootstrap policy.
//!
//! The holder of their duty's lease writes them into a fresh store; a replica is ready when it sees them in its caches. A
//! replica whose group has no quorum does not wait for long: no replica may write them then, and an operator may be waiting
//! for it before starting the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trireme_actors::{ActorSystem, Clock};
use trireme_cluster::Group;
use trireme_duties::{BootstrapProgress, RbacRegistries};
use trireme_machinery::Features;
use trireme_registry::{Entries, Readiness, RegistryHandle, View, compile_entries};

/// The namespace that is written last, and that cannot be deleted.
const LAST: &str = "default";
/// The priority classes of the system.
const PRIORITY_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// The period in which the quorum of the group is looked at while the objects do not come.
const LOOK_AT_QUORUM: Duration = Duration::from_millis(100);
/// The time for which a replica waits for a quorum of its group. Replicas that start together elect a leader in half a
/// second.
const WITHOUT_QUORUM: Duration = Duration::from_secs(2);

/// The wait for some objects and its end. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FirstObjects {
    is_over: Arc<AtomicBool>,
    view: Arc<dyn Readiness>,
    missing: &'static str,
}

impl FirstObjects {
    /// Starts to wait for the namespaces.
    pub(crate) fn namespaces(system: &ActorSystem, namespaces: &RegistryHandle, group: Option<Group>) -> Self {
        let sources = [namespaces.reader().clone()];
        let fold = || compile_entries(|item| (item.name() == LAST).then_some(()));
        let last = View::start(system, "first-namespaces", sources, fold);
        let missing = "there is no namespace default yet";
        Self::await_in(system, last, |entries| !entries.is_empty(), missing, group)
    }

    /// Starts to wait for the priority classes of the system.
    pub(crate) fn priority_classes(system: &ActorSystem, classes: &RegistryHandle, group: Option<Group>) -> Self {
        let sources = [classes.reader().clone()];
        let fold = || compile_entries(|item| PRIORITY_CLASSES.contains(&item.name()).then_some(()));
        let there = View::start(system, "first-priority-classes", sources, fold);
        let are_there = |entries: &Entries<()>| entries.len() == PRIORITY_CLASSES.len();
        Self::await_in(system, there, are_there, "not finished", group)
    }

    /// Starts to wait for the bootstrap policy.
    pub(crate) fn bootstrap_roles(
        system: &ActorSystem,
        rbac: &RbacRegistries,
        features: Features,
        group: Option<Group>,
    ) -> Self {
        let progress = BootstrapProgress::follow(system, rbac, features);
        let missing = "not finished";
        Self::await_in(system, progress, |progress| progress.is_complete(), missing, group)
    }

    fn await_in<T: Send + Sync + 'static>(
        system: &ActorSystem,
        view: View<T>,
        are_there: fn(&T) -> bool,
        missing: &'static str,
        group: Option<Group>,
    ) -> Self {
        let waiting = Self {
            is_over: Arc::default(),
            view: Arc::new(view.clone()),
            missing,
        };
        let (is_over, clock) = (Arc::clone(&waiting.is_over), system.clock().clone());
        let task = format!("await {}", waiting.view.name());
        let _ = system.tasks().spawn_named(task, async move {
            until_there(&clock, &view, are_there, group.as_ref()).await;
            is_over.store(true, Ordering::Relaxed);
        });
        waiting
    }

    /// The view that the wait looks at.
    pub(crate) fn view(&self) -> Arc<dyn Readiness> {
        Arc::clone(&self.view)
    }

    /// A check of health.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_over = self.is_over.load(Ordering::Relaxed);
        is_over.then_some(()).ok_or_else(|| self.missing.to_owned())
    }
}

async fn until_there<T: Send + Sync + 'static>(
    clock: &Clock,
    view: &View<T>,
    are_there: fn(&T) -> bool,
    group: Option<&Group>,
) {
    let patience = clock.now() + WITHOUT_QUORUM;
    let mut changes = view.changes();
    while !are_there(&view.load().value) {
        if clock.now() >= patience && group.is_some_and(|group| !group.status().has_quorum) {
            tracing::warn!("no quorum, so no replica creates the objects that a cluster starts with");
            return;
        }
        let _ = clock.timeout_at(clock.now() + LOOK_AT_QUORUM, changes.changed()).await;
    }
}
