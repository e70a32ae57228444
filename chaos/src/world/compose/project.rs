//! The project: what Compose makes of the files, and takes down again.

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use trireme_ports::free_port;

use super::super::WorldError;
use super::super::container::{Container, Engine, output};

/// File names that Compose looks for, here and in every folder above.
const FILE: &str = "docker-compose.yml";
/// The names of images that were made here; without it those of the registries are taken.
const IMAGES: &str = "target/images/compose.env";
/// Ports that the file publishes. They are not used here, but two projects must not want the same.
const PORTS: [&str; 2] = ["TRIREME_PORT", "HAPROXY_STATS_PORT"];
/// Waits until its standard input is closed, which happens when this process ends in any way, and becomes its arguments.
const GUARD: &str = "cat >/dev/null; exec \"$@\"";

/// A project that is taken down, with its volumes, when this is dropped or this process dies.
#[derive(Debug)]
pub(crate) struct Project {
    engine: Engine,
    name: String,
    _guard: Guard,
}

/// The folder of `docker-compose.yml`.
///
/// # Errors
/// If there is none here or above.
pub(super) fn root() -> Result<PathBuf, WorldError> {
    let here = std::env::current_dir().map_err(WorldError::io("read the current directory"))?;
    let found = here.ancestors().find(|folder| folder.join(FILE).is_file());
    found.map(Path::to_owned).ok_or_else(|| {
        let why = format!("there is no {FILE} in {} or above: run this there", here.display());
        WorldError::Unsupported(why)
    })
}

impl Project {
    /// Makes the containers, networks and volumes of some services; starts nothing. `overrides` is a second file beside
    /// that in `root`. What the end says goes to `logs`.
    pub(super) async fn make(
        engine: Engine,
        root: &Path,
        overrides: &Path,
        logs: &Path,
        services: &[String],
    ) -> Result<Self, WorldError> {
        // Whose it is can be read off `docker ps`.
        let name = format!("trireme-chaos-{}-{:04x}", std::process::id(), rand::random::<u16>());
        let ports = PORTS.map(|name| (name, free_port().to_string()));
        let compose = |args: &[&str]| {
            let mut command = compose(&engine, root, overrides, &name);
            command.args(args).envs(ports.clone());
            command
        };
        let mut up = compose(&["up", "--no-start", "--no-build"]);
        up.args(services);
        // Before there is anything to take down.
        let guard = Guard::start(
            &compose(&["down", "--volumes", "--timeout", "0"]),
            &logs.join("compose-down.log"),
        )?;
        let project = Self {
            engine,
            name,
            _guard: guard,
        };
        match output("make the containers", up).await {
            Ok(_) => Ok(project),
            Err(WorldError::Docker { what, said }) => Err(WorldError::Docker {
                what,
                said: format!(
                    "{said}\nIf it is about images: `make images`, or scripts/images BINARY, makes them here; \
                     TRIREME_IMAGE, ETCD_IMAGE and HAPROXY_IMAGE name others"
                ),
            }),
            Err(other) => Err(other),
        }
    }

    /// The container of each service.
    pub(super) async fn containers(&self) -> Result<HashMap<String, Container>, WorldError> {
        let filter = format!("label=com.docker.compose.project={}", self.name);
        let format = "{{.Label \"com.docker.compose.service\"}} {{.ID}}";
        let args = ["ps", "--all", "--no-trunc", "--filter", &filter, "--format", format];
        let listing = self.engine.ask("list the containers", args).await?;
        let rows = listing.lines().filter_map(|row| row.split_once(' '));
        let containers = rows.map(|(service, id)| {
            let container = Container::new(self.engine.clone(), id.trim().to_owned());
            (service.to_owned(), container)
        });
        Ok(containers.collect())
    }

    /// Joins a container to another network of the file, unless it is in there: docker-compose 1.29 does that only to
    /// containers that it starts itself.
    pub(super) async fn join(&self, container: &Container, network: &str, address: Ipv4Addr) -> Result<(), WorldError> {
        let network = format!("{}_{network}", self.name);
        let format = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}";
        let args = ["inspect", "--format", format, container.id()];
        let joined = self.engine.ask("inspect a container's networks", args).await?;
        if joined.split_whitespace().any(|name| name == network) {
            return Ok(());
        }
        let address = address.to_string();
        let args = ["network", "connect", "--ip", &address, &network, container.id()];
        self.engine
            .ask("join a container to its network", args)
            .await
            .map(|_| ())
    }

    /// The path of a volume of the file on this machine.
    ///
    /// # Errors
    /// If the engine is on another one.
    pub(super) async fn volume(&self, volume: &str) -> Result<PathBuf, WorldError> {
        let name = format!("{}_{volume}", self.name);
        let args = ["volume", "inspect", "--format", "{{.Mountpoint}}", &name];
        let dir = PathBuf::from(self.engine.ask("inspect a volume", args).await?.trim());
        match fs::read_dir(&dir) {
            Ok(_) => Ok(dir),
            Err(error) => Err(WorldError::Unsupported(format!(
                "the Docker engine must run on this machine, and let its volumes be seen: {}: {error}",
                dir.display()
            ))),
        }
    }
}

/// Compose with both files, for one project.
fn compose(engine: &Engine, root: &Path, overrides: &Path, project: &str) -> Command {
    let mut command = engine.compose();
    let images = root.join(IMAGES);
    if images.is_file() {
        command.arg("--env-file").arg(images);
    }
    command.arg("--file").arg(root.join(FILE));
    command.arg("--file").arg(overrides);
    command.args(["--project-name", project]);
    command
}

/// A process that runs a command when this is dropped, or when this process ends in any other way.
#[derive(Debug)]
struct Guard {
    process: Child,
    /// Closed by the kernel if not by us.
    alive: Option<ChildStdin>,
}

impl Guard {
    /// Runs the command with its output in `log`.
    fn start(last: &Command, log: &Path) -> Result<Self, WorldError> {
        let failed = || WorldError::io("start the process that takes the containers down");
        let log = File::create(log).map_err(failed())?;
        let mut command = Command::new("sh");
        command
            .args(["-c", GUARD, "guard"])
            .arg(last.get_program())
            .args(last.get_args());
        let changed = last.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(changed);
        command.stdin(Stdio::piped());
        command.stdout(log.try_clone().map_err(failed())?).stderr(log);
        // What a terminal sends to end this process must not end that one.
        command.process_group(0);
        let mut process = command.spawn().map_err(failed())?;
        let alive = process.stdin.take();
        Ok(Self { process, alive })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.alive.take());
        // Fails only if another thread has waited for it.
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_command_runs_when_its_guard_is_dropped_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut last = Command::new("sh");
        last.args(["-c", "echo $WORDS \"$1\"", "sh", "a $b"])
            .env("WORDS", "these:");
        let guard = Guard::start(&last, &log).unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "");
        drop(guard);
        assert_eq!(fs::read_to_string(&log).unwrap(), "these: a $b\n");
    }
}
