//! The command line of the chaos experiments.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};
use trireme_chaos::{
    history::{History, HistoryError},
    kill_loop::{self, KillLoopError, KillLoopSettings},
    report::{self, ExperimentResult},
    run::{self, Conclusion},
    world,
};

#[derive(Debug, Parser)]
#[command(
    name = "trireme-chaos",
    about = "Break Trireme on purpose and check what it promised."
)]
struct Cli {
    #[command(subcommand)]
    experiment: ExperimentCommand,
}

#[derive(Debug, Subcommand)]
enum ExperimentCommand {
    /// Kill a process that writes to the embedded store, again and again; nothing acknowledged may be lost.
    KillLoop {
        /// The number of times to kill it.
        #[arg(long, default_value_t = 50)]
        rounds: u32,
        /// Decides the moments of the kills; chosen and printed if not given.
        #[arg(long)]
        seed: Option<u64>,
        /// The directory of the store; a temporary one if not given.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Check recorded runs against what is promised: exit code 1 if a promise was broken, 2 if a run shows nothing.
    Check {
        /// The directories that hold the histories.
        #[arg(required = true)]
        dirs: Vec<PathBuf>,
        /// Write index.html and index.json here.
        #[arg(long)]
        report: Option<PathBuf>,
        /// Write the picture of the first run here, as SVG.
        #[arg(long)]
        picture: Option<PathBuf>,
    },
    /// Run a group under load, break one thing after the other, and check what was promised: exit code 1 if a promise was
    /// broken, 2 if a run shows nothing.
    Run(RunArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Decides moments, victims and the load; chosen and printed if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Only the experiments that show most, once each: about five minutes.
    #[arg(long)]
    short: bool,
    /// Only this experiment; can be given more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The number of repetitions of each experiment.
    #[arg(long)]
    repeats: Option<usize>,
    /// The place where the group runs.
    #[arg(long, value_enum, default_value_t = WorldPlace::Loopback)]
    target: WorldPlace,
    /// The server's binary; the one beside this program if not given.
    #[arg(long)]
    server: Option<PathBuf>,
    /// Replicas that do not know of each other, in place of a group.
    #[arg(long)]
    alone: bool,
    /// The directory of the report.
    #[arg(long, default_value = "chaos/report")]
    report: PathBuf,
    /// Keep the history of every run, not only of those that show something.
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WorldPlace {
    /// Processes on this machine.
    Loopback,
    /// Containers of the top-level docker-compose.yml.
    Compose,
}

/// The reason that a command could not be done.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    KillLoop(#[from] KillLoopError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("{0}")]
    Run(String),
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] std::io::Error),
}

/// A promise was broken.
const VIOLATED: u8 = 1;
/// Nothing was shown, or the command could not be done.
const INVALID: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Cli::parse().experiment {
        ExperimentCommand::KillLoop { rounds, seed, dir } => kill_loop(rounds, seed, dir),
        ExperimentCommand::Check { dirs, report, picture } => check(&dirs, report, picture),
        ExperimentCommand::Run(args) => run(args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("trireme-chaos: {error}");
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            eprintln!("  because {error}");
            cause = error.source();
        }
        ExitCode::from(INVALID)
    })
}

fn kill_loop(rounds: u32, seed: Option<u64>, dir: Option<PathBuf>) -> Result<ExitCode, CommandError> {
    let report = kill_loop::run(&KillLoopSettings {
        probe: kill_loop::probe_beside_this_program()?,
        dir,
        rounds,
        seed: seed.unwrap_or_else(rand::random),
    })?;
    println!("{report}");
    Ok(if report.violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(VIOLATED)
    })
}

fn check(dirs: &[PathBuf], report: Option<PathBuf>, picture: Option<PathBuf>) -> Result<ExitCode, CommandError> {
    let mut results = Vec::new();
    for dir in dirs {
        let result = ExperimentResult::of(&History::read(dir)?);
        println!("{result}");
        results.push(result);
    }
    if let Some(dir) = report {
        report::write(&dir, &results).map_err(|error| CommandError::Write(dir, error))?;
    }
    if let (Some(file), Some(first)) = (picture, results.first()) {
        std::fs::write(&file, report::picture(first)).map_err(|error| CommandError::Write(file, error))?;
    }
    let concluded = results.iter().map(Conclusion::of).max().unwrap_or_default();
    Ok(exit_code(concluded))
}

fn exit_code(conclusion: Conclusion) -> ExitCode {
    match conclusion {
        Conclusion::Kept => ExitCode::SUCCESS,
        Conclusion::Violated => ExitCode::from(VIOLATED),
        Conclusion::Invalid => ExitCode::from(INVALID),
    }
}

fn run(args: RunArgs) -> Result<ExitCode, CommandError> {
    let settings = settings(args).map_err(CommandError::Run)?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| CommandError::Run(error.to_string()))?;
    let concluded = runtime.block_on(run::run(&settings));
    concluded.map(exit_code).map_err(CommandError::Run)
}

fn settings(args: RunArgs) -> Result<run::RunSettings, String> {
    let beside = || {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        Ok::<_, String>(program.with_file_name("trireme"))
    };
    Ok(run::RunSettings {
        seed: args.seed.unwrap_or_else(rand::random),
        short: args.short,
        only: args.only,
        repeats: args.repeats,
        target: match args.target {
            WorldPlace::Loopback => world::WorldTarget::Loopback,
            WorldPlace::Compose => world::WorldTarget::Compose,
        },
        server: args.server.map_or_else(beside, Ok)?,
        alone: args.alone,
        report: args.report,
        keep: args.keep,
    })
}
