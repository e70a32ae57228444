//! Settings of a replica: flags, `TRIREME_…` variables, a file, and defaults, in this order of precedence.
//!
//! `main` calls [`read`] before anything else happens. It promises that all errors are reported together, each with
//! where it was said, what was said and what is allowed, and that settings which come out of it fit each other.
//!
//! ```text
//! argv ──cli──► flags ─┐
//! environment ─────────┼─layers──► text + origin ──reader──► Settings, or all Errors
//! --config FILE ───────┤
//! defaults (keys) ─────┘
//! ```

mod audit;
mod authorization;
mod cli;
mod controllers;
mod encryption;
mod errors;
mod feature_gates;
mod keys;
mod layers;
mod pki_init;
mod reader;
#[cfg(test)]
mod tests;
mod tracing_file;
mod upstream_flags;
mod values;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trireme_admission::{EnabledPlugins, PluginSettings, WebhookUsersByPlugin};
use trireme_auth::{AnonymousAuth, AuthenticationConfiguration, FrontProxyHeaders, TokenWebhookSettings};
use trireme_edge::{AllowedOrigins, OpenBounds};
use trireme_http::{client::RemoteServer, server::TlsChoice};
use trireme_registry::StorageMediaType;
use trireme_schema::ApiSelection;

use crate::cluster::{Access, Action};
use crate::config_controller::FollowedFile;

pub(crate) use audit::{AuditSettings, AuditWebhook};
pub(crate) use authorization::{AuthorizationSettings, AuthorizerSettings, of_configuration};
pub(crate) use controllers::Controllers;
pub(crate) use encryption::Encryption;
pub(crate) use errors::SettingsErrors;
pub(crate) use feature_gates::FeatureGates;
pub(crate) use pki_init::PkiInit;
#[cfg(test)]
pub(crate) use pki_init::ReplicaHosts;
pub(crate) use upstream_flags::WithoutEffect;
pub(crate) use values::IpRange;

/// The command that `trireme` was given.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Serve with these settings.
    Serve(Box<Settings>),
    /// Ask a running replica of its group, or to change it.
    Cluster(Action, Access),
    /// Make the certificates and keys of these replicas.
    PkiInit(PkiInit),
    /// Print the version.
    Version,
    /// Print this help.
    Help(String),
}

