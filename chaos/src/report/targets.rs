//! Targets, beside what the reference does (kube-apiserver 1.36.2 over etcd 3.6 behind a tuned HAProxy).

use super::{ExperimentResult, Figures, figures::median};

/// A figure that is to be reached by one experiment.
#[derive(Debug, Clone, Copy)]
pub struct FigureTarget {
    /// The experiments that it is read from, by name; all if empty.
    pub experiments: &'static [&'static str],
    /// The fault, in words.
    pub fault: &'static str,
    /// The figure of the reference.
    pub reference: &'static str,
    /// The target.
    pub to_reach: &'static str,
    /// The way it is read and judged.
    pub test: Test,
}

/// The way a target is read from runs.
#[derive(Debug, Clone, Copy)]
pub enum Test {
    /// The median over the runs must not exceed this; a run that has no such figure had nothing to measure, which counts
    /// as 0 if so given.
    AtMost(fn(&Figures) -> Option<f64>, f64, &'static str),
    /// The median must reach this.
    AtLeast(fn(&Figures) -> Option<f64>, f64, &'static str),
    /// The sum over all runs must be 0, of at least so many acknowledged writes.
    NoneOf(fn(&Figures) -> u64, u64),
}

fn count(value: u64) -> Option<f64> {
    Some(f64::from(u32::try_from(value).unwrap_or(u32::MAX)))
}

const KILLS: &[&str] = &["kill-replica", "kill-leader"];
const ROLLING: &[&str] = &["rolling-restart"];
const QUORUM: &[&str] = &["etcd-quorum-loss"];

/// All of them, in the order of the table.
pub const TARGETS: &[FigureTarget] = &[
    FigureTarget {
        experiments: KILLS,
        fault: "SIGKILL of any replica: last error",
        reference: "0.05 s",
        to_reach: "≤ 0.1 s",
        test: Test::AtMost(|figures| Some(figures.last_failure.unwrap_or(0.0)), 0.1, " s"),
    },
    FigureTarget {
        experiments: &["kill-leader"],
        fault: "SIGKILL of the Raft leader: duties move",
        reference: "—",
        to_reach: "≤ 3 s",
        // That none has moved is no good either.
        test: Test::AtMost(|figures| Some(figures.duties_moved.unwrap_or(f64::INFINITY)), 3.0, " s"),
    },
    FigureTarget {
        experiments: KILLS,
        fault: "SIGKILL of any replica: relists",
        reference: "—",
        to_reach: "0",
        test: Test::AtMost(|figures| count(figures.relists), 0.0, ""),
    },
    FigureTarget {
        experiments: &["pause-leader"],
        fault: "SIGSTOP of the leader past its lease: last error",
        reference: "1.26 s",
        to_reach: "≤ 1.5 s",
        test: Test::AtMost(|figures| Some(figures.last_failure.unwrap_or(0.0)), 1.5, " s"),
    },
    FigureTarget {
        experiments: &["pause-leader"],
        fault: "SIGSTOP of the leader past its lease: late writes refused",
        reference: "—",
        to_reach: "≥ 1",
        test: Test::AtLeast(|figures| count(figures.refused_by_fences), 1.0, ""),
    },
    FigureTarget {
        experiments: ROLLING,
        fault: "rolling restart under load: failed",
        reference: "4–5",
        to_reach: "0",
        test: Test::AtMost(|figures| count(figures.failures()), 0.0, ""),
    },
    FigureTarget {
        experiments: ROLLING,
        fault: "rolling restart under load: wrong watch events",
        reference: "—",
        to_reach: "0",
        test: Test::AtMost(|figures| count(figures.wrong_events), 0.0, ""),
    },
    FigureTarget {
        experiments: &["etcd-leader-kill"],
        fault: "etcd leader killed: write gap",
        reference: "1.3 s, 6–8 writes hang 7–27 s",
        to_reach: "≤ 2 s",
        test: Test::AtMost(|figures| Some(figures.write_gap), 2.0, " s"),
    },
    FigureTarget {
        experiments: &["etcd-leader-kill"],
        fault: "etcd leader killed: failed",
        reference: "6–8",
        to_reach: "0",
        test: Test::AtMost(|figures| count(figures.failures()), 0.0, ""),
    },
    FigureTarget {
        experiments: &["etcd-leader-pause"],
        fault: "etcd leader stopped for 10 s: write gap",
        reference: "10.0 s",
        to_reach: "≤ 3 s",
        test: Test::AtMost(|figures| Some(figures.write_gap), 3.0, " s"),
    },
    FigureTarget {
        experiments: QUORUM,
        fault: "etcd quorum away for 8 s: gap of rv=0 reads",
        reference: "0.07 s",
        to_reach: "≤ 0.5 s",
        test: Test::AtMost(|figures| figures.cached_read_gap, 0.5, " s"),
    },
    FigureTarget {
        experiments: QUORUM,
        fault: "etcd quorum away for 8 s: write gap",
        reference: "8.05 s",
        to_reach: "≤ 10 s (8 s and ≤ 2 s to recover)",
        test: Test::AtMost(|figures| Some(figures.write_gap), 10.0, " s"),
    },
    FigureTarget {
        experiments: &[],
        fault: "acknowledged writes lost, over all runs",
        reference: "0 of 8,370",
        to_reach: "0 of ≥ 100,000",
        test: Test::NoneOf(|figures| figures.lost, 100_000),
    },
    FigureTarget {
        experiments: &[],
        fault: "watch events lost or doubled, over all runs",
        reference: "—",
        to_reach: "0",
        test: Test::NoneOf(|figures| figures.wrong_events, 0),
    },
];

impl FigureTarget {
    /// The figure, and whether it reaches the target; `None` if no valid run shows it.
    pub fn got(&self, results: &[ExperimentResult]) -> Option<(String, bool)> {
        let counts = |result: &&ExperimentResult| {
            let named = self.experiments.is_empty() || self.experiments.contains(&result.name.as_str());
            named && result.validity.is_valid()
        };
        let runs: Vec<_> = results.iter().filter(counts).map(|result| &result.figures).collect();
        if runs.is_empty() {
            return None;
        }
        let measured = |figure: fn(&Figures) -> Option<f64>, unit: &str| {
            let got = median(&runs, figure)?;
            let digits = if unit.is_empty() { 0 } else { 2 };
            Some((got, format!("{got:.digits$}{unit} ({} runs)", runs.len())))
        };
        match self.test {
            Test::AtMost(figure, most, unit) => measured(figure, unit).map(|(got, text)| (text, got <= most)),
            Test::AtLeast(figure, least, unit) => measured(figure, unit).map(|(got, text)| (text, got >= least)),
            Test::NoneOf(figure, writes) => {
                let bad: u64 = runs.iter().map(|figures| figure(figures)).sum();
                let acknowledged: u64 = runs.iter().map(|figures| figures.acknowledged).sum();
                let text = format!("{bad} beside {acknowledged} writes");
                Some((text, bad == 0 && acknowledged >= writes))
            }
        }
    }
}
