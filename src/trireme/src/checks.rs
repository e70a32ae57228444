//! The health checks of a process.
//!
//! The names are those of kube-apiserver's checks, so that probes of a single one work, and so that those who look for a hook
//! of kube-apiserver find what stands for it here.

use std::sync::{Arc, Weak};

use trireme_cluster::Group;
use trireme_edge::{Health, Probes};
use trireme_flow::Limiter;
use trireme_registry::{Readiness, Views};
use trireme_storage::Storage;

use crate::encryption::PluginsHealth;
use crate::first_objects::FirstObjects;
use crate::hooks::add_hooks;
use crate::lifecycle::{Lifecycle, Moment};
use crate::probe::StoreProbe;
use crate::replicas::Observed;

/// Conditions of health beside the resources.
pub(crate) struct Watched {
    /// True if the store answers and the watch caches keep up.
    pub(crate) store: StoreProbe,
    /// The store, if it is embedded and can tell whether it takes writes. It is closed when nobody has it any more.
    pub(crate) writes: Option<Weak<dyn Storage>>,
    /// The KMS plugins, if there may be any.
    pub(crate) plugins: Option<PluginsHealth>,
    /// True if a fresh store has the namespaces that clients take for granted.
    pub(crate) namespaces: FirstObjects,
    /// True if it has the roles and bindings.
    pub(crate) bootstrap_roles: FirstObjects,
    /// True if it has the priority classes of the system.
    pub(crate) priority_classes: FirstObjects,
    /// The values that admission plugins derive from resources.
    pub(crate) admission: Views,
    /// The definitions of custom resources.
    pub(crate) definitions: Arc<dyn Readiness>,
    /// The limiter of requests.
    pub(crate) limiter: Limiter,
    /// The values that are derived from resources.
    pub(crate) views: Views,
    /// True if the end has begun.
    pub(crate) lifecycle: Lifecycle,
    /// The standing of the replica in its group.
    pub(crate) replicas: Observed,
    /// The group, if there is one.
    pub(crate) group: Option<Group>,
}

/// The hooks of kube-apiserver that start controllers. Here controllers are started before the port is bound.
const STARTED_BEFORE: [&str; 4] = [
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/start-cluster-authentication-info-controller",
];

/// Adds the check of an embedded store's writes. It fails `/healthz` alone: a server whose disk is full serves reads that no
/// other server has, and none is mended by ending it.
fn add_writes_check(health: Health, store: Weak<dyn Storage>) -> Health {
    health.check("store-writes", Probes::HealthOnly, move || {
        let failure = store.upgrade().and_then(|store| store.write_failure());
        failure.map_or(Ok(()), Err)
    })
}

/// The checks of what the parts of the process report.
pub(crate) fn health(watched: Watched) -> Health {
    let Watched {
        store,
        writes,
        plugins,
        namespaces,
        bootstrap_roles,
        priority_classes,
        admission,
        definitions,
        limiter: _,
        views,
        lifecycle,
        replicas,
        group: _,
    } = watched;
    let [readiness, caches, informers, storage] = std::array::from_fn(|_| store.clone());
    let health = Health::new()
        // Without it the process would not have got as far as to answer.
        .check("log", Probes::All, || Ok(()))
        .check("etcd", Probes::NotLive, move || store.check_store())
        .check("etcd-readiness", Probes::ReadyOnly, move || readiness.check_store());
    let health = writes.into_iter().fold(health, add_writes_check);
    let health = plugins.iter().fold(health, |health, plugins| plugins.add_check(health));
    let health = health.check("informer-sync", Probes::ReadyOnly, move || {
        caches.check_caches().and_then(|()| views.check())
    });
    let custom = definitions.clone();
    let health = add_hooks(
        health,
        Probes::NotLive,
        vec![
            (
                "poststarthook/start-apiserver-admission-initializer",
                Box::new(move || admission.check().is_ok()),
            ),
            (
                "poststarthook/generic-apiserver-start-informers",
                Box::new(move || informers.check_caches().is_ok()),
            ),
            (
                "poststarthook/storage-readiness",
                Box::new(move || storage.check_caches().is_ok()),
            ),
            (
                "poststarthook/start-apiextensions-informers",
                Box::new(move || definitions.is_ready()),
            ),
            ("poststarthook/crd-informer-synced", Box::new(move || custom.is_ready())),
        ],
    );
    let health = STARTED_BEFORE
        .into_iter()
        .fold(health, |health, hook| health.check(hook, Probes::All, || Ok(())));
    let health = plugins.iter().fold(health, |health, plugins| plugins.add_hook(health));
    let hook = "poststarthook/start-system-namespaces-controller";
    let classes = "poststarthook/scheduling/bootstrap-system-priority-classes";
    let health = health
        .check(hook, Probes::NotLive, move || namespaces.check())
        .check(classes, Probes::NotLive, move || priority_classes.check())
        .check("poststarthook/rbac/bootstrap-roles", Probes::NotLive, move || {
            bootstrap_roles.check()
        })
        .check("shutdown", Probes::ReadyOnly, move || {
            if lifecycle.has(Moment::ShutdownInitiated) {
                Err("the process is shutting down".to_owned())
            } else {
                Ok(())
            }
        });
    match replicas.notice() {
        // Not a check: without a quorum replicas go on serving.
        Some(notice) => health.readyz_notice("replica-group", notice),
        None => health,
    }
}
