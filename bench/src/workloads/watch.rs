//! Fan-out: how late events come, whether one is lost or comes twice, and what delivering one costs.
//!
//! One writer changes config maps at a steady pace; each change carries the time at which it was sent. The same
//! writes are done without watchers first, so that their own cost can be taken off. More watchers get fewer writes at
//! a slower pace, so that the number and the rate of events stay the same.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, TryStreamExt as _};
use hdrhistogram::Histogram;
use trireme_http::client::StatusCode;

use super::watcher::{WatchClient, current_version, open_all};
use super::{Bench, LOOK_AGAIN};
use crate::client::{Call, JSON_TYPE, Session};
use crate::failure::Failure;
use crate::measure::{Measured, Sample, microseconds, record};
use crate::objects;
use crate::report::float;
use crate::sizes::Sizes;

/// Config maps that are changed in turn.
const WATCHED: u64 = 10;
/// The number of events that watchers may be behind, on average, before the writer waits: what is measured is the cost of
/// delivery, not the length of a queue.
const MOST_BEHIND: u64 = 20;
/// The time that all writes may take to reach every watcher.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);
/// The media type of events as protobuf.
const PROTOBUF_WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// The object whose creation shows every watcher that it has seen all.
const END: &str = "watched-end";

/// The events that watchers have received together.
struct Received {
    events: Cell<u64>,
    latency: RefCell<Histogram<u64>>,
}

/// Changes objects at a pace.
struct PacedWriter {
    session: Session,
    collection: String,
    epoch: Instant,
}

/// The number of writes, and the least time between two.
#[derive(Debug, Clone, Copy)]
struct Pace {
    writes: u64,
    between: Duration,
}

impl Pace {
    fn for_watchers(watchers: usize, sizes: &Sizes) -> Self {
        let watchers = u32::try_from(watchers.max(1)).unwrap_or(u32::MAX);
        Self {
            writes: sizes.watched_events.div_ceil(watchers.into()),
            between: Duration::from_secs(1) * watchers / sizes.watched_events_per_s,
        }
    }
}

impl PacedWriter {
    async fn create_watched(&mut self) -> Result<(), Failure> {
        for number in 0..WATCHED {
            let create = Call::post(&self.collection, objects::config_map(&watched(number), 0));
            self.session.expect(&create, StatusCode::CREATED).await?;
        }
        Ok(())
    }

