//! A flood is answered, not queued.

use std::sync::{Arc, mpsc};

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::worker::{self, Block, Count, CountNote, Io, PERMITS};
use crate::testkit::{eventually, run};
use crate::{AskError, NoteError};

#[test]
fn asks_beyond_the_permits_are_answered_overloaded_at_once() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        let gate = Arc::new(Semaphore::new(0));
        let asks = (0..100).map(|_| {
            let (worker, gate) = (worker.clone(), Arc::clone(&gate));
            actix_rt::spawn(async move { worker.ask(Io(gate)).await })
        });
        let asks: Vec<_> = asks.collect();
        eventually("all but the admitted asks are answered", || {
            asks.iter().filter(|ask| ask.is_finished()).count() == 100 - PERMITS
        })
        .await;
        assert_eq!(
            worker.snapshot().permits_in_use,
            4,
            "what is under way outside a turn still counts"
        );

        gate.add_permits(PERMITS);
        let answers = join_all(asks).await;
        let answers: Vec<_> = answers
            .into_iter()
            .map(|answer| answer.expect("no ask panics"))
            .collect();
        assert_eq!(
            answers
                .iter()
                .filter(|answer| **answer == Err(AskError::Overloaded))
                .count(),
            100 - PERMITS
        );
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), PERMITS);

        assert_eq!(worker.ask(Count()).await, Ok(5), "after the flood it serves again");
    });
}

#[test]
fn the_mailbox_never_holds_more_than_the_permits() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        worker.tell(Block(begun, released)).expect("a permit is free");
        eventually("the blocking turn has begun", || has_begun.try_recv().is_ok()).await;

        let results: Vec<_> = (0..1000).map(|_| worker.clone().tell(CountNote())).collect();

        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), PERMITS - 1);
        assert_eq!(
            results
                .iter()
                .filter(|result| **result == Err(NoteError::Overloaded))
                .count(),
            1000 - PERMITS + 1
        );
        assert_eq!(worker.snapshot().mailbox_depth, 3);
        assert!(worker.snapshot().busy_seconds.is_some());
        drop(release);
        eventually("the permits are back", || worker.snapshot().permits_in_use == 0).await;
        assert_eq!(worker.ask(Count()).await, Ok(4));
        eventually("it is idle", || worker.snapshot().busy_seconds.is_none()).await;
    });
}

#[test]
fn a_stream_waits_for_a_permit_and_loses_nothing() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        let notes = worker.notes();
        for _ in 0..1000 {
            notes.deliver(CountNote()).await.expect("the worker lives");
        }
        eventually("all notes are handled", || worker.snapshot().permits_in_use == 0).await;
        assert_eq!(worker.ask(Count()).await, Ok(1001));
    });
}

#[test]
fn an_actor_on_a_thread_of_its_own_holds_up_no_other() {
    run(worker::on_own_threads(), |kit| async move {
        let (_waits, waiting) = worker::spawn(&kit, "waits");
        let (_works, working) = worker::spawn(&kit, "works");
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        waiting.tell(Block(begun, released)).expect("a permit is free");
        eventually("the blocking turn has begun", || has_begun.try_recv().is_ok()).await;

        assert_eq!(working.ask(Count()).await, Ok(1));
        assert!(waiting.snapshot().busy_seconds.is_some());
        drop(release);
        assert_eq!(waiting.ask(Count()).await, Ok(1));
    });
}
