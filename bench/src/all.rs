//! Everything in one run, in an order in which no workload spoils the figures of a later one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::about::server_version;
use crate::failure::Failure;
use crate::floor;
use crate::options::RunOptions;
use crate::report::Report;
use crate::server::{Server, Store};
use crate::target::TargetArgs;
use crate::usage;
use crate::workloads::{Bench, Workload, mib};

/// The workloads run against one server with pods. Memory comes first, before what others leave behind in the allocator
/// can hide growth.
const ORDER: [Workload; 12] = [
    Workload::IdleWatch,
    Workload::ListPeak,
    Workload::Get,
    Workload::List,
    Workload::Create,
    Workload::Update,
    Workload::Contended,
    Workload::Watch,
    Workload::NodeWatch,
    Workload::Apply,
    Workload::Extensions,
    // Last, as the server keeps what it has encoded.
    Workload::Protobuf,
];

/// The server to run all workloads against.
#[derive(Debug, Args)]
pub(crate) struct All {
    /// Start this `trireme` (also to see how fast it starts) in place of loading a server that runs
    #[arg(long, conflicts_with_all = ["url", "kubeconfig"])]
    server_binary: Option<PathBuf>,
    /// The store of the started server
    #[arg(long, value_enum, default_value = "etcd")]
    store: Store,
    /// The example `floor` of trireme-edge; absent: the one beside the server's binary, if it is there
    #[arg(long)]
    floor_binary: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    options: RunOptions,
}

impl All {
    /// Runs everything and publishes it.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let report = match &self.server_binary {
            Some(binary) => self.started(binary.clone()).await?,
            None if self.target.is_given() => self.running().await?,
            None => {
                return Err(Failure::Usage(
                    "give --server-binary to start a server, or --url or --kubeconfig of one that runs".to_owned(),
                ));
            }
        };
        self.options.publish(&report)
    }

    async fn running(&self) -> Result<Report, Failure> {
        let target = self.target.target(self.options.wire)?;
        let mut report = self.options.report();
        report.about.insert("server", server_version(&target).await?);
        report.about.insert(
            "not measured",
            "cold start, restart, memory of many config maps and definitions: the server was running already"
                .to_owned(),
        );
        let mut bench = Bench::new(target, self.options.sizes(), report).await?;
        for workload in ORDER {
            bench.run(workload).await?;
        }
        bench.delete_namespace().await?;
        self.measure_floor(&mut bench).await?;
        Ok(bench.report)
    }

    async fn started(&self, binary: PathBuf) -> Result<Report, Failure> {
        let mut report = self.options.report();
        let sizes = self.options.sizes();
        let server = self.cold_starts(&binary, sizes.starts, &mut report).await?;
        let target = server.target()?;
        report.about.insert("server", server_version(&target).await?);
        let store = match self.store {
            Store::Etcd => "etcd, one member, on this machine",
            Store::Embedded => "embedded",
        };
        report.about.insert("store", store.to_owned());
        let mut bench = Bench::new(target, sizes, report).await?;
        for workload in ORDER {
            bench.run(workload).await?;
        }
        drop(server);
        self.measure_floor(&mut bench).await?;
        let report = self.many_objects(&binary, bench.report).await?;
        self.many_definitions(&binary, report).await
    }

    /// Starts servers on nothing, and keeps the last.
    async fn cold_starts(&self, binary: &Path, starts: usize, report: &mut Report) -> Result<Server, Failure> {
        let mut times = Vec::with_capacity(starts);
        let mut last = None;
        for _ in 0..starts.max(1) {
            drop(last.take());
            let (server, took) = Server::start(binary, self.store, self.options.wire).await?;
            times.push(took);
            last = Some(server);
        }
        let server = last.ok_or_else(|| Failure::Wrong("no server was started".to_owned()))?;
        times.sort_unstable();
        report.figure(
            format!("cold start to /readyz, median of {}", times.len()),
            ms(times[times.len() / 2]),
            "ms",
        );
        if let Some(pid) = server.target()?.pid {
            report.figure("RSS idle", mib(usage::settled(pid).await?.rss_kib), "MiB");
        }
        Ok(server)
    }

    async fn measure_floor(&self, bench: &mut Bench) -> Result<(), Failure> {
        let Some(binary) = self.floor_binary() else {
            let how = "cargo build --release -p trireme-edge --example floor".to_owned();
            bench.report.about.insert("floor not measured; build it", how);
            return Ok(());
        };
        floor::of_reads(
            &binary,
            &bench.reads,
            self.options.wire,
            &bench.sizes,
            &mut bench.report,
        )
        .await
    }

    fn floor_binary(&self) -> Option<PathBuf> {
        let beside = || {
            let folder = self.server_binary.as_ref()?.parent()?;
            Some(folder.join("examples/floor")).filter(|file| file.is_file())
        };
        self.floor_binary.clone().or_else(beside)
    }

    /// A server of its own with many config maps: its memory, and how long it takes to come back.
    async fn many_objects(&self, binary: &Path, report: Report) -> Result<Report, Failure> {
        let (mut server, _) = Server::start(binary, self.store, self.options.wire).await?;
        let mut bench = Bench::new(server.target()?, self.options.sizes(), report).await?;
        let many = bench.sizes.config_maps;
        bench.run(Workload::LoadConfigMaps).await?;
        let took = server.restart().await?;
        bench.target = server.target()?;
        let there = bench.count_config_maps().await?;
        if there != many {
            return Err(Failure::Wrong(format!(
                "{there} of {many} config maps are there after the restart"
            )));
        }
        bench
            .report
            .figure(format!("restart to /readyz with {many} configmaps"), ms(took), "ms");
        if let Some(pid) = bench.target.pid {
            let memory = usage::settled(pid).await?;
            bench.report.figure(
                format!("RSS after a restart with {many} configmaps"),
                mib(memory.rss_kib),
                "MiB",
            );
        }
        Ok(bench.report)
    }

    /// A server of its own whose definitions take nothing from other figures.
    async fn many_definitions(&self, binary: &Path, report: Report) -> Result<Report, Failure> {
        let (server, _) = Server::start(binary, self.store, self.options.wire).await?;
        let mut bench = Bench::new(server.target()?, self.options.sizes(), report).await?;
        bench.run(Workload::Definitions).await?;
        Ok(bench.report)
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