    /// Writes, then says that this was all. Returns the versions that were acknowledged, in order.
    async fn write(&mut self, pace: Pace, watchers: u64, received: &Received) -> Result<Vec<u64>, Failure> {
        let mut acknowledged = Vec::new();
        let mut ticks = tokio::time::interval(pace.between);
        for write in 0..pace.writes {
            ticks.tick().await;
            while received.events.get() < write.saturating_sub(MOST_BEHIND) * watchers {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            let name = watched(write % WATCHED);
            let sent = u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
            let put = Call::put(format!("{}/{name}", self.collection), objects::config_map(&name, sent));
            let body = self.session.expect(&put, StatusCode::OK).await?;
            let version = objects::resource_version(&body);
            acknowledged.push(version.ok_or_else(|| Failure::Wrong(format!("{name} has no resourceVersion")))?);
        }
        let create = Call::post(&self.collection, objects::config_map(END, 0));
        self.session.expect(&create, StatusCode::CREATED).await?;
        Ok(acknowledged)
    }

    async fn delete_end(&mut self) -> Result<(), Failure> {
        let delete = Call::delete(format!("{}/{END}", self.collection));
        self.session.expect(&delete, StatusCode::OK).await.map(drop)
    }
}

fn watched(number: u64) -> String {
    format!("watched-{number}")
}

/// The result of one round.
struct Round {
    measured: Measured,
    writes: u64,
    gaps: u64,
    duplicates: u64,
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    let mut writer = PacedWriter {
        session: Session::open(&bench.target).await?,
        collection: bench.path("configmaps"),
        epoch: Instant::now(),
    };
    writer.create_watched().await?;
    for watchers in bench.sizes.watchers {
        measure(bench, &mut writer, *watchers, JSON_TYPE).await?;
    }
    match bench.sizes.watchers.last() {
        Some(most) => measure(bench, &mut writer, *most, PROTOBUF_WATCH).await,
        None => Ok(()),
    }
}

async fn measure(
    bench: &mut Bench,
    writer: &mut PacedWriter,
    watchers: usize,
    media_type: &'static str,
) -> Result<(), Failure> {
    let pace = Pace::for_watchers(watchers, &bench.sizes);
    let alone = fan_out(bench, writer, pace, 0, media_type).await?;
    let delivered = fan_out(bench, writer, pace, watchers, media_type).await?;
    let form = if media_type == PROTOBUF_WATCH {
        " as protobuf"
    } else {
        ""
    };
    let workload = format!("watch{form}, {watchers} watchers: an event delivered");
    report(bench, workload, &alone, &delivered)
}

async fn fan_out(
    bench: &Bench,
    writer: &mut PacedWriter,
    pace: Pace,
    watchers: usize,
    media_type: &'static str,
) -> Result<Round, Failure> {
    let version = current_version(bench, &writer.collection).await?;
    let call = Call::get(format!("{}?watch=true&resourceVersion={version}", writer.collection)).accepting(media_type);
    let (mut streams, _) = open_all(bench, vec![call; watchers]).await?;
    let received = Received {
        events: Cell::new(0),
        latency: RefCell::new(microseconds()),
    };
    let epoch = writer.epoch;
    let before = Sample::take(bench.target.pid)?;
    let following = streams.iter_mut().map(|stream| follow(stream, &received, epoch));
    let following: FuturesUnordered<_> = following.collect();
    let both = async {
        let following = following.try_collect::<Vec<_>>();
        tokio::try_join!(writer.write(pace, watchers as u64, &received), following)
    };
    let both = tokio::time::timeout(PATIENCE, both).await;
    let (acknowledged, seen) = both.map_err(|_| {
        let events = received.events.get();
        Failure::Wrong(format!(
            "only {events} events reached {watchers} watchers within {PATIENCE:?}"
        ))
    })??;
    let after = Sample::take(bench.target.pid)?;
    writer.delete_end().await?;
    let compared = seen.iter().map(|versions| compare(&acknowledged, versions));
    let (gaps, duplicates) = compared.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    Ok(Round {
        measured: before.until(after, received.events.get(), 0, received.latency.into_inner()),
        writes: acknowledged.len() as u64,
        gaps,
        duplicates,
    })
}

/// Reads one watch until the object that ends it; returns the versions it brought, in order.
async fn follow(stream: &mut WatchClient, received: &Received, epoch: Instant) -> Result<Vec<u64>, Failure> {
    let mut versions = Vec::new();
    let mut ended = false;
    while !ended {
        let took = |event_at: u64| epoch.elapsed().saturating_sub(Duration::from_micros(event_at));
        stream
            .next(|event| {
                if event.is_of(END) {
                    ended = true;
                    return;
                }
                versions.push(event.version);
                received.events.set(received.events.get() + 1);
                if let Some(sent) = event.turn() {
                    record(&mut received.latency.borrow_mut(), took(sent));
                }
            })
            .await?;
    }
    Ok(versions)
}

/// Counts the written versions that were not seen, and the seen ones that were seen before, out of order or never written.
fn compare(written: &[u64], seen: &[u64]) -> (u64, u64) {
    let mut expected = written.iter().peekable();
    let (mut gaps, mut duplicates) = (0, 0);
    for version in seen {
        while expected.next_if(|next| *next < version).is_some() {
            gaps += 1;
        }
        if expected.next_if_eq(&version).is_none() {
            duplicates += 1;
        }
    }
    (gaps + expected.count() as u64, duplicates)
}

/// A row with the cost of an event net of the writes, and one with the cost of the writes.
fn report(bench: &mut Bench, workload: String, alone: &Round, delivered: &Round) -> Result<(), Failure> {
    let Round {
        measured,
        writes,
        gaps,
        duplicates,
    } = delivered;
    let lost = format!("{workload}: {gaps} events were lost, {duplicates} came twice or out of order");
    let mut row = bench.row(workload, measured)?;
    if let Some((own, all)) = alone.measured.server_cpu.zip(measured.server_cpu) {
        let of_writes = own.as_secs_f64() / float(alone.writes) * float(*writes);
        let net = (all.as_secs_f64() - of_writes) * 1e6 / float(measured.operations.max(1));
        row.server_cpu_us_per_op = Some(net.max(0.0));
        row.mb_per_cpu_s = None;
        row.counts.insert("CPU µs of a write", of_writes * 1e6 / float(*writes));
    }
    row.counts.insert("writes", float(*writes));
    row.counts.insert("gaps", float(*gaps));
    row.counts.insert("duplicates", float(*duplicates));
    bench.report.row(row);
    match gaps + duplicates {
        0 => Ok(()),
        _ => Err(Failure::Wrong(lost)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_and_duplicates_are_counted() {
        assert_eq!(compare(&[1, 3, 5, 7], &[1, 3, 5, 7]), (0, 0));
        assert_eq!(compare(&[1, 3, 5, 7], &[1, 5]), (2, 0));
        assert_eq!(compare(&[1, 3, 5], &[1, 1, 3, 5]), (0, 1));
        assert_eq!(
            compare(&[1, 3, 5], &[1, 5, 3]),
            (1, 1),
            "out of order is a gap and an event too many"
        );
        assert_eq!(compare(&[1], &[1, 2]), (0, 1), "never written");
        assert_eq!(compare(&[1, 2], &[]), (2, 0));
    }
}
