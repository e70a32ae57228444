//! The workloads, each against a server that already runs.
//!
//! Every one makes its rows of the report, and checks the answers it measures: a wrong status, a missing item, a lost
//! update, a gap or a duplicate of a watch ends the run.

mod apply;
mod chain;
mod contended;
mod create;
mod definitions;
mod extensions;
mod frames;
mod get;
mod idle;
mod list;
mod memory;
mod nodes;
mod overload;
mod protobuf;
mod update;
mod watch;
mod watcher;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use clap::ValueEnum;
use serde_json::json;
use trireme_http::client::StatusCode;

use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{Limit, Measured};
use crate::report::{Report, Row, float};
use crate::sizes::Sizes;
use crate::target::ServerTarget;
use crate::usage;

/// Workloads by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Config maps of 1 KiB and realistic pods, 16 at once
    Create,
    /// Pods, 64 at once, resourceVersion unset and 0
    Get,
    /// Pods: all, in pages of 500, by label, by spec.nodeName; resourceVersion unset and 0
    List,
    /// PUT and merge patch of config maps and pods, and deletes, 16 at once
    Update,
    /// Server-side apply of config maps and deployments, 16 at once
    Apply,
    /// Pods as protobuf: lists, of which the first encodes them, and gets
    Protobuf,
    /// Four writers of one object: GET and PUT with retries, then merge patches
    Contended,
    /// Events of changing config maps to many watchers: latency, gaps, duplicates, CPU per event
    Watch,
    /// Watchers of one node's pods each, and what an event costs that concerns none of them
    NodeWatch,
    /// Memory of watches that nothing happens on
    IdleWatch,
    /// The peak of memory while 8 callers list all pods
    ListPeak,
    /// Memory with many config maps
    LoadConfigMaps,
    /// Definitions of custom resources, one after the other
    Definitions,
    /// Writes with a webhook, a policy and rules of a custom resource; a list that a webhook converts
    Extensions,
    /// Many definitions and custom objects
    LoadCustomObjects,
    /// The renewal of a lease, alone and beside full lists of ten users
    Overload,
}

/// Writers of creates, updates and deletes.
pub(crate) const WRITERS: usize = 16;
/// Readers of single objects.
pub(crate) const READERS: usize = 64;

/// An answer that was measured, to measure the floor with the same bytes.
#[derive(Debug)]
pub(crate) struct Read {
    /// Which row it belongs to.
    pub(crate) row: usize,
    /// The number of callers that asked for it at once.
    pub(crate) at_once: usize,
    /// The body of one answer.
    pub(crate) body: Bytes,
}

/// A run against one server.
pub(crate) struct Bench {
    /// The server.
    pub(crate) target: ServerTarget,
    /// The amounts of work.
    pub(crate) sizes: Sizes,
    /// The report so far.
    pub(crate) report: Report,
    /// The answers that were read, for the floor.
    pub(crate) reads: Vec<Read>,
    namespace: String,
    pods_are_there: bool,
}

impl Bench {
    /// Makes a namespace of its own in the server.
    pub(crate) async fn new(target: ServerTarget, sizes: Sizes, report: Report) -> Result<Self, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let bench = Self {
            namespace: format!("bench-{:x}", since.as_micros()),
            target,
            sizes,
            report,
            reads: Vec::new(),
            pods_are_there: false,
        };
        bench.make_namespace().await?;
        Ok(bench)
    }

    async fn make_namespace(&self) -> Result<(), Failure> {
        let mut session = Session::open(&self.target).await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}});
        let create = Call::post("/api/v1/namespaces", namespace.to_string());
        session.expect(&create, StatusCode::CREATED).await?;
        // Without controllers it is not created, and kube-apiserver admits no pod without it.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let create = Call::post(self.path("serviceaccounts"), account.to_string());
        match session.answer(&create).await? {
            (StatusCode::CREATED | StatusCode::CONFLICT, _) => Ok(()),
            (status, body) => Err(create.wrong_status(status, &body)),
        }
    }

    /// Deletes the namespace; emptying it is the work of the cluster's namespace controller, if there is one.
    pub(crate) async fn delete_namespace(&self) -> Result<(), Failure> {
        let mut session = Session::open(&self.target).await?;
        let delete = Call::delete(format!("/api/v1/namespaces/{}", self.namespace));
        session.answer(&delete).await.map(drop)
    }

    /// Runs one workload.
    pub(crate) async fn run(&mut self, workload: Workload) -> Result<(), Failure> {
        match workload {
            Workload::Create => create::run(self).await,
            Workload::Get => get::run(self).await,
            Workload::List => list::run(self).await,
            Workload::Update => update::run(self).await,
            Workload::Apply => apply::run(self).await,
            Workload::Protobuf => protobuf::run(self).await,
            Workload::Contended => contended::run(self).await,
            Workload::Watch => watch::run(self).await,
            Workload::NodeWatch => nodes::run(self).await,
            Workload::IdleWatch => idle::run(self).await,
            Workload::ListPeak => memory::run(self).await,
            Workload::LoadConfigMaps => create::load(self).await,
            Workload::Definitions => definitions::run(self).await,
            Workload::Extensions => extensions::run(self).await,
            Workload::LoadCustomObjects => extensions::load(self).await,
            Workload::Overload => overload::run(self).await,
        }
    }

    /// Creates the pods that are read, unless that was done. Their creation is a row of its own.
    pub(crate) async fn ensure_pods(&mut self) -> Result<(), Failure> {
        if !self.pods_are_there {
            create::pods(self).await?;
            self.pods_are_there = true;
        }
        Ok(())
    }

    /// Counts the config maps of [`Workload::LoadConfigMaps`].
    pub(crate) async fn count_config_maps(&self) -> Result<u64, Failure> {
        list::count(self, "configmaps", create::LOAD_PREFIX).await
    }

    /// Counts the custom objects of [`Workload::LoadCustomObjects`].
    pub(crate) async fn count_custom_objects(&self) -> Result<u64, Failure> {
        extensions::count(self).await
    }

    /// The collection of a core resource in the run's namespace.
    fn path(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.namespace)
    }

    fn sessions(&self, callers: usize) -> impl Future<Output = Result<Vec<Session>, Failure>> {
        Session::open_many(&self.target, callers)
    }

    /// The usual window.
    fn window(&self) -> Limit {
        let Sizes {
            times, warm_up, window, ..
        } = self.sizes;
        times.map_or(Limit::For { warm_up, window }, Limit::Times)
    }

    /// Makes a row of what was measured; memory is that of now.
    fn row(&self, workload: impl Into<String>, measured: &Measured) -> Result<Row, Failure> {
        let mut row = Row::new(workload, self.target.wire.http1, measured);
        if let Some(pid) = self.target.pid {
            row.rss_mib = Some(mib(usage::memory(pid)?.rss_kib));
        }
        Ok(row)
    }

    /// Remembers the bytes of a read for its floor; call it before its row is reported.
    fn remember(&mut self, at_once: usize, body: Bytes) {
        let row = self.report.rows.len();
        self.reads.push(Read { row, at_once, body });
    }
}

/// KiB as MiB.
pub(crate) fn mib(kib: u64) -> f64 {
    float(kib) / 1024.0
}

/// Between two looks at a condition that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
