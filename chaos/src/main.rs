//! The command line of the chaos experiments.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use trireme_chaos::kill_loop::{self, Settings};

#[derive(Debug, Parser)]
#[command(
    name = "trireme-chaos",
    about = "Break Trireme on purpose and check what it promised."
)]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Kill a process that writes to the embedded store, again and again; nothing acknowledged may be lost.
    KillLoop {
        /// How many times to kill it.
        #[arg(long, default_value_t = 50)]
        rounds: u32,
        /// Decides the moments of the kills; chosen and printed if not given.
        #[arg(long)]
        seed: Option<u64>,
        /// Where the store lives; a temporary directory if not given.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let Cli {
        experiment: Experiment::KillLoop { rounds, seed, dir },
    } = Cli::parse();
    let seed = seed.unwrap_or_else(rand::random);
    let outcome = kill_loop::probe_beside_this_program().and_then(|probe| {
        kill_loop::run(&Settings {
            probe,
            dir,
            rounds,
            seed,
        })
    });
    match outcome {
        Ok(report) => {
            println!("{report}");
            if report.violations.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("trireme-chaos: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprintln!("  because {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}
