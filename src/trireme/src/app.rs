//! The composition root: the one place that names all rooms and takes the settings apart.
//!
//! `main` calls [`App::build`] and then [`App::run`]. Each step below is a function that takes what the steps before it
//! made; nothing is reached through globals.
//!
//! ```text
//! settings ─► certificates, files ─► store ─► actor system ─► resources ─► edge ─► serve until SIGTERM ─► drain ─► close
//! ```

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use trireme_actors::{ActorSystem, Clock};
use trireme_audit::AuditSink;
use trireme_duties::{AddressPresence, ReplicaIdentity};
use trireme_http::server::RunningServer;
use trireme_registry::{AnnouncedAddresses, AnnouncedLoads, DirectorHandle, Fences, Views};
use trireme_storage::Storage;

use crate::build_error::{BuildError, read_file};
use crate::checks::Watched;
use crate::duties::Duties;
use crate::encryption::EncryptionAtRest;
use crate::first_objects::FirstObjects;
use crate::group::Membership;
use crate::lifecycle::{Lifecycle, Moment};
use crate::limiter::{self, StartedLimiter};
use crate::pki::{self, Pki, PkiError};
use crate::probe::StoreProbe;
use crate::replicas::{GroupFacts, Observed};
use crate::resources;
use crate::settings::{Settings, Shutdown};
use crate::spans::OtlpSpans;
use crate::startup_files::{self, StartupFiles};
use crate::telemetry::SetVerbosity;
use crate::{audit, compaction, front, outage, process_metrics, proxy_identity, rebalance, store, store_size};

/// Actors and named tasks get this long to end; by then every request has been answered or cut.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);
/// Histograms grow until they are folded.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// In-flight requests get this long to finish once nothing new is accepted, as in kube-apiserver.
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);
/// Audit backends get this long to take what is left: some attempts, and then the process ends without them.
const AUDIT_PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which readiness is polled until it is reached.
const READINESS_POLL: Duration = Duration::from_millis(10);

/// A replica whose port is bound; it becomes ready as its caches fill.
pub(crate) struct App {
    pki: Pki,
    lifecycle: Lifecycle,
    clock: Clock,
    system: ActorSystem,
    store: Arc<dyn Storage>,
    membership: Option<Membership>,
    director: DirectorHandle,
    first_objects: [FirstObjects; 3],
    views: Views,
    edge: RunningServer,
    spans: Option<OtlpSpans>,
    audit: AuditSink,
    presence: Option<AddressPresence>,
    shutdown: Shutdown,
}

