//! HAProxy in front of the replicas.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;
use trireme_tests::process::find_program;

use super::WorldError;
use super::process::{Process, Recipe};

/// Where Debian puts it, which is not on everybody's path.
const DEBIAN_PROGRAM: &str = "/usr/sbin/haproxy";
/// The configuration that a deployment uses too, but for names in braces.
const CONFIGURATION: &str = include_str!("haproxy.cfg");
const SOCKET_PATIENCE: Duration = Duration::from_secs(2);

/// HAProxy, and what it may have left behind at a reload.
#[derive(Debug)]
pub(super) struct Balancer {
    program: PathBuf,
    configuration: PathBuf,
    socket: PathBuf,
    logs: PathBuf,
    pub(super) address: SocketAddr,
    state: Mutex<State>,
}

/// The process that listens, and those that finish old connections.
#[derive(Debug)]
struct State {
    current: std::sync::Arc<Process>,
    finishing: Vec<std::sync::Arc<Process>>,
    reloads: u32,
}

impl Balancer {
    /// Writes the configuration. `sockets` must be a short path: the kernel allows 107 bytes for its name.
    pub(super) fn prepare(
        dir: &Path,
        sockets: &Path,
        logs: &Path,
        address: SocketAddr,
        ca: &Path,
        replicas: &[SocketAddr],
    ) -> Result<Self, WorldError> {
        let debian = Path::new(DEBIAN_PROGRAM);
        let program = find_program("haproxy").or_else(|| debian.is_file().then(|| debian.to_owned()));
        let program = program.ok_or(WorldError::Missing {
            program: "haproxy",
            install: "scripts/install-tools chaos",
        })?;
        let socket = sockets.join("haproxy.sock");
        let configuration = dir.join("haproxy.cfg");
        let text = render(address, &socket, ca, replicas);
        fs::write(&configuration, text).map_err(WorldError::io("write the configuration of HAProxy"))?;
        let recipe = recipe(&program, &configuration);
        let current = std::sync::Arc::new(Process::new("haproxy", recipe, logs));
        let state = Mutex::new(State {
            current,
            finishing: Vec::new(),
            reloads: 0,
        });
        Ok(Self {
            program,
            configuration,
            socket,
            logs: logs.to_owned(),
            address,
            state,
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The process that listens.
    pub(super) fn process(&self) -> std::sync::Arc<Process> {
        std::sync::Arc::clone(&self.state().current)
    }

    /// Starts a new process that takes the listening sockets over; the old one finishes its connections.
    pub(super) fn reload(&self) -> Result<(), WorldError> {
        let mut state = self.state();
        let old = state.current.id();
        let old = old.ok_or_else(|| WorldError::NotRunning(state.current.name().to_owned()))?;
        let recipe = recipe(&self.program, &self.configuration)
            .args(["-x"])
            .arg(&self.socket)
            .args(["-sf", &old.to_string()]);
        let name = format!("haproxy-{}", state.reloads + 1);
        let next = std::sync::Arc::new(Process::new(name, recipe, &self.logs));
        next.start()?;
        // Started again after a kill, there is nobody to take over from.
        next.change(|later| later.args.truncate(later.args.len() - 4));
        state.reloads += 1;
        let previous = std::mem::replace(&mut state.current, next);
        state.finishing.push(previous);
        state.finishing.retain(|process| process.id().is_some());
        Ok(())
    }

    /// How many replicas it takes for alive, and which: the status of each as HAProxy prints it, by index.
    pub(super) async fn statuses(&self) -> Result<Vec<String>, WorldError> {
        let ask = async {
            let mut stream = UnixStream::connect(&self.socket).await?;
            stream.write_all(b"show stat\n").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = timeout(SOCKET_PATIENCE, ask).await;
        let answer = answer.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let answer = answer.map_err(WorldError::io("ask HAProxy's socket"))?;
        Ok(server_statuses(&answer))
    }
}

fn recipe(program: &Path, configuration: &Path) -> Recipe {
    // In the foreground and without a master: the process we started is the load balancer.
    Recipe::new(program).args(["-db", "-f"]).arg(configuration)
}

fn render(address: SocketAddr, socket: &Path, ca: &Path, replicas: &[SocketAddr]) -> String {
    let servers = replicas.iter().enumerate();
    let servers: Vec<String> = servers
        .map(|(index, address)| format!("    server replica-{index} {address}"))
        .collect();
    CONFIGURATION
        .replace("{{SOCKET}}", &socket.display().to_string())
        .replace("{{BIND}}", &address.to_string())
        .replace("{{CA}}", &ca.display().to_string())
        .replace("{{SERVERS}}", &servers.join("\n"))
}

/// Picks the servers' statuses out of HAProxy's table.
fn server_statuses(table: &str) -> Vec<String> {
    let mut rows = table.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap_or_default();
    let Some(status) = header.iter().position(|name| *name == "status") else {
        return Vec::new();
    };
    let servers = rows
        .filter(|row| row.first() == Some(&"replicas") && row.get(1).is_some_and(|name| name.starts_with("replica-")));
    servers
        .map(|row| row.get(status).map_or_else(String::new, |status| (*status).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_everything() {
        let replicas = ["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
        let text = render(
            "127.0.0.1:3".parse().unwrap(),
            Path::new("/s"),
            Path::new("/ca"),
            &replicas,
        );
        assert!(!text.contains("{{"), "{text}");
        for line in ["    bind 127.0.0.1:3", "    server replica-1 127.0.0.1:2"] {
            assert!(text.lines().any(|have| have == line), "{line} is missing:\n{text}");
        }
    }

    #[test]
    fn statuses_are_those_of_the_servers() {
        let table = "# pxname,svname,scur,status\nkubernetes,FRONTEND,0,OPEN\nreplicas,replica-0,0,UP\n\
                     replicas,replica-1,0,DOWN 1/2\nreplicas,BACKEND,0,UP\n\
                     unready,replica-0,0,UP\n\n";
        assert_eq!(server_statuses(table), ["UP", "DOWN 1/2"]);
    }
}
