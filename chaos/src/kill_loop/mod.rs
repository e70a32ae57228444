//! `kill-loop`: a process writes to the embedded store and is killed without warning, again and
//! again, at random moments; after each kill the store is opened and all of it is compared with
//! what was acknowledged.
//!
//! ```text
//! round: start `trireme-store-probe write` ─▶ it acknowledges writes ─▶ SIGKILL
//!        run `trireme-store-probe dump`   ─▶ check against every round so far
//! ```
//! Shows that a kill of the process loses nothing, at any moment of a commit. What it does not
//! show: a power cut, where what was written but not synced is lost too; the store's own tests do
//! that with a simulated disk.

mod check;
mod drive;
mod line;

use std::{fmt, path::PathBuf};

pub use self::{
    check::{KillLoopChecker, RoundViolation},
    drive::{KillLoopError, probe_beside_this_program, run},
    line::Line,
};

/// The experiments to run.
#[derive(Debug, Clone)]
pub struct KillLoopSettings {
    /// The program that writes and dumps.
    pub probe: PathBuf,
    /// The store's directory; a temporary one if `None`.
    pub dir: Option<PathBuf>,
    /// The number of kills.
    pub rounds: u32,
    /// Decides the moments of the kills.
    pub seed: u64,
}

/// The findings of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KillLoopReport {
    /// Kills done.
    pub rounds: u32,
    /// The seed, to run it again.
    pub seed: u64,
    /// Writes whose acknowledgement was seen.
    pub acknowledged: usize,
    /// Writes that were tried but not acknowledged before a kill.
    pub unacknowledged: usize,
    /// Those of them that turned out to be committed.
    pub committed_unacknowledged: usize,
    /// The store's newest revision at the end.
    pub revision: i64,
    /// Promises broken; empty is good.
    pub violations: Vec<RoundViolation>,
}

impl fmt::Display for KillLoopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kill-loop: {} rounds, seed {}", self.rounds, self.seed)?;
        writeln!(f, "  writes acknowledged          {}", self.acknowledged)?;
        writeln!(f, "  writes cut off by a kill     {}", self.unacknowledged)?;
        writeln!(f, "    of these found committed   {}", self.committed_unacknowledged)?;
        writeln!(f, "  newest revision              {}", self.revision)?;
        write!(f, "  violations                   {}", self.violations.len())?;
        for violation in &self.violations {
            write!(f, "\n    {violation}")?;
        }
        Ok(())
    }
}
