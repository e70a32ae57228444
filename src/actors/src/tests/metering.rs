//! The figures of an actor reach the metrics facade under their names and labels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

use super::worker::{self, Count, Panic};
use crate::testkit::{eventually, run};

/// Keeps the sum of each series.
#[derive(Clone, Default)]
struct Sums(Arc<Mutex<BTreeMap<String, f64>>>);

struct Series {
    sums: Sums,
    name: String,
    /// Histograms count their samples.
    counts: bool,
}

impl Series {
    fn of(sums: &Sums, key: &Key, counts: bool) -> Arc<Self> {
        let labels: Vec<_> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        Arc::new(Self {
            sums: sums.clone(),
            name: format!("{}{{{}}}", key.name(), labels.join(",")),
            counts,
        })
    }

    fn add(&self, value: f64) {
        *self
            .sums
            .0
            .lock()
            .expect("no test panics in here")
            .entry(self.name.clone())
            .or_default() += value;
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        self.add(f64::from(u32::try_from(value).expect("small")));
    }
    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Series {
    fn increment(&self, value: f64) {
        self.add(value);
    }
    fn decrement(&self, value: f64) {
        self.add(-value);
    }
    fn set(&self, _: f64) {}
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.add(if self.counts { 1.0 } else { value });
    }
}

impl Recorder for Sums {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Series::of(self, key, false))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Series::of(self, key, false))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Series::of(self, key, true))
    }
}

#[test]
fn load_and_deaths_reach_the_metrics() {
    let sums = Sums::default();
    run(worker::topology(), |kit| {
        let sums = sums.clone();
        async move {
            let (_owned, worker) = metrics::with_local_recorder(&sums, || worker::spawn(&kit, "pods"));
            for _ in 0..3 {
                worker.ask(Count()).await.expect("it serves");
            }
            worker.ask(Panic()).await.expect_err("it dies");
            eventually("it is rebuilt", || worker.snapshot().restarts == 1).await;
            kit.clock.advance(Duration::from_secs(2));
            let age = worker.snapshot().last_handled_seconds_ago;
            assert!(age.is_some_and(|age| (1.9..=2.0).contains(&age)), "{age:?}");
        }
    });
    let sums = sums.0.lock().expect("no test panics in here").clone();
    let series = |name: &str| sums.get(&format!("{name}{{kind=Worker,instance=pods}}")).copied();
    assert_eq!(series("trireme_actor_mailbox_depth"), Some(0.0));
    assert_eq!(series("trireme_actor_mailbox_wait_seconds"), Some(4.0));
    assert_eq!(series("trireme_actor_handling_seconds"), Some(4.0));
    assert_eq!(series("trireme_actor_restarts_total"), Some(1.0));
}
