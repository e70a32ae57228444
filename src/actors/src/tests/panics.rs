//! An actor that dies is rebuilt, alone, until its budget is used up.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::worker::{self, Block, Count, Fail, Io, Panic, Worker};
use crate::restart::RestartBudget;
use crate::testkit::{TestKit, eventually, run, run_in_real_time};
use crate::topology::FIVE_A_MINUTE;
use crate::{ActorState, AskError, Caller, Clock, Handle};

/// Asks until an instance answers.
async fn count_when_back(worker: &Handle<Worker>) -> u64 {
    loop {
        match worker.ask(Count()).await {
            Ok(count) => return count,
            Err(AskError::Restarting { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("the worker is not back: {error}"),
        }
    }
}

#[test]
fn a_panic_costs_one_request_and_less_than_a_second() {
    run_in_real_time(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "one");
        let (_owned, neighbour) = worker::spawn(&kit, "two");
        assert_eq!(worker.ask(Count()).await, Ok(1));
        assert_eq!(neighbour.ask(Count()).await, Ok(1));

        for round in 1..=3 {
            let died = kit.system.clock().now();
            assert_eq!(worker.ask(Panic()).await, Err(AskError::Restarting { taken: true }));
            assert_eq!(
                neighbour.ask(Count()).await,
                Ok(round + 1),
                "the same thread goes on with the same state"
            );
            assert_eq!(count_when_back(&worker).await, 1, "the state is fresh");
            assert!(kit.system.clock().now() - died < Duration::from_secs(1));
        }

        // A life is counted after the instance has begun to answer.
        eventually("its fourth life is known", || *worker.lives().borrow() == 4).await;
        let snapshot = worker.snapshot();
        assert_eq!((snapshot.restarts, snapshot.state), (3, ActorState::Running));
        assert_eq!(snapshot.last_failure.as_deref(), Some("it panicked: the worker trips"));
        assert_eq!(neighbour.snapshot().restarts, 0);
    });
}

#[test]
fn what_waits_behind_a_panic_is_surely_undone() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        worker.tell(Block(begun, released)).expect("a permit is free");
        eventually("the blocking turn has begun", || has_begun.try_recv().is_ok()).await;
        let hit = worker.ask(Panic());
        let behind = worker.ask(Count());
        let (hit, behind, ()) = tokio::join!(biased; hit, behind, async { drop(release) });

        assert_eq!(hit, Err(AskError::Restarting { taken: true }));
        assert_eq!(behind, Err(AskError::Restarting { taken: false }));
        assert!(behind.is_err_and(|error| error.is_surely_undone()));
        eventually("no permit is lost", || worker.snapshot().permits_in_use == 0).await;
        assert_eq!(count_when_back(&worker).await, 1);
    });
}

#[test]
fn the_io_of_a_dead_instance_does_not_reach_the_next() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        let gate = Arc::new(Semaphore::new(0));
        let io = actix_rt::spawn({
            let (worker, gate) = (worker.clone(), Arc::clone(&gate));
            async move { worker.ask(Io(gate)).await }
        });
        eventually("the I/O is under way", || worker.snapshot().turns == 1).await;
        assert_eq!(worker.ask(Panic()).await, Err(AskError::Restarting { taken: true }));
        assert_eq!(count_when_back(&worker).await, 1);

        gate.add_permits(1);

        assert_eq!(
            io.await.expect("the ask does not panic"),
            Err(AskError::Restarting { taken: true })
        );
        assert_eq!(
            worker.ask(Count()).await,
            Ok(2),
            "only the turns of this instance count"
        );
    });
}

#[test]
fn an_actor_can_give_itself_up() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        assert_eq!(worker.ask(Count()).await, Ok(1));
        assert_eq!(worker.ask(Fail()).await, Err(AskError::Restarting { taken: true }));
        assert_eq!(count_when_back(&worker).await, 1);
        assert_eq!(worker.snapshot().last_failure.as_deref(), Some("the worker gives up"));
    });
}

/// Kills the worker until its budget is used up.
async fn kill_for_good(kit: &TestKit, worker: &Handle<Worker>) {
    for (death, pause_ms) in (1_u64..).zip([0, 50, 100, 200, 400]) {
        assert_eq!(worker.ask(Panic()).await, Err(AskError::Restarting { taken: true }));
        if death > 1 {
            let pause = Duration::from_millis(pause_ms);
            kit.clock.wait_for_sleep(pause).await;
            assert_eq!(worker.snapshot().state, ActorState::Restarting);
            kit.clock.advance(pause);
        }
        eventually("the worker is back", || *worker.lives().borrow() == death + 1).await;
    }
    assert!(kit.fatal().is_empty());
    assert!(worker.ask(Panic()).await.is_err());
    eventually("the budget is used up", || !kit.fatal().is_empty()).await;
}

#[test]
fn a_budget_that_is_used_up_is_fatal() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "pods");
        kill_for_good(&kit, &worker).await;

        let fatal = kit.fatal();
        assert_eq!(
            fatal.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["actor Worker/pods died 6 times within 60s, last because it panicked: the worker trips"]
        );
        assert_eq!(worker.ask(Count()).await, Err(AskError::Stopped { taken: false }));
    });
}

#[test]
fn a_factory_that_panics_is_charged_too() {
    run(worker::topology(), |kit| async move {
        let owned = kit
            .system
            .spawn("", || -> Worker { panic!("nothing to build from") })
            .expect("it is in the table");
        let worker = owned.for_caller(Caller::Outside).expect("outside may ask");
        eventually("the budget is used up", || {
            kit.clock.advance(FIVE_A_MINUTE.max_backoff);
            !kit.fatal().is_empty()
        })
        .await;
        assert_eq!(kit.fatal()[0].cause, "its factory panicked: nothing to build from");
        assert_eq!(worker.ask(Count()).await, Err(AskError::Stopped { taken: false }));
    });
}

#[test]
fn pauses_grow_and_old_deaths_are_forgiven() {
    let mut budget = RestartBudget::new(FIVE_A_MINUTE);
    let start = Clock::system().now();
    let pauses = |budget: &mut RestartBudget, at: Duration, count: usize| -> Vec<Option<u128>> {
        (0..count)
            .map(|_| budget.charge(start + at).map(|pause| pause.as_millis()))
            .collect()
    };
    let first = [Some(0), Some(50), Some(100), Some(200), Some(400)];
    assert_eq!(pauses(&mut budget, Duration::ZERO, 5), first);
    assert_eq!(pauses(&mut budget, Duration::from_secs(59), 1), [None]);
    let mut budget = RestartBudget::new(FIVE_A_MINUTE);
    assert_eq!(pauses(&mut budget, Duration::ZERO, 5), first);
    assert_eq!(pauses(&mut budget, Duration::from_secs(60), 5), first);
}
