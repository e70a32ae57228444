//! Real servers for tests: one `trireme serve` process each, on free ports, over either store.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::http::Client;
use crate::process::{Process, find_program};
use trireme_ports::free_port;

/// Token of user `admin`, group `system:masters`.
pub const ADMIN_TOKEN: &str = "admin-token";
/// The feature gates that bring kinds.
pub const GATES_OF_KINDS: &str = "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,DRADeviceTaintRules=true,\
    DRAResourcePoolStatus=true,GenericWorkload=true,GangScheduling=true,PodCertificateRequest=true,\
    StorageVersionMigrator=true";
/// Token of user `alice`, group `dev`.
pub const USER_TOKEN: &str = "user-token";
const TOKENS: &str = "\
admin-token,admin,admin-uid,\"system:masters\"
user-token,alice,alice-uid,dev
bob-token,bob,bob-uid,\"ops,dev\"
node1-token,system:node:node-1,node1-uid,system:nodes
node2-token,system:node:node-2,node2-uid,system:nodes
kcm-token,system:kube-controller-manager,kcm-uid
sched-token,system:kube-scheduler,sched-uid
proxy-token,system:kube-proxy,proxy-uid
mon-token,prom,prom-uid,system:monitoring
";
/// The flag for servers that are to [forget](Server::forget).
pub const COMPACTS_OFTEN: &str = "--etcd-compaction-interval=200ms";
/// The flag for servers that also do what kube-controller-manager does; without it they do not, whatever the store.
pub const CONTROLLERS: &str = "--controllers=*";
/// The flag for servers whose admission plugins are all on; without it those are off that were off when exchanges were recorded.
pub const ALL_PLUGINS: &str = "--disable-admission-plugins=";
/// As in the README of the recorded exchanges.
const PLUGINS_OFF: &str = "--disable-admission-plugins=ServiceAccount,DefaultTolerationSeconds,Priority,TaintNodesByCondition,\
    RuntimeClass,DefaultStorageClass,DefaultIngressClass,StorageObjectInUseProtection,PodSecurity,LimitRanger,\
    ResourceQuota,PersistentVolumeClaimResize";
const FORGET_ATTEMPTS: usize = 20;
/// A debug build on a machine that compiles beside it takes seconds; a hang takes forever.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// The store of a test server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreChoice {
    /// In its own data directory.
    Embedded,
    /// In an etcd process of its own.
    Etcd,
}

/// A server that runs until this is dropped.
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: the server before its store, both before their files.
    process: Process,
    command: Command,
    etcd: Option<Arc<Etcd>>,
    dir: TempDir,
    port: u16,
}

