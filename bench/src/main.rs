//! A load generator that runs against any Kubernetes API server.
//!
//! ```text
//! cli ──► target ──► workloads ──► measure ──► report
//!          │            │ operations  │ latencies, CPU time and memory (usage)
//!          └── client ──┘ sessions on connections
//! ```
//!
//! It looks at the server from outside: HTTP over TLS, and `/proc` if the process is on this machine. One thread does
//! it all, so that the other cores are the server's. Answers are checked while they are measured, by counting and
//! scanning their bytes; the first wrong one ends the run without figures.

mod about;
mod all;
mod cli;
mod client;
mod extension_objects;
mod failure;
mod floor;
mod measure;
mod objects;
mod options;
mod report;
mod restart;
mod server;
mod sizes;
mod target;
mod usage;
mod workloads;

use std::process::ExitCode;

use clap::Parser as _;

use crate::failure::Failure;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trireme-bench: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprintln!("  because {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run(cli: cli::Cli) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::io("make an event loop"))?;
    runtime.block_on(async {
        // Whatever ends first: dropping the run kills the processes that it started.
        tokio::select! {
            outcome = cli.run() => outcome,
            interrupted = interrupted() => Err(interrupted),
        }
    })
}

async fn interrupted() -> Failure {
    let terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
    let mut terminated = match terminated {
        Ok(signal) => signal,
        Err(source) => return Failure::io("listen for SIGTERM")(source),
    };
    tokio::select! {
        _ = terminated.recv() => Failure::Interrupted,
        pressed = tokio::signal::ctrl_c() => match pressed {
            Ok(()) => Failure::Interrupted,
            Err(source) => Failure::io("listen for Ctrl-C")(source),
        },
    }
}
