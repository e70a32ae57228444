//! The memory of watches while nothing happens.

use futures_util::stream::{FuturesUnordered, TryStreamExt as _};
use trireme_http::client::StatusCode;

use super::watcher::{current_version, open_all};
use super::{Bench, mib};
use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::objects;
use crate::report::float;
use crate::usage;

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let many = bench.sizes.idle_watches;
    let collection = bench.path("secrets");
    let version = current_version(bench, &collection).await?;
    let before = bench.target.pid.map(usage::memory).transpose()?;
    let call = Call::get(format!("{collection}?watch=true&resourceVersion={version}"));
    let (mut streams, opened) = open_all(bench, vec![call; many]).await?;
    let row = bench.row(format!("open a watch, {many} in all"), &opened)?;
    bench.report.row(row);
    if let Some((pid, before)) = bench.target.pid.zip(before) {
        let after = usage::settled(pid).await?;
        let grown = float(after.rss_kib) - float(before.rss_kib);
        let each = grown / float(many as u64);
        bench.report.figure(format!("an idle watch, of {many}"), each, "KiB");
        bench
            .report
            .figure(format!("RSS with {many} idle watches"), mib(after.rss_kib), "MiB");
    }
    // Only a watch that still works was worth its memory.
    let secret = serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "wakes"}});
    let create = Call::post(&collection, secret.to_string());
    let mut session = Session::open(&bench.target).await?;
    let created = session.expect(&create, StatusCode::CREATED).await?;
    let expected = objects::resource_version(&created);
    let waking = streams.iter_mut().map(|stream| async move {
        let mut version = None;
        while version.is_none() {
            stream.next(|event| version = Some(event.version)).await?;
        }
        Ok::<_, Failure>(version)
    });
    let waking: FuturesUnordered<_> = waking.collect();
    let woken: Vec<_> = tokio::time::timeout(super::watch::PATIENCE, waking.try_collect())
        .await
        .map_err(|_| Failure::Wrong(format!("not all of {many} idle watches woke up")))??;
    match woken.iter().all(|version| *version == expected) {
        true => Ok(()),
        false => Err(Failure::Wrong("an idle watch woke up with another event".to_owned())),
    }
}
