//! Serves what the definitions say, on each replica.
//!
//! ```text
//! definitions ──View──► catalogue ──difference──► Director: install, replace, remove ──► installed up to revision R
//! ```
//! A definition is served as soon as its names are accepted, which is before anybody is told that it is established: the
//! duty that says so waits for [`InstalledRevision`] of all replicas. Discovery and OpenAPI show the resource once that
//! is written, so that a client that waits for discovery finds nothing left to be written of the definition.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use trireme_actors::{ActorSystem, Clock};
use trireme_duties::ServedDefinitions;
use trireme_machinery::{ApiError, GroupResource, Reason};
use trireme_registry::{AnnouncedDefinitions, DirectorHandle, Readiness, ResourceDefinition, Revision, View};

use crate::catalogue::Catalogue;

/// How often a replica says up to where it has installed definitions, when nothing changes.
const RENEWAL: Duration = Duration::from_secs(5);

/// The revision up to which all definitions are served here. Cheap to clone.
#[derive(Clone)]
pub(crate) struct InstalledRevision(watch::Receiver<Revision>);

impl InstalledRevision {
    /// The revision; negative before anything is loaded.
    pub(crate) fn revision(&self) -> Revision {
        *self.0.borrow()
    }

    /// The revision as it changes.
    pub(crate) fn changes(&self) -> watch::Receiver<Revision> {
        self.0.clone()
    }
}

/// Where replicas tell each other how far they are; none for one that is alone.
pub(crate) type Announcement = Option<(AnnouncedDefinitions, Arc<str>)>;

/// The task's own state.
struct Installer {
    view: View<Catalogue>,
    director: DirectorHandle,
    served: HashMap<GroupResource, Arc<ResourceDefinition>>,
    announcement: Announcement,
    installed: watch::Sender<Revision>,
    clock: Clock,
}

/// Starts to serve what a catalogue has.
pub(crate) fn start(
    system: &ActorSystem,
    view: View<Catalogue>,
    director: DirectorHandle,
    announcement: Announcement,
) -> InstalledRevision {
    let (installed, receiver) = watch::channel(-1);
    let installer = Installer {
        view,
        director,
        served: HashMap::new(),
        announcement,
        installed,
        clock: system.clock().clone(),
    };
    let _ = system.tasks().spawn_named("custom-resources", installer.run());
    InstalledRevision(receiver)
}

impl Installer {
    async fn run(mut self) {
        let mut changes = self.view.changes();
        loop {
            changes.borrow_and_update();
            let snapshot = self.view.load();
            if snapshot.is_loaded() {
                self.bring_about(&snapshot).await;
                self.installed.send_replace(snapshot.revision);
                self.announce(snapshot.revision).await;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = self.clock.sleep(RENEWAL), if self.announcement.is_some() => {}
            }
        }
    }

    async fn bring_about(&mut self, catalogue: &Catalogue) {
        let resources = catalogue.iter().filter_map(|(_, entry)| entry.resource.as_ref());
        let wanted: HashMap<&GroupResource, &Arc<ResourceDefinition>> =
            resources.map(|definition| (&definition.resource, definition)).collect();
        let gone: Vec<GroupResource> = self
            .served
            .keys()
            .filter(|resource| !wanted.contains_key(resource))
            .cloned()
            .collect();
        for resource in gone {
            if let Err(error) = self.director.remove(&resource).await {
                tracing::error!(%resource, %error, "a custom resource could not be taken away");
            }
            self.served.remove(&resource);
        }
        let mut new = Vec::new();
        for (resource, definition) in wanted {
            match self.served.get(resource) {
                Some(served) if Arc::ptr_eq(served, definition) => {}
                Some(_) => self.replace(definition).await,
                None => new.push(definition.clone()),
            }
        }
        self.install(new).await;
    }

    async fn replace(&mut self, definition: &Arc<ResourceDefinition>) {
        match self.director.replace(definition.clone()).await {
            Ok(()) => {
                self.served.insert(definition.resource.clone(), definition.clone());
            }
            Err(error) => {
                let resource = &definition.resource;
                tracing::error!(%resource, %error, "a custom resource could not be changed");
            }
        }
    }

    async fn install(&mut self, new: Vec<Arc<ResourceDefinition>>) {
        if new.is_empty() {
            return;
        }
        if self.director.install(new.clone()).await.is_ok() {
            let served = new
                .into_iter()
                .map(|definition| (definition.resource.clone(), definition));
            self.served.extend(served);
            return;
        }
        // One of them is in the way of the others.
        for definition in new {
            match self.director.install(vec![definition.clone()]).await {
                Ok(()) => {
                    self.served.insert(definition.resource.clone(), definition);
                }
                Err(error) => {
                    let resource = &definition.resource;
                    tracing::error!(%resource, %error, "a custom resource cannot be served");
                }
            }
        }
    }

    async fn announce(&self, revision: Revision) {
        let Some((definitions, replica)) = &self.announcement else {
            return;
        };
        if let Err(error) = definitions.renew(replica, revision).await {
            tracing::debug!(%error, "the other replicas could not be told which definitions are served here");
        }
    }
}

/// Readiness: everything that was defined when the replica started is served.
pub(crate) struct ServesAll {
    view: View<Catalogue>,
    installed: InstalledRevision,
    was_ready: AtomicBool,
}

impl ServesAll {
    pub(crate) fn new(view: View<Catalogue>, installed: InstalledRevision) -> Self {
        Self {
            view,
            installed,
            was_ready: AtomicBool::new(false),
        }
    }
}

impl Readiness for ServesAll {
    fn name(&self) -> &str {
        "customresourcedefinitions"
    }

    /// Once true it stays so. The first snapshots of the view can be of a state of the past, in which a definition was not there.
    fn is_ready(&self) -> bool {
        if self.was_ready.load(Ordering::Acquire) {
            return true;
        }
        let is_ready = self.view.is_ready() && self.installed.revision() >= self.view.load().revision;
        self.was_ready.fetch_or(is_ready, Ordering::AcqRel);
        is_ready
    }
}

/// The patience with definitions in the store that are not served here yet.
const SERVED_WITHIN: Duration = Duration::from_secs(5);

/// The definitions in the store, held against those that are served here.
pub(crate) struct ServedHere {
    pub(crate) view: View<Catalogue>,
    pub(crate) installed: InstalledRevision,
    pub(crate) clock: Clock,
}

impl ServedDefinitions for ServedHere {
    fn all_served(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(async move {
            let deadline = self.clock.now() + SERVED_WITHIN;
            self.view.wait_for_now(deadline).await?;
            // That of the newest definition: what has changed since in the store is something else.
            let newest = self.view.load().revision;
            let mut installed = self.installed.0.clone();
            let is_served = installed.wait_for(|revision| *revision >= newest);
            match self.clock.timeout_at(deadline, is_served).await {
                Some(Ok(_)) => Ok(()),
                _ => {
                    let text = "not all CustomResourceDefinitions are served yet";
                    Err(ApiError::new(Reason::ServerTimeout, text).with_retry_after(1))
                }
            }
        })
    }
}
