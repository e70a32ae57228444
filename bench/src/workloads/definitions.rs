//! Definitions of custom resources, installed one after the other: the time until each is established, the memory that it
//! takes, and the delay that other clients notice.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use serde_json::Value;
use trireme_http::client::StatusCode;

use super::{Bench, LOOK_AGAIN, WRITERS};
use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{Limit, LoadOperation, drive, microseconds, record};
use crate::objects;
use crate::report::float;
use crate::usage;

/// The collection of definitions.
pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The media type with which kubectl and client-go ask for all resources of all groups at once.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Between two requests of the client that only reads; 100 a second are enough for a 99th percentile.
const PROBED_EVERY: Duration = Duration::from_millis(10);
/// The longest that a definition may take to be established, or another extension to be active.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

struct Install {
    session: Session,
}

impl LoadOperation for Install {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let name = objects::definition_name(number);
        install(&mut self.session, &name, objects::definition(number)).await
    }
}

/// Creates a definition and waits until it is established; gives back the bytes of its last answer.
pub(super) async fn install(session: &mut Session, name: &str, definition: Bytes) -> Result<u64, Failure> {
    let create = Call::post(DEFINITIONS, definition);
    session.expect(&create, StatusCode::CREATED).await?;
    let read = Call::get(format!("{DEFINITIONS}/{name}"));
    let end = Instant::now() + PATIENCE;
    loop {
        let body = session.expect(&read, StatusCode::OK).await?;
        if is_established(&body) {
            return Ok(body.len() as u64);
        }
        if Instant::now() > end {
            return Err(Failure::Wrong(format!("definition {name} is not established")));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Creates so many definitions, several at once.
pub(super) async fn install_many(bench: &Bench, many: u64) -> Result<(), Failure> {
    let sessions = bench.sessions(WRITERS).await?;
    let mut callers: Vec<_> = sessions.into_iter().map(|session| Install { session }).collect();
    drive(bench.target.pid, Limit::Times(many), &mut callers)
        .await
        .map(drop)
}

fn path(number: u64) -> String {
    format!("{DEFINITIONS}/{}", objects::definition_name(number))
}

fn is_established(body: &[u8]) -> bool {
    let definition: Value = serde_json::from_slice(body).unwrap_or_default();
    let conditions = definition["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let many = bench.sizes.definitions;
    let mut prober = Session::open(&bench.target).await?;
    let idle = probe_for(&mut prober, bench.sizes.window).await?;
    let before = match bench.target.pid {
        Some(pid) => Some((pid, usage::settled(pid).await?)),
        None => None,
    };
    let mut callers = [Install {
        session: Session::open(&bench.target).await?,
    }];
    let mut latency = microseconds();
    let measured = tokio::select! {
        measured = drive(bench.target.pid, Limit::Times(many), &mut callers) => measured?,
        failed = probe(&mut prober, &mut latency) => return failed,
    };
    let row = bench.row(format!("install a definition, {many} one after the other"), &measured)?;
    bench.report.row(row);
    let took = measured.took.as_secs_f64();
    let p99 = |latency: &Histogram<u64>| float(latency.value_at_quantile(0.99)) / 1e3;
    bench.report.figure(format!("{many} definitions"), took, "s");
    bench.report.figure("p99 of a GET, idle", p99(&idle), "ms");
    bench
        .report
        .figure("p99 of a GET while definitions are installed", p99(&latency), "ms");
    for (name, call) in [
        ("first discovery", Call::get("/apis").accepting(AGGREGATED)),
        ("first index of OpenAPI v3", Call::get("/openapi/v3")),
    ] {
        let begun = Instant::now();
        prober.expect(&call, StatusCode::OK).await?;
        let took = begun.elapsed().as_secs_f64() * 1e3;
        bench
            .report
            .figure(format!("{name} with {many} definitions"), took, "ms");
    }
    if let Some((pid, before)) = before {
        let after = usage::settled(pid).await?;
        let grown = float(after.rss_kib) - float(before.rss_kib);
        bench
            .report
            .figure(format!("a definition, of {many}"), grown / float(many), "KiB");
    }
    for number in 0..many {
        prober.expect(&Call::delete(path(number)), StatusCode::OK).await?;
    }
    Ok(())
}

/// Reads an object that has nothing to do with definitions, again and again, until it is dropped or an answer is wrong.
async fn probe(session: &mut Session, latency: &mut Histogram<u64>) -> Result<(), Failure> {
    let read = Call::get("/api/v1/namespaces/default");
    loop {
        let begun = Instant::now();
        session.expect(&read, StatusCode::OK).await?;
        record(latency, begun.elapsed());
        tokio::time::sleep(PROBED_EVERY).await;
    }
}

async fn probe_for(session: &mut Session, window: Duration) -> Result<Histogram<u64>, Failure> {
    let mut latency = microseconds();
    match tokio::time::timeout(window, probe(session, &mut latency)).await {
        Ok(failed) => failed.map(|()| latency),
        Err(_) => Ok(latency),
    }
}
