//! The documents of one APIService on this replica: the server that they are from, and when they are asked for again.

use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
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
}

/// A request of documents of a server.
pub(crate) struct DocumentRequest {
    remote: RemoteServers,
    source: DocumentSource,
    version: GroupVersion,
    document: RequestedDocument,
}

/// The document that is asked for. Discovery and OpenAPI are asked for apart: one may be slow.
enum RequestedDocument {
    Discovery,
    /// The documents of before.
    OpenApi(Arc<ProxiedOpenApi>),
}

/// The answer to a request of documents.
pub(crate) struct FetchedDocument {
    source: DocumentSource,
    document: DocumentAnswer,
}

enum DocumentAnswer {
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
        }
    }

    /// Reports whether the document is to be asked for now, which is noted.
    fn begin(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
        }
        is_due
    }

    fn end(&mut self, has_failed: bool, now: Instant) {
        if has_failed {
            self.due = Some(now + self.retry);
            self.retry = (self.retry * 2).min(LAST_RETRY);
        } else {
            *self = Self {
                due: Some(now + REFRESH),
                retry: FIRST_RETRY,
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

    /// Notes the server of now. Another one, or one that has become available or has ceased to be, is asked at once.
    pub(crate) fn follow(&mut self, source: DocumentSource, now: Instant) {
        if self.source != source {
            self.source = source;
            self.discovery_schedule = FetchSchedule::at_once(now);
            self.openapi_schedule = FetchSchedule::at_once(now);
        }
    }

    /// The requests that are due.
    pub(crate) fn begin_requests(&mut self, remote: &RemoteServers, now: Instant) -> Vec<DocumentRequest> {
        let due = [
            self.discovery_schedule
                .begin(now)
                .then_some(RequestedDocument::Discovery),
            self.openapi_schedule
                .begin(now)
                .then(|| RequestedDocument::OpenApi(Arc::clone(&self.openapi))),
        ];
        let request = |document| DocumentRequest {
            remote: remote.clone(),
            source: self.source.clone(),
            version: self.version.clone(),
            document,
        };
        due.into_iter().flatten().map(request).collect()
    }

    /// Takes a document over, unless it is from a server of before. Returns the reason if there is none.
    ///
    /// # Errors
    /// If the server did not answer, or with something else.
    pub(crate) fn take(&mut self, fetched: FetchedDocument, now: Instant) -> Result<(), String> {
        if self.source != fetched.source {
            return Ok(());
        }
        match fetched.document {
            DocumentAnswer::Discovery(answer) => {
                self.has_discovery_answer = true;
                self.discovery_schedule.end(answer.is_err(), now);
                let (discovery, result) = match answer {
                    Ok(discovery) => (discovery, Ok(())),
                    Err(why) => (discovery::stale(&self.version.version), Err(why)),
                };
                self.discovery = discovery.into();
                result
            }
            DocumentAnswer::OpenApi(answer) => {
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
    /// Asks the server. One that is not available is asked for discovery, too, as kube-apiserver asks it.
    pub(crate) async fn fetch(self, service: &str) -> FetchedDocument {
        let Self {
            remote,
            source,
            version,
            document,
        } = self;
        let backend = backend(&remote, service);
        let document = match document {
            RequestedDocument::Discovery => {
                let asked = async { discovery::entry(&backend.await?, remote.types(), &version).await };
                DocumentAnswer::Discovery(contained(service, asked).await)
            }
            RequestedDocument::OpenApi(before) => {
                let asked = async {
                    match source.is_available {
                        true => Ok(openapi::documents(&backend.await?, &version, &before).await),
                        false => Err(RemoteError::Unavailable.to_string()),
                    }
                };
                DocumentAnswer::OpenApi(contained(service, asked).await)
            }
        };
        FetchedDocument { source, document }
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

    fn discovery(source: DocumentSource, answer: Result<&str, &str>) -> FetchedDocument {
        let answer = answer.map(str::to_owned).map_err(str::to_owned);
        FetchedDocument {
            source,
            document: DocumentAnswer::Discovery(answer),
        }
    }

    fn openapi(source: DocumentSource, answer: Result<&Arc<ProxiedOpenApi>, &str>) -> FetchedDocument {
        let answer = answer.map_err(str::to_owned).map(|documents| OpenApiAnswer {
            documents: Arc::clone(documents),
            failure: None,
        });
        FetchedDocument {
            source,
            document: DocumentAnswer::OpenApi(answer),
        }
    }

    /// Documents of a server that has answered once.
    fn known(now: Instant) -> (RemoteDocuments, Arc<ProxiedOpenApi>) {
        let mut documents = RemoteDocuments::unknown(source("s", true), &GroupVersion::new("g", "v1"), now);
        assert!(documents.discovery_schedule.begin(now) && documents.openapi_schedule.begin(now));
        assert!(!documents.has_discovery_answer() && documents.due().is_none());
        let known = Arc::new(ProxiedOpenApi::default());
        assert_eq!(documents.take(discovery(source("s", true), Ok(CURRENT)), now), Ok(()));
        assert!(documents.has_discovery_answer(), "OpenAPI is not waited for");
        assert_eq!(documents.take(openapi(source("s", true), Ok(&known)), now), Ok(()));
        assert_eq!(documents.due(), Some(now + REFRESH));
        (documents, known)
    }

    #[test]
    fn discovery_that_does_not_come_is_stale_and_openapi_stays() {
        let now = Clock::from(ManualClock::new()).now();
        let (mut documents, openapi_before) = known(now);
        let later = now + REFRESH;
        assert!(documents.discovery_schedule.begin(later) && documents.openapi_schedule.begin(later));
        let failed = documents.take(discovery(source("s", true), Err("why")), later);
        assert_eq!(failed, Err("why".to_owned()));
        assert_eq!(**documents.discovery(), *discovery::stale("v1"));
        let failed = documents.take(openapi(source("s", true), Err("why")), later);
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
            assert!(documents.discovery_schedule.begin(now) && documents.openapi_schedule.begin(now));
            assert_eq!(&**documents.discovery(), CURRENT);
            assert!(Arc::ptr_eq(documents.openapi(), &openapi_before));
            documents.follow(next, now);
            assert_eq!(documents.due(), None, "it is asked once");
        }
        let of_before = discovery(source("s", true), Err("why"));
        assert_eq!(documents.take(of_before, now), Ok(()));
        assert_eq!(
            &**documents.discovery(),
            CURRENT,
            "the server of before is not this one"
        );
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let asked = async { panic!("the reader trips") };
        let contained: Result<(), String> = contained("v1.g", asked).await;
        assert_eq!(contained, Err("reading it panicked".to_owned()));
    }
}
