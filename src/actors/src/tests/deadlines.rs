//! A deadline says whether the message can still have an effect.

use std::sync::mpsc;
use std::time::Duration;

use super::worker::{self, Block, Count, Keep};
use crate::AskError;
use crate::testkit::{eventually, run};

#[test]
fn a_message_still_in_the_mailbox_at_its_deadline_is_never_handled() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        worker.tell(Block(begun, released)).expect("a permit is free");
        eventually("the blocking turn has begun", || has_begun.try_recv().is_ok()).await;
        let deadline = kit.system.clock().now() + Duration::from_secs(30);
        let late = actix_rt::spawn({
            let worker = worker.clone();
            async move { worker.ask_until(Count(), deadline).await }
        });

        kit.clock.elapse(Duration::from_secs(30)).await;

        assert_eq!(
            late.await.expect("the ask does not panic"),
            Err(AskError::Deadline { taken: false })
        );
        drop(release);
        assert_eq!(worker.ask(Count()).await, Ok(1), "the late one was not counted");
    });
}

#[test]
fn a_message_that_a_turn_has_taken_is_unknown_at_its_deadline() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        let deadline = kit.system.clock().now() + Duration::from_secs(30);
        let late = actix_rt::spawn({
            let worker = worker.clone();
            async move { worker.ask_until(Keep(), deadline).await }
        });
        eventually("the turn is over", || worker.snapshot().turns == 1).await;

        kit.clock.elapse(Duration::from_secs(30)).await;

        let answer = late.await.expect("the ask does not panic");
        assert_eq!(answer, Err(AskError::Deadline { taken: true }));
        assert_eq!(worker.snapshot().permits_in_use, 1, "what the actor still owes counts");
    });
}

#[test]
fn an_asker_that_leaves_costs_no_turn() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        worker.tell(Block(begun, released)).expect("a permit is free");
        eventually("the blocking turn has begun", || has_begun.try_recv().is_ok()).await;
        tokio::select! {
            biased;
            _ = worker.ask(Count()) => panic!("the actor is blocked"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(worker.snapshot().mailbox_depth, 1);
        drop(release);
        assert_eq!(worker.ask(Count()).await, Ok(1));
    });
}
