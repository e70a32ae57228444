//! Server-side apply: each writer applies its own object, with another annotation each time.

use bytes::Bytes;
use trireme_http::client::StatusCode;

use super::update::is_turn;
use super::{Bench, WRITERS};
use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{LoadOperation, drive};
use crate::objects;

struct ApplyLoad {
    session: Session,
    path: String,
    name: String,
    object: fn(&str, u64) -> Bytes,
}

impl ApplyLoad {
    fn call(&self, turn: u64) -> Call {
        let path = format!("{}?fieldManager=bench", self.path);
        Call::apply(path, (self.object)(&self.name, turn))
    }
}

impl LoadOperation for ApplyLoad {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let body = self.session.expect(&self.call(number + 1), StatusCode::OK).await?;
        is_turn(&self.path, &body, number + 1)?;
        Ok(body.len() as u64)
    }
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let config_maps = bench.path("configmaps");
    let deployments = bench.path("deployments").replacen("/api/v1/", "/apis/apps/v1/", 1);
    apply(
        bench,
        "apply configmap 1 KiB, 16 at once",
        &config_maps,
        objects::config_map,
    )
    .await?;
    apply(bench, "apply deployment, 16 at once", &deployments, objects::deployment).await
}

async fn apply(bench: &mut Bench, row: &str, collection: &str, object: fn(&str, u64) -> Bytes) -> Result<(), Failure> {
    let mut callers = Vec::with_capacity(WRITERS);
    for (number, session) in bench.sessions(WRITERS).await?.into_iter().enumerate() {
        let name = format!("applied-{number}");
        let path = format!("{collection}/{name}");
        let mut caller = ApplyLoad {
            session,
            path,
            name,
            object,
        };
        let create = caller.call(0);
        caller.session.expect(&create, StatusCode::CREATED).await?;
        callers.push(caller);
    }
    let measured = drive(bench.target.pid, bench.window(), &mut callers).await?;
    let row = bench.row(row, &measured)?;
    bench.report.row(row);
    Ok(())
}