impl Server {
    /// Starts a server and waits until it is ready. Panics with what to do if that fails.
    pub fn start(store: StoreChoice) -> Self {
        Self::try_start(store, &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server with more flags.
    pub fn try_start(store: StoreChoice, flags: &[&str]) -> Result<Self, String> {
        match store {
            StoreChoice::Embedded => Self::start_over(None, &[flags, &["--unsafe-no-fsync"]].concat()),
            StoreChoice::Etcd => Self::start_over(Some(Arc::new(Etcd::start()?)), flags),
        }
    }

    /// Starts another server over the same etcd. Neither knows of the other.
    pub fn start_beside(&self, flags: &[&str]) -> Result<Self, String> {
        let etcd = self.etcd.clone().ok_or("the embedded store has one server")?;
        Self::start_over(Some(etcd), flags)
    }

    /// Starts a server over an etcd that others may use too, or over a store of its own.
    pub fn start_over(etcd: Option<Arc<Etcd>>, flags: &[&str]) -> Result<Self, String> {
        let binary = binary()?;
        let dir = TempDir::with_prefix("trireme-test-").map_err(|error| error.to_string())?;
        let tokens = dir.path().join("tokens.csv");
        fs::write(&tokens, TOKENS).map_err(|error| error.to_string())?;
        let port = free_port();
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg(format!("--data-dir={}", dir.path().join("data").display()))
            .arg(format!("--token-auth-file={}", tokens.display()))
            .args(flags);
        if !flags.contains(&CONTROLLERS) {
            // As kube-apiserver alone, so that both stores show the same.
            command.arg("--controllers=-*");
        }
        if !flags.contains(&ALL_PLUGINS) {
            command.arg(PLUGINS_OFF);
        }
        if let Some(etcd) = &etcd {
            command.arg(format!("--etcd-servers={}", etcd.url()));
        }
        let process = Process::start("trireme", &mut command, dir.path()).map_err(|error| error.to_string())?;
        let mut server = Self {
            process,
            command,
            etcd,
            dir,
            port,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Kills the process and starts it anew on the same directory, port and store.
    pub fn restart(&mut self) -> Result<(), String> {
        self.restart_after(|| {})
    }

    /// As [`restart`](Self::restart), with something done while the process does not run.
    pub fn restart_after(&mut self, between: impl FnOnce()) -> Result<(), String> {
        self.process.kill();
        between();
        let process = Process::start("trireme", &mut self.command, self.dir.path());
        self.process = process.map_err(|error| error.to_string())?;
        self.wait_until_ready()
    }

    /// Asks the process to end, as an operator does, waits until it has, and starts it anew on the same directory, port
    /// and store. Says how it ended and how long that took.
    pub fn restart_gently(&mut self, patience: Duration) -> Result<(String, Duration), String> {
        let asked = Instant::now();
        let status = self.process.terminate(patience)?;
        let took = asked.elapsed();
        let process = Process::start("trireme", &mut self.command, self.dir.path());
        self.process = process.map_err(|error| error.to_string())?;
        self.wait_until_ready()?;
        Ok((status, took))
    }

    /// Restarts until a watch of `collection` from `revision` gets 410. What is compacted in the store
    /// is forgotten with the restart, so this takes a server that was started with [`COMPACTS_OFTEN`] and changes in the
    /// collection after that revision.
    pub fn forget(&mut self, collection: &str, revision: &str) {
        let path = format!("{collection}?watch=1&timeoutSeconds=1&resourceVersion={revision}");
        for _ in 0..FORGET_ATTEMPTS {
            self.restart().unwrap_or_else(|error| panic!("{error}"));
            let answer = self.client().get(&path).expect("an answer").text();
            if answer.contains("too old resource version") {
                return;
            }
        }
        panic!("after {FORGET_ATTEMPTS} restarts, {path} still goes on from there");
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let (ca, port) = (self.ca_file(), self.port);
        self.process.wait_until("ready", START_PATIENCE, || {
            let client = Client::new(port, &ca);
            client.is_ok_and(|client| {
                client
                    .with_token(ADMIN_TOKEN)
                    .get("/readyz")
                    .is_ok_and(|answer| answer.code == 200)
            })
        })
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// A client with the administrator's token.
    pub fn client(&self) -> Client {
        Client::new(self.port, &self.ca_file())
            .expect("the CA was read when the server became ready")
            .with_token(ADMIN_TOKEN)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The CA that signed the serving certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.data_dir().join("pki/ca.crt")
    }

    /// The kubeconfig that the server made.
    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// The file with the tokens, to change it while the server runs.
    pub fn tokens_file(&self) -> PathBuf {
        self.dir.path().join("tokens.csv")
    }

    /// The server's data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The etcd that it keeps its objects in, if it is over one.
    pub fn etcd(&self) -> Option<&Arc<Etcd>> {
        self.etcd.as_ref()
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The time that its process has spent on a core.
    pub fn cpu_time(&self) -> Duration {
        self.process.cpu_time().expect("the process runs")
    }

    /// The process, to signal it or to read its log.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The server's binary, built into the same profile folder as the running test; fails with the command that builds it.
pub fn binary() -> Result<PathBuf, String> {
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = test
        .parent()
        .and_then(Path::parent)
        .ok_or("the test runs outside a target folder")?;
    let binary = folder.join("trireme");
    if binary.is_file() {
        return Ok(binary);
    }
    let flag = if folder.ends_with("release") { " --release" } else { "" };
    Err(format!(
        "there is no {}; run: cargo build{flag} -p trireme",
        binary.display()
    ))
}

/// An etcd process of its own, in a fresh directory.
#[derive(Debug)]
pub struct Etcd {
    process: Process,
    _dir: TempDir,
    port: u16,
}

impl Etcd {
    /// Starts etcd and waits until it is healthy.
    pub fn start() -> Result<Self, String> {
        let program = find_program("etcd")
            .ok_or("etcd is not installed; run: sudo apt-get update && sudo apt-get install -y etcd-server")?;
        let dir = TempDir::with_prefix("trireme-etcd-").map_err(|error| error.to_string())?;
        let (port, peer_port) = (free_port(), free_port());
        let (url, peer_url) = (
            format!("http://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{peer_port}"),
        );
        let mut command = Command::new(program);
        command
            .args([
                "--name",
                "test",
                "--log-level",
                "warn",
                "--initial-cluster",
                &format!("test={peer_url}"),
            ])
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args([
                "--listen-peer-urls",
                &peer_url,
                "--initial-advertise-peer-urls",
                &peer_url,
            ])
            .arg("--data-dir")
            .arg(dir.path().join("data"));
        let mut process = Process::start("etcd", &mut command, dir.path()).map_err(|error| error.to_string())?;
        process.wait_until("healthy", START_PATIENCE, || is_healthy(port))?;
        Ok(Self {
            process,
            _dir: dir,
            port,
        })
    }

    /// The process, to signal it.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The URL that it serves clients at.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

fn is_healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}
