//! Drives operations from several callers at once and takes the figures of a window.
//!
//! Everything runs on one thread, so that the load generator leaves the rest of the machine to the server.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, TryStreamExt as _};
use hdrhistogram::Histogram;

use crate::failure::Failure;
use crate::usage;

/// One caller's part of a workload.
pub(crate) trait LoadOperation {
    /// Does the operation with this number once; numbers are given out in order, over all callers. Returns the bytes
    /// of the answers. Answers that are wrong are failures.
    async fn once(&mut self, number: u64) -> Result<u64, Failure>;
}

/// The end of a measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// Warm up, then measure for this time; operations that end in the window count.
    For {
        /// Not measured.
        warm_up: Duration,
        /// Measured.
        window: Duration,
    },
    /// Measure from the first to the last of so many operations.
    Times(u64),
}

/// The figures of a window.
#[derive(Debug)]
pub(crate) struct Measured {
    /// Operations that were done.
    pub(crate) operations: u64,
    /// The length of the window.
    pub(crate) took: Duration,
    /// Bytes of their answers.
    pub(crate) bytes: u64,
    /// From the first request of an operation to the end of its last answer, in microseconds.
    pub(crate) latency: Histogram<u64>,
    /// CPU time of the server, if its process is known.
    pub(crate) server_cpu: Option<Duration>,
    /// CPU time of this load generator.
    pub(crate) client_cpu: Duration,
}

/// Latencies beyond this count as this: ten minutes.
const LONGEST_MICROS: u64 = 600_000_000;

/// An empty histogram of microseconds, with three digits.
pub(crate) fn microseconds() -> Histogram<u64> {
    Histogram::new_with_max(LONGEST_MICROS, 3).expect("these bounds are allowed")
}

/// CPU times at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    at: Instant,
    server: Option<Duration>,
    client: Duration,
}

impl Sample {
    /// Now.
    pub(crate) fn take(server: Option<u32>) -> Result<Self, Failure> {
        Ok(Self {
            at: Instant::now(),
            server: server.map(usage::cpu_time).transpose()?,
            client: usage::cpu_time(std::process::id())?,
        })
    }

    /// The result of a window that begins here.
    pub(crate) fn until(self, end: Self, operations: u64, bytes: u64, latency: Histogram<u64>) -> Measured {
        Measured {
            operations,
            took: end.at - self.at,
            bytes,
            latency,
            server_cpu: self.server.zip(end.server).map(|(before, after)| after - before),
            client_cpu: end.client - self.client,
        }
    }
}

/// State that the callers share.
struct Shared {
    limit: Limit,
    begin: Instant,
    tally: RefCell<LoadTally>,
}

struct LoadTally {
    next: u64,
    operations: u64,
    bytes: u64,
    latency: Histogram<u64>,
}

/// Lets every caller do one operation after the other. The first failure ends it all.
pub(crate) async fn drive<O: LoadOperation>(
    server: Option<u32>,
    limit: Limit,
    callers: &mut [O],
) -> Result<Measured, Failure> {
    let warm_up = match limit {
        Limit::For { warm_up, .. } => warm_up,
        Limit::Times(_) => Duration::ZERO,
    };
    let shared = Shared::new(limit, Instant::now() + warm_up);
    let running: FuturesUnordered<_> = callers.iter_mut().map(|caller| shared.go_on(caller)).collect();
    let running = running.try_collect::<()>();
    let (before, after) = match limit {
        Limit::For { window, .. } => {
            let sampling = async {
                tokio::time::sleep(warm_up).await;
                let before = Sample::take(server)?;
                tokio::time::sleep_until((shared.begin + window).into()).await;
                // One operation may take longer than the window.
                while shared.is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok((before, Sample::take(server)?))
            };
            tokio::try_join!(running, sampling)?.1
        }
        Limit::Times(_) => {
            let before = Sample::take(server)?;
            running.await?;
            (before, Sample::take(server)?)
        }
    };
    let LoadTally {
        operations,
        bytes,
        latency,
        ..
    } = shared.tally.into_inner();
    Ok(before.until(after, operations, bytes, latency))
}

