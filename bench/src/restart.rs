//! The time that a server takes to be ready again with many definitions and custom objects.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::about::server_version;
use crate::failure::Failure;
use crate::options::RunOptions;
use crate::server::{Server, Store};
use crate::usage;
use crate::workloads::{Bench, Workload, mib};

/// The times that the server is restarted.
const RESTARTS: usize = 3;

/// The server to load and restart.
#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// Start this `trireme`
    #[arg(long)]
    server_binary: PathBuf,
    /// Its store
    #[arg(long, value_enum, default_value = "etcd")]
    store: Store,
    #[command(flatten)]
    options: RunOptions,
}

impl Restart {
    /// Runs it and publishes the figures.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let (mut server, _) = Server::start(&self.server_binary, self.store, self.options.wire).await?;
        let mut report = self.options.report();
        report.about.insert("server", server_version(&server.target()?).await?);
        let mut bench = Bench::new(server.target()?, self.options.sizes(), report).await?;
        bench.run(Workload::LoadCustomObjects).await?;
        let (definitions, many) = (bench.sizes.definitions, bench.sizes.config_maps);
        let mut times: Vec<Duration> = Vec::with_capacity(RESTARTS);
        for _ in 0..RESTARTS {
            times.push(server.restart().await?);
            bench.target = server.target()?;
            let there = bench.count_custom_objects().await?;
            if there != many {
                return Err(Failure::Wrong(format!(
                    "{there} of {many} custom objects are there after the restart"
                )));
            }
        }
        times.sort_unstable();
        let with = format!("{definitions} definitions and {many} custom objects");
        let name = format!("restart to /readyz with {with}, median of {RESTARTS}");
        bench.report.figure(name, times[RESTARTS / 2].as_secs_f64() * 1e3, "ms");
        if let Some(pid) = bench.target.pid {
            let memory = usage::settled(pid).await?;
            let name = format!("RSS after a restart with {with}");
            bench.report.figure(name, mib(memory.rss_kib), "MiB");
        }
        self.options.publish(&bench.report)
    }
}
