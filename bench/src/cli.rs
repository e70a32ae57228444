//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::about::server_version;
use crate::all::All;
use crate::failure::Failure;
use crate::floor::{self, Through};
use crate::options::RunOptions;
use crate::restart::Restart;
use crate::target::TargetArgs;
use crate::workloads::{Bench, Workload};

/// Load a Kubernetes API server and report what it costs.
#[derive(Debug, Parser)]
#[command(name = "trireme-bench")]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Run everything, starting the server where a figure needs that
    All(All),
    /// Run workloads against a server that runs, in a namespace of their own that is deleted afterwards
    Run {
        /// Workloads to run, in this order
        #[arg(required = true, value_enum)]
        workloads: Vec<Workload>,
        #[command(flatten)]
        target: TargetArgs,
        #[command(flatten)]
        options: RunOptions,
    },
    /// Start a server, load it with definitions and custom objects, and time how long it takes to come back
    Restart(Restart),
    /// Measure a handler that does nothing: what 6.7 KB and 66.8 MB cost over both protocols
    Floor {
        /// The example `floor` of trireme-http
        #[arg(long)]
        floor_binary: PathBuf,
        /// The layer that serves connections: the server's own, or actix-web's
        #[arg(long, value_enum, default_value = "hyper")]
        through: Through,
        #[command(flatten)]
        options: RunOptions,
    },
}

impl Cli {
    /// Does what was asked for.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self.command {
            BenchCommand::All(all) => all.run().await,
            BenchCommand::Restart(restart) => restart.run().await,
            BenchCommand::Floor {
                floor_binary,
                through,
                options,
            } => {
                let mut report = options.report();
                floor::alone(&floor_binary, through, options.wire, &options.sizes(), &mut report).await?;
                options.publish(&report)
            }
            BenchCommand::Run {
                workloads,
                target,
                options,
            } => {
                let target = target.target(options.wire)?;
                let mut report = options.report();
                report.about.insert("server", server_version(&target).await?);
                let mut bench = Bench::new(target, options.sizes(), report).await?;
                for workload in workloads {
                    bench.run(workload).await?;
                }
                bench.delete_namespace().await?;
                options.publish(&bench.report)
            }
        }
    }
}
