//! One program of the world: started, signalled, looked at and ended by its process id alone.
//!
//! It is a child of this process, or runs in a container. Then the child is `docker start --attach`, which brings what it
//! writes and what it ends with, and everything else is done to the container's own process: this machine's kernel shows
//! it like any other.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::WorldError;
use super::container::Container;

/// Between two looks at a condition that is waited for.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// The part of a log that an error shows.
const LOG_LINES: usize = 40;
/// After SIGKILL a process is gone as soon as the kernel has taken it apart.
const DEATH_PATIENCE: Duration = Duration::from_secs(10);
/// The time limit for a container to have a process, and the engine to notice its end.
const ENGINE_PATIENCE: Duration = Duration::from_secs(30);
/// Between two questions to the engine, each a program of its own.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// The offset that an engine adds to the number of the signal that has ended a program.
const SIGNALLED: i32 = 128;

/// The program to start.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    /// Beside what this process has.
    pub(super) environment: Vec<(&'static str, OsString)>,
}

impl Recipe {
    pub(super) fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            environment: Vec::new(),
        }
    }

    pub(super) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(super) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(super) fn envs(mut self, environment: impl IntoIterator<Item = (&'static str, OsString)>) -> Self {
        self.environment.extend(environment);
        self
    }

    /// Through setpriv, which becomes the program and has the kernel kill it if this process dies first.
    fn command(&self, log: &File) -> io::Result<Command> {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.program)
            .args(&self.args)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        Ok(command)
    }
}

/// A program that may be started many times. Dropping it kills it, unless it is in a container, which goes with its
/// project. Its log goes on over all its lives.
#[derive(Debug)]
pub(super) struct Process {
    name: String,
    log: PathBuf,
    life: Mutex<Life>,
    /// The container of the program, if it is not the child.
    container: Option<Container>,
}

#[derive(Debug)]
struct Life {
    recipe: Recipe,
    child: Option<Child>,
    ended: Option<ExitStatus>,
    starts: u32,
}

/// The kernel's figures about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) resident_bytes: u64,
    pub(super) open_files: usize,
    pub(super) threads: usize,
}

impl Process {
    /// Does not start it yet.
    pub(super) fn new(name: impl Into<String>, recipe: Recipe, logs: &Path) -> Self {
        let name = name.into();
        let log = logs.join(format!("{name}.log"));
        let life = Mutex::new(Life {
            recipe,
            child: None,
            ended: None,
            starts: 0,
        });
        Self {
            name,
            log,
            life,
            container: None,
        }
    }

