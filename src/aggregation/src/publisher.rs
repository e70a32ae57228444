//! Makes the versions of other servers known on each replica: their routes at once, their documents as they come.
//!
//! ```text
//! APIServices ──View──► proxied versions ──difference──► Director: routes, discovery, OpenAPI
//!                            ▲
//!                            └── documents of each server: when it changes, then every minute
//! ```

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use trireme_actors::{ActorSystem, Clock};
use trireme_registry::{DirectorHandle, ProxiedVersion, Readiness};

use crate::{
    documents::{DocumentSource, FetchedDocument, LAST_RETRY, RemoteDocuments},
    remote::RemoteServers,
};

/// The progress of the work. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Publication {
    remote: RemoteServers,
    progress: Arc<PublicationProgress>,
}

/// The revisions of the view up to which something is done; negative before that.
#[derive(Debug)]
struct PublicationProgress {
    routed: AtomicI64,
    asked: AtomicI64,
    has_routes: AtomicBool,
    has_documents: AtomicBool,
}

impl Publication {
    /// Reports whether all APIServices of the start have their routes.
    pub fn has_routes(&self) -> bool {
        self.has_come(&self.progress.has_routes, &self.progress.routed)
    }

    /// Reports whether every server of the start has been asked for discovery.
    pub fn has_documents(&self) -> bool {
        self.has_come(&self.progress.has_documents, &self.progress.asked)
    }

    /// Once true it stays so. The view may be known to be complete only after it was last looked at.
    fn has_come(&self, has_come: &AtomicBool, done: &AtomicI64) -> bool {
        if has_come.load(Ordering::Acquire) {
            return true;
        }
        let services = self.remote.services();
        let is_done = services.is_ready() && done.load(Ordering::Acquire) >= services.load().revision;
        has_come.fetch_or(is_done, Ordering::AcqRel);
        is_done
    }
}

impl Readiness for Publication {
    fn name(&self) -> &str {
        "aggregated-routes"
    }

    fn is_ready(&self) -> bool {
        self.has_routes()
    }
}

/// Starts to publish what other servers serve.
pub fn publish(system: &ActorSystem, remote: RemoteServers, director: DirectorHandle) -> Publication {
    let publication = Publication {
        remote: remote.clone(),
        progress: Arc::new(PublicationProgress {
            routed: AtomicI64::new(-1),
            asked: AtomicI64::new(-1),
            has_routes: AtomicBool::new(false),
            has_documents: AtomicBool::new(false),
        }),
    };
    let (progress, clock) = (Arc::clone(&publication.progress), system.clock().clone());
    // After a panic all is asked for, and published, anew.
    let _ = system.tasks().spawn_restarting("aggregated-documents", move || {
        let publisher = Publisher {
            remote: remote.clone(),
            director: director.clone(),
            documents: HashMap::new(),
            published: None,
            fetching: FuturesUnordered::new(),
            progress: Arc::clone(&progress),
            clock: clock.clone(),
        };
        publisher.run()
    });
    publication
}

/// A document with the name of its APIService; `None` if another request took the place of the one for it.
type FetchOutcome = Option<(Arc<str>, FetchedDocument)>;

struct Publisher {
    remote: RemoteServers,
    director: DirectorHandle,
    documents: HashMap<Arc<str>, RemoteDocuments>,
    /// The versions that were published last; `None` at the start, when those of a run before may be.
    published: Option<Vec<ProxiedVersion>>,
    fetching: FuturesUnordered<BoxFuture<'static, FetchOutcome>>,
    progress: Arc<PublicationProgress>,
    clock: Clock,
}

impl Publisher {
    async fn run(mut self) {
        let mut changes = self.remote.services().changes();
        loop {
            let revision = *changes.borrow_and_update();
            if revision >= 0 {
                self.look();
                self.bring_about().await;
            }
            let due = self.documents.values().filter_map(RemoteDocuments::due).min();
            let wake_at = due.unwrap_or_else(|| self.clock.now() + LAST_RETRY);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                Some(fetched) = self.fetching.next() => self.take(fetched),
                () = self.clock.sleep_until(wake_at) => {}
            }
        }
    }

    /// Notes which servers there are, and asks those for their documents that are due.
    fn look(&mut self) {
        let services = self.remote.services().load();
        let now = self.clock.now();
        self.documents
            .retain(|name, _| services.find(name).is_some_and(|service| service.proxied().is_some()));
        for (name, service) in services.iter() {
            let Some(source) = DocumentSource::of(service) else {
                continue;
            };
            let documents = self
                .documents
                .entry(Arc::clone(name))
                .or_insert_with(|| RemoteDocuments::unknown(source.clone(), &service.group_version, now));
            documents.follow(source, now);
            for request in documents.begin_requests(&self.remote, now) {
                let name = Arc::clone(name);
                self.fetching.push(Box::pin(async move {
                    let fetched = request.fetch(&name).await?;
                    Some((name, fetched))
                }));
            }
        }
    }

    fn take(&mut self, fetched: FetchOutcome) {
        let Some((name, fetched)) = fetched else {
            return;
        };
        let Some(documents) = self.documents.get_mut(&name) else {
            return;
        };
        if let Err(why) = documents.take(fetched, self.clock.now()) {
            tracing::debug!(service = &*name, why, "an API server does not give a document");
        }
    }

    async fn bring_about(&mut self) {
        let services = self.remote.services().load();
        let versions: Vec<ProxiedVersion> = services
            .iter()
            .filter_map(|(name, service)| {
                let documents = self.documents.get(name)?;
                service.proxied()?;
                Some(ProxiedVersion {
                    group_version: service.group_version.clone(),
                    service: Arc::clone(name),
                    group_priority: service.group_priority,
                    version_priority: service.version_priority,
                    discovery: Arc::clone(documents.discovery()),
                    openapi: Arc::clone(documents.openapi()),
                })
            })
            .collect();
        if self.published.as_ref() != Some(&versions) {
            if let Err(error) = self.director.proxy(versions.clone()).await {
                tracing::error!(%error, "the routes to other API servers could not be changed");
                return;
            }
            self.published = Some(versions);
        }
        self.progress.routed.store(services.revision, Ordering::Release);
        if self.documents.values().all(RemoteDocuments::has_discovery_answer) {
            self.progress.asked.store(services.revision, Ordering::Release);
        }
    }
}
