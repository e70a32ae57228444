//! Child processes that never outlive their test.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::canary;

/// Between two looks at a condition that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The part of a log that is shown when a test fails.
const LOG_LINES: usize = 60;
/// The flag of a server that writes audit events into a file.
const AUDIT_LOG_FLAG: &str = "--audit-log-path=";

/// A child process with its output in a file. Dropping it kills it and, if the test failed, prints the end of its log.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
    audit_log: Option<PathBuf>,
}

impl Process {
    /// Starts `command` with its output in `DIR/NAME.log`, in place of that of a process that ran there before.
    ///
    /// # Panics
    /// If there are secrets in the latter.
    pub fn start(name: &'static str, command: &mut Command, dir: &Path) -> io::Result<Self> {
        let log = dir.join(format!("{name}.log"));
        assert_no_secrets("log", name, &canary::leaks(&text_of(&log)));
        let audit_log = audit_log_of(command);
        let output = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        Ok(Self {
            name,
            child,
            log,
            audit_log,
        })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if it has.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// All that it wrote; bytes that are no UTF-8 do not hide the rest.
    pub fn log(&self) -> String {
        text_of(&self.log)
    }

    /// The last lines it wrote.
    pub fn log_tail(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    /// Its memory, in bytes.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line
            .and_then(|line| line.trim().strip_suffix(" kB"))
            .and_then(|kib| kib.parse::<u64>().ok());
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| io::Error::other("the kernel does not say how much memory the process has"))
    }

    /// The time that its threads have spent on a core.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.id()))? {
            // A thread may end meanwhile.
            let spent = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
            let spent = spent
                .split_whitespace()
                .next()
                .and_then(|spent| spent.parse::<u64>().ok());
            nanoseconds += spent.unwrap_or_default();
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Waits until `ready`; fails with the log if the process ends first or time runs out.
    pub fn wait_until(
        &mut self,
        what: &str,
        patience: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let end = Instant::now() + patience;
        while !ready() {
            if let Some(status) = self.ended() {
                return Err(format!(
                    "{} ended ({status}) before {what}; its log:\n{}",
                    self.name,
                    self.log_tail()
                ));
            }
            if Instant::now() >= end {
                let log = self.log_tail();
                return Err(format!(
                    "{} was not {what} within {patience:?}; its log:\n{log}",
                    self.name
                ));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        // Both fail only if the process has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal: `STOP` freezes the process, `CONT` lets it go on.
    pub fn signal(&self, name: &str) -> Result<(), String> {
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.id().to_string())
            .status();
        match sent {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("kill -{name}: {status}")),
            Err(error) => Err(format!("kill -{name}: {error}")),
        }
    }

    /// Waits until it has ended; says how.
    pub fn wait(&mut self, patience: Duration) -> Result<String, String> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() >= end {
                return Err(format!(
                    "{} did not end within {patience:?}; its log:\n{}",
                    self.name,
                    self.log_tail()
                ));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// Asks it to end with SIGTERM and waits for it.
    pub fn terminate(&mut self, patience: Duration) -> Result<String, String> {
        self.signal("TERM")?;
        self.wait(patience)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- end of the log of {} ---\n{}\n---", self.name, self.log_tail());
            return;
        }
        assert_no_secrets("log", self.name, &canary::leaks(&self.log()));
        if let Some(audit_log) = &self.audit_log {
            assert_no_secrets("audit log", self.name, &canary::audit_leaks(&text_of(audit_log)));
        }
    }
}

fn audit_log_of(command: &Command) -> Option<PathBuf> {
    let mut args = command.get_args();
    args.find_map(|arg| Some(arg.to_str()?.strip_prefix(AUDIT_LOG_FLAG)?.into()))
}

fn text_of(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn assert_no_secrets(log: &str, name: &str, leaks: &[String]) {
    assert!(
        leaks.is_empty(),
        "the {log} of {name} gives secrets away:\n{}",
        leaks.join("\n")
    );
}

/// A program on PATH or in `target/tools/bin`, the latter first.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let tools = crate::folder().parent()?.join("target/tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(tools)
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_secret_in_a_log_fails_the_test_that_started_the_server() {
        let end_of = |said: &[&[u8]]| {
            let dir = tempfile::tempdir().expect("a directory");
            std::panic::catch_unwind(|| {
                let mut last = None;
                for one in said {
                    let mut command = Command::new("echo");
                    command.arg(OsStr::from_bytes(one));
                    let mut process = Process::start("echo", &mut command, dir.path()).expect("it starts");
                    process.wait(Duration::from_secs(30)).expect("it ends");
                    last = Some(process);
                }
                drop(last);
            })
        };
        assert!(end_of(&[b"the token is unknown"]).is_ok());
        assert!(end_of(&[b"the token admin-token is unknown"]).is_err());
        assert!(end_of(&[b"read \xff\nthe token admin-token is unknown"]).is_err());
        assert!(
            end_of(&[b"the token admin-token is unknown", b"started anew"]).is_err(),
            "as when a server is started anew"
        );
    }

    #[test]
    fn a_secret_in_an_audit_log_fails_the_test_that_started_the_server() {
        let end_of = |event: &str| {
            let dir = tempfile::tempdir().expect("a directory");
            let audit_log = dir.path().join("audit.log");
            fs::write(&audit_log, event).expect("written");
            std::panic::catch_unwind(|| {
                let mut command = Command::new("true");
                command.arg(format!("{AUDIT_LOG_FLAG}{}", audit_log.display()));
                drop(Process::start("true", &mut command, dir.path()).expect("it starts"));
            })
        };
        assert!(end_of(r#"{"requestObject": {"spec": {"token": "admin-token"}}}"#).is_ok());
        assert!(end_of(r#"{"requestURI": "/api?token=admin-token"}"#).is_err());
    }
}
