//! I/O runs beside the turns; its results come in turns of their own.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::worker::{self, Compute, Count, Io, PanicOutside};
use crate::testkit::{eventually, run};

#[test]
fn results_of_io_do_not_interleave_with_turns() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        for round in 0..50_u64 {
            let gate = Arc::new(Semaphore::new(0));
            let asks = [worker.ask(Io(Arc::clone(&gate))), worker.ask(Io(Arc::clone(&gate)))];
            let between = async {
                let count = worker.ask(Count()).await;
                gate.add_permits(2);
                count
            };
            let (mut results, between) = tokio::join!(biased; join_all(asks), between);
            assert_eq!(between, Ok(round * 3 + 1), "a turn is not held up by I/O under way");
            results.sort_by_key(|result| result.ok());
            assert_eq!(
                results,
                [Ok(round * 3 + 2), Ok(round * 3 + 3)],
                "each result is one whole turn"
            );
        }
        assert_eq!(worker.snapshot().restarts, 0);
    });
}

#[test]
fn io_that_panics_is_a_result_too() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        assert_eq!(
            worker.ask(PanicOutside()).await.as_deref(),
            Ok("the task panicked: the I/O trips")
        );
        assert_eq!(worker.ask(Count()).await, Ok(1), "the actor goes on");
    });
}

#[test]
fn computing_runs_on_another_thread() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        assert_eq!(worker.ask(Compute()).await, Ok(true));
        eventually("nothing is owed", || worker.snapshot().permits_in_use == 0).await;
    });
}
