//! A real etcd for tests: one process with its own data directory and ports.
//!
//! Callers: this room's integration tests and those of any room that wants a store to break.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep},
};

use trireme_ports::free_port;

use crate::{EtcdOptions, EtcdStore, Storage, StorageError};

/// A busy machine may need seconds; a broken etcd must not hang the tests.
const START_DEADLINE: Duration = Duration::from_secs(60);
const MEMORY_DIR: &str = "/dev/shm";

/// Certificates for an etcd that talks TLS and asks its clients for a certificate.
#[derive(Debug, Clone)]
pub struct EtcdTls {
    /// The authority of both sides.
    pub ca_pem: String,
    /// The server's certificate, for `127.0.0.1`.
    pub cert_pem: String,
    /// Its key.
    pub key_pem: String,
}

/// Options of an [`EtcdProcess`].
#[derive(Debug, Clone, Default)]
pub struct EtcdSetup {
    /// Serve TLS.
    pub tls: Option<EtcdTls>,
    /// The ports for clients and other members; free ports if they are not given.
    pub ports: Option<(u16, u16)>,
    /// Further command-line arguments.
    pub args: Vec<String>,
}

/// A running etcd; dropping it ends the process and removes its data.
#[derive(Debug)]
pub struct EtcdProcess {
    child: Child,
    dir: TempDir,
    port: u16,
    args: Vec<String>,
    scheme: &'static str,
}

impl EtcdProcess {
    /// Starts a plain etcd and waits until it serves.
    pub async fn start() -> Result<Self, StorageError> {
        let started = Self::start_with(EtcdSetup::default()).await?;
        let store = EtcdStore::connect(EtcdOptions::new([started.endpoint()])).await?;
        started.ready(&store).await
    }

    /// Starts an etcd. It may not serve yet: see [`Self::ready`].
    pub async fn start_with(setup: EtcdSetup) -> Result<Self, StorageError> {
        let dir = data_dir().map_err(|error| failed("cannot make a data directory", &error))?;
        let scheme = if setup.tls.is_some() { "https" } else { "http" };
        let (port, peer_port) = setup.ports.unwrap_or_else(free_ports);
        let client_url = format!("{scheme}://127.0.0.1:{port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let mut args = vec![
            format!("--data-dir={}", dir.path().join("data").display()),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=default={peer_url}"),
        ];
        if let Some(tls) = &setup.tls {
            args.extend(tls_args(dir.path(), tls).map_err(|error| failed("cannot write certificates", &error))?);
        }
        args.extend(setup.args);
        let child = spawn(dir.path(), &args)?;
        Ok(Self {
            child,
            dir,
            port,
            args,
            scheme,
        })
    }

    /// Waits until etcd answers `store`.
    pub async fn ready(mut self, store: &EtcdStore) -> Result<Self, StorageError> {
        self.wait_for(store).await?;
        Ok(self)
    }

    async fn wait_for(&mut self, store: &EtcdStore) -> Result<(), StorageError> {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            let answered = store.read_index().await;
            // Other members may answer for one that has ended.
            let exited = self
                .child
                .try_wait()
                .map_err(|error| failed("cannot see etcd", &error))?;
            let error = match answered {
                Ok(_) if exited.is_none() => return Ok(()),
                Ok(_) => "it has ended".to_owned(),
                Err(error) => error.to_string(),
            };
            if exited.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(log_path(self.dir.path())).unwrap_or_default();
                let tail = log.lines().rev().take(20).collect::<Vec<_>>().join("\n");
                return Err(StorageError::Failed(format!(
                    "etcd does not serve: {error}; its last lines:\n{tail}"
                )));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The client URL.
    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process without warning.
    pub fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Starts a killed etcd again with its old data and ports, and waits until it answers `store`.
    pub async fn restart(&mut self, store: &EtcdStore) -> Result<(), StorageError> {
        self.child = spawn(self.dir.path(), &self.args)?;
        self.wait_for(store).await
    }

    /// Freezes the process: its connections stay open and silent. On return every thread has stopped.
    ///
    /// # Errors
    /// `Failed` if the process has ended.
    pub fn pause(&self) -> Result<(), StorageError> {
        self.signal("STOP")?;
        loop {
            let states = self.thread_states();
            if states.is_empty() || states.contains(&'Z') {
                return Err(StorageError::Failed("etcd has ended".to_owned()));
            }
            if states.iter().all(|state| matches!(state, 'T' | 't')) {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// Reads the state of every thread (proc(5)): `T` is stopped, `Z` has ended.
    fn thread_states(&self) -> Vec<char> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let threads = threads.into_iter().flatten().flatten();
        let state = |thread: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
            // The state follows the name, which is in parentheses and may hold anything.
            stat.rsplit_once(") ")?.1.chars().next()
        };
        threads.filter_map(state).collect()
    }

    /// Lets a frozen process go on.
    pub fn resume(&self) -> Result<(), StorageError> {
        self.signal("CONT")
    }

    fn signal(&self, name: &str) -> Result<(), StorageError> {
        let status = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.pid().to_string())
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(StorageError::Failed(format!("kill -{name}: {status}"))),
            Err(error) => Err(failed("cannot run kill", &error)),
        }
    }

