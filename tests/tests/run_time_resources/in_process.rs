//! Replicas in the process of the test, over one etcd, so that the test can reach the director of each.

use std::{
    fs,
    net::SocketAddr,
    num::NonZeroUsize,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::Value;
use tempfile::TempDir;
use trireme_actors::{ActorSystem, Clock};
use trireme_admission::Chain;
use trireme_aggregation::{RemoteServers, RemoteSettings};
use trireme_auth::{Attributes, Authenticator, Authorizer, Credentials, Decision, Rejected};
use trireme_edge::backends::{BackendSettings, Backends, KubeletTls};
use trireme_edge::{
    Edge, EdgeConfig, Health, Rooms,
    replicas::{GroupView, Replicas, StoreView},
};
use trireme_flow::{InFlightLimits, Limiter, MaxInFlight};
use trireme_http::server::{RunningServer, TlsChoice, TrustedCas, tls_from_pem};
use trireme_kinds::{KindSettings, TokenIssuer};
use trireme_machinery::ApiError;
use trireme_registry::{
    DirectorHandle, PublishedSurface, Registries, ResourceDefinition, ServiceResolver, StorageMediaType,
    StoreWatcherOptions,
    allocate::{AddressAllocator, PortAllocator, ServiceRanges},
    request::UserInfo,
};
use trireme_storage::{EtcdOptions, EtcdStore, Storage};
use trireme_tests::{process::find_program, server::Etcd};

use super::{PATIENCE, widgets::Converted};

const REPLICAS: usize = 3;

/// Every client is the same user, who may do everything.
struct OneUser;

impl Authenticator for OneUser {
    fn authenticate<'a>(&'a self, _: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        let user = UserInfo {
            name: "tester".to_owned(),
            ..UserInfo::default()
        };
        Box::pin(async { Ok(Some(user)) })
    }
}

impl Authorizer for OneUser {
    fn authorize<'a>(&'a self, _: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(async { Decision::Allow(String::new()) })
    }
}

/// A replica without a group.
struct Alone;

impl Replicas for Alone {
    fn view(&self) -> GroupView {
        GroupView {
            group: None,
            replica: None,
            leader: None,
            term: 0,
            quorum: true,
            raft_error: None,
            members: Vec::new(),
            duties: Vec::new(),
            store: StoreView { revision: None },
            resources: Vec::new(),
        }
    }

    fn add(&self, _: String) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async { Err(ApiError::method_not_allowed()) })
    }

    fn remove(&self, _: String) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async { Err(ApiError::method_not_allowed()) })
    }
}

/// Replicas over one etcd. None knows of the others.
pub(super) struct Group {
    pub(super) replicas: Vec<Replica>,
    store: Arc<dyn Storage>,
    // Dropped last.
    _etcd: Etcd,
}

impl Group {
    pub(super) async fn start() -> Self {
        let etcd = Etcd::start().unwrap_or_else(|error| panic!("{error}"));
        let mut replicas = Vec::new();
        for _ in 0..REPLICAS {
            replicas.push(Replica::start(connect(&etcd).await).await);
        }
        Self {
            replicas,
            store: connect(&etcd).await,
            _etcd: etcd,
        }
    }

    /// Has each replica do the same, at the same time.
    pub(super) async fn each<'a, F: Future>(&'a self, what: impl Fn(&'a Replica) -> F) -> Vec<F::Output> {
        join_all(self.replicas.iter().map(what)).await
    }

    /// Installs what `definition` makes of its converter on each replica.
    pub(super) async fn install(&self, definition: impl Fn(&Converted) -> Arc<ResourceDefinition>) {
        let done = self.each(|replica| replica.director.install(vec![definition(&replica.converted)]));
        for result in done.await {
            result.expect("it is new");
        }
    }

    /// Replaces what is installed on each replica.
    pub(super) async fn replace(&self, definition: impl Fn(&Converted) -> Arc<ResourceDefinition>) {
        let done = self.each(|replica| replica.director.replace(definition(&replica.converted)));
        for result in done.await {
            result.expect("it is served");
        }
    }