/// The settings of one replica.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The version that `/version` and metrics report in place of that of the build.
    pub(crate) reported_version: Option<String>,
    /// Address to listen on.
    pub(crate) bind_address: IpAddr,
    /// The host under which clients find the server, for discovery; that of the address if absent.
    pub(crate) external_host: Option<String>,
    /// True if this replica keeps its address in the endpoints of the Service `kubernetes`.
    pub(crate) reconciles_endpoints: bool,
    /// The address at which others reach this replica, if it was given.
    pub(crate) advertise_address: Option<IpAddr>,
    /// Port for HTTPS.
    pub(crate) secure_port: u16,
    /// The directory of the embedded store, the certificates and the admin kubeconfig.
    pub(crate) data_dir: PathBuf,
    /// The store of the objects.
    pub(crate) store: StoreSettings,
    /// Headers for browsers.
    pub(crate) browsers: BrowserSettings,
    /// The configuration of encryption at rest; `None` for none.
    pub(crate) encryption: Option<Encryption>,
    /// The group of replicas that this one is in; `None` if it is alone.
    pub(crate) group: Option<GroupSettings>,
    /// The serving certificate.
    pub(crate) serving: ServingFiles,
    /// The TLS versions and cipher suites of connections.
    pub(crate) tls: TlsChoice,
    /// CAs for client certificates, beside our own.
    pub(crate) client_ca_file: Option<PathBuf>,
    /// The proxies that name the user in headers, if any are trusted.
    pub(crate) request_header: Option<RequestHeaderSettings>,
    /// The way to aggregated API servers.
    pub(crate) aggregation: AggregationSettings,
    /// The way to kubelets.
    pub(crate) kubelets: KubeletSettings,
    /// The webhook for bearer tokens that no other authenticator knows, if there is one.
    pub(crate) token_webhook: Option<TokenWebhook>,
    /// Static bearer tokens.
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Users with passwords.
    pub(crate) basic_auth_file: Option<PathBuf>,
    /// The requests without credentials that are admitted as those of `system:anonymous`.
    pub(crate) anonymous_auth: AnonymousAuth,
    /// Issuers of JWTs, if there are any.
    pub(crate) jwt: Option<JwtSettings>,
    /// True if Secrets may keep tokens of new nodes.
    pub(crate) bootstrap_token_auth: bool,
    /// The authorizers.
    pub(crate) authorization: AuthorizationSettings,
    /// Keys that service-account tokens are believed by, beside the one that signs.
    pub(crate) service_account_key_files: Vec<PathBuf>,
    /// The key that signs service-account tokens, if not our own key.
    pub(crate) service_account_signing_key_file: Option<PathBuf>,
    /// In whose names they are believed; the first is the one that they are signed in.
    pub(crate) service_account_issuers: Vec<String>,
    /// True if those in pods are good for a year, so that programs last that read theirs once.
    pub(crate) service_account_extend_token_expiration: bool,
    /// The longest lifetime of one, in seconds.
    pub(crate) service_account_max_token_seconds: Option<i64>,
    /// The URL of the keys that they are checked with, if not here.
    pub(crate) service_account_jwks_uri: Option<String>,
    /// The audiences that they must be for, if not the issuer.
    pub(crate) api_audiences: Vec<String>,
    /// Which of kube-controller-manager's controllers run here, if it was said.
    pub(crate) controllers: Option<Controllers>,
    /// The authority that pods trust, if not the signer of the serving certificate.
    pub(crate) root_ca_file: Option<PathBuf>,
    /// The ranges of service IPs: one range of each IP family that the cluster has, that of the default family first.
    pub(crate) service_cluster_ip_ranges: Vec<IpRange>,
    /// The range of node ports.
    pub(crate) service_node_ports: RangeInclusive<u16>,
    /// The admission plugins that run, and how.
    pub(crate) admission: AdmissionSettings,
    /// True if pods may have privileged containers.
    pub(crate) allow_privileged: bool,
    /// Limits of the work taken on.
    pub(crate) limits: LimitSettings,
    /// Steps between SIGTERM and the end.
    pub(crate) shutdown: Shutdown,
    /// True if connections are spread over the replicas that there are.
    pub(crate) rebalance: bool,
    /// The time for which Events are kept; `None` until they are deleted.
    pub(crate) event_ttl: Option<Duration>,
    /// The window in which events share a lease, at most.
    pub(crate) lease_reuse: Duration,
    /// The least duration of a request that is logged with its steps; `None` logs none.
    pub(crate) slow_request: Option<Duration>,
    /// Features that are off by default.
    pub(crate) feature_gates: FeatureGates,
    /// The built-in APIs that are served.
    pub(crate) apis: ApiSelection,
    /// Flags of kube-apiserver that were given in vain.
    pub(crate) without_effect: Vec<WithoutEffect>,
    /// Every flag with its text, by name: what `/flagz` shows.
    pub(crate) flags: Vec<(String, String)>,
    /// True if CPU profiles are served.
    pub(crate) profiling: bool,
    /// The export of spans; `None` makes none.
    pub(crate) tracing: Option<Tracing>,
    /// Audit.
    pub(crate) audit: AuditSettings,
    /// The level and format of the log.
    pub(crate) log: LoggingSettings,
}

impl Settings {
    /// The address of the service `default/kubernetes`: the first one of the default family.
    pub(crate) fn kubernetes_address(&self) -> IpAddr {
        let range = self.service_cluster_ip_ranges.first();
        range.expect("the settings have a range").first_address()
    }

    /// Returns true if one of kube-controller-manager's controllers runs here. Beside etcd there usually is a
    /// kube-controller-manager; beside the embedded store there is none.
    pub(crate) fn runs_controller(&self, name: &str) -> bool {
        match &self.controllers {
            Some(controllers) => controllers.has(name),
            None => matches!(self.store.kind, StoreKind::Embedded { .. }),
        }
    }