    /// The program of a container that was created. Does not start it yet.
    pub(super) fn contained(name: impl Into<String>, container: Container, logs: &Path) -> Self {
        let recipe = container.recipe();
        Self {
            container: Some(container),
            ..Self::new(name, recipe, logs)
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Starts it unless it runs, and returns when it has an id, or has come to an end by then.
    pub(super) async fn start(&self) -> Result<(), WorldError> {
        let Some(container) = &self.container else {
            return self.spawn();
        };
        if self.id().is_some() {
            return Ok(());
        }
        // An engine that has not noticed the end of the last life would take the container for started.
        self.wait_until("over for the engine", ENGINE_PATIENCE, || !self.has_child())
            .await?;
        self.spawn()?;
        let end = Instant::now() + ENGINE_PATIENCE;
        while !container.find_process().await? && self.ended().is_none() {
            if Instant::now() > end {
                return Err(self.not_in_time("started", ENGINE_PATIENCE));
            }
            sleep(ASK_AGAIN).await;
        }
        Ok(())
    }

    /// Starts the child unless it runs.
    pub(super) fn spawn(&self) -> Result<(), WorldError> {
        let mut life = self.life();
        if life.child.is_some() {
            return Ok(());
        }
        let doing = || format!("start {}", self.name);
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(WorldError::io(doing()))?;
        life.starts += 1;
        writeln!(log, "=== start {} of {}", life.starts, self.name).map_err(WorldError::io(doing()))?;
        let command = life.recipe.command(&log).map_err(WorldError::io(doing()))?;
        life.child = Some(spawn(command).map_err(WorldError::io(doing()))?);
        life.ended = None;
        Ok(())
    }

    /// Changes what the next start starts.
    pub(super) fn change(&self, change: impl FnOnce(&mut Recipe)) {
        change(&mut self.life().recipe);
    }

    /// Its id, if it runs.
    pub(super) fn id(&self) -> Option<u32> {
        if let Some(container) = &self.container {
            return container.process();
        }
        let mut life = self.life();
        life.look();
        life.child.as_ref().map(Child::id)
    }

    fn has_child(&self) -> bool {
        let mut life = self.life();
        life.look();
        life.child.is_some()
    }

    /// The exit status, if it was started and has.
    pub(super) fn ended(&self) -> Option<ExitStatus> {
        let mut life = self.life();
        life.look();
        match &self.container {
            None => life.ended,
            Some(container) if container.process().is_some() => None,
            Some(_) => life.ended.map(of_the_contained),
        }
    }

    fn signal(&self, signal: Signal) -> Result<u32, WorldError> {
        let id = self.id().ok_or_else(|| WorldError::NotRunning(self.name.clone()))?;
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| WorldError::NotRunning(self.name.clone()))?;
        kill_process(pid, signal)
            .map_err(|error| WorldError::Io(format!("signal {}", self.name), io::Error::from(error)))?;
        Ok(id)
    }

    /// SIGKILL; returns when it is gone.
    pub(super) async fn kill(&self) -> Result<(), WorldError> {
        self.signal(Signal::KILL)?;
        self.wait_until("gone", DEATH_PATIENCE, || self.id().is_none()).await
    }

    /// SIGTERM; returns when it is gone.
    pub(super) async fn terminate(&self, patience: Duration) -> Result<ExitStatus, WorldError> {
        self.signal(Signal::TERM)?;
        self.wait_for_end(patience).await
    }

    /// SIGSTOP; returns when the kernel shows it as stopped.
    pub(super) async fn pause(&self) -> Result<(), WorldError> {
        let id = self.signal(Signal::STOP)?;
        self.wait_until("stopped", DEATH_PATIENCE, || state(id) == Some('T'))
            .await
    }

    /// SIGCONT.
    pub(super) fn resume(&self) -> Result<(), WorldError> {
        self.signal(Signal::CONT).map(|_| ())
    }

    /// Returns true if the kernel shows it as stopped.
    pub(super) fn is_paused(&self) -> bool {
        self.id().and_then(state) == Some('T')
    }

    pub(super) async fn wait_for_end(&self, patience: Duration) -> Result<ExitStatus, WorldError> {
        let mut ended = None;
        self.wait_until("gone", patience, || {
            ended = self.ended();
            ended.is_some()
        })
        .await?;
        ended.ok_or_else(|| WorldError::NotRunning(self.name.clone()))
    }

    async fn wait_until(
        &self,
        what: &'static str,
        patience: Duration,
        mut holds: impl FnMut() -> bool,
    ) -> Result<(), WorldError> {
        let end = Instant::now() + patience;
        while !holds() {
            if Instant::now() > end {
                return Err(self.not_in_time(what, patience));
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    pub(super) fn not_in_time(&self, what: &'static str, patience: Duration) -> WorldError {
        WorldError::NotInTime {
            part: self.name.clone(),
            what,
            patience,
            log: self.log_tail(),
        }
    }

    /// The error if it has ended by itself.
    pub(super) fn check_runs(&self, what: &'static str) -> Result<(), WorldError> {
        match self.ended() {
            None => Ok(()),
            Some(status) => Err(self.ended_with(what, status)),
        }
    }

    pub(super) fn ended_with(&self, what: &'static str, status: ExitStatus) -> WorldError {
        WorldError::Ended {
            part: self.name.clone(),
            what,
            status: status.to_string(),
            log: self.log_tail(),
        }
    }

    /// Everything that it has written, in all its lives.
    pub(super) fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(super) fn log_file(&self) -> &Path {
        &self.log
    }

    fn log_tail(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// The resources it uses, if it runs and the kernel shows them.
    pub(super) fn usage(&self) -> Option<Usage> {
        let proc = PathBuf::from(format!("/proc/{}", self.id()?));
        let status = fs::read_to_string(proc.join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Usage {
            resident_bytes: field("VmRSS:")? * 1024,
            open_files: fs::read_dir(proc.join("fd")).ok()?.count(),
            threads: usize::try_from(field("Threads:")?).ok()?,
        })
    }
}

impl Life {
    /// Takes note of an end.
    fn look(&mut self) {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
        if ended.is_some() {
            self.ended = ended;
            self.child = None;
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail only if it has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The state letter of a process in `/proc`: `R`, `S`, `T` …
pub(super) fn state(id: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before it may hold anything, also brackets.
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// The exit status of a program in a container, from that of `docker start --attach`.
fn of_the_contained(status: ExitStatus) -> ExitStatus {
    match status.code() {
        Some(code) if code > SIGNALLED => ExitStatus::from_raw(code - SIGNALLED),
        _ => status,
    }
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts processes on a thread that lives as long as this process: the kernel takes the end of the thread that has
/// started a process for the death of its parent.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in taken {
                // There is no receiver of the answer only if that thread is gone; then the process ends with its handle.
                let _ = answer.send(command.spawn());
            }
        });
        orders
    });
    let gone = || io::Error::other("the thread that starts processes is gone");
    let (answer, answered) = mpsc::channel();
    spawner.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_container_ended_with_reads_as_if_it_were_a_child() {
        let ended = |code: i32| of_the_contained(ExitStatus::from_raw(code << 8));
        assert!(ended(0).success());
        assert_eq!(ended(3).code(), Some(3));
        assert_eq!(ended(137).signal(), Some(9));
    }
}
