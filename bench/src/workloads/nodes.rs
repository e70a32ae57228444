//! Watchers of one node's pods each, as kubelets are: what an event costs that concerns none of them.

use std::cell::Cell;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use trireme_http::client::StatusCode;

use super::watcher::{WatchClient, current_version, open_all};
use super::{Bench, WRITERS};
use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{Limit, LoadOperation, Measured, drive};
use crate::objects;

/// The time that the event that does concern a watcher may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Changes a pod on a node without a watcher.
struct Elsewhere {
    session: Session,
    pod: String,
}

impl LoadOperation for Elsewhere {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let patch = Call::merge_patch(&self.pod, objects::annotation_patch(objects::TURN, number));
        Ok(self.session.expect(&patch, StatusCode::OK).await?.len() as u64)
    }
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    bench.ensure_pods().await?;
    let alone = changes_elsewhere(bench).await?;
    let alone_us = bench.row("", &alone)?.server_cpu_us_per_op;
    for watchers in bench.sizes.node_watchers {
        let version = current_version(bench, &bench.path("pods")).await?;
        let calls = (0..*watchers).map(|number| {
            let selector = format!("fieldSelector=spec.nodeName%3D{}", watched_node(*watchers, number));
            Call::get(format!(
                "{}?watch=true&{selector}&resourceVersion={version}",
                bench.path("pods")
            ))
        });
        let (mut streams, opened) = open_all(bench, calls.collect()).await?;
        let row = bench.row(format!("open a watch of one node, {watchers} in all"), &opened)?;
        bench.report.row(row);
        let measured = while_watching(bench, &mut streams).await?;
        let mut row = bench.row(
            format!("patch of a pod that none of {watchers} watchers of one node sees"),
            &measured,
        )?;
        if let Some((own, alone)) = row.server_cpu_us_per_op.zip(alone_us) {
            row.counts.insert("CPU µs more than without watchers", own - alone);
        }
        bench.report.row(row);
        concerns_exactly_one(bench, streams).await?;
    }
    Ok(())
}

fn watched_node(watchers: usize, number: usize) -> String {
    format!("watched-{watchers}-{number}")
}

async fn changes_elsewhere(bench: &Bench) -> Result<Measured, Failure> {
    let sessions = bench.sessions(WRITERS).await?;
    let callers = sessions.into_iter().zip(0..).map(|(session, number)| Elsewhere {
        session,
        pod: format!("{}/{}", bench.path("pods"), objects::pod_name(number)),
    });
    let mut callers: Vec<_> = callers.collect();
    let limit = Limit::For {
        warm_up: bench.sizes.warm_up,
        window: bench.sizes.window,
    };
    drive(bench.target.pid, limit, &mut callers).await
}

/// Measures the changes while the watchers read; an event that reaches one of them is a failure.
async fn while_watching(bench: &Bench, streams: &mut [WatchClient]) -> Result<Measured, Failure> {
    let stray = Cell::new(0_u64);
    let mut reading: FuturesUnordered<_> = streams
        .iter_mut()
        .map(|stream| stream.next(|_| stray.set(stray.get() + 1)))
        .collect();
    let changes = changes_elsewhere(bench);
    tokio::pin!(changes);
    loop {
        tokio::select! {
            measured = &mut changes => return measured,
            Some(read) = reading.next() => {
                read?;
                if stray.get() > 0 {
                    return Err(Failure::Wrong("a watch of one node got an event of another".to_owned()));
                }
            }
        }
    }
}

/// Creates a pod on a watched node; its watcher gets one event, all others none.
async fn concerns_exactly_one(bench: &Bench, mut streams: Vec<WatchClient>) -> Result<(), Failure> {
    let watchers = streams.len();
    let node = watched_node(watchers, watchers / 2);
    let name = format!("seen-{watchers}");
    let create = Call::post(bench.path("pods"), objects::pod_on(&name, "seen", &node));
    let mut session = Session::open(&bench.target).await?;
    session.expect(&create, StatusCode::CREATED).await?;
    let events = Cell::new(0_u64);
    let reading = streams.iter_mut().enumerate().map(|(number, stream)| {
        let events = &events;
        let name = &name;
        async move {
            let mut own = false;
            while !own {
                stream
                    .next(|event| {
                        events.set(events.get() + 1);
                        own |= event.is_of(name);
                    })
                    .await?;
            }
            Ok::<_, Failure>(number)
        }
    });
    let mut reading: FuturesUnordered<_> = reading.collect();
    let first = tokio::time::timeout(PATIENCE, reading.next()).await;
    let first = first.map_err(|_| Failure::Wrong(format!("no watcher of {node} saw {name} within {PATIENCE:?}")))?;
    let number = first.transpose()?;
    drop(reading);
    if number != Some(watchers / 2) || events.get() != 1 {
        let events = events.get();
        return Err(Failure::Wrong(format!(
            "{name} on {node} was seen by watcher {number:?}, {events} events came"
        )));
    }
    Ok(())
}
