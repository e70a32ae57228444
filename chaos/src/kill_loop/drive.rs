//! Starts the probe, kills it, and asks what is left.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    thread,
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{KillLoopChecker, KillLoopReport, KillLoopSettings, Line};

const PROBE: &str = "trireme-store-probe";
/// Long enough for hundreds of commits, short enough for many rounds.
const LONGEST_LIFE: Duration = Duration::from_millis(600);

/// The reason that the experiment itself could not be done.
#[derive(Debug, thiserror::Error)]
pub enum KillLoopError {
    /// The probe was not built.
    #[error("there is no {}; build it: cargo build -p trireme-storage --bin {PROBE}", .0.display())]
    NoProbe(PathBuf),
    /// A file or process operation failed.
    #[error("cannot {0}")]
    Io(&'static str, #[source] std::io::Error),
    /// The probe printed something else than its lines.
    #[error("the probe's output is not understood")]
    Output(#[from] serde_json::Error),
    /// The probe gave up by itself.
    #[error("the probe failed in round {round}: {why}")]
    Probe {
        /// The round.
        round: u32,
        /// Its answer.
        why: String,
    },
}

/// The probe as cargo puts it: beside this program, or one directory up from a test.
pub fn probe_beside_this_program() -> Result<PathBuf, KillLoopError> {
    let own = std::env::current_exe().map_err(|error| KillLoopError::Io("find this program", error))?;
    let dirs = own.ancestors().skip(1).take(2);
    let places: Vec<PathBuf> = dirs
        .map(|dir| dir.join(PROBE).with_extension(std::env::consts::EXE_EXTENSION))
        .collect();
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.clone()),
        None => Err(KillLoopError::NoProbe(places.into_iter().next().unwrap_or_default())),
    }
}

/// Runs all rounds. Violations are in the report; an error means that nothing was shown either way.
pub fn run(settings: &KillLoopSettings) -> Result<KillLoopReport, KillLoopError> {
    let temporary = tempfile::tempdir().map_err(|error| KillLoopError::Io("make a directory", error))?;
    let dir = settings.dir.as_deref().unwrap_or(temporary.path());
    let mut chance = StdRng::seed_from_u64(settings.seed);
    let mut checker = KillLoopChecker::default();
    let mut violations = Vec::new();
    for round in 1..=settings.rounds {
        let life = chance.random_range(Duration::ZERO..LONGEST_LIFE);
        let written = write_and_kill(&settings.probe, dir, round, life)?;
        let dumped = dump(&settings.probe, dir, round)?;
        violations.extend(checker.round(written, dumped));
    }
    Ok(KillLoopReport {
        rounds: settings.rounds,
        seed: settings.seed,
        acknowledged: checker.acknowledged(),
        unacknowledged: checker.unacknowledged(),
        committed_unacknowledged: checker.committed_unacknowledged(),
        revision: checker.revision(),
        violations,
    })
}

/// Lets the probe write for `life` after its first line, kills it, and returns all that it said.
fn write_and_kill(probe: &Path, dir: &Path, round: u32, life: Duration) -> Result<Vec<Line>, KillLoopError> {
    let mut command = Command::new(probe);
    command.arg("write").arg(dir).arg(round.to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|error| KillLoopError::Io("start the probe", error))?;
    let mut output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    let said = listen(&mut child, &mut output, life);
    // Whatever happened, the process must not outlive the round.
    let (killed, reaped) = (child.kill(), child.wait_with_output());
    let said = said?;
    killed.map_err(|error| KillLoopError::Io("kill the probe", error))?;
    let end = reaped.map_err(|error| KillLoopError::Io("wait for the probe", error))?;
    if end.status.code().is_some() {
        // Ended by itself, not by the kill.
        return Err(KillLoopError::Probe {
            round,
            why: stderr_of(&end),
        });
    }
    Ok(Line::parse_all(&said)?)
}

fn listen(child: &mut Child, output: &mut BufReader<ChildStdout>, life: Duration) -> Result<String, KillLoopError> {
    let failed = |error| KillLoopError::Io("read the probe's output", error);
    let mut said = String::new();
    // From here on it writes; before, the kill would hit an opening store that has nothing to lose.
    output.read_line(&mut said).map_err(failed)?;
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut rest = Vec::new();
            output.read_to_end(&mut rest).map(|_| rest)
        });
        thread::sleep(life);
        child
            .kill()
            .map_err(|error| KillLoopError::Io("kill the probe", error))?;
        let rest = reader.join().expect("reading does not panic").map_err(failed)?;
        said.push_str(&String::from_utf8_lossy(&rest));
        Ok(said)
    })
}

fn dump(probe: &Path, dir: &Path, round: u32) -> Result<Vec<Line>, KillLoopError> {
    let output = Command::new(probe).arg("dump").arg(dir).stdin(Stdio::null()).output();
    let output = output.map_err(|error| KillLoopError::Io("start the probe", error))?;
    if !output.status.success() {
        return Err(KillLoopError::Probe {
            round,
            why: stderr_of(&output),
        });
    }
    Ok(Line::parse_all(&String::from_utf8_lossy(&output.stdout))?)
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
