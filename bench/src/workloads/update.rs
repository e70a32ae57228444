//! Changes of objects without other writers, and deletes.

use bytes::Bytes;
use trireme_http::client::StatusCode;

use super::{Bench, WRITERS};
use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{Limit, LoadOperation, drive};
use crate::objects;

/// A writer that puts its own object back with another annotation, on top of the last answer.
struct Put {
    session: Session,
    path: String,
    last: Bytes,
}

impl LoadOperation for Put {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let changed = objects::with_turn(&self.last, number + 1).ok_or_else(|| no_turn(&self.path))?;
        let call = Call::put(&self.path, changed);
        self.last = self.session.expect(&call, StatusCode::OK).await?;
        is_turn(&self.path, &self.last, number + 1)?;
        Ok(self.last.len() as u64)
    }
}

/// A writer that patches its own object.
struct PatchLoad {
    session: Session,
    path: String,
}

impl LoadOperation for PatchLoad {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let call = Call::merge_patch(&self.path, objects::annotation_patch(objects::TURN, number + 1));
        let body = self.session.expect(&call, StatusCode::OK).await?;
        is_turn(&self.path, &body, number + 1)?;
        Ok(body.len() as u64)
    }
}

/// A writer that deletes one object after the other.
struct DeleteLoad {
    session: Session,
    collection: String,
}

impl LoadOperation for DeleteLoad {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let call = Call::delete(format!("{}/{}", self.collection, own_name(number)));
        Ok(self.session.expect(&call, StatusCode::OK).await?.len() as u64)
    }
}

pub(super) fn no_turn(path: &str) -> Failure {
    Failure::Wrong(format!("{path} has lost its annotation"))
}

pub(super) fn is_turn(path: &str, object: &[u8], expected: u64) -> Result<(), Failure> {
    match objects::turn(object) {
        Some(turn) if turn == expected => Ok(()),
        turn => Err(Failure::Wrong(format!(
            "{path} was set to {expected} and answered {turn:?}"
        ))),
    }
}

fn own_name(number: u64) -> String {
    format!("own-{number}")
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    bench.ensure_pods().await?;
    let many = delete_count(bench);
    create_own(bench, many).await?;
    let maps = own_paths(bench, "configmaps", own_name);
    let pods = own_paths(bench, "pods", objects::pod_name);
    for (kind, paths) in [("configmap 1 KiB", maps), ("pod", pods)] {
        put(bench, kind, &paths).await?;
        patch(bench, kind, &paths).await?;
    }
    let sessions = bench.sessions(WRITERS).await?;
    let collection = bench.path("configmaps");
    let callers = sessions.into_iter().map(|session| DeleteLoad {
        session,
        collection: collection.clone(),
    });
    let mut callers: Vec<_> = callers.collect();
    let measured = drive(bench.target.pid, Limit::Times(many), &mut callers).await?;
    let row = bench.row("delete configmap 1 KiB, 16 at once", &measured)?;
    bench.report.row(row);
    Ok(())
}

/// As many as there are pods: about as long as a window on the machines this is meant for.
fn delete_count(bench: &Bench) -> u64 {
    bench.sizes.pods.max(WRITERS as u64)
}

fn own_paths(bench: &Bench, resource: &str, name: impl Fn(u64) -> String) -> Vec<String> {
    let collection = bench.path(resource);
    (0..WRITERS as u64)
        .map(|writer| format!("{collection}/{}", name(writer)))
        .collect()
}

async fn create_own(bench: &Bench, many: u64) -> Result<(), Failure> {
    let object = |number| objects::config_map(&own_name(number), 0);
    super::create::create(bench, "configmaps", WRITERS, Limit::Times(many), &object)
        .await
        .map(drop)
}

async fn put(bench: &mut Bench, kind: &str, paths: &[String]) -> Result<(), Failure> {
    let mut callers = Vec::with_capacity(paths.len());
    for (mut session, path) in bench.sessions(paths.len()).await?.into_iter().zip(paths) {
        let last = session.expect(&Call::get(path), StatusCode::OK).await?;
        let path = path.clone();
        callers.push(Put { session, path, last });
    }
    let measured = drive(bench.target.pid, bench.window(), &mut callers).await?;
    let row = bench.row(format!("update {kind} (PUT), 16 at once"), &measured)?;
    bench.report.row(row);
    Ok(())
}

async fn patch(bench: &mut Bench, kind: &str, paths: &[String]) -> Result<(), Failure> {
    let sessions = bench.sessions(paths.len()).await?;
    let callers = sessions.into_iter().zip(paths.iter().cloned());
    let mut callers: Vec<_> = callers.map(|(session, path)| PatchLoad { session, path }).collect();
    let measured = drive(bench.target.pid, bench.window(), &mut callers).await?;
    let row = bench.row(format!("merge patch {kind}, 16 at once"), &measured)?;
    bench.report.row(row);
    Ok(())
}
