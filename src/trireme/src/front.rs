//! Brings up the edge: TLS, who may talk to us, limits, health.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use trireme_actors::ActorSystem;
use trireme_audit::Audit;
use trireme_auth::{Authorizer, FrontProxyHeaders};
use trireme_edge::backends::{BackendSettings, Backends, KubeletTls};
use trireme_edge::components::ComponentStatuses;
use trireme_edge::profiling::Profiler;
use trireme_edge::spans::Spans;
use trireme_edge::{Edge, EdgeConfig, Reviewers, Rooms, VersionInfo};
use trireme_http::client::{Client, ClientSettings};
use trireme_http::server::{ConnectionLimits, RunningServer, ServerTls, TlsProvider, TrustedCas, tls_from_pem};
use trireme_machinery::GroupResource;
use x509_parser::pem::Pem;

use crate::authentication;
use crate::build_error::BuildError;
use crate::checks::{self, Watched};
use crate::components::OnThisMachine;
use crate::config_controller::ConfigController;
use crate::duties;
use crate::pki::Pki;
use crate::profiling::CpuProfiler;
use crate::reload::{Current, Reloader};
use crate::resources::{self, Served};
use crate::settings::Settings;
use crate::spans::OtlpSpans;
use crate::telemetry::SetVerbosity;
use crate::tokens::TokenKeys;
use crate::version_metrics;

/// The metrics, the span exporter and the audit log.
pub(crate) struct Telemetry {
    /// Renders the metrics.
    pub(crate) metrics: PrometheusHandle,
    /// Sets how much is logged.
    pub(crate) set_verbosity: SetVerbosity,
    /// Exports spans, if they are wanted.
    pub(crate) spans: Option<OtlpSpans>,
    /// Records requests, if there is a policy.
    pub(crate) audit: Option<Arc<Audit>>,
}

/// Certificates of the server and authorities of its clients.
pub(crate) struct Keys<'a> {
    /// The serving certificate and the authorities of clients.
    pub(crate) tls: Arc<dyn TlsProvider>,
    /// TLS towards kubelets.
    pub(crate) kubelet_tls: Current<KubeletTls>,
    /// Keys of service-account tokens.
    pub(crate) tokens: &'a TokenKeys,
    /// The name of the server among others.
    pub(crate) identity: &'a str,
    /// The files that are followed; those of the edge are added.
    pub(crate) files: Reloader,
}

/// The build information of `/version`; outside of a repository it names no commit.
fn version(settings: &Settings) -> VersionInfo {
    let standard = VersionInfo::default();
    VersionInfo {
        git_version: settings.reported_version.clone().unwrap_or(standard.git_version),
        git_commit: env!("TRIREME_GIT_COMMIT").to_owned(),
        build_date: match env!("TRIREME_COMMIT_DATE") {
            "" => standard.build_date,
            date => date.to_owned(),
        },
    }
}

/// The address that discovery names: `--external-hostname`, with the port if it has none, or the one that others reach.
fn advertised(settings: &Settings, reached_at: SocketAddr) -> String {
    match &settings.external_host {
        Some(host) if host.contains(':') => host.clone(),
        Some(host) => format!("{host}:{}", reached_at.port()),
        None => reached_at.to_string(),
    }
}

/// Says which features were switched, and which flags given, in vain.
fn warn_of_what_has_no_effect(settings: &Settings) {
    for flag in &settings.without_effect {
        tracing::warn!(flag = flag.flag, reason = flag.reason, "this flag changes nothing here");
    }
    let gates = &settings.feature_gates;
    for name in gates.unknown() {
        tracing::warn!(feature_gate = name, "no such feature gate: it is passed over");
    }
    let without_effect = gates.without_effect();
    if !without_effect.is_empty() {
        tracing::warn!(
            feature_gates = without_effect.join(","),
            "these features are switched, which changes nothing here"
        );
    }
}

