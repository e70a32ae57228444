use std::time::Duration;

use futures_util::future::join_all;
use trireme_actors::{
    testkit::{eventually, run},
    topology::Topology,
};
use trireme_machinery::Reason;

use super::{ReadIndexHandle, logic::Rounds};
use crate::fixtures::{SlowReadIndex, configmaps, open_store, put};

#[test]
fn a_reader_joins_the_next_round() {
    let mut rounds = Rounds::default();
    assert_eq!(rounds.next(), 1);
    assert!(!rounds.begin(0), "no reader wants one");
    assert!(rounds.begin(1));
    assert_eq!(rounds.next(), 2, "the one under way may have its answer already");
    assert!(!rounds.begin(2), "one at a time");
    rounds.end();
    assert!(rounds.begin(2));
    assert!(!rounds.begin_alone(2), "one at a time");
    rounds.end();
    assert!(!rounds.begin(2), "all have been served");
    assert!(!rounds.begin_alone(3), "others wait already");
    assert!(rounds.begin_alone(2));
    assert_eq!(rounds.next(), 4);
}

#[test]
fn who_comes_during_a_read_gets_the_answer_of_the_next_one() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let slow = SlowReadIndex::over(store.clone(), 0);
        let handle = ReadIndexHandle::spawn(&kit.system, slow.clone()).expect("it is the only one");
        let deadline = kit.system.clock().now() + Duration::from_secs(3);
        let ask = || {
            let handle = handle.clone();
            tokio::spawn(async move { handle.revision(deadline).await })
        };
        let first = ask();
        let mut begun = slow.begun.subscribe();
        begun.wait_for(|begun| *begun == 1).await.expect("the store lives");

        let written = put(&*store, &configmaps(), "ns/a", serde_json::json!({})).await;
        let late = join_all((0..50).map(|_| ask()));
        eventually("all have asked", || handle.waiting() == 50).await;
        slow.let_through.add_permits(1);

        let before = first.await.expect("no panic").expect("the store answered");
        assert!(before < written);
        slow.let_through.add_permits(1);
        for revision in late.await {
            assert!(revision.expect("no panic").expect("the store answered") >= written);
        }
        assert_eq!(*slow.begun.borrow(), 2, "50 readers shared one read");
    });
}

#[test]
fn a_reader_that_is_given_up_leaves_the_next_round_to_the_others() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let slow = SlowReadIndex::over(store, 0);
        let handle = ReadIndexHandle::spawn(&kit.system, slow.clone()).expect("it is the only one");
        let deadline = kit.system.clock().now() + Duration::from_secs(3);
        let ask = || {
            let handle = handle.clone();
            tokio::spawn(async move { handle.revision(deadline).await })
        };
        let mut begun = slow.begun.subscribe();
        let alone = ask();
        begun.wait_for(|begun| *begun == 1).await.expect("the store lives");
        let other = ask();
        eventually("it waits", || handle.waiting() == 1).await;
        alone.abort();
        begun.wait_for(|begun| *begun == 2).await.expect("the store lives");
        slow.let_through.add_permits(1);
        other.await.expect("no panic").expect("the store answered");

        slow.let_through.add_permits(1);
        ask().await.expect("no panic").expect("the store answered");
    });
}

#[test]
fn a_store_that_does_not_answer_is_a_timeout() {
    run(Topology::trireme(), |kit| async move {
        let (_dir, store) = open_store();
        let slow = SlowReadIndex::over(store, 0);
        let handle = ReadIndexHandle::spawn(&kit.system, slow.clone()).expect("it is the only one");
        let deadline = kit.system.clock().now() + Duration::from_secs(3);
        let asked = tokio::spawn(async move { handle.revision(deadline).await });
        kit.clock.elapse(Duration::from_secs(3)).await;
        let error = asked.await.expect("no panic").expect_err("no answer came");
        assert_eq!(error.reason, Reason::Timeout);
        slow.let_through.add_permits(1);
    });
}