    /// Returns true if clients may find another replica. The embedded store has one.
    pub(crate) fn may_have_other_replicas(&self) -> bool {
        matches!(self.store.kind, StoreKind::Etcd { .. })
    }

    /// Returns true if connections are spread over replicas.
    pub(crate) fn rebalances_connections(&self) -> bool {
        self.rebalance && self.may_have_other_replicas()
    }
}

/// The admission plugins.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmissionSettings {
    /// Those that run.
    pub(crate) enabled: EnabledPlugins,
    /// The configurations of those that take one.
    pub(crate) plugins: PluginSettings,
    /// The server that judges images, if the plugin ImagePolicyWebhook runs.
    pub(crate) image_policy: Option<RemoteServer>,
    /// The users that webhooks are called as.
    pub(crate) webhook_users: WebhookUsersByPlugin,
}

/// The store of the objects.
#[derive(Debug, Clone)]
pub(crate) struct StoreSettings {
    /// Which store.
    pub(crate) kind: StoreKind,
    /// The prefix of every key: a leading slash and no trailing one.
    pub(crate) prefix: String,
    /// The media type of objects at rest.
    pub(crate) media_type: StorageMediaType,
    /// The interval at which history is compacted; `None` never.
    pub(crate) compaction_interval: Option<Duration>,
}

/// Which store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// The one embedded in the data directory.
    Embedded {
        /// True if a write waits until the disk has it.
        fsync: bool,
    },
    /// An etcd cluster.
    Etcd {
        /// Its endpoints' URLs.
        servers: Vec<String>,
        /// CA that signed its certificates; `None` for plain HTTP.
        ca_file: Option<PathBuf>,
        /// The client certificate for etcd.
        client: Option<KeyPairFiles>,
    },
}

/// A replica's place in its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupSettings {
    /// The group's name.
    pub(crate) name: String,
    /// The addresses of the first members, `host:port`; empty to wait until this replica is added.
    pub(crate) peers: BTreeSet<String>,
    /// The address to listen on for peers, `host:port`.
    pub(crate) listen: String,
    /// The address at which peers reach this replica, `host:port`.
    pub(crate) advertise: String,
    /// The certificate of this replica for its peers, and the authorities that it trusts.
    pub(crate) certificates: PeerFiles,
}

/// The files of mutual TLS between replicas, all PEM. They are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerFiles {
    /// The group's CA.
    pub(crate) ca: PathBuf,
    /// This replica's certificate and key.
    pub(crate) own: KeyPairFiles,
}

/// Where the serving certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServingFiles {
    /// It is made, and kept in the data directory.
    Made,
    /// It is the pair `apiserver.crt` and `apiserver.key` of this directory, and made there if there is none.
    InDir(PathBuf),
    /// It is given.
    Given(KeyPairFiles),
}

/// A certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPairFiles {
    /// The certificate, followed by its chain.
    pub(crate) certificate: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
}

/// Proxies that name the user in headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestHeaderSettings {
    /// Their CAs.
    pub(crate) ca_file: PathBuf,
    /// The common names that they may have; any if empty.
    pub(crate) allowed_names: Vec<String>,
    /// The headers.
    pub(crate) headers: FrontProxyHeaders,
}

/// The way to aggregated API servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AggregationSettings {
    /// The certificate that is shown to them.
    pub(crate) proxy_client: Option<KeyPairFiles>,
    /// True to go to the endpoints of services and not to their addresses; webhooks are gone to in the same way.
    pub(crate) to_endpoints: bool,
    /// True if redirects are not passed on.
    pub(crate) rejects_redirects: bool,
}

/// The way to kubelets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KubeletSettings {
    /// The CAs of their serving certificates; any certificate will do without.
    pub(crate) ca_file: Option<PathBuf>,
    /// The certificate that is shown to them.
    pub(crate) client: Option<KeyPairFiles>,
    /// The types of nodes' addresses, the best first.
    pub(crate) address_types: Vec<String>,
}

