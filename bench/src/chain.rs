//! The cost of what a request passes on its way: the same requests to two servers that differ in that, in turn.
//!
//! | requests | with | without |
//! | --- | --- | --- |
//! | get pod | service-account token, RBAC, priority and fairness | system:masters |
//! | get pod | service-account token, RBAC, priority and fairness, audit at Metadata into a log | system:masters, no audit |
//! | create pod | all admission plugins that are on by default | no admission plugin |
//!
//! Both servers run all the time, so that a change of the machine is in both.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use tempfile::TempDir;

use crate::about::server_version;
use crate::failure::Failure;
use crate::measure::Measured;
use crate::options::RunOptions;
use crate::report::{Report, Row};
use crate::server::{Server, Store};
use crate::workloads::Bench;

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n";
/// Those that are on by default, in their order.
const NO_PLUGINS: &str = "--disable-admission-plugins=NamespaceLifecycle,LimitRanger,ServiceAccount,TaintNodesByCondition,\
    PodSecurity,Priority,DefaultTolerationSeconds,DefaultStorageClass,StorageObjectInUseProtection,\
    PersistentVolumeClaimResize,RuntimeClass,CertificateApproval,CertificateSigning,ClusterTrustBundleAttest,\
    CertificateSubjectRestriction,DefaultIngressClass,PodTopologyLabels,NodeDeclaredFeatureValidator,PodResizeValidator,\
    MutatingAdmissionPolicy,MutatingAdmissionWebhook,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook,ResourceQuota";

/// Which servers to compare.
#[derive(Debug, Args)]
pub(crate) struct ChainPairs {
    /// The `trireme` to start
    #[arg(long)]
    server_binary: PathBuf,
    /// The store of the servers
    #[arg(long, value_enum, default_value = "etcd")]
    store: Store,
    /// Measure each request so many times on either server
    #[arg(long, default_value_t = 3)]
    pairs: u32,
    #[command(flatten)]
    options: RunOptions,
}

/// A server and the requests to it.
struct Side {
    server: Server,
    bench: Bench,
}

impl ChainPairs {
    /// Measures and publishes.
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let mut report = self.options.report();
        self.gets(&mut report).await?;
        self.creates(&mut report).await?;
        self.options.publish(&report)
    }

    async fn gets(&self, report: &mut Report) -> Result<(), Failure> {
        let dir = TempDir::with_prefix("trireme-bench-audit-").map_err(Failure::io("make a directory"))?;
        let policy = dir.path().join("policy.yaml");
        fs::write(&policy, POLICY).map_err(Failure::io("write the audit policy"))?;
        let audited = [
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", dir.path().join("audit.log").display()),
        ];
        let mut without = self.side(&[]).await?;
        let mut with = self.side(&audited).await?;
        report
            .about
            .insert("server", server_version(&without.bench.target).await?);
        without.bench.ensure_pods().await?;
        with.bench.ensure_pods().await?;
        with.bench.become_reader().await?;
        let administrator = without.bench.target.clone();
        without.bench.become_reader().await?;
        let reader = without.bench.target.clone();
        let (mut compared, mut unaudited) = (PairedRuns::default(), PairedRuns::default());
        for _ in 0..self.pairs {
            without.bench.target = administrator.clone();
            let cheapest = without.bench.gets().await?;
            without.bench.target = reader.clone();
            unaudited.without(&cheapest);
            unaudited.with(&without.bench.gets().await?);
            compared.without(&cheapest);
            compared.with(&with.bench.gets().await?);
        }
        let names = [None, Some("get pod, service account, no audit")];
        unaudited.publish(report, names, "the chain beside a GET but for audit");
        let names = [
            Some("get pod, system:masters, no audit"),
            Some("get pod, service account, audit at Metadata"),
        ];
        compared.publish(report, names, "the chain beside a GET");
        Ok(())
    }

    async fn creates(&self, report: &mut Report) -> Result<(), Failure> {
        let without = self.side(&[NO_PLUGINS.to_owned()]).await?;
        let with = self.side(&[]).await?;
        let mut compared = PairedRuns::default();
        for _ in 0..self.pairs {
            compared.without(&self.fresh(&without).await?.create_pods().await?);
            compared.with(&self.fresh(&with).await?.create_pods().await?);
        }
        let names = [
            Some("create pod, no admission plugin"),
            Some("create pod, default admission plugins"),
        ];
        compared.publish(report, names, "all default plugins on a pod creation");
        Ok(())
    }

    async fn side(&self, flags: &[String]) -> Result<Side, Failure> {
        let options = &self.options;
        let (server, _) = Server::start_with(&self.server_binary, self.store, options.wire, flags).await?;
        let bench = Bench::new(server.target()?, options.sizes(), Report::default()).await?;
        Ok(Side { server, bench })
    }

    /// In a namespace of its own.
    async fn fresh(&self, side: &Side) -> Result<Bench, Failure> {
        Bench::new(side.server.target()?, self.options.sizes(), Report::default()).await
    }
}

/// Measured figures, in turn.
#[derive(Default)]
struct PairedRuns {
    without: Vec<Row>,
    with: Vec<Row>,
}

impl PairedRuns {
    fn without(&mut self, measured: &Measured) {
        self.without.push(Row::new("", false, measured));
    }

    fn with(&mut self, measured: &Measured) {
        self.with.push(Row::new("", false, measured));
    }

    /// Reports a row for each measurement that has a name, and the median of the differences of a pair.
    fn publish(self, report: &mut Report, [without, with]: [Option<&str>; 2], difference: &str) {
        let pairs = self.without.into_iter().zip(self.with);
        let mut differences = Vec::new();
        for (cheaper, dearer) in pairs {
            let cost = |row: &Row| row.server_cpu_us_per_op.unwrap_or_default();
            differences.push(cost(&dearer) - cost(&cheaper));
            for (name, row) in [(without, cheaper), (with, dearer)] {
                if let Some(workload) = name.map(str::to_owned) {
                    report.row(Row { workload, ..row });
                }
            }
        }
        differences.sort_by(f64::total_cmp);
        if let Some(median) = differences.get(differences.len() / 2) {
            report.figure(
                format!("{difference}, median of {} pairs", differences.len()),
                *median,
                "µs",
            );
        }
    }
}
