//! Actors end on request, and leaks are seen.

use std::sync::mpsc;
use std::time::Duration;

use super::worker::{self, Block, Count, CountNote, Keep, Worker};
use crate::testkit::{eventually, run};
use crate::{AskError, SpawnError};

#[test]
fn an_actor_ends_after_what_it_has_in_its_mailbox() {
    run(worker::topology(), |kit| async move {
        let (owned, worker) = worker::spawn(&kit, "");
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        worker.tell(Block(begun, released)).expect("a permit is free");
        eventually("the blocking turn has begun", || has_begun.try_recv().is_ok()).await;
        let before = worker.ask(Count());
        let owed = worker.ask(Keep());
        let stop = async {
            let stop = owned.stop();
            drop(release);
            stop.await;
        };
        let (before, owed, ()) = tokio::join!(biased; before, owed, stop);

        assert_eq!(before, Ok(1));
        assert_eq!(owed, Err(AskError::Stopped { taken: true }));
        assert_eq!(worker.ask(Count()).await, Err(AskError::Stopped { taken: false }));
        assert_eq!(worker.snapshot().restarts, 0);
    });
}

#[test]
fn the_roster_shows_who_lives() {
    run(worker::topology(), |kit| async move {
        let (_owned, pods) = worker::spawn(&kit, "pods");
        let (owned, _) = worker::spawn(&kit, "nodes");
        assert_eq!(pods.ask(Count()).await, Ok(1));
        assert_eq!(
            kit.system.spawn("pods", Worker::default).err(),
            Some(SpawnError::Duplicate("Worker/pods".to_owned()))
        );
        let names = |kit: &crate::testkit::TestKit| -> Vec<String> {
            kit.system
                .snapshot()
                .into_iter()
                .map(|actor| format!("{}/{}", actor.kind, actor.instance))
                .collect()
        };
        assert_eq!(names(&kit), ["Worker/nodes", "Worker/pods"]);
        eventually("its turn is over", || kit.system.snapshot()[1].turns == 1).await;

        owned.stop().await;

        eventually("the stopped one is off the roster", || names(&kit) == ["Worker/pods"]).await;
        worker::spawn(&kit, "nodes");
    });
}

#[test]
fn a_place_is_free_as_soon_as_its_actor_has_stopped() {
    run(worker::topology(), |kit| async move {
        for _ in 0..500 {
            let (owned, worker) = worker::spawn(&kit, "");
            assert_eq!(worker.ask(Count()).await, Ok(1));
            owned.stop().await;
        }
        let (_owned, worker) = worker::spawn(&kit, "");
        assert_eq!(worker.ask(Count()).await, Ok(1));
        assert_eq!(kit.system.snapshot().len(), 1, "the last one stays on the roster");
    });
}

#[test]
fn what_does_not_end_is_named() {
    run(worker::topology(), |kit| async move {
        let (_owned, worker) = worker::spawn(&kit, "");
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        worker.tell(Block(begun, released)).expect("a permit is free");
        eventually("the blocking turn has begun", || has_begun.try_recv().is_ok()).await;
        let (free, wait) = tokio::sync::oneshot::channel::<()>();
        kit.system.tasks().spawn_graceful("deaf", |_| async move {
            let _ = wait.await;
        });

        let leaked = kit.system.shutdown(Duration::from_millis(20)).await;

        assert_eq!(leaked.actors, ["Worker"]);
        assert_eq!(leaked.tasks, ["supervise/Worker", "deaf"]);
        assert_eq!(worker.tell(CountNote()).err(), Some(crate::NoteError::Stopped));
        assert_eq!(
            kit.system.spawn("late", Worker::default).err(),
            Some(SpawnError::ShuttingDown)
        );
        drop((release, free));
    });
}
