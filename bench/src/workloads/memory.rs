//! Growth of memory while several callers list everything at once.

use trireme_http::client::StatusCode;

use super::list::Counter;
use super::{Bench, mib};
use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{Limit, LoadOperation, drive};
use crate::objects::POD_PREFIX;
use crate::report::float;
use crate::usage;

/// Callers that list at once.
const CALLERS: usize = 8;
/// Lists of each caller.
const ROUNDS: u64 = 3;

struct ListAll {
    session: Session,
    collection: String,
    pods: u64,
}

impl LoadOperation for ListAll {
    async fn once(&mut self, _: u64) -> Result<u64, Failure> {
        let mut counter = Counter::of_names(POD_PREFIX);
        let call = Call::get(&self.collection);
        let bytes = self
            .session
            .stream(&call, StatusCode::OK, |piece| counter.see(piece))
            .await?;
        match counter.count {
            count if count == self.pods => Ok(bytes),
            count => Err(Failure::Wrong(format!("{count} of {} pods were listed", self.pods))),
        }
    }
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    bench.ensure_pods().await?;
    let before = match bench.target.pid {
        Some(pid) => {
            let before = usage::settled(pid).await?;
            usage::reset_peak(pid)?;
            Some((pid, before))
        }
        None => None,
    };
    let sessions = bench.sessions(CALLERS).await?;
    let callers = sessions.into_iter().map(|session| ListAll {
        session,
        collection: bench.path("pods"),
        pods: bench.sizes.pods,
    });
    let mut callers: Vec<_> = callers.collect();
    let limit = Limit::Times(CALLERS as u64 * ROUNDS);
    let measured = drive(bench.target.pid, limit, &mut callers).await?;
    let row = bench.row(format!("list pods, all, {CALLERS} at once"), &measured)?;
    bench.report.row(row);
    if let Some((pid, before)) = before {
        let peak = usage::memory(pid)?.peak_kib;
        let over = float(peak) / float(before.rss_kib);
        bench.report.figure(
            format!("RSS before {CALLERS} full lists at once"),
            mib(before.rss_kib),
            "MiB",
        );
        bench.report.figure(
            format!("RSS at its highest during {CALLERS} full lists at once"),
            mib(peak),
            "MiB",
        );
        bench
            .report
            .figure(format!("peak over loaded, {CALLERS} full lists at once"), over, "×");
    }
    Ok(())
}
