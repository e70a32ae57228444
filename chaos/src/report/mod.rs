//! The results of the experiments, for people: figures, targets, pictures.
//!
//! ```text
//! History ─▶ checks::check ─▶ Verdict ─┐
//!    └─────▶ Figures, Timeline ────────┴─▶ ExperimentResult ─▶ write ─▶ index.html, index.json
//!                                                          └─▶ picture ─▶ one SVG file
//! ```
//! The page needs nothing but itself, and follows the reader's choice of light or dark.

mod figures;
mod html;
mod picture;
mod targets;
mod timeline;

use std::{fmt, fs, io, path::Path};

use serde::{Deserialize, Serialize};

pub use self::{
    figures::{Figures, median},
    picture::picture,
    targets::{FigureTarget, TARGETS, Test},
    timeline::{Bucket, Shade, Timeline},
};
use crate::{
    checks::{self, Validity, Violation},
    history::History,
};

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentResult {
    /// The experiment.
    pub name: String,
    /// Repeats it.
    pub seed: u64,
    /// The system under test.
    pub commit: String,
    /// The place where it ran, in words.
    #[serde(default)]
    pub world: String,
    /// The parts of the experiment that were left out, with the reasons.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// The figures.
    pub figures: Figures,
    /// Broken promises; empty is good.
    pub violations: Vec<Violation>,
    /// True if it shows anything.
    pub validity: Validity,
    /// The result.
    pub timeline: Timeline,
}

impl ExperimentResult {
    /// Checks and measures a recorded run.
    pub fn of(history: &History) -> Self {
        let verdict = checks::check(history);
        let run = &history.run;
        Self {
            name: run.experiment.clone(),
            seed: run.seed,
            commit: run.commit.clone(),
            world: run.world.clone(),
            left_out: run.left_out.clone(),
            figures: Figures::of(history, &verdict.violations),
            violations: verdict.violations,
            validity: verdict.validity,
            timeline: Timeline::of(history),
        }
    }

    /// Returns true if it counts, and nothing was broken.
    pub fn passed(&self) -> bool {
        self.validity.is_valid() && self.violations.is_empty()
    }

    /// `passed`, `violated` or `invalid`.
    pub fn verdict(&self) -> &'static str {
        match (self.violations.is_empty(), self.validity.is_valid()) {
            (false, _) => "violated",
            (true, true) => "passed",
            (true, false) => "invalid",
        }
    }
}

impl fmt::Display for ExperimentResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, seed, figures, ..
        } = self;
        writeln!(f, "{name}: {}, seed {seed}", self.verdict())?;
        for (what, value) in figures.lines() {
            writeln!(f, "  {what:<34} {value}")?;
        }
        if let Validity::Invalid(reasons) = &self.validity {
            for reason in reasons {
                writeln!(f, "  invalid: {reason}")?;
            }
        }
        write!(f, "  {:<34} {}", "violations", self.violations.len())?;
        for violation in &self.violations {
            write!(f, "\n    {violation}")?;
        }
        Ok(())
    }
}

/// Writes `index.html` and `index.json` into a directory, which is made if it is not there.
///
/// # Errors
/// If a file cannot be written.
pub fn write(dir: &Path, results: &[ExperimentResult]) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let json = serde_json::to_vec(results).map_err(io::Error::other)?;
    fs::write(dir.join("index.json"), json)?;
    fs::write(dir.join("index.html"), html::page(results))
}

#[cfg(test)]
mod tests;
