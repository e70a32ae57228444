//! Gets of single pods.

use bytes::Bytes;
use memchr::memmem;
use trireme_http::client::StatusCode;

use super::{Bench, READERS};
use crate::client::{Call, JSON_TYPE, Session};
use crate::failure::Failure;
use crate::measure::{LoadOperation, Measured, drive};
use crate::objects;

struct GetLoad {
    session: Session,
    collection: String,
    query: &'static str,
    media_type: &'static str,
    pods: u64,
}

impl GetLoad {
    fn call(&self, number: u64) -> Call {
        let name = objects::pod_name(number % self.pods);
        Call::get(format!("{}/{name}{}", self.collection, self.query)).accepting(self.media_type)
    }
}

impl LoadOperation for GetLoad {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let body = self.session.expect(&self.call(number), StatusCode::OK).await?;
        let name = objects::pod_name(number % self.pods);
        if memmem::find(&body, name.as_bytes()).is_none() {
            return Err(Failure::Wrong(format!("the answer is not pod {name}")));
        }
        Ok(body.len() as u64)
    }
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    bench.ensure_pods().await?;
    measure(bench, "get pod, rv unset, 64 at once", "", JSON_TYPE).await?;
    measure(bench, "get pod, rv=0, 64 at once", "?resourceVersion=0", JSON_TYPE).await
}

/// Measures gets of all pods, one after the other, as a row of the report.
pub(super) async fn measure(
    bench: &mut Bench,
    name: &str,
    query: &'static str,
    media_type: &'static str,
) -> Result<(), Failure> {
    let (measured, body) = load(bench, query, media_type).await?;
    let row = bench.row(name, &measured)?;
    bench.remember(READERS, body);
    bench.report.row(row);
    Ok(())
}

/// Gets all pods, one after the other; also gives one answer.
pub(super) async fn load(
    bench: &Bench,
    query: &'static str,
    media_type: &'static str,
) -> Result<(Measured, Bytes), Failure> {
    let sessions = bench.sessions(READERS).await?;
    let callers = sessions.into_iter().map(|session| GetLoad {
        session,
        collection: bench.path("pods"),
        query,
        media_type,
        pods: bench.sizes.pods,
    });
    let mut callers: Vec<_> = callers.collect();
    let measured = drive(bench.target.pid, bench.window(), &mut callers).await?;
    let sample = callers[0].call(0);
    let body = callers[0].session.expect(&sample, StatusCode::OK).await?;
    Ok((measured, body))
}
