//! The options that every way to run has: how much to do, and where the figures go.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::about::machine;
use crate::failure::Failure;
use crate::report::Report;
use crate::sizes::{Size, Sizes};
use crate::target::ConnectionUse;

/// The options of every run.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    pub(crate) wire: ConnectionUse,
    /// The amount of work
    #[arg(long, value_enum, default_value = "full")]
    size: Size,
    /// The same as --size quick
    #[arg(long, conflicts_with = "size")]
    quick: bool,
    /// Measure for so many seconds, where a workload is measured by time
    #[arg(long)]
    seconds: Option<u32>,
    /// Do so many operations where a workload is measured by time, and deliver so many events: two such runs against a
    /// server under callgrind report the instructions of one
    #[arg(long, conflicts_with = "seconds")]
    times: Option<u32>,
    /// Read so many pods
    #[arg(long)]
    pods: Option<u32>,
    /// Load so many config maps, or custom objects
    #[arg(long)]
    config_maps: Option<u32>,
    /// Install so many definitions
    #[arg(long)]
    definitions: Option<u32>,
    /// Write all figures to this file as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

impl RunOptions {
    /// The amounts of work.
    pub(crate) fn sizes(&self) -> Sizes {
        let mut sizes = if self.quick { Size::Quick } else { self.size }.sizes();
        if let Some(seconds) = self.seconds {
            sizes.window = Duration::from_secs(seconds.into());
        }
        if let Some(times) = self.times {
            sizes.times = Some(times.into());
            sizes.watched_events = times.into();
        }
        if let Some(pods) = self.pods {
            sizes.pods = pods.into();
        }
        if let Some(config_maps) = self.config_maps {
            sizes.config_maps = config_maps.into();
        }
        if let Some(definitions) = self.definitions {
            sizes.definitions = definitions.into();
        }
        sizes
    }

    /// A report that knows when, where and how the run is done.
    pub(crate) fn report(&self) -> Report {
        let mut report = Report::default();
        let (size, sizes) = (if self.quick { Size::Quick } else { self.size }, self.sizes());
        let wire = match self.wire.http1 {
            true => "HTTP/1.1, a connection a caller".to_owned(),
            false => format!("HTTP/2, callers on {} connections", self.wire.connections),
        };
        report
            .about
            .insert("run", format!("{size:?}, windows of {:?}, {wire}", sizes.window));
        report
            .about
            .insert("date", jiff::Timestamp::now().strftime("%F %R UTC").to_string());
        report
            .about
            .insert("machine, shared with the load generator", machine());
        report
    }

    /// Prints the report, and writes it where that was asked for.
    pub(crate) fn publish(&self, report: &Report) -> Result<(), Failure> {
        println!("{}", report.markdown());
        if let Some(file) = &self.json {
            let json = serde_json::to_string_pretty(report).map_err(|error| Failure::Wrong(error.to_string()))?;
            fs::write(file, json + "\n").map_err(Failure::io(format!("write {}", file.display())))?;
        }
        Ok(())
    }
}