impl Shared {
    fn new(limit: Limit, begin: Instant) -> Self {
        let tally = LoadTally {
            next: 0,
            operations: 0,
            bytes: 0,
            latency: microseconds(),
        };
        Self {
            limit,
            begin,
            tally: RefCell::new(tally),
        }
    }

    async fn go_on<O: LoadOperation>(&self, caller: &mut O) -> Result<(), Failure> {
        while let Some(number) = self.next() {
            let begun = Instant::now();
            let bytes = caller.once(number).await?;
            self.count(begun, bytes);
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.tally.borrow().operations == 0
    }

    fn next(&self) -> Option<u64> {
        let mut tally = self.tally.borrow_mut();
        let number = tally.next;
        let goes_on = match self.limit {
            Limit::For { window, .. } => tally.operations == 0 || Instant::now() < self.begin + window,
            Limit::Times(most) => number < most,
        };
        tally.next += u64::from(goes_on);
        goes_on.then_some(number)
    }

    fn count(&self, begun: Instant, bytes: u64) {
        let now = Instant::now();
        let mut tally = self.tally.borrow_mut();
        let counts = match self.limit {
            Limit::For { window, .. } => now >= self.begin && (tally.operations == 0 || now <= self.begin + window),
            Limit::Times(_) => true,
        };
        if counts {
            tally.operations += 1;
            tally.bytes += bytes;
            record(&mut tally.latency, now - begun);
        }
    }
}

/// Counts a latency.
pub(crate) fn record(latency: &mut Histogram<u64>, took: Duration) {
    latency.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers(Vec<u64>);

    impl LoadOperation for Numbers {
        async fn once(&mut self, number: u64) -> Result<u64, Failure> {
            self.0.push(number);
            tokio::task::yield_now().await;
            Ok(10)
        }
    }

    struct Fails;

    impl LoadOperation for Fails {
        async fn once(&mut self, number: u64) -> Result<u64, Failure> {
            if number == 3 {
                return Err(Failure::Wrong("three".to_owned()));
            }
            Ok(0)
        }
    }

    #[tokio::test]
    async fn so_many_operations_are_spread_over_the_callers_and_counted() {
        let mut callers = [Numbers(Vec::new()), Numbers(Vec::new())];
        let measured = drive(None, Limit::Times(7), &mut callers).await.unwrap();
        assert_eq!((measured.operations, measured.bytes), (7, 70));
        assert_eq!(measured.latency.len(), 7);
        let mut all: Vec<u64> = callers.iter().flat_map(|caller| caller.0.clone()).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
        assert!(callers.iter().all(|caller| !caller.0.is_empty()), "both took part");
    }

    #[tokio::test]
    async fn a_failure_ends_the_run() {
        let error = drive(None, Limit::Times(10), &mut [Fails]).await.unwrap_err();
        assert_eq!(error.to_string(), "three");
    }

    fn window_from(begin: Instant) -> Shared {
        let limit = Limit::For {
            warm_up: Duration::ZERO,
            window: Duration::ZERO,
        };
        Shared::new(limit, begin)
    }

    #[test]
    fn what_ends_in_the_warm_up_does_not_count() {
        let shared = window_from(Instant::now() + Duration::from_secs(3600));
        shared.count(Instant::now(), 1);
        assert!(shared.is_empty());
    }

    #[test]
    fn a_window_is_as_long_as_its_first_operation_at_least() {
        let shared = window_from(Instant::now() - Duration::from_secs(1));
        assert_eq!(shared.next(), Some(0), "it goes on until one has ended");
        shared.count(Instant::now(), 1);
        shared.count(Instant::now(), 1);
        assert_eq!(shared.next(), None);
        assert_eq!(shared.tally.into_inner().operations, 1, "the second came too late");
    }
}