    /// The `apiVersion` in which the store has a widget; none if it does not have it.
    pub(super) async fn stored_version(&self, name: &str) -> Option<String> {
        let key = format!("/registry/example.com/widgets/default/{name}");
        let (entry, _) = self.store.get(&key, None).await.expect("etcd answers");
        let object: Value = serde_json::from_slice(&entry?.value).expect("objects are stored as JSON");
        object["apiVersion"].as_str().map(str::to_owned)
    }

    /// Ends all replicas; fails if one of them leaves something behind.
    pub(super) async fn stop(self) {
        for replica in self.replicas {
            let Replica { system, edge, .. } = replica;
            drop(edge);
            let leaked = system.shutdown(PATIENCE).await;
            assert!(leaked.is_empty(), "a replica leaks {leaked:?}");
        }
    }
}

async fn connect(etcd: &Etcd) -> Arc<dyn Storage> {
    let store = EtcdStore::connect(EtcdOptions::new([etcd.url()])).await;
    Arc::new(store.expect("the options are sound"))
}

/// One server, with actors, a director and a connection to the store of its own.
pub(super) struct Replica {
    pub(super) director: DirectorHandle,
    pub(super) converted: Converted,
    edge: RunningServer,
    system: ActorSystem,
    scratch: TempDir,
}

fn kinds(store: &Arc<dyn Storage>, clock: Clock, published: &PublishedSurface) -> KindSettings {
    let addresses = ServiceRanges::fixed(["10.96.0.0/24".parse().expect("a range")]);
    let ports = "30000-30009".parse().expect("a range");
    KindSettings {
        features: trireme_machinery::Features::default(),
        apis: trireme_kinds::ApiSelection::default(),
        storage_media_type: StorageMediaType::Json,
        storage_root: "/registry".to_owned(),
        allow_privileged: true,
        event_ttl: Some(Duration::from_secs(3600).into()),
        addresses: AddressAllocator::new(Arc::clone(store), clock.clone(), "/registry/ipaddresses", addresses),
        ports: PortAllocator::new(Arc::clone(store), "/registry/ranges/servicenodeports", ports),
        endpoints: published.resource("", "v1", "endpoints"),
        tokens: TokenIssuer {
            extend: true,
            max_seconds: None,
            audiences: Vec::new(),
            sign: Arc::new(|claims| Ok(claims.to_string())),
        },
        now: Arc::new(move || clock.now()),
    }
}

impl Replica {
    async fn start(store: Arc<dyn Storage>) -> Self {
        let system = ActorSystem::builder().arbiters(NonZeroUsize::MIN).build();
        let system = system.expect("a test can start a thread");
        let published = PublishedSurface::default();
        let settings = kinds(&store, system.clock().clone(), &published);
        let resources = trireme_kinds::resources(&settings).into_iter().map(Arc::new);
        let director = Registries {
            system: system.clone(),
            store,
            store_watcher: StoreWatcherOptions::default(),
            admission: Arc::new(Chain::default()),
            other_kinds: Arc::new(trireme_kinds::other_kinds()),
            schemas: trireme_kinds::schemas(settings.features),
            published,
        }
        .start(resources.collect())
        .await
        .expect("all resources differ");
        Self {
            edge: serve(&system, &director),
            director,
            converted: Converted::default(),
            system,
            scratch: tempfile::tempdir().expect("a scratch directory"),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(find_program("kubectl").expect("scripts/tools brings kubectl"));
        command
            .args(arguments)
            .arg(format!("--server=https://{}", self.edge.local_addr()))
            .args(["--insecure-skip-tls-verify", "--token=any"])
            .arg(format!("--cache-dir={}", self.cache().display()))
            .env("KUBECONFIG", "/dev/null")
            .env("HOME", self.scratch.path());
        command
    }

    /// A new cache for each command: kubectl believes what it saw for hours.
    fn cache(&self) -> PathBuf {
        let dir = tempfile::tempdir_in(self.scratch.path()).expect("a cache directory");
        dir.keep()
    }

    /// Runs a command in a thread of its own: the output, or what it complains of.
    pub(super) async fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.command(arguments);
        let run = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output());
        let output = run.await.expect("the thread ends").expect("kubectl starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    pub(super) async fn ok(&self, arguments: &[&str]) -> String {
        let done = self.kubectl(arguments).await;
        done.unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
    }