/// Issuers of JWTs.
#[derive(Debug, Clone)]
pub(crate) struct JwtSettings {
    /// The issuers, found to be in order.
    pub(crate) configuration: Arc<AuthenticationConfiguration>,
    /// The file that configures them, if it was not flags.
    pub(crate) file: Option<FollowedFile>,
    /// Issuers that they may not be.
    pub(crate) service_account_issuers: Vec<String>,
}

/// A webhook for bearer tokens.
#[derive(Debug, Clone)]
pub(crate) struct TokenWebhook {
    /// The server.
    pub(crate) server: RemoteServer,
    /// The way in which it is asked.
    pub(crate) settings: TokenWebhookSettings,
}

/// Limits of the work taken on.
#[derive(Debug, Clone)]
pub(crate) struct LimitSettings {
    /// The time limit of a request that is not a watch.
    pub(crate) request_timeout: Duration,
    /// The least duration of a watch.
    pub(crate) min_request_timeout: Duration,
    /// True if requests are classified by flow schemas and priority levels.
    pub(crate) has_priority_and_fairness: bool,
    /// Reads served at a time; `None` for no limit.
    pub(crate) requests_inflight: Option<usize>,
    /// Writes served at a time; `None` for no limit.
    pub(crate) mutating_requests_inflight: Option<usize>,
    /// Watches open at a time.
    pub(crate) watches: OpenBounds,
    /// HTTP/2 requests in flight on one connection.
    pub(crate) http2_streams: u32,
    /// Connections open at a time.
    pub(crate) connections: OpenBounds,
    /// Of how many HTTP/2 requests the connection is ended, 0 to 0.02.
    pub(crate) goaway_chance: f64,
}

/// Headers for browsers.
#[derive(Debug, Clone)]
pub(crate) struct BrowserSettings {
    /// The origins whose pages may read answers.
    pub(crate) allowed_origins: AllowedOrigins,
    /// The header `Strict-Transport-Security`.
    pub(crate) strict_transport_security: Option<String>,
}

/// Steps between SIGTERM and the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shutdown {
    /// The time for which to go on serving, not ready.
    pub(crate) delay: Duration,
    /// Over how long the ends of watches are spread after that.
    pub(crate) watch_grace: Duration,
    /// True if requests that come after the delay are sent elsewhere instead of being served.
    pub(crate) send_retry_after: bool,
}

/// The collector of spans, and the share of requests that are exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tracing {
    /// `host:port` of a collector that speaks OTLP over gRPC, without TLS.
    pub(crate) endpoint: String,
    /// Of a million requests that belong to no trace so many are exported.
    pub(crate) samples_per_million: u32,
}

/// The level and format of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoggingSettings {
    /// 0 (info) to 10 (everything).
    pub(crate) verbosity: u8,
    /// The format of a line.
    pub(crate) format: LogFormat,
}

/// The format of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Reads the settings of this process.
pub(crate) fn read() -> Result<Invocation, SettingsErrors> {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let args: Vec<String> = std::env::args_os().map(lossy).collect();
    let env: Vec<(String, String)> = std::env::vars_os().map(|(k, v)| (lossy(k), lossy(v))).collect();
    read_from(&args, &env)
}

/// Reads settings from a command line (program name first) and an environment.
pub(crate) fn read_from(args: &[String], env: &[(String, String)]) -> Result<Invocation, SettingsErrors> {
    match cli::read(args, env)? {
        cli::ParsedCommand::Cluster(action, access) => Ok(Invocation::Cluster(action, access)),
        cli::ParsedCommand::PkiInit(words) => pki_init::read(&words).map(Invocation::PkiInit),
        cli::ParsedCommand::Version => Ok(Invocation::Version),
        cli::ParsedCommand::Help(text) => Ok(Invocation::Help(text)),
        cli::ParsedCommand::Serve(flags, errors) => {
            let layers = layers::Layers::merge(&flags, env);
            reader::settings(layers, errors).map(|settings| Invocation::Serve(Box::new(settings)))
        }
    }
}
