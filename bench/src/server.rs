//! Servers that a run starts itself: Trireme over etcd or its embedded store, on free ports, killed when dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tempfile::TempDir;
use trireme_http::client::StatusCode;
use trireme_ports::free_port;
use trireme_tests::process::Process;
use trireme_tests::server::Etcd;

use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::target::{ClientCredentials, ConnectionUse, ServerTarget, read};

/// Of the one user there is.
const TOKEN: &str = "bench-token";
const TOKENS: &str = "bench-token,bench,bench-uid,\"system:masters\"\n";
/// With 100,000 objects to load, on a machine that does other things too.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// The resolution with which a start is timed.
const LOOK_AGAIN: Duration = Duration::from_millis(3);

/// The store of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    /// An etcd process of its own that waits for the disk
    Etcd,
    /// The data directory; waits for the disk as well
    Embedded,
}

/// A server of this run.
pub(crate) struct Server {
    // Dropped in this order: the server before its store, both before their files.
    process: Process,
    _etcd: Option<Etcd>,
    dir: TempDir,
    command: Command,
    port: u16,
    wire: ConnectionUse,
}

impl Server {
    /// Starts a server on nothing. Also says how long it took from the start of its process to `/readyz`.
    pub(crate) async fn start(binary: &Path, store: Store, wire: ConnectionUse) -> Result<(Self, Duration), Failure> {
        Self::start_with(binary, store, wire, &[]).await
    }

    /// The same with more flags.
    pub(crate) async fn start_with(
        binary: &Path,
        store: Store,
        wire: ConnectionUse,
        flags: &[String],
    ) -> Result<(Self, Duration), Failure> {
        let dir = TempDir::with_prefix("trireme-bench-").map_err(Failure::io("make a directory"))?;
        let etcd = match store {
            Store::Etcd => Some(Etcd::start().map_err(Failure::Usage)?),
            Store::Embedded => None,
        };
        let tokens = dir.path().join("tokens.csv");
        fs::write(&tokens, TOKENS).map_err(Failure::io("write the server's tokens"))?;
        let port = free_port();
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg(format!("--data-dir={}", dir.path().join("data").display()))
            .arg(format!("--token-auth-file={}", tokens.display()))
            .args(flags);
        if let Some(etcd) = &etcd {
            command.arg(format!("--etcd-servers={}", etcd.url()));
        }
        let begun = Instant::now();
        let mut server = Self {
            process: spawn(&mut command, dir.path())?,
            _etcd: etcd,
            dir,
            command,
            port,
            wire,
        };
        server.ready().await?;
        Ok((server, begun.elapsed()))
    }

    /// Kills the process and starts it anew on the same store. Says how long it took to `/readyz`.
    pub(crate) async fn restart(&mut self) -> Result<Duration, Failure> {
        self.process.kill();
        let begun = Instant::now();
        self.process = spawn(&mut self.command, self.dir.path())?;
        self.ready().await?;
        Ok(begun.elapsed())
    }

    /// The target for clients.
    pub(crate) fn target(&self) -> Result<ServerTarget, Failure> {
        let credentials = ClientCredentials {
            ca: read(&self.ca())?,
            token: Some(TOKEN.to_owned()),
            certificate: None,
        };
        let url = format!("https://127.0.0.1:{}", self.port);
        ServerTarget::new(&url, credentials, self.wire, Some(self.process.id()))
    }

    fn ca(&self) -> PathBuf {
        self.dir.path().join("data/pki/ca.crt")
    }

    async fn ready(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + START_PATIENCE;
        while !self.is_ready().await {
            if let Some(status) = self.process.ended() {
                let log = self.process.log_tail();
                return Err(Failure::Wrong(format!("the server ended ({status}):\n{log}")));
            }
            if Instant::now() > end {
                let log = self.process.log_tail();
                return Err(Failure::Wrong(format!("not ready within {START_PATIENCE:?}:\n{log}")));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        // Until it listens, and on a first start until it has made its CA, this fails.
        let Ok(target) = self.target() else {
            return false;
        };
        let Ok(mut session) = Session::open(&target).await else {
            return false;
        };
        matches!(session.answer(&Call::get("/readyz")).await, Ok((StatusCode::OK, _)))
    }
}

fn spawn(command: &mut Command, dir: &Path) -> Result<Process, Failure> {
    Process::start("trireme", command, dir).map_err(Failure::io(format!("start {:?}", command.get_program())))
}
