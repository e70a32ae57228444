//! The documents of one APIService on this replica: the server that they are from, and when they are asked for again.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt as _,
    future::{AbortHandle, AbortRegistration, Abortable},
};
use trireme_machinery::GroupVersion;
use trireme_registry::ProxiedOpenApi;

use crate::{
    api_service::ApiService,
    discovery,
    openapi::{self, OpenApiAnswer},
    remote::{RemoteBackend, RemoteError, RemoteServers},
};

/// The interval at which documents are asked for again.
const REFRESH: Duration = Duration::from_secs(60);
/// The delays after failures: from the first to the last of them.
const FIRST_RETRY: Duration = Duration::from_millis(500);
pub(crate) const LAST_RETRY: Duration = Duration::from_secs(60);

/// The documents of an APIService. They stay until they have been asked for again when its server changes.
pub(crate) struct RemoteDocuments {
    version: GroupVersion,
    source: DocumentSource,
    discovery: Arc<str>,
    discovery_schedule: FetchSchedule,
    openapi: Arc<ProxiedOpenApi>,
    openapi_schedule: FetchSchedule,
    has_discovery_answer: bool,
}

/// The facts of an APIService on which its documents depend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DocumentSource {
    namespace: String,
    name: String,
    port: u16,
    is_available: bool,
}

/// The time at which a document is fetched again; none while it is asked for.
struct FetchSchedule {
    due: Option<Instant>,
    retry: Duration,
    running: Option<RunningFetch>,
}

/// A request that runs. It ends with this: at most one of a document runs, and no answer of before comes after a later one.
struct RunningFetch(AbortHandle);

impl Drop for RunningFetch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A request of documents of a server.
pub(crate) struct DocumentRequest {
    remote: RemoteServers,
    is_available: bool,
    version: GroupVersion,
    document: RequestedDocument,
    registration: AbortRegistration,
}

/// The document that is asked for. Discovery and OpenAPI are asked for apart: one may be slow.
enum RequestedDocument {
    Discovery,
    /// The documents of before.
    OpenApi(Arc<ProxiedOpenApi>),
}

/// The answer to a request of documents.
pub(crate) enum FetchedDocument {
    Discovery(Result<String, String>),
    OpenApi(Result<OpenApiAnswer, String>),
}

impl DocumentSource {
    /// The source of the documents of an APIService; `None` if this server answers itself.
    pub(crate) fn of(service: &ApiService) -> Option<Self> {
        let (namespace, name, port) = service.proxied()?.key();
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            port,
            is_available: service.available == Some(true),
        })
    }
}

impl FetchSchedule {
    fn at_once(now: Instant) -> Self {
        Self {
            due: Some(now),
            retry: FIRST_RETRY,
            running: None,
        }
    }

    /// Notes that the document is asked for now, if it is due.
    fn begin(&mut self, now: Instant) -> Option<AbortRegistration> {
        self.due.take_if(|due| *due <= now)?;
        let (running, registration) = AbortHandle::new_pair();
        self.running = Some(RunningFetch(running));
        Some(registration)
    }

    fn end(&mut self, has_failed: bool, now: Instant) {
        self.running = None;
        if has_failed {
            self.due = Some(now + self.retry);
            self.retry = (self.retry * 2).min(LAST_RETRY);
        } else {
            *self = Self {
                due: Some(now + REFRESH),
                ..Self::at_once(now)
            };
        }
    }
}

impl RemoteDocuments {
    /// Those of which nothing is known.
    pub(crate) fn unknown(source: DocumentSource, version: &GroupVersion, now: Instant) -> Self {
        Self {
            version: version.clone(),
            source,
            discovery: discovery::stale(&version.version).into(),
            discovery_schedule: FetchSchedule::at_once(now),
            openapi: Arc::default(),
            openapi_schedule: FetchSchedule::at_once(now),
            has_discovery_answer: false,
        }
    }

    /// The entry of the version in aggregated discovery.
    pub(crate) fn discovery(&self) -> &Arc<str> {
        &self.discovery
    }

    /// The OpenAPI documents.
    pub(crate) fn openapi(&self) -> &Arc<ProxiedOpenApi> {
        &self.openapi
    }

