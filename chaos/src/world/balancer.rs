//! HAProxy in front of the replicas: a process that can reload, or a container.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use trireme_tests::process::find_program;

use super::WorldError;
use super::process::{Process, Recipe};

/// The path where Debian puts it, which is not on every user's `PATH`.
const DEBIAN_PROGRAM: &str = "/usr/sbin/haproxy";
/// The configuration that a deployment uses too, but for names in braces.
const CONFIGURATION: &str = include_str!("haproxy.cfg");
const STATUS_PATIENCE: Duration = Duration::from_secs(2);
/// The query of the statistics page: the table that the socket gives, too.
const STATISTICS_REQUEST: &[u8] = b"GET /;csv HTTP/1.0\r\n\r\n";

/// HAProxy, and what it may have left behind at a reload.
#[derive(Debug)]
pub(super) struct Balancer {
    pub(super) address: SocketAddr,
    control: Control,
    state: Mutex<BalancerState>,
}

/// The socket for queries and reloads.
#[derive(Debug)]
enum Control {
    Socket {
        program: PathBuf,
        configuration: PathBuf,
        socket: PathBuf,
        logs: PathBuf,
    },
    /// It has a page of statistics only.
    Page(SocketAddr),
}

/// The process that listens, and those that finish old connections.
#[derive(Debug)]
struct BalancerState {
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
        let current = Process::new("haproxy", recipe, logs);
        let control = Control::Socket {
            program,
            configuration,
            socket,
            logs: logs.to_owned(),
        };
        Ok(Self::new(address, control, current))
    }

    /// One in a container, whose page of statistics is at `statistics`.
    pub(super) fn contained(address: SocketAddr, statistics: SocketAddr, process: Process) -> Self {
        Self::new(address, Control::Page(statistics), process)
    }

    fn new(address: SocketAddr, control: Control, process: Process) -> Self {
        let state = Mutex::new(BalancerState {
            current: std::sync::Arc::new(process),
            finishing: Vec::new(),
            reloads: 0,
        });
        Self {
            address,
            control,
            state,
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, BalancerState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The process that listens.
    pub(super) fn process(&self) -> std::sync::Arc<Process> {
        std::sync::Arc::clone(&self.state().current)
    }

    /// Starts a new process that takes the listening sockets over; the old one finishes its connections.
    pub(super) fn reload(&self) -> Result<(), WorldError> {
        let Control::Socket {
            program,
            configuration,
            socket,
            logs,
        } = &self.control
        else {
            let why = "HAProxy runs without a master process in its container, and cannot reload";
            return Err(WorldError::Unsupported(why.to_owned()));
        };
        let mut state = self.state();
        let old = state.current.id();
        let old = old.ok_or_else(|| WorldError::NotRunning(state.current.name().to_owned()))?;
        let recipe = recipe(program, configuration)
            .args(["-x"])
            .arg(socket)
            .args(["-sf", &old.to_string()]);
        let name = format!("haproxy-{}", state.reloads + 1);
        let next = std::sync::Arc::new(Process::new(name, recipe, logs));
        next.spawn()?;
        // Started again after a kill, there is no process to take over from.
        next.change(|later| later.args.truncate(later.args.len() - 4));
        state.reloads += 1;
        let previous = std::mem::replace(&mut state.current, next);
        state.finishing.push(previous);
        state.finishing.retain(|process| process.id().is_some());
        Ok(())
    }

    /// The number of replicas it takes for alive, and which: the status of each as HAProxy prints it, by index.
    pub(super) async fn statuses(&self) -> Result<Vec<String>, WorldError> {
        let ask = async {
            match &self.control {
                Control::Socket { socket, .. } => asked(UnixStream::connect(socket).await?, b"show stat\n").await,
                Control::Page(address) => asked(TcpStream::connect(address).await?, STATISTICS_REQUEST).await,
            }
        };
        let answer = timeout(STATUS_PATIENCE, ask).await;
        let answer = answer.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let answer = answer.map_err(WorldError::io("ask HAProxy for its statistics"))?;
        Ok(server_statuses(&answer))
    }
}

/// Everything that comes after a request, to the end of the connection.
async fn asked(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> std::io::Result<String> {
    stream.write_all(request).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
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

/// Picks the servers' statuses out of HAProxy's table, whatever comes before it.
fn server_statuses(table: &str) -> Vec<String> {
    let lines = table.lines().skip_while(|line| !line.starts_with("# pxname,"));
    let mut rows = lines.map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap_or_default();
    let Some(status) = header.iter().position(|name| *name == "status") else {
        return Vec::new();
    };
    let is_server = |name: &&str| !matches!(*name, "FRONTEND" | "BACKEND");
    let servers = rows.filter(|row| row.first() == Some(&"replicas") && row.get(1).is_some_and(is_server));
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

    /// The part of the configuration that routes connections: the lines of the defaults and of the backends, but for
    /// names, logs and certificates.
    fn deciding(configuration: &str) -> Vec<&str> {
        let mut decides = false;
        let lines = configuration.lines().filter(|line| {
            if line.starts_with(|first: char| first.is_ascii_alphabetic()) {
                decides = line.starts_with("defaults") || line.starts_with("backend");
            }
            decides
        });
        let others = [
            "#",
            "{{",
            "server ",
            "log ",
            "default-server check ",
            "default-server resolvers ",
        ];
        let lines = lines.map(str::trim);
        lines
            .filter(|line| !line.is_empty() && !others.iter().any(|other| line.starts_with(other)))
            .collect()
    }

    #[test]
    fn what_decides_is_as_in_a_deployment() {
        let own = deciding(CONFIGURATION);
        assert_eq!(own, deciding(include_str!("../../../deploy/haproxy/haproxy.cfg")));
        let refused = own.iter().filter(|line| line.contains("on-error")).collect::<Vec<_>>();
        // Bug 8 of the README: to mark a replica down for a refused connection cuts what is being tried elsewhere.
        assert_eq!(refused.len(), 2, "{own:#?}");
        assert!(
            refused.iter().all(|line| line.contains("on-error fastinter ")),
            "{refused:#?}"
        );
    }

    #[test]
    fn statuses_are_those_of_the_servers() {
        let table = "# pxname,svname,scur,status\nkubernetes,FRONTEND,0,OPEN\nreplicas,replica-0,0,UP\n\
                     replicas,replica-1,0,DOWN 1/2\nreplicas,BACKEND,0,UP\n\
                     unready,replica-0,0,UP\n\n";
        assert_eq!(server_statuses(table), ["UP", "DOWN 1/2"]);
        let page = format!("HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\n{table}");
        assert_eq!(server_statuses(&page), ["UP", "DOWN 1/2"]);
    }
}
