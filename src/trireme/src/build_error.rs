//! The errors that end a start, with their causes.

use std::path::{Path, PathBuf};

use trireme_cluster::{PeerTlsError, StartError};
use trireme_edge::EdgeError;
use trireme_http::server::TlsError;
use trireme_storage::StorageError;

use crate::pki::PkiError;
use crate::resources::ResourcesError;

/// The reason that a replica could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// The data directory could not be brought in order.
    #[error("the certificates could not be brought in order")]
    Pki(#[from] PkiError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address} ({flags})")]
    Address {
        /// The flags that name it.
        flags: &'static str,
        /// The address.
        address: std::net::SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The store could not be opened.
    #[error("the store could not be opened")]
    Store(#[from] StorageError),
    /// The file that says how values are encrypted cannot be used.
    #[error("the encryption provider configuration cannot be used: {0}")]
    Encryption(String),
    /// KMS plugins of a changed configuration are not well.
    #[error("health check for new transformers failed: {0}")]
    KmsPlugins(String),
    /// The replica group cannot be taken part in.
    #[error("the replica group cannot be taken part in")]
    Group(#[from] GroupError),
    /// A file that the settings name could not be read.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A thread could not be started.
    #[error("the actor threads could not be started")]
    Threads(#[from] std::io::Error),
    /// The resources cannot be served.
    #[error("the resources cannot be served")]
    Resources(#[from] ResourcesError),
    /// A file of tokens or passwords is malformed.
    #[error("the file of users {path} cannot be used")]
    Tokens {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: trireme_auth::TokenFileError,
    },
    /// The configuration of authenticators is not taken.
    #[error("the configuration of authenticators is not taken")]
    Authentication(#[source] trireme_auth::AuthenticationConfigurationError),
    /// Anonymous authentication cannot be changed without a restart.
    #[error("anonymous: Forbidden: changed from initial configuration file")]
    AnonymousChanged,
    /// The authorizers cannot be brought up.
    #[error("the authorizers cannot be brought up: {0}")]
    Authorization(String),
    /// A key for service-account tokens cannot be used.
    #[error("the key {path} cannot be used for service-account tokens")]
    TokenKey {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: trireme_auth::TokenKeyError,
    },
    /// The limiter of requests in flight could not be started.
    #[error("the limiter of requests could not be started")]
    Limiter(#[from] trireme_flow::LimiterError),
    /// The certificates cannot be used for TLS.
    #[error("TLS cannot be set up")]
    Tls(#[from] TlsError),
    /// Any client could claim another identity in headers.
    #[error(
        "--requestheader-client-ca-file and --client-ca-file (or the CA in the data directory) contain overlapping \
         certificates; --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
         authenticating proxy headers for arbitrary users"
    )]
    OverlappingCas,
    /// The certificate for aggregated API servers cannot be used.
    #[error("--proxy-client-cert-file and --proxy-client-key-file cannot be used")]
    ProxyClient(#[source] trireme_http::client::TlsOptionsError),
    /// The certificates for etcd cannot be used.
    #[error("--etcd-cafile, --etcd-certfile or --etcd-keyfile cannot be used")]
    EtcdClient(#[source] trireme_http::client::TlsOptionsError),
    /// The certificates for kubelets cannot be used.
    #[error("--kubelet-certificate-authority, --kubelet-client-certificate or --kubelet-client-key cannot be used")]
    KubeletTls(#[source] trireme_http::client::TlsOptionsError),
    /// Spans cannot be exported.
    #[error("spans cannot be exported")]
    Spans(#[from] opentelemetry_otlp::ExporterBuildError),
    /// The audit log cannot be opened.
    #[error("--audit-log-path cannot be used")]
    AuditLog(#[from] trireme_audit::LogError),
    /// An audit backend cannot be run.
    #[error("an audit backend cannot be run")]
    AuditSink(#[from] trireme_audit::SinkError),
    /// The port cannot be served.
    #[error("the port cannot be served")]
    Edge(#[from] EdgeError),
}

impl BuildError {
    /// Reports whether the same may be good later, without a change.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::KmsPlugins(_) | Self::Store(StorageError::Unavailable(_)))
    }
}

/// The reason that this replica cannot take its place in the group.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GroupError {
    /// The thread could not be started.
    #[error("the thread of the replica group could not be started")]
    Thread(#[from] std::io::Error),
    /// The group refused to start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its certificates cannot be used.
    #[error(transparent)]
    Certificates(#[from] PeerTlsError),
    /// It panicked.
    #[error("the replica group could not be started")]
    Panicked(#[source] tokio::task::JoinError),
}

/// Reads a file that the settings name.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, BuildError> {
    std::fs::read(path).map_err(|source| BuildError::File {
        path: path.to_owned(),
        source,
    })
}