    /// Reports whether the server has been asked for discovery, and has answered or not.
    pub(crate) fn has_discovery_answer(&self) -> bool {
        self.has_discovery_answer
    }

    /// The time of the next request.
    pub(crate) fn due(&self) -> Option<Instant> {
        [self.discovery_schedule.due, self.openapi_schedule.due]
            .into_iter()
            .flatten()
            .min()
    }

    /// Notes the server of now. Another one, or one that has become available or has ceased to be, is asked at once, and requests of
    /// before end.
    pub(crate) fn follow(&mut self, source: DocumentSource, now: Instant) {
        if self.source != source {
            self.source = source;
            self.discovery_schedule = FetchSchedule::at_once(now);
            self.openapi_schedule = FetchSchedule::at_once(now);
        }
    }

    /// The requests that are due.
    pub(crate) fn begin_requests(&mut self, remote: &RemoteServers, now: Instant) -> Vec<DocumentRequest> {
        let discovery = self.discovery_schedule.begin(now);
        let openapi = self.openapi_schedule.begin(now);
        let due = [
            discovery.map(|registration| (RequestedDocument::Discovery, registration)),
            openapi.map(|registration| (RequestedDocument::OpenApi(Arc::clone(&self.openapi)), registration)),
        ];
        let request = |(document, registration)| DocumentRequest {
            remote: remote.clone(),
            is_available: self.source.is_available,
            version: self.version.clone(),
            document,
            registration,
        };
        due.into_iter().flatten().map(request).collect()
    }

    /// Takes a document over. Returns the reason if there is none.
    ///
    /// # Errors
    /// If the server did not answer, or with something else.
    pub(crate) fn take(&mut self, fetched: FetchedDocument, now: Instant) -> Result<(), String> {
        match fetched {
            FetchedDocument::Discovery(answer) => {
                self.has_discovery_answer = true;
                self.discovery_schedule.end(answer.is_err(), now);
                let (discovery, result) = match answer {
                    Ok(discovery) => (discovery, Ok(())),
                    Err(why) => (discovery::stale(&self.version.version), Err(why)),
                };
                self.discovery = discovery.into();
                result
            }
            FetchedDocument::OpenApi(answer) => {
                let result = answer.and_then(|answer| {
                    self.openapi = answer.documents;
                    answer.failure.map_or(Ok(()), Err)
                });
                self.openapi_schedule.end(result.is_err(), now);
                result
            }
        }
    }
}

impl DocumentRequest {
    /// Asks the server; `None` if another request has taken the place of this one. A server that is not available is asked for
    /// discovery, too, as kube-apiserver asks it.
    pub(crate) async fn fetch(self, service: &str) -> Option<FetchedDocument> {
        let Self {
            remote,
            is_available,
            version,
            document,
            registration,
        } = self;
        let asked = async {
            let backend = backend(&remote, service);
            match document {
                RequestedDocument::Discovery => {
                    let asked = async { discovery::entry(&backend.await?, remote.types(), &version).await };
                    FetchedDocument::Discovery(contained(service, asked).await)
                }
                RequestedDocument::OpenApi(before) => {
                    let asked = async {
                        match is_available {
                            true => Ok(openapi::documents(&backend.await?, &version, &before).await),
                            false => Err(RemoteError::Unavailable.to_string()),
                        }
                    };
                    FetchedDocument::OpenApi(contained(service, asked).await)
                }
            }
        };
        Abortable::new(asked, registration).await.ok()
    }
}

async fn backend(remote: &RemoteServers, service: &str) -> Result<RemoteBackend, String> {
    let services = remote.services().load();
    match services.find(service).and_then(|service| service.proxied()) {
        Some(server) => remote.backend_of(server).await,
        None => Err(RemoteError::Unavailable.to_string()),
    }
}

