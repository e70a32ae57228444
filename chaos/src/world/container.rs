//! The Docker engine of this machine, and a container's own process as this machine's kernel sees it.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use trireme_tests::process::find_program;

use super::WorldError;
use super::process::{Recipe, state};

/// The command that installs the needs of a world of containers.
const INSTALL: &str = "scripts/install-tools docker images";

/// The part of a program's output that an error shows, from the end.
const LINES: usize = 5;

/// The engine that `docker` talks to: `DOCKER_HOST`, or the usual one.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    docker: PathBuf,
    /// `docker-compose`, where `docker` has no such plug-in.
    compose: Option<PathBuf>,
}

impl Engine {
    /// Finds the programs and asks whether it answers.
    ///
    /// # Errors
    /// Says what to run if something is missing.
    pub(super) async fn find() -> Result<Self, WorldError> {
        let missing = |program| WorldError::Missing {
            program,
            install: INSTALL,
        };
        let docker = find_program("docker").ok_or_else(|| missing("docker"))?;
        let mut plugin = Command::new(&docker);
        plugin.args(["compose", "version"]);
        let compose = match output("find docker compose", plugin).await {
            Ok(_) => None,
            Err(_) => Some(find_program("docker-compose").ok_or_else(|| missing("docker-compose"))?),
        };
        let engine = Self { docker, compose };
        match engine.ask("ask it", ["info"]).await {
            Ok(_) => Ok(engine),
            Err(error) => Err(WorldError::Unsupported(format!(
                "no Docker engine answers: start one, or run this within scripts/with-docker, which starts one for so \
                 long; what is needed for it comes with {INSTALL} ({error})"
            ))),
        }
    }

    /// The output of `docker ARGS`.
    ///
    /// # Errors
    /// If it fails, with what it said.
    pub(super) async fn ask<A: AsRef<OsStr>>(
        &self,
        what: &'static str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<String, WorldError> {
        let mut command = Command::new(&self.docker);
        command.args(args);
        output(what, command).await
    }

    /// Compose, without any argument yet.
    pub(super) fn compose(&self) -> Command {
        match &self.compose {
            Some(program) => Command::new(program),
            None => {
                let mut command = Command::new(&self.docker);
                command.arg("compose");
                command
            }
        }
    }
}

/// Runs a program to its end, on a thread where it may block; gives what it printed.
pub(super) async fn output(what: &'static str, mut command: Command) -> Result<String, WorldError> {
    let run = tokio::task::spawn_blocking(move || command.output());
    let output = run.await.map_err(|error| failed(what, &error.to_string()))?;
    let output = output.map_err(WorldError::io(what))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(what, &String::from_utf8_lossy(&output.stderr))),
    }
}

/// Compose prints its progress before the error.
fn failed(what: &'static str, said: &str) -> WorldError {
    let lines: Vec<&str> = said.trim().lines().collect();
    WorldError::Docker {
        what,
        said: lines[lines.len().saturating_sub(LINES)..].join("\n"),
    }
}

/// A container that was created.
#[derive(Debug)]
pub(super) struct Container {
    engine: Engine,
    /// In full length, as control groups are named after it.
    id: String,
    /// The process that it had when the engine was last asked; 0 for none.
    process: AtomicU32,
}

impl Container {
    pub(super) fn new(engine: Engine, id: String) -> Self {
        Self {
            engine,
            id,
            process: AtomicU32::new(0),
        }
    }

    /// Its name at the engine.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The process that starts it and stays as long as it runs.
    pub(super) fn recipe(&self) -> Recipe {
        Recipe::new(&self.engine.docker)
            .args(["start", "--attach"])
            .arg(&self.id)
    }

    /// Its process, if that is still the one that was found.
    pub(super) fn process(&self) -> Option<u32> {
        let process = self.process.load(Ordering::Relaxed);
        (process != 0 && self.has(process)).then_some(process)
    }

    /// Asks the engine which process it has. Whether it has one.
    pub(super) async fn find_process(&self) -> Result<bool, WorldError> {
        let args = ["inspect", "--format", "{{.State.Pid}}", &self.id];
        let answer = self.engine.ask("inspect a container's process", args).await?;
        self.process
            .store(answer.trim().parse().unwrap_or(0), Ordering::Relaxed);
        Ok(self.process().is_some())
    }

    /// Returns true if a process is in this container and alive. An id alone may be that of another one by now, and is
    /// about to get a signal from root.
    fn has(&self, process: u32) -> bool {
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
        names(&groups, &self.id) && state(process).is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }
}

/// Returns true if one of the control groups of a process is named after a container: `…/docker/ID` or `…/docker-ID.scope`.
fn names(groups: &str, container: &str) -> bool {
    !container.is_empty() && groups.lines().any(|group| group.contains(container))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_control_groups() {
        let (id, other) = ("0123abc".repeat(9), "0123abd".repeat(9));
        let first = format!("12:memory:/elsewhere\n5:cpu:/docker/{id}\n");
        let second = format!("0::/system.slice/docker-{id}.scope\n");
        for groups in [first, second] {
            assert!(names(&groups, &id), "{groups}");
            assert!(!names(&groups, &other), "{groups}");
            assert!(!names(&groups, ""), "{groups}");
        }
    }
}