impl App {
    /// Brings everything up, the port last.
    pub(crate) async fn build(
        settings: &Settings,
        clock: Clock,
        metrics: PrometheusHandle,
        set_verbosity: SetVerbosity,
    ) -> Result<Self, BuildError> {
        let lifecycle = Lifecycle::start(clock.clone());
        startup_files::check_addresses(settings)?;
        let pki = certificates(settings, &clock)?;
        let mut from_files = StartupFiles::load(settings, &pki, &clock)?;
        let tokens = from_files.tokens;
        let root_ca = root_ca(settings, &pki)?;
        let tracing = settings.tracing.as_ref();
        let spans = tracing.map(|tracing| OtlpSpans::start(tracing, instance(settings)));
        let spans = spans.transpose()?;
        let store = store::open(&settings.store, &settings.data_dir, &mut from_files.followed).await?;
        let membership = membership(settings, &clock).await?;
        let system = ActorSystem::builder()
            .clock(clock.clone())
            .arbiters(arbiters())
            .build()?;
        let hostname = hostname().unwrap_or_else(|| "localhost".to_owned());
        let identity = ReplicaIdentity::on(&hostname);
        let encryption = EncryptionAtRest::before(store, settings, &system, identity.name()).await?;
        let store = encryption.store;
        keep_metrics_small(&system, metrics.clone());
        if let (Some(membership), Some(group)) = (&membership, &settings.group) {
            membership.follow_files(&group.certificates, &system)?;
        }
        if let Some(interval) = settings.store.compaction_interval {
            compaction::start(&system, Arc::clone(&store), interval);
        }
        store_size::start(&system, Arc::clone(&store));
        let (issuer, name) = (tokens.issuer(), instance(settings));
        let served = resources::start(&system, &store, settings, issuer, name, from_files.proxy_identity).await?;
        let director = served.director.clone();
        let duties = Duties {
            system: &system,
            served: &served,
            settings,
            identity: identity.clone(),
            announced: AnnouncedAddresses::new(Arc::clone(&store), &settings.store.prefix),
            fences: Fences::new(Arc::clone(&store), &settings.store.prefix),
            group: membership.as_ref().map(Membership::group),
            root_ca,
            client_cas: front::client_cas(settings, &pki),
            front_proxies: proxy_identity::published(settings, &pki),
        };
        let duties = duties.start()?;
        let probe = StoreProbe::start(&system, director.clone());
        let group = membership.as_ref().map(|membership| membership.group().clone());
        let namespaces = resources::registry(&director, "", "namespaces")?;
        let namespaces = FirstObjects::namespaces(&system, &namespaces, group.clone());
        let classes = resources::registry(&director, "scheduling.k8s.io", "priorityclasses")?;
        let priority_classes = FirstObjects::priority_classes(&system, &classes, group.clone());
        let bootstrap_roles = {
            let rbac = resources::rbac_registries(&director)?;
            FirstObjects::bootstrap_roles(&system, &rbac, settings.feature_gates.features(), group)
        };
        // Every view that a room keeps is named here: readiness waits for all of them.
        let own = [
            namespaces.view(),
            priority_classes.view(),
            bootstrap_roles.view(),
            served.extensions.readiness(),
        ];
        let own = own.into_iter().chain(served.aggregation.readiness());
        let StartedLimiter { limiter, view } = limiter::start(settings, &system, &director)?;
        let views = own.chain(served.authorization.views());
        let views = Views::of(views.chain(served.views.iter().cloned()).chain(view));
        let replicas = Observed::start(
            &system,
            GroupFacts {
                group: membership.as_ref().map(Membership::changes),
                leases: duties.leases,
                director: director.clone(),
                store: probe.clone(),
            },
        );
        let audit_sink = audit::start(&settings.audit, from_files.audit_log, &system)?;
        let edge = front::start(
            settings,
            front::Keys {
                tls: from_files.tls,
                kubelet_tls: from_files.kubelet_tls,
                tokens: &tokens,
                identity: identity.name(),
                files: from_files.followed,
            },
            &system,
            &served,
            Watched {
                store: probe.clone(),
                writes: (!settings.may_have_other_replicas()).then(|| Arc::downgrade(&store)),
                plugins: encryption.plugins,
                namespaces: namespaces.clone(),
                bootstrap_roles: bootstrap_roles.clone(),
                priority_classes: priority_classes.clone(),
                admission: Views::of(served.views.iter().cloned()),
                definitions: served.extensions.readiness(),
                limiter,
                views: views.clone(),
                lifecycle: lifecycle.clone(),
                replicas,
                group: membership.as_ref().map(|membership| membership.group().clone()),
            },
            front::Telemetry {
                metrics,
                set_verbosity,
                spans: spans.clone(),
                audit: audit::of(&settings.audit, &audit_sink),
            },
        )
        .await?;
        lifecycle.reach(Moment::Listening);
        if settings.may_have_other_replicas() {
            outage::start(&system, probe, Arc::clone(edge.connections()), lifecycle.clone());
        }
        if settings.rebalances_connections() {
            let loads = AnnouncedLoads::new(Arc::clone(&store), &settings.store.prefix);
            let connections = Arc::clone(edge.connections());
            rebalance::start(&system, loads, instance(settings), connections, lifecycle.clone());
        }
        Ok(Self {
            pki,
            lifecycle,
            clock,
            system,
            store,
            membership,
            director,
            first_objects: [namespaces, priority_classes, bootstrap_roles],
            views,
            edge,
            spans,
            audit: audit_sink,
            presence: duties.presence,
            shutdown: settings.shutdown,
        })
    }