/// Makes a panic an error, so that the documents of one server do not keep those of others from being published.
async fn contained<T>(service: &str, asked: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    AssertUnwindSafe(asked).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(service, "the documents of an API server could not be read");
        Err("reading it panicked".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use trireme_actors::{Clock, ManualClock};

    use super::*;

    const CURRENT: &str = r#"{"version":"v1","freshness":"Current"}"#;

    fn source(name: &str, is_available: bool) -> DocumentSource {
        DocumentSource {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            port: 443,
            is_available,
        }
    }

    fn discovery(answer: Result<&str, &str>) -> FetchedDocument {
        FetchedDocument::Discovery(answer.map(str::to_owned).map_err(str::to_owned))
    }

    fn openapi(answer: Result<&Arc<ProxiedOpenApi>, &str>) -> FetchedDocument {
        let answer = answer.map_err(str::to_owned).map(|documents| OpenApiAnswer {
            documents: Arc::clone(documents),
            failure: None,
        });
        FetchedDocument::OpenApi(answer)
    }

    /// Begins both requests.
    fn begin(documents: &mut RemoteDocuments, now: Instant) -> [AbortRegistration; 2] {
        [&mut documents.discovery_schedule, &mut documents.openapi_schedule]
            .map(|schedule| schedule.begin(now).expect("it is due"))
    }

    /// Documents of a server that has answered once.
    fn known(now: Instant) -> (RemoteDocuments, Arc<ProxiedOpenApi>) {
        let mut documents = RemoteDocuments::unknown(source("s", true), &GroupVersion::new("g", "v1"), now);
        begin(&mut documents, now);
        assert!(!documents.has_discovery_answer() && documents.due().is_none());
        let known = Arc::new(ProxiedOpenApi::default());
        assert_eq!(documents.take(discovery(Ok(CURRENT)), now), Ok(()));
        assert!(documents.has_discovery_answer(), "OpenAPI is not waited for");
        assert_eq!(documents.take(openapi(Ok(&known)), now), Ok(()));
        assert_eq!(documents.due(), Some(now + REFRESH));
        (documents, known)
    }

    #[test]
    fn discovery_that_does_not_come_is_stale_and_openapi_stays() {
        let now = Clock::from(ManualClock::new()).now();
        let (mut documents, openapi_before) = known(now);
        let later = now + REFRESH;
        begin(&mut documents, later);
        let failed = documents.take(discovery(Err("why")), later);
        assert_eq!(failed, Err("why".to_owned()));
        assert_eq!(**documents.discovery(), *discovery::stale("v1"));
        let failed = documents.take(openapi(Err("why")), later);
        assert_eq!(failed, Err("why".to_owned()));
        assert!(Arc::ptr_eq(documents.openapi(), &openapi_before));
        assert_eq!(documents.due(), Some(later + FIRST_RETRY));
    }

    #[test]
    fn documents_stay_until_they_have_been_asked_for_again() {
        let now = Clock::from(ManualClock::new()).now();
        let (mut documents, openapi_before) = known(now);
        for next in [source("s", false), source("s", true), source("other", true)] {
            documents.follow(next.clone(), now);
            assert_eq!(documents.due(), Some(now), "it is asked at once");
            begin(&mut documents, now);
            assert_eq!(&**documents.discovery(), CURRENT);
            assert!(Arc::ptr_eq(documents.openapi(), &openapi_before));
            documents.follow(next, now);
            assert_eq!(documents.due(), None, "it is asked once");
        }
    }

    #[tokio::test]
    async fn one_request_of_a_document_runs_and_those_of_before_end() {
        let now = Clock::from(ManualClock::new()).now();
        let mut documents = RemoteDocuments::unknown(source("a", true), &GroupVersion::new("g", "v1"), now);
        let mut of_before = Vec::from(begin(&mut documents, now));
        for name in ["b", "a"] {
            documents.follow(source(name, true), now);
            for ended in of_before.drain(..) {
                assert!(Abortable::new(async {}, ended).await.is_err());
            }
            of_before.extend(begin(&mut documents, now));
            let schedules = [&mut documents.discovery_schedule, &mut documents.openapi_schedule];
            for schedule in schedules {
                assert!(schedule.begin(now).is_none(), "it runs already");
            }
        }
        let discovery = of_before.swap_remove(0);
        assert!(Abortable::new(async {}, discovery).await.is_ok());
        drop(documents);
        for ended in of_before {
            assert!(Abortable::new(async {}, ended).await.is_err(), "the APIService is gone");
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let asked = async { panic!("the reader trips") };
        let contained: Result<(), String> = contained("v1.g", asked).await;
        assert_eq!(contained, Err("reading it panicked".to_owned()));
    }
}
