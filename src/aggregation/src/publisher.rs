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
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use trireme_actors::{ActorSystem, Clock};
use trireme_machinery::GroupVersion;
use trireme_registry::{DirectorHandle, ProxiedOpenApi, ProxiedVersion, Readiness};

use crate::{
    api_service::ApiService,
    discovery, openapi,
    remote::{RemoteError, RemoteServers},
};

/// The interval at which documents are asked for again.
const REFRESH: Duration = Duration::from_secs(60);
/// The delays after failures: from the first to the last of them.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(60);

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

    /// Reports whether every server of the start has been asked for its documents.
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
    let publisher = Publisher {
        remote,
        director,
        documents: HashMap::new(),
        published: Vec::new(),
        fetching: FuturesUnordered::new(),
        progress: Arc::clone(&publication.progress),
        clock: system.clock().clone(),
    };
    let _ = system.tasks().spawn_named("aggregated-documents", publisher.run());
    publication
}

struct Publisher {
    remote: RemoteServers,
    director: DirectorHandle,
    documents: HashMap<Arc<str>, RemoteDocuments>,
    published: Vec<ProxiedVersion>,
    fetching: FuturesUnordered<BoxFuture<'static, (Arc<str>, FetchedDocuments)>>,
    progress: Arc<PublicationProgress>,
    clock: Clock,
}

/// The documents of an APIService.
struct RemoteDocuments {
    /// The server that they are from, and whether it is available.
    source: DocumentSource,
    discovery: Arc<str>,
    openapi: Arc<ProxiedOpenApi>,
    /// The time at which to fetch them again; `None` while they are asked for.
    due: Option<Instant>,
    retry: Duration,
    was_asked: bool,
}

/// The facts of an APIService on which its documents depend.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DocumentSource {
    namespace: String,
    name: String,
    port: u16,
    is_available: bool,
}

/// The documents that have come.
struct FetchedDocuments {
    source: DocumentSource,
    discovery: Result<String, String>,
    openapi: Result<Arc<ProxiedOpenApi>, String>,
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
            let due = self.documents.values().filter_map(|documents| documents.due).min();
            let wake_at = due.unwrap_or_else(|| self.clock.now() + LAST_RETRY);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                Some((name, fetched)) = self.fetching.next() => self.take(&name, fetched),
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
            if documents.source != source {
                let was_asked = documents.was_asked;
                *documents = RemoteDocuments::unknown(source, &service.group_version, now);
                documents.was_asked = was_asked;
            }
            if documents.due.is_some_and(|due| due <= now) {
                documents.due = None;
                let asking = Asking {
                    remote: self.remote.clone(),
                    source: documents.source.clone(),
                    version: service.group_version.clone(),
                    openapi: Arc::clone(&documents.openapi),
                };
                let name = Arc::clone(name);
                self.fetching.push(Box::pin(async move {
                    let fetched = asking.ask(&name).await;
                    (name, fetched)
                }));
            }
        }
    }

    /// Takes documents over, unless they are from a server of before.
    fn take(&mut self, name: &Arc<str>, fetched: FetchedDocuments) {
        let documents = self.documents.get_mut(name);
        let Some(documents) = documents.filter(|documents| documents.source == fetched.source) else {
            return;
        };
        let now = self.clock.now();
        documents.was_asked = true;
        let failure = fetched
            .discovery
            .as_ref()
            .err()
            .or(fetched.openapi.as_ref().err())
            .cloned();
        if let Ok(discovery) = fetched.discovery {
            documents.discovery = discovery.into();
        }
        if let Ok(openapi) = fetched.openapi {
            documents.openapi = openapi;
        }
        match failure {
            None => {
                documents.due = Some(now + REFRESH);
                documents.retry = FIRST_RETRY;
            }
            Some(why) => {
                tracing::debug!(service = &**name, why, "an API server does not answer discovery");
                documents.due = Some(now + documents.retry);
                documents.retry = (documents.retry * 2).min(LAST_RETRY);
            }
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
                    discovery: Arc::clone(&documents.discovery),
                    openapi: Arc::clone(&documents.openapi),
                })
            })
            .collect();
        if versions != self.published {
            if let Err(error) = self.director.proxy(versions.clone()).await {
                tracing::error!(%error, "the routes to other API servers could not be changed");
                return;
            }
            self.published = versions;
        }
        self.progress.routed.store(services.revision, Ordering::Release);
        if self.documents.values().all(|documents| documents.was_asked) {
            self.progress.asked.store(services.revision, Ordering::Release);
        }
    }
}

impl DocumentSource {
    fn of(service: &ApiService) -> Option<Self> {
        let (namespace, name, port) = service.proxied()?.key();
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
            is_available: service.available == Some(true),
        })
    }
}

impl RemoteDocuments {
    fn unknown(source: DocumentSource, version: &GroupVersion, now: Instant) -> Self {
        Self {
            source,
            discovery: discovery::stale(&version.version).into(),
            openapi: Arc::default(),
            due: Some(now),
            retry: FIRST_RETRY,
            was_asked: false,
        }
    }
}

/// A look at the documents of one server.
struct Asking {
    remote: RemoteServers,
    source: DocumentSource,
    version: GroupVersion,
    openapi: Arc<ProxiedOpenApi>,
}

impl Asking {
    /// Asks a server for its documents. A server that is not available is asked for discovery, too, as kube-apiserver asks it.
    async fn ask(self, name: &str) -> FetchedDocuments {
        let services = self.remote.services().load();
        let server = services.find(name).and_then(|service| service.proxied());
        let backend = match server {
            Some(server) => self.remote.backend_of(server).await,
            None => Err(RemoteError::Unavailable.to_string()),
        };
        let (discovery, openapi) = match &backend {
            Ok(backend) => (
                discovery::entry(backend, &self.version).await,
                if self.source.is_available {
                    openapi::documents(backend, &self.version, &self.openapi).await
                } else {
                    Err(RemoteError::Unavailable.to_string())
                },
            ),
            Err(why) => (Err(why.clone()), Err(why.clone())),
        };
        FetchedDocuments {
            source: self.source,
            discovery,
            openapi,
        }
    }
}
