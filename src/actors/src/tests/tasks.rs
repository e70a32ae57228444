//! Named tasks are counted, cancelled, joined, and their panics are seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::worker;
use crate::testkit::{eventually, run};
use crate::{Clock, ManualClock};

#[test]
fn a_panic_of_a_task_is_counted_and_hurts_no_other() {
    run(worker::topology(), |kit| async move {
        let tasks = kit.system.tasks();
        let healthy = tasks.spawn_named("healthy", std::future::pending());
        let broken = tasks.spawn_named("broken", async { panic!("the task trips") });
        broken.done().await;
        assert_eq!(tasks.panics(), 1);
        assert_eq!(tasks.names(), ["healthy"]);
        assert!(!healthy.is_done());
        healthy.cancel();
        healthy.done().await;
        assert_eq!(tasks.names(), Vec::<String>::new());
    });
}

#[test]
fn a_timer_ticks_once_a_period_and_does_not_make_up() {
    run(worker::topology(), |kit| async move {
        let ticks = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&ticks);
        kit.system.tasks().every("timer", Duration::from_secs(10), move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let seconds = Duration::from_secs;
        for (remaining, advance, expected) in [(10, 9, 0), (1, 1, 1), (10, 10, 2), (10, 100, 3)] {
            kit.clock.wait_for_sleep(seconds(remaining)).await;
            assert!(ticks.load(Ordering::Relaxed) <= expected, "not before its time");
            kit.clock.advance(seconds(advance));
            eventually("the timer has ticked", || ticks.load(Ordering::Relaxed) >= expected).await;
        }
        kit.clock.wait_for_sleep(seconds(10)).await;
        assert_eq!(ticks.load(Ordering::Relaxed), 3, "what was missed is not made up for");
    });
}

#[test]
fn a_tick_that_panics_is_not_the_last_one() {
    run(worker::topology(), |kit| async move {
        let ticks = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&ticks);
        let period = Duration::from_secs(10);
        kit.system.tasks().every("timer", period, move || {
            assert_ne!(counted.fetch_add(1, Ordering::Relaxed), 0, "the first tick trips");
        });
        for tick in 1..=2 {
            kit.clock.wait_for_sleep(period).await;
            kit.clock.advance(period);
            eventually("the timer has ticked", || ticks.load(Ordering::Relaxed) == tick).await;
        }
        assert_eq!(kit.system.tasks().panics(), 1);
    });
}

#[test]
fn a_task_that_panics_is_made_anew_after_growing_pauses() {
    run(worker::topology(), |kit| async move {
        let tasks = kit.system.tasks();
        let lives = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lives);
        let task = tasks.spawn_restarting("restarting", move || {
            let life = counted.fetch_add(1, Ordering::Relaxed);
            assert_ne!(life, 1, "it cannot be made");
            async move { assert_eq!(life, 4, "it trips") }
        });
        for pause in [1, 2, 4].map(Duration::from_secs) {
            kit.clock.wait_for_sleep(pause).await;
            assert_eq!(tasks.names(), ["restarting"]);
            kit.clock.advance(pause);
        }
        task.done().await;
        assert_eq!((lives.load(Ordering::Relaxed), tasks.panics()), (5, 4));
    });
}

#[test]
fn a_task_that_panics_is_not_made_anew_when_it_is_cancelled() {
    run(worker::topology(), |kit| async move {
        let task = kit
            .system
            .tasks()
            .spawn_restarting("restarting", || async { panic!("it trips") });
        kit.clock.wait_for_sleep(Duration::from_secs(1)).await;
        task.cancel();
        task.done().await;
        assert_eq!(kit.system.tasks().panics(), 2);
    });
}

#[test]
fn a_manual_clock_moves_by_hand_only() {
    run(worker::topology(), |_| async {
        let manual = ManualClock::new();
        let clock = Clock::from(manual.clone());
        let (now, wall) = (clock.now(), clock.wall());
        assert_eq!(
            wall.duration_since(SystemTime::UNIX_EPOCH)
                .map(|age| age.as_secs())
                .ok(),
            Some(1_767_225_600)
        );
        let late = clock.timeout_at(now + Duration::from_secs(5), std::future::pending::<()>());
        assert_eq!(tokio::join!(late, manual.elapse(Duration::from_secs(5))).0, None);
        assert_eq!(clock.now() - now, Duration::from_secs(5));
        assert_eq!(clock.wall().duration_since(wall).ok(), Some(Duration::from_secs(5)));
        // What is on the wall can be set, and goes on from there.
        manual.set_wall(wall - Duration::from_secs(60));
        manual.advance(Duration::from_secs(1));
        assert_eq!(wall.duration_since(clock.wall()).ok(), Some(Duration::from_secs(59)));
        assert_eq!(clock.now() - now, Duration::from_secs(6));
    });
}
