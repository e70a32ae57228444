use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::sync::watch;
use trireme_actors::{ActorSystem, Clock, ManualClock};

use super::*;
use crate::{event::tests::event, level::AuditStage};

/// Remembers how many events each write had, and answers as configured.
struct Recorder {
    writes: watch::Sender<Vec<usize>>,
    error: Mutex<Option<BackendError>>,
    /// Writes end once this is true.
    open: watch::Sender<bool>,
}

impl Recorder {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            writes: watch::Sender::new(Vec::new()),
            error: Mutex::default(),
            open: watch::Sender::new(true),
        })
    }

    fn writes(&self) -> Vec<usize> {
        self.writes.borrow().clone()
    }

    async fn until(&self, writes: &[usize]) {
        let mut seen = self.writes.subscribe();
        let reached = seen.wait_for(|seen| seen == writes).map(|_| ());
        tokio::time::timeout(Duration::from_secs(20), reached)
            .await
            .unwrap_or_else(|_| panic!("{:?} instead of {writes:?}", self.writes()));
    }

    fn fail(&self) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(BackendError("no space".to_owned()));
    }
}

impl AuditBackend for Recorder {
    fn plugin(&self) -> &'static str {
        "recorder"
    }

    fn write(&self, events: Vec<Arc<AuditEvent>>) -> BoxFuture<'static, Result<(), BackendError>> {
        self.writes.send_modify(|writes| writes.push(events.len()));
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut open = self.open.subscribe();
        Box::pin(async move {
            // The recorder outlives what it writes.
            let _ = open.wait_for(|open| *open).await;
            error.map_or(Ok(()), Err)
        })
    }
}

fn batch(buffer_size: usize, max_size: usize, max_wait: Duration) -> Mode {
    Mode::Batch(BatchSettings {
        buffer_size,
        max_size,
        max_wait,
        throttle: None,
    })
}

fn run<F: Future<Output = ()>>(mode: Mode, test: impl FnOnce(AuditSink, Arc<Recorder>, ManualClock) -> F) {
    let clock = ManualClock::new();
    let given = Clock::from(clock.clone());
    let threads = std::num::NonZeroUsize::MIN;
    let ran = trireme_actors::run_system(threads, async move {
        let system = ActorSystem::builder().clock(given).build().expect("it starts");
        let (mut sink, recorder) = (AuditSink::default(), Recorder::new());
        let settings = SinkSettings {
            mode,
            truncate: None,
            group: 1,
            concurrency: 1,
        };
        sink.add(&system, Arc::clone(&recorder) as Arc<dyn AuditBackend>, settings)
            .expect("it is added");
        test(sink, recorder, clock).await;
        assert!(system.shutdown(Duration::from_secs(10)).await.is_empty());
    });
    ran.expect("it runs");
}

fn some() -> AuditEvent {
    event(AuditStage::ResponseComplete)
}

#[test]
fn a_strict_sink_says_that_an_event_is_not_stored_and_a_blocking_one_hides_it() {
    for (mode, expected) in [(Mode::BlockingStrict, false), (Mode::Blocking, true)] {
        run(mode, |sink, recorder, _| async move {
            assert!(sink.record(vec![some()]).await);
            recorder.fail();
            assert_eq!(sink.record(vec![some()]).await, expected);
            assert_eq!(recorder.writes(), [1, 1]);
        });
    }
}

#[test]
fn a_blocking_sink_waits_until_the_event_is_stored() {
    run(Mode::Blocking, |sink, recorder, _| async move {
        recorder.open.send_replace(false);
        let mut recorded = std::pin::pin!(sink.record(vec![some()]));
        tokio::select! {
            _ = &mut recorded => panic!("it did not wait"),
            () = recorder.until(&[1]) => {}
        }
        assert!(recorded.as_mut().now_or_never().is_none());
        recorder.open.send_replace(true);
        assert!(recorded.await);
    });
}

#[test]
fn a_batch_is_written_when_it_is_large_enough_or_old_enough() {
    let wait = Duration::from_secs(30);
    run(batch(100, 3, wait), |sink, recorder, _| async move {
        for _ in 0..3 {
            sink.record(vec![some()]).await;
        }
        recorder.until(&[3]).await;
    });
    run(batch(100, 3, wait), |sink, recorder, clock| async move {
        sink.record(vec![some()]).await;
        clock.wait_for_sleep(wait).await;
        clock.advance(wait);
        recorder.until(&[1]).await;
    });
}

#[test]
fn events_that_are_recorded_together_are_written_together_but_for_batches() {
    run(Mode::Blocking, |sink, recorder, _| async move {
        assert!(sink.record(vec![some(), some()]).await);
        assert_eq!(recorder.writes(), [2]);
    });
    run(batch(100, 1, Duration::ZERO), |sink, recorder, _| async move {
        assert!(sink.record(vec![some(), some()]).await);
        recorder.until(&[1, 1]).await;
    });
}

#[test]
fn a_batch_that_is_flushed_does_not_wait() {
    run(
        batch(100, 50, Duration::from_secs(30)),
        |sink, recorder, _| async move {
            sink.record_unawaited(vec![some()]);
            sink.flush().await;
            assert_eq!(recorder.writes(), [1]);
        },
    );
}

#[test]
fn events_that_find_the_buffer_full_are_dropped_without_a_wait() {
    run(batch(2, 1, Duration::ZERO), |sink, recorder, _| async move {
        recorder.open.send_replace(false);
        sink.record(vec![some()]).await;
        recorder.until(&[1]).await;
        for _ in 0..5 {
            assert!(sink.record(vec![some()]).await);
        }
        recorder.open.send_replace(true);
        sink.flush().await;
        assert_eq!(recorder.writes(), [1, 1, 1]);
    });
}

#[test]
fn writes_are_throttled() {
    let mode = Mode::Batch(BatchSettings {
        buffer_size: 100,
        max_size: 1,
        max_wait: Duration::ZERO,
        throttle: Some(Throttle { qps: 2.0, burst: 2 }),
    });
    run(mode, |sink, recorder, clock| async move {
        for _ in 0..3 {
            sink.record(vec![some()]).await;
        }
        recorder.until(&[1, 1]).await;
        clock.wait_for_sleep(Duration::from_millis(500)).await;
        clock.advance(Duration::from_millis(500));
        recorder.until(&[1, 1, 1]).await;
    });
}