    /// Reads one of etcd's metrics without labels. Only without TLS.
    pub async fn metric(&self, name: &str) -> Result<f64, StorageError> {
        let page = self
            .exchange("GET /metrics HTTP/1.0\r\n\r\n")
            .await
            .map_err(|error| failed("cannot read etcd's metrics", &error))?;
        let mut values = page
            .lines()
            .filter_map(|line| line.split_once(' ').filter(|(found, _)| *found == name));
        let value = values.next().and_then(|(_, value)| value.trim().parse().ok());
        value.ok_or_else(|| StorageError::Failed(format!("etcd has no metric {name}")))
    }

    /// Asks etcd's JSON gateway to do something. Only without TLS.
    pub async fn post(&self, path: &str, body: &str) -> Result<String, StorageError> {
        let length = body.len();
        let request = format!("POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = self.exchange(&request).await;
        let answer = answer.map_err(|error| failed("cannot ask etcd", &error))?;
        if answer.starts_with("HTTP/1.0 200") {
            Ok(answer)
        } else {
            Err(StorageError::Failed(answer))
        }
    }

    async fn exchange(&self, request: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn failed(what: &str, error: &std::io::Error) -> StorageError {
    StorageError::Failed(format!("{what}: {error}"))
}

/// In memory where there is such a place: etcd's syncs are not what these tests are about.
fn data_dir() -> std::io::Result<TempDir> {
    if Path::new(MEMORY_DIR).is_dir() {
        tempfile::tempdir_in(MEMORY_DIR)
    } else {
        tempfile::tempdir()
    }
}

/// A cluster of etcd members on this machine, with etcd's own times for elections.
#[derive(Debug)]
pub struct EtcdCluster {
    /// The members.
    pub members: Vec<EtcdProcess>,
}

impl EtcdCluster {
    /// Starts three members and waits until they have a leader and answer `store`, which is made of their endpoints.
    pub async fn start(options: impl FnOnce(Vec<String>) -> EtcdOptions) -> Result<(Self, EtcdStore), StorageError> {
        let ports = [free_ports(), free_ports(), free_ports()];
        let named = |(number, (_, peer)): (usize, &(u16, u16))| format!("m{number}=http://127.0.0.1:{peer}");
        let all = ports.iter().enumerate().map(named).collect::<Vec<_>>().join(",");
        let mut members = Vec::new();
        for (number, ports) in ports.iter().enumerate() {
            let args = [format!("--name=m{number}"), format!("--initial-cluster={all}")];
            let setup = EtcdSetup {
                ports: Some(*ports),
                args: args.into(),
                ..EtcdSetup::default()
            };
            members.push(EtcdProcess::start_with(setup).await?);
        }
        let store = EtcdStore::connect(options(members.iter().map(EtcdProcess::endpoint).collect())).await?;
        for member in &mut members {
            member.wait_for(&store).await?;
        }
        Ok((Self { members }, store))
    }

    /// Which member leads now. Asks all of them, so none may be frozen.
    pub async fn leader(&self) -> Result<usize, StorageError> {
        for (number, member) in self.members.iter().enumerate() {
            if member.metric("etcd_server_is_leader").await? > 0.0 {
                return Ok(number);
            }
        }
        Err(StorageError::Unavailable("no member leads".to_owned()))
    }
}

fn free_ports() -> (u16, u16) {
    (free_port(), free_port())
}

fn tls_args(dir: &Path, tls: &EtcdTls) -> std::io::Result<Vec<String>> {
    let mut args = vec!["--client-cert-auth".to_owned()];
    let files = [
        ("trusted-ca-file", &tls.ca_pem),
        ("cert-file", &tls.cert_pem),
        ("key-file", &tls.key_pem),
    ];
    for (flag, pem) in files {
        let path = dir.join(flag);
        std::fs::write(&path, pem)?;
        args.push(format!("--{flag}={}", path.display()));
    }
    Ok(args)
}

fn log_path(dir: &Path) -> PathBuf {
    dir.join("etcd.log")
}

fn spawn(dir: &Path, args: &[String]) -> Result<Child, StorageError> {
    let log = std::fs::File::create(log_path(dir)).map_err(|error| failed("cannot write etcd's log", &error))?;
    let mut command = Command::new("etcd");
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            StorageError::Failed("there is no etcd; install it: apt-get install etcd-server".to_owned())
        }
        _ => failed("cannot start etcd", &error),
    })
}