/// Binds the port and serves.
pub(crate) async fn start(
    settings: &Settings,
    mut keys: Keys<'_>,
    system: &ActorSystem,
    served: &Served,
    watched: Watched,
    telemetry: Telemetry,
) -> Result<RunningServer, BuildError> {
    warn_of_what_has_no_effect(settings);
    let version = version(settings);
    version_metrics::record(&version, &settings.feature_gates);
    let listen = SocketAddr::new(settings.bind_address, settings.secure_port);
    let director = &served.director;
    let reached_at = duties::reachable_address(settings).unwrap_or(settings.bind_address);
    let reached_at = SocketAddr::new(reached_at, settings.secure_port);
    let config = EdgeConfig {
        advertised_address: Some(advertised(settings, reached_at)),
        anonymous: settings.anonymous_auth.clone(),
        front_proxy: taken_out(settings),
        watch_grace: settings.shutdown.watch_grace,
        request_timeout: settings.limits.request_timeout,
        slow_request: settings.slow_request,
        min_watch: settings.limits.min_request_timeout,
        watches: settings.limits.watches,
        connections_per_user: settings.limits.connections.per_user,
        limits: ConnectionLimits {
            connections: settings.limits.connections.all,
            concurrent_streams: settings.limits.http2_streams,
            ..ConnectionLimits::default()
        },
        goaway_chance: settings.limits.goaway_chance,
        allowed_origins: settings.browsers.allowed_origins.clone(),
        strict_transport_security: settings.browsers.strict_transport_security.clone(),
        features: settings.feature_gates.features(),
        flags: settings.flags.clone(),
        version,
        ..EdgeConfig::new(listen, keys.tls)
    };
    let backends = BackendSettings {
        kubelet_tls: keys.kubelet_tls,
        address_types: settings.kubelets.address_types.clone(),
    };
    let backends = Backends::start(system, backends).map_err(BuildError::KubeletTls)?;
    let actors = system.clone();
    let audiences = keys.tokens.audiences().to_vec();
    let authenticators = authentication::start(
        settings,
        system,
        (keys.tokens, keys.identity),
        director,
        &mut keys.files,
    )?;
    let authorizer: Arc<dyn Authorizer> = served.authorization.chain.clone();
    let mut handlers = trireme_edge::reviews(Reviewers {
        authorizer: Arc::clone(&authorizer),
        rules: served.authorization.chain.clone(),
        tokens: authenticators.tokens,
        audiences,
        clock: system.clock().clone(),
    });
    let core = |resource: &str| GroupResource {
        group: "".into(),
        resource: resource.into(),
    };
    let components = Arc::new(OnThisMachine {
        store: watched.store.clone(),
        client: probes(system),
    });
    handlers.push((core("componentstatuses"), Arc::new(ComponentStatuses::new(components))));
    handlers.push((core("bindings"), Arc::new(trireme_kinds::PodBindings)));
    resources::serve_virtual(director, (&settings.apis, settings.feature_gates.features()), handlers).await?;
    served.aggregation.register_local(system, director);
    let group = watched.group.clone();
    let rooms = Rooms {
        director: director.clone(),
        authenticator: authenticators.requests,
        authorizer,
        issuer: keys.tokens.documents(settings, reached_at)?,
        limiter: watched.limiter.clone(),
        replicas: Arc::new(watched.replicas.clone()),
        paths: vec![served.extensions.readiness(), served.aggregation.routes()],
        health: served.aggregation.add_checks(checks::health(watched), group),
        aggregation: served.aggregation.remote.clone(),
        backends,
        metrics: telemetry.metrics,
        actors: Arc::new(move || actors.snapshot()),
        clients: served.clients.clone(),
        profiler: settings.profiling.then(|| Arc::new(CpuProfiler) as Arc<dyn Profiler>),
        set_verbosity: telemetry.set_verbosity,
        spans: telemetry.spans.map(|spans| Arc::new(spans) as Arc<dyn Spans>),
        audit: telemetry.audit,
        clock: system.clock().clone(),
        types: trireme_schema::type_table(),
    };
    if let Some(file) = &settings.authorization.file {
        let authorization = served.authorization.clone();
        let controller = ConfigController::new("apiserver_authorization_config_controller", keys.identity);
        keys.files
            .follow_configuration("authorization-config", file.clone(), controller, move |content| {
                authorization.reload(content).map_err(BuildError::Authorization)
            });
    }
    keys.files.start(system);
    Ok(Edge::build(config, rooms)?)
}

