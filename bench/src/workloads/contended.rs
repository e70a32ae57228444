//! One object that several writers change at once. An operation is one change that succeeded.

use trireme_http::client::StatusCode;

use super::Bench;
use super::update::{is_turn, no_turn};
use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{LoadOperation, drive};
use crate::objects;
use crate::report::float;

/// Writers of the one object.
const WRITERS: usize = 4;
const CONFLICTS: &str = "conflicts per change";

/// Reads, adds one, puts back; begins anew when another was faster.
struct Increment {
    session: Session,
    path: String,
    done: u64,
    conflicts: u64,
}

impl LoadOperation for Increment {
    async fn once(&mut self, _: u64) -> Result<u64, Failure> {
        let mut bytes = 0;
        loop {
            let object = self.session.expect(&Call::get(&self.path), StatusCode::OK).await?;
            bytes += object.len() as u64;
            let turn = objects::turn(&object).ok_or_else(|| no_turn(&self.path))?;
            let changed = objects::with_turn(&object, turn + 1).ok_or_else(|| no_turn(&self.path))?;
            let put = Call::put(&self.path, changed);
            let (status, body) = self.session.answer(&put).await?;
            bytes += body.len() as u64;
            match status {
                StatusCode::OK => {
                    is_turn(&self.path, &body, turn + 1)?;
                    self.done += 1;
                    return Ok(bytes);
                }
                StatusCode::CONFLICT => self.conflicts += 1,
                other => return Err(put.wrong_status(other, &body)),
            }
        }
    }
}

/// Patches an annotation of its own. The server tries again by itself when another was faster; one that gives up says
/// 409, and the patch is sent anew.
struct ContendedPatch {
    session: Session,
    path: String,
    annotation: String,
    last: u64,
    done: u64,
    conflicts: u64,
}

impl LoadOperation for ContendedPatch {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let call = Call::merge_patch(&self.path, objects::annotation_patch(&self.annotation, number));
        let mut bytes = 0;
        loop {
            let (status, body) = self.session.answer(&call).await?;
            bytes += body.len() as u64;
            match status {
                StatusCode::OK => {
                    self.last = number;
                    self.done += 1;
                    return Ok(bytes);
                }
                StatusCode::CONFLICT => self.conflicts += 1,
                other => return Err(call.wrong_status(other, &body)),
            }
        }
    }
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let mut session = Session::open(&bench.target).await?;
    let create = Call::post(bench.path("configmaps"), objects::config_map("contended", 0));
    session.expect(&create, StatusCode::CREATED).await?;
    let path = format!("{}/contended", bench.path("configmaps"));
    increments(bench, &mut session, &path).await?;
    patches(bench, &mut session, &path).await
}

async fn increments(bench: &mut Bench, session: &mut Session, path: &str) -> Result<(), Failure> {
    let sessions = bench.sessions(WRITERS).await?;
    let callers = sessions.into_iter().map(|session| Increment {
        session,
        path: path.to_owned(),
        done: 0,
        conflicts: 0,
    });
    let mut callers: Vec<_> = callers.collect();
    let measured = drive(bench.target.pid, bench.window(), &mut callers).await?;
    let done: u64 = callers.iter().map(|caller| caller.done).sum();
    let conflicts: u64 = callers.iter().map(|caller| caller.conflicts).sum();
    let object = session.expect(&Call::get(path), StatusCode::OK).await?;
    if objects::turn(&object) != Some(done) {
        let turn = objects::turn(&object);
        return Err(Failure::Wrong(format!(
            "{done} increments were acknowledged and the object says {turn:?}: updates were lost"
        )));
    }
    let row = bench.row("one object, 4 writers, GET + PUT until it succeeds", &measured)?;
    let row = row.with(CONFLICTS, float(conflicts) / float(done.max(1)));
    bench.report.row(row);
    Ok(())
}

async fn patches(bench: &mut Bench, session: &mut Session, path: &str) -> Result<(), Failure> {
    let sessions = bench.sessions(WRITERS).await?;
    let callers = sessions
        .into_iter()
        .enumerate()
        .map(|(writer, session)| ContendedPatch {
            session,
            path: path.to_owned(),
            annotation: format!("bench.trireme.dev/writer-{writer}"),
            last: 0,
            done: 0,
            conflicts: 0,
        });
    let mut callers: Vec<_> = callers.collect();
    let measured = drive(bench.target.pid, bench.window(), &mut callers).await?;
    let body = session.expect(&Call::get(path), StatusCode::OK).await?;
    let object: serde_json::Value =
        serde_json::from_slice(&body).map_err(|error| Failure::Wrong(format!("{path}: {error}")))?;
    for ContendedPatch { annotation, last, .. } in &callers {
        let value = object["metadata"]["annotations"][annotation].as_str();
        if value.and_then(|value| value.parse().ok()) != Some(*last) {
            return Err(Failure::Wrong(format!(
                "{annotation} was last set to {last} and is {value:?}: a patch was lost"
            )));
        }
    }
    let done: u64 = callers.iter().map(|caller| caller.done).sum();
    let conflicts: u64 = callers.iter().map(|caller| caller.conflicts).sum();
    let row = bench.row("one object, 4 writers, merge patch", &measured)?;
    let row = row.with(CONFLICTS, float(conflicts) / float(done.max(1)));
    bench.report.row(row);
    Ok(())
}