    /// The path of the admin kubeconfig, to be announced.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.pki.kubeconfig
    }

    /// Serves until `shutdown` is done, then drains and closes.
    pub(crate) async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        tokio::select! {
            () = self.until_ready() => {
                self.lifecycle.reach(Moment::Ready);
                shutdown.await;
            }
            () = &mut shutdown => {
                // It was ready between two polls, and `/readyz` may have said so.
                if self.is_ready() {
                    self.lifecycle.reach(Moment::Ready);
                }
            }
        }
        self.lifecycle.reach(Moment::ShutdownInitiated);
        self.edge.lifecycle().leave();
        let handing_over = self.membership.as_ref().map(Membership::begin_hand_over);
        // A store that does not answer makes the shutdown no longer.
        tokio::join!(self.withdraw(), self.clock.sleep(self.shutdown.delay));
        self.lifecycle.reach(Moment::AfterShutdownDelayDuration);
        if self.shutdown.send_retry_after {
            self.edge.refuse_until_answered(DRAIN_PATIENCE).await;
        }
        self.edge.shutdown(self.shutdown.watch_grace + DRAIN_PATIENCE).await;
        self.lifecycle.reach(Moment::InFlightRequestsDrained);
        let flush_end = self.clock.now() + AUDIT_PATIENCE;
        if self.clock.timeout_at(flush_end, self.audit.flush()).await.is_none() {
            tracing::error!("audit events are lost: their backend does not take them");
        }
        if let Some(spans) = self.spans {
            spans.flush().await;
        }
        if let Some(handing_over) = handing_over {
            handing_over.done().await;
        }
        let mut leaked = self.system.shutdown(CLOSE_PATIENCE).await;
        if let Some(membership) = self.membership {
            leaked.tasks.extend(membership.close(CLOSE_PATIENCE).await);
        }
        if !leaked.is_empty() {
            tracing::warn!(?leaked, "not everything ended in time");
        }
        drop(self.store);
        self.lifecycle.reach(Moment::Stopped);
    }

    async fn withdraw(&self) {
        if let Some(presence) = &self.presence {
            presence.withdraw().await;
        }
    }

    async fn until_ready(&self) {
        while !self.is_ready() {
            self.clock.sleep(READINESS_POLL).await;
        }
    }

    fn is_ready(&self) -> bool {
        let is_there = |first: &FirstObjects| first.check().is_ok();
        self.director.is_ready() && self.views.check().is_ok() && self.first_objects.iter().all(is_there)
    }
}

fn certificates(settings: &Settings, clock: &Clock) -> Result<Pki, PkiError> {
    pki::ensure(&pki::PkiRequest {
        data_dir: &settings.data_dir,
        bind_address: settings.bind_address,
        port: settings.secure_port,
        service_addresses: vec![settings.kubernetes_address()],
        hostname: hostname(),
        serving: &settings.serving,
        now: clock.wall(),
    })
}

async fn membership(settings: &Settings, clock: &Clock) -> Result<Option<Membership>, BuildError> {
    match &settings.group {
        Some(group) => Ok(Some(Membership::start(group, &settings.data_dir, clock).await?)),
        None => Ok(None),
    }
}

/// The identity of this replica in traces.
fn instance(settings: &Settings) -> String {
    let host = hostname().unwrap_or_else(|| settings.bind_address.to_string());
    format!("{host}:{}", settings.secure_port)
}

/// The authority that signed the serving certificate.
fn root_ca(settings: &Settings, pki: &Pki) -> Result<String, BuildError> {
    let file = settings.root_ca_file.as_ref().unwrap_or(&pki.serving_authority);
    Ok(String::from_utf8_lossy(&read_file(file)?).into_owned())
}

/// This machine's name as its kernel knows it.
fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// One thread for turns per two CPUs: the others serve connections.
fn arbiters() -> NonZeroUsize {
    let cpus = std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
    NonZeroUsize::new(cpus.div_ceil(2)).unwrap_or(NonZeroUsize::MIN)
}

fn keep_metrics_small(system: &ActorSystem, metrics: PrometheusHandle) {
    process_metrics::observe();
    let _ = system.tasks().every("metrics upkeep", METRICS_UPKEEP, move || {
        process_metrics::observe();
        metrics.run_upkeep();
    });
}