/// Asks the components of this machine. They are asked when a user looks, so there is no breaker: it would hide that one is
/// well again.
fn probes(system: &ActorSystem) -> Client {
    let settings = ClientSettings {
        breaker: None,
        ..ClientSettings::default()
    };
    Client::new("components", settings, system.clock().clone(), system.tasks().clone())
}

/// The authority of client certificates: our own CA, or the one of the settings.
pub(crate) fn client_cas(settings: &Settings, pki: &Pki) -> Vec<PathBuf> {
    let own = std::iter::once(&pki.ca_file);
    own.chain(&settings.client_ca_file).cloned().collect()
}

/// The headers that no handler is to see: the standard ones, and those of the settings.
fn taken_out(settings: &Settings) -> FrontProxyHeaders {
    let mut headers = FrontProxyHeaders::standard();
    if let Some(given) = settings.request_header.as_ref().map(|proxies| &proxies.headers) {
        headers.username.extend_from_slice(&given.username);
        headers.uid.extend_from_slice(&given.uid);
        headers.group.extend_from_slice(&given.group);
        headers.extra_prefix.extend_from_slice(&given.extra_prefix);
    }
    headers
}

/// Client certificates are trusted that our own CA signed or the one of the settings; those of front proxies have CAs of their own.
pub(crate) fn tls(settings: &Settings, pki: &Pki, files: &mut Reloader) -> Result<Arc<dyn TlsProvider>, BuildError> {
    let mut paths = vec![pki.serving.certificate.clone(), pki.serving.key.clone()];
    paths.extend(client_cas(settings, pki));
    let proxies_at = paths.len();
    let proxies = settings.request_header.as_ref();
    paths.extend(proxies.map(|proxies| proxies.ca_file.clone()));
    let is_restricted = proxies.is_none_or(|proxies| !proxies.allowed_names.is_empty());
    let choice = settings.tls.clone();
    let current = files.load("tls", paths, move |contents| {
        let (own, proxies) = contents.split_at_checked(proxies_at).unwrap_or_default();
        let (pair, clients) = own.split_at_checked(2).unwrap_or_default();
        let [certificate, key] = [pair.first(), pair.last()].map(|file| file.map_or(&[][..], Vec::as_slice));
        if !is_restricted && share_a_certificate(clients, proxies) {
            return Err(BuildError::OverlappingCas);
        }
        Ok(tls_from_pem(
            certificate,
            key,
            TrustedCas { clients, proxies },
            &choice,
        )?)
    })?;
    Ok(Arc::new(Certificates(current)))
}

/// Returns true if a CA of clients is one of proxies too: any client could claim another identity then.
fn share_a_certificate(clients: &[Vec<u8>], proxies: &[Vec<u8>]) -> bool {
    let certificates = |files: &[Vec<u8>]| -> Vec<Vec<u8>> {
        let all = files.iter().flat_map(|file| Pem::iter_from_buffer(file));
        all.flatten().map(|pem| pem.contents).collect()
    };
    let proxies = certificates(proxies);
    certificates(clients).iter().any(|client| proxies.contains(client))
}

/// The certificates of now, for every new connection.
struct Certificates(Current<ServerTls>);

impl TlsProvider for Certificates {
    fn current(self: Arc<Self>) -> Arc<ServerTls> {
        self.0.load_full()
    }
}