    pub(super) async fn raw(&self, path: &str) -> String {
        self.ok(&["get", "--raw", path]).await
    }

    /// Applies a widget with these fields.
    pub(super) async fn apply(&self, api_version: &str, name: &str, fields: &str) {
        let file = self.scratch.path().join(format!("{name}.json"));
        let metadata = format!(r#"{{"name": "{name}", "namespace": "default"}}"#);
        let object =
            format!(r#"{{"apiVersion": "{api_version}", "kind": "Widget", "metadata": {metadata}, {fields}}}"#);
        fs::write(&file, object).expect("the file can be written");
        let file = file.display().to_string();
        self.ok(&["apply", "--validate=false", "-f", &file]).await;
    }

    pub(super) fn background(&self, arguments: &[&str]) -> Background {
        let output = self.cache().join("output");
        let file = || {
            fs::File::options()
                .create(true)
                .append(true)
                .open(&output)
                .expect("a file")
        };
        let child = self.command(arguments).stdout(file()).stderr(file()).spawn();
        Background {
            child: child.expect("kubectl starts"),
            output,
        }
    }
}

/// A command that goes on.
pub(super) struct Background {
    child: Child,
    output: PathBuf,
}

impl Background {
    pub(super) fn printed(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Waits until it has ended by itself.
    pub(super) async fn ended(&mut self) {
        eventually(|| self.child.try_wait().expect("it can be asked").is_some()).await;
    }

    pub(super) async fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.ended().await;
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a condition, without holding up the server that shares the thread.
pub(super) async fn eventually(mut is_so: impl FnMut() -> bool) {
    let clock = Clock::system();
    let deadline = clock.now() + PATIENCE;
    while !is_so() {
        assert!(clock.now() < deadline, "it does not come about");
        clock.sleep(Duration::from_millis(10)).await;
    }
}

fn serve(system: &ActorSystem, director: &DirectorHandle) -> RunningServer {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("it can sign itself");
    let no_cas = TrustedCas::<&[u8]>::default();
    let tls = tls_from_pem(
        certificate.pem().as_bytes(),
        key.serialize_pem().as_bytes(),
        no_cas,
        &TlsChoice::default(),
    );
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = EdgeConfig {
        workers: 1,
        ..EdgeConfig::new(listen, Arc::new(tls.expect("sound TLS settings")))
    };
    let limits = InFlightLimits {
        read_only: 100,
        mutating: 100,
    };
    let actors = system.clone();
    let no_servers = RemoteSettings {
        services: ServiceResolver::new(director.published(), false),
        identity: Arc::default(),
        rejects_redirects: true,
        types: trireme_schema::type_table(),
    };
    let kubelet_tls = Arc::new(KubeletTls::new(None, None).expect("TLS settings"));
    let no_kubelets = BackendSettings {
        kubelet_tls: Arc::new(kubelet_tls.into()),
        address_types: Vec::new(),
    };
    let rooms = Rooms {
        backends: Backends::start(system, no_kubelets).expect("TLS settings"),
        clients: Vec::new(),
        director: director.clone(),
        authenticator: Arc::new(OneUser),
        authorizer: Arc::new(OneUser),
        issuer: None,
        limiter: Limiter::MaxInFlight(MaxInFlight::start(system, limits).expect("its actors start")),
        paths: Vec::new(),
        health: Health::new(),
        metrics: PrometheusBuilder::new().build_recorder().handle(),
        actors: Arc::new(move || actors.snapshot()),
        replicas: Arc::new(Alone),
        aggregation: RemoteServers::start(system, director.published(), no_servers),
        profiler: None,
        set_verbosity: Arc::new(|_| {}),
        audit: None,
        spans: None,
        clock: system.clock().clone(),
        types: trireme_schema::type_table(),
    };
    Edge::build(config, rooms).expect("the port is free")
}
