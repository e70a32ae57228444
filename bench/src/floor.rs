//! The floor: what a handler that does nothing takes to send the same bytes over the same TLS stack.
//!
//! The handler is the example `floor` of the server's HTTP layer, which serves the files of a directory.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::ValueEnum;
use tempfile::TempDir;
use trireme_http::client::StatusCode;
use trireme_tests::process::Process;

use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{Limit, LoadOperation, Measured, drive};
use crate::report::{Report, Row};
use crate::sizes::Sizes;
use crate::target::{ClientCredentials, ConnectionUse, ServerTarget, read};
use crate::workloads::Read;

/// The time that the example may take to start.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of one object and of a list of 10,000 of them, for a floor without a server to compare with.
const OBJECT_BYTES: usize = 6_700;
const LIST_BYTES: usize = 66_800_000;

/// The layer that serves the example's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Through {
    /// The connection layer of the server's edge
    Hyper,
    /// The server that actix-web brings
    Actix,
}

/// A running example.
struct Floor {
    _process: Process,
    target: ServerTarget,
}

/// Measures the floor of every read and enters it into the report's rows.
pub(crate) async fn of_reads(
    binary: &Path,
    reads: &[Read],
    wire: ConnectionUse,
    sizes: &Sizes,
    report: &mut Report,
) -> Result<(), Failure> {
    let bodies: Vec<&Bytes> = reads.iter().map(|read| &read.body).collect();
    let dir = directory(&bodies)?;
    let floor = Floor::start(binary, Through::Hyper, dir.path(), wire).await?;
    for (number, read) in reads.iter().enumerate() {
        let measured = floor.drive(number, read.body.len(), read.at_once, sizes).await?;
        let row = &mut report.rows[read.row];
        row.floor_cpu_us_per_op = Row::new("", wire.http1, &measured).server_cpu_us_per_op;
        if let Some(us) = row.floor_cpu_us_per_op {
            eprintln!("floor of {}: {us:.0} µs/op", row.workload);
        }
    }
    Ok(())
}

/// Measures an object's and a list's bytes over both protocols.
pub(crate) async fn alone(
    binary: &Path,
    through: Through,
    wire: ConnectionUse,
    sizes: &Sizes,
    report: &mut Report,
) -> Result<(), Failure> {
    let bodies = [(OBJECT_BYTES, 32), (LIST_BYTES, 2)];
    let bytes = bodies.map(|(bytes, _)| Bytes::from(vec![b'x'; bytes]));
    let dir = directory(&bytes.each_ref())?;
    for http1 in [false, true] {
        let wire = ConnectionUse { http1, ..wire };
        let floor = Floor::start(binary, through, dir.path(), wire).await?;
        for (number, (bytes, at_once)) in bodies.into_iter().enumerate() {
            let measured = floor.drive(number, bytes, at_once, sizes).await?;
            report.row(Row::new(
                format!("floor, {bytes} bytes, {at_once} at once"),
                http1,
                &measured,
            ));
        }
    }
    Ok(())
}

fn directory(bodies: &[&Bytes]) -> Result<TempDir, Failure> {
    let dir = TempDir::with_prefix("trireme-floor-").map_err(Failure::io("make a directory"))?;
    for (number, body) in bodies.iter().enumerate() {
        fs::write(dir.path().join(number.to_string()), body).map_err(Failure::io("write the floor's bytes"))?;
    }
    Ok(dir)
}

struct FloorGet {
    session: Session,
    call: Call,
    bytes: u64,
}

impl LoadOperation for FloorGet {
    async fn once(&mut self, _: u64) -> Result<u64, Failure> {
        match self.session.stream(&self.call, StatusCode::OK, |_| ()).await? {
            bytes if bytes == self.bytes => Ok(bytes),
            bytes => Err(Failure::Wrong(format!(
                "the floor sent {bytes} of {} bytes",
                self.bytes
            ))),
        }
    }
}

impl Floor {
    async fn start(binary: &Path, through: Through, dir: &Path, wire: ConnectionUse) -> Result<Self, Failure> {
        let logs = TempDir::with_prefix("trireme-floor-").map_err(Failure::io("make a directory"))?;
        let mut command = Command::new(binary);
        command.arg(match through {
            Through::Hyper => "hyper",
            Through::Actix => "actix",
        });
        command.arg(dir);
        let process = Process::start("floor", &mut command, logs.path());
        let mut process = process.map_err(Failure::io(format!("start {}", binary.display())))?;
        let end = Instant::now() + START_PATIENCE;
        let port = loop {
            let said = process.log_tail();
            if let Some(port) = announced_port(&said) {
                break port;
            }
            if process.ended().is_some() || Instant::now() > end {
                return Err(Failure::Wrong(format!("the floor does not start: {said}")));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let credentials = ClientCredentials {
            ca: read(&dir.join("floor.crt"))?,
            ..ClientCredentials::default()
        };
        // Its certificate is for this name, and it listens on the loopback.
        let target = ServerTarget::new(
            &format!("https://localhost:{port}"),
            credentials,
            wire,
            Some(process.id()),
        )?;
        Ok(Self {
            _process: process,
            target,
        })
    }

    async fn drive(&self, number: usize, bytes: usize, at_once: usize, sizes: &Sizes) -> Result<Measured, Failure> {
        let sessions = Session::open_many(&self.target, at_once).await?;
        let callers = sessions.into_iter().map(|session| FloorGet {
            session,
            call: Call::get(format!("/{number}")),
            bytes: bytes as u64,
        });
        let mut callers: Vec<_> = callers.collect();
        let limit = Limit::For {
            warm_up: sizes.warm_up,
            window: sizes.window,
        };
        drive(self.target.pid, limit, &mut callers).await
    }
}

/// The example prints its address and its process id.
fn announced_port(said: &str) -> Option<u16> {
    let address: SocketAddr = said.split_whitespace().next()?.parse().ok()?;
    Some(address.port())
}
