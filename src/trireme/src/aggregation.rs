//! Brings API aggregation up: the way to other servers, what of theirs is published, the server's own APIServices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use trireme_actors::{ActorSystem, Clock};
use trireme_aggregation::{LocalService, LocalServices, Publication, RemoteServers, RemoteSettings, publish};
use trireme_cluster::Group;
use trireme_edge::{Health, Probes};
use trireme_registry::{DirectorHandle, Readiness, ServedVersion};

use crate::hooks::{IsDone, add_hooks};

/// The interval at which registration is tried again until the store takes it.
const REGISTRATION_RETRY: Duration = Duration::from_millis(200);

/// The parts that run. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Aggregation {
    pub(crate) remote: RemoteServers,
    publication: Publication,
    registration: Arc<LocalRegistration>,
}

/// The registration of what the server itself serves.
#[derive(Default)]
struct LocalRegistration {
    is_done: AtomicBool,
    /// True once all services have been available.
    is_complete: AtomicBool,
    /// The services, once they are known.
    services: OnceLock<Arc<LocalServices>>,
}

impl Aggregation {
    /// Starts to follow APIServices and to publish what other servers serve.
    pub(crate) fn start(system: &ActorSystem, director: &DirectorHandle, settings: RemoteSettings) -> Self {
        let remote = RemoteServers::start(system, director.published(), settings);
        Self {
            publication: publish(system, remote.clone(), director.clone()),
            remote,
            registration: Arc::default(),
        }
    }

    /// The conditions of readiness.
    pub(crate) fn readiness(&self) -> [Arc<dyn Readiness>; 2] {
        [self.remote.readiness(), self.routes()]
    }

    /// Ready when the paths of other servers are known.
    pub(crate) fn routes(&self) -> Arc<dyn Readiness> {
        Arc::new(self.publication.clone())
    }

    /// Registers what this server serves itself as APIServices.
    pub(crate) fn register_local(&self, system: &ActorSystem, director: &DirectorHandle) {
        let Some(route) = director.surface().find("apiregistration.k8s.io", "v1", "apiservices") else {
            return;
        };
        let services = local_services(director);
        let registration = Arc::clone(&self.registration);
        let local = Arc::new(LocalServices::new(route.registry, services));
        // Set once: the server registers its groups at its start alone.
        let _ = registration.services.set(Arc::clone(&local));
        let clock = system.clock().clone();
        let _ = system.tasks().spawn_restarting("local-apiservices", move || {
            register(Arc::clone(&local), Arc::clone(&registration), clock.clone())
        });
    }

    /// Adds the checks that bear the names of kube-aggregator's.
    pub(crate) fn add_checks(&self, health: Health, group: Option<Group>) -> Health {
        let judged = |local: bool| {
            let (remote, group) = (self.remote.clone(), group.clone());
            // Without a quorum no replica judges.
            move || remote.are_judged(local) || group.as_ref().is_some_and(|group| !group.status().has_quorum)
        };
        let view = self.remote.readiness();
        let registration = Arc::clone(&self.registration);
        let completion = self.clone();
        let routes = self.publication.clone();
        let checks: Vec<(&'static str, IsDone)> = vec![
            (
                "poststarthook/start-kube-aggregator-informers",
                Box::new(move || view.is_ready()),
            ),
            (
                "poststarthook/apiservice-status-local-available-controller",
                Box::new(judged(true)),
            ),
            (
                "poststarthook/apiservice-status-remote-available-controller",
                Box::new(judged(false)),
            ),
            (
                "poststarthook/apiservice-registration-controller",
                Box::new(move || routes.has_routes()),
            ),
            ("poststarthook/apiservice-discovery-controller", self.documents()),
            (
                "poststarthook/kube-apiserver-autoregistration",
                Box::new(move || registration.is_done.load(Ordering::Relaxed)),
            ),
            ("autoregister-completion", Box::new(move || completion.is_registered())),
            // As in kube-apiserver, OpenAPI of other servers is waited for by nobody.
            ("poststarthook/apiservice-openapi-controller", Box::new(|| true)),
            ("poststarthook/apiservice-openapiv3-controller", Box::new(|| true)),
        ];
        add_hooks(health, Probes::All, checks)
    }

    /// The check that every server has been asked for discovery.
    fn documents(&self) -> IsDone {
        let publication = self.publication.clone();
        Box::new(move || publication.has_documents())
    }

    /// Reports whether all that the server serves itself was registered and available once. What clients make of it later is none of
    /// the probes' matters, as in kube-apiserver.
    fn is_registered(&self) -> bool {
        let LocalRegistration {
            is_complete, services, ..
        } = &*self.registration;
        if !is_complete.load(Ordering::Relaxed) && services.get().is_some_and(|local| local.are_available(&self.remote))
        {
            is_complete.store(true, Ordering::Relaxed);
        }
        is_complete.load(Ordering::Relaxed)
    }
}

/// Registers the local services as soon as the store takes them.
async fn register(local: Arc<LocalServices>, registration: Arc<LocalRegistration>, clock: Clock) {
    while let Err(error) = local.run().await {
        tracing::debug!(%error, "the store does not take the server's own objects yet");
        clock.sleep(REGISTRATION_RETRY).await;
    }
    registration.is_done.store(true, Ordering::Relaxed);
}

/// The group of APIServices, which has none of its own: the aggregator registers what is behind it.
const AGGREGATOR: &str = "apiregistration.k8s.io";

/// The groups and versions that this server serves itself from its start, and that clients find registered.
pub(crate) fn local_services(director: &DirectorHandle) -> Vec<LocalService> {
    let mut services: Vec<LocalService> = Vec::new();
    let surface = director.surface();
    let built_in = surface.definitions().filter(|definition| !definition.is_custom);
    let versions = built_in.flat_map(|definition| &definition.versions);
    let is_behind = |version: &&ServedVersion| version.is_served && &*version.group_version.group != AGGREGATOR;
    for version in versions.filter(is_behind) {
        let service = LocalService {
            group: version.group_version.group.to_string(),
            version: version.group_version.version.to_string(),
            group_priority_minimum: version.group_priority,
            version_priority: version.priority,
        };
        if !services.contains(&service) {
            services.push(service);
        }
    }
    services
}
