use std::{collections::VecDeque, sync::Arc};

use futures_util::FutureExt as _;
use trireme_actors::testkit::{eventually, run};
use trireme_actors::topology::Topology;

use super::handle::{HeldKey, KeyLocks};
use super::logic::{KeyQueues, KeyTable, Released};
use crate::{item::ItemKey, trace::Trace};

fn key(name: &str) -> ItemKey {
    Arc::from(name)
}

#[test]
fn a_free_key_is_taken_and_a_released_one_is_free() {
    let mut table: KeyTable<()> = KeyTable::default();
    let first = table.take(&key("a")).expect("it is free");
    assert_eq!(table.take(&key("a")), None);
    let other = table.take(&key("b")).expect("another key is free");
    assert_eq!(table.release(&key("a"), other), Released::Free);
    assert_eq!(table.take(&key("a")), None, "only its holder releases it");
    assert_eq!(table.release(&key("a"), first), Released::Free);
    assert_eq!(table.busy(), 1, "nothing is remembered of a free key");
    assert!(table.take(&key("a")).is_some());
}

#[test]
fn a_key_that_is_awaited_is_passed_on_before_it_is_free() {
    let mut table = KeyTable::default();
    let first = table.take(&key("a")).expect("it is free");
    assert_eq!(table.take_or_await(&key("a"), || 1), None);
    assert_eq!(table.take_or_await(&key("a"), || 2), None, "once is enough");
    assert_eq!(table.release(&key("a"), first), Released::Notify(1));
    assert_eq!(
        table.take(&key("a")),
        None,
        "who comes now does not overtake those who wait"
    );
    assert_eq!(table.take_or_await(&key("a"), || 3), None);
    let second = table.pass_on(&key("a"), Some(4));
    assert_eq!(table.release(&key("a"), second), Released::Notify(4));
    let third = table.pass_on(&key("a"), None);
    assert_eq!(table.release(&key("a"), third), Released::Free);
    assert_eq!(table.busy(), 0);

    let last = table.take(&key("a")).expect("it is free");
    assert_eq!(table.take_or_await(&key("a"), || 5), None);
    table.release(&key("a"), last);
    table.forget(&key("a"));
    assert!(table.take_or_await(&key("a"), || 6).is_some(), "nobody waited any more");
    table.forget(&key("a"));
    assert_eq!(table.busy(), 1, "a key that is held is not forgotten");
}

#[test]
fn a_new_instance_of_the_actor_leaves_keys_to_those_who_hold_them() {
    let mut table = KeyTable::default();
    let [held, awaited, passing] = ["held", "awaited", "passing"].map(key);
    let holders = [&held, &awaited, &passing].map(|key| table.take(key).expect("it is free"));
    table.take_or_await(&awaited, || ());
    table.take_or_await(&passing, || ());
    table.release(&passing, holders[2]);
    table.begin_anew();
    assert_eq!(table.release(&held, holders[0]), Released::Free);
    assert_eq!(table.release(&awaited, holders[1]), Released::Free);
    assert_eq!(table.busy(), 0);
}

#[test]
fn those_who_wait_are_served_in_order_but_for_those_who_left() {
    let mut queues = KeyQueues::default();
    for waiter in 1..=4 {
        queues.push(&key("a"), waiter);
    }
    assert_eq!(queues.next(&key("b"), |_| false), None);
    assert_eq!(queues.next(&key("a"), |_| false), Some((1, true)));
    assert_eq!(queues.next(&key("a"), |waiter| *waiter == 2), Some((3, true)));
    assert_eq!(queues.next(&key("a"), |_| false), Some((4, false)));
    assert_eq!(queues.next(&key("a"), |_| false), None);
    queues.push(&key("a"), 5);
    assert_eq!(queues.next(&key("a"), |_| true), None);
}

#[test]
fn writers_of_one_key_take_turns_and_hand_on_what_they_left() {
    run(Topology::trireme(), |kit| async move {
        let locks = KeyLocks::spawn(&kit.system, "things").expect("it is the only one");
        let held = |name: &str| {
            let permit = locks.permit().expect("there are permits");
            locks.key(permit, key(name), None, Trace::default())
        };
        let mut first = held("a");
        assert!(first.lock().await.expect("it is free"));
        assert!(!first.lock().await.expect("it is held already"));
        let ask = |mut writer: HeldKey| {
            Box::pin(async move {
                writer.lock().await.expect("it is handed on");
                writer
            })
        };
        let mut asked: VecDeque<_> = (0..5).map(|_| ask(held("a"))).collect();
        for one in &mut asked {
            assert!(one.now_or_never().is_none(), "it waits");
        }
        drop(asked.remove(2));
        held("b").lock().await.expect("another key is free");
        drop(first);
        while let Some(next) = asked.pop_front() {
            let holder = next.await;
            for one in &mut asked {
                assert!(one.now_or_never().is_none(), "one at a time");
            }
            drop(holder);
        }
        eventually("all keys are free", || locks.busy() == 0).await;
    });
}
