use std::sync::Arc;

use super::logic::KeyQueues;
use crate::item::ItemKey;

fn key(name: &str) -> ItemKey {
    Arc::from(name)
}

#[test]
fn a_free_key_is_granted_and_a_busy_one_queues_in_order() {
    let mut turns = KeyQueues::default();
    assert_eq!(turns.request(&key("a"), 1), Some(1));
    assert_eq!(turns.request(&key("a"), 2), None);
    assert_eq!(turns.request(&key("a"), 3), None);
    assert_eq!(turns.request(&key("b"), 4), Some(4), "another key is free");
    assert_eq!(turns.release(&key("a"), |_| false), Some(2));
    assert_eq!(turns.release(&key("a"), |_| false), Some(3));
    assert_eq!(turns.release(&key("a"), |_| false), None);
    assert_eq!(turns.busy(), 1, "only b is still held");
}

#[test]
fn those_who_left_are_passed_over() {
    let mut turns = KeyQueues::default();
    turns.request(&key("a"), 1);
    turns.request(&key("a"), 2);
    turns.request(&key("a"), 3);
    assert_eq!(turns.release(&key("a"), |waiter| *waiter == 2), Some(3));
    assert_eq!(turns.release(&key("a"), |_| false), None);
    assert_eq!(turns.busy(), 0, "nothing is remembered of a free key");
}
