//! Creates: config maps of 1 KiB and realistic pods.

use bytes::Bytes;
use trireme_http::client::StatusCode;

use super::{Bench, READERS, WRITERS, mib};
use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{Limit, LoadOperation, Measured, drive};
use crate::objects;
use crate::usage;

struct CreateLoad<'a> {
    session: Session,
    collection: String,
    object: &'a dyn Fn(u64) -> Bytes,
}

impl LoadOperation for CreateLoad<'_> {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let call = Call::post(&self.collection, (self.object)(number));
        let body = self.session.expect(&call, StatusCode::CREATED).await?;
        if objects::resource_version(&body).is_none() {
            return Err(Failure::Wrong("a created object has no resourceVersion".to_owned()));
        }
        Ok(body.len() as u64)
    }
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    bench.ensure_pods().await?;
    let object = |number| objects::config_map(&format!("created-{number}"), 0);
    let measured = create(bench, "configmaps", WRITERS, bench.window(), &object).await?;
    let row = bench.row("create configmap 1 KiB, 16 at once", &measured)?;
    bench.report.row(row);
    Ok(())
}

/// The pods that all later workloads read.
pub(super) async fn pods(bench: &mut Bench) -> Result<(), Failure> {
    let limit = Limit::Times(bench.sizes.pods);
    let measured = create(bench, "pods", WRITERS, limit, &objects::pod).await?;
    let row = bench.row("create pod, 16 at once", &measured)?;
    bench.report.row(row);
    loaded(bench, &format!("{} pods", bench.sizes.pods)).await
}

/// The start of the names of config maps that are only there to take room.
pub(super) const LOAD_PREFIX: &str = "load-";

/// Many config maps.
pub(super) async fn load(bench: &mut Bench) -> Result<(), Failure> {
    let many = bench.sizes.config_maps;
    let object = |number| objects::config_map(&format!("{LOAD_PREFIX}{number}"), 0);
    let measured = create(bench, "configmaps", READERS, Limit::Times(many), &object).await?;
    let row = bench.row(format!("create {many} configmaps, 64 at once"), &measured)?;
    bench.report.row(row);
    loaded(bench, &format!("{many} configmaps")).await
}

pub(super) async fn create(
    bench: &Bench,
    resource: &str,
    writers: usize,
    limit: Limit,
    object: &dyn Fn(u64) -> Bytes,
) -> Result<Measured, Failure> {
    create_in(bench, &bench.path(resource), writers, limit, object).await
}

/// Creates objects in a collection.
pub(super) async fn create_in(
    bench: &Bench,
    collection: &str,
    writers: usize,
    limit: Limit,
    object: &dyn Fn(u64) -> Bytes,
) -> Result<Measured, Failure> {
    let sessions = bench.sessions(writers).await?;
    let callers = sessions.into_iter().map(|session| CreateLoad {
        session,
        collection: collection.to_owned(),
        object,
    });
    let mut callers: Vec<_> = callers.collect();
    drive(bench.target.pid, limit, &mut callers).await
}

async fn loaded(bench: &mut Bench, with: &str) -> Result<(), Failure> {
    if let Some(pid) = bench.target.pid {
        let memory = usage::settled(pid).await?;
        bench
            .report
            .figure(format!("RSS with {with}"), mib(memory.rss_kib), "MiB");
        bench.report.figure(
            format!("RSS at its highest while {with} were created"),
            mib(memory.peak_kib),
            "MiB",
        );
    }
    Ok(())
}
