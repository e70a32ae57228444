//! Requests that wait: whose turn it is, and who finds room.

use super::*;

#[test]
fn no_queue_is_full_while_a_seat_is_free() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(1))).await;
        let now = kit.system.clock().now();
        let ask = || Box::pin(ask(&fairness, "alice", Duration::from_secs(15), now));
        // The actor hears of the third request before it hears of the seat of the first, or after that: chance decides.
        for _ in 0..200 {
            let seat = ask().await;
            let [mut second, mut third] = [ask(), ask()];
            assert!(second.as_mut().now_or_never().is_none(), "the seat is taken");
            while !dumped(&fairness).await.contains("\none, 1, false, false, 1, 1, ") {}
            drop(seat);
            assert!(third.as_mut().now_or_never().is_none(), "it is asked for a place");
            let second = second.await;
            assert!(second.is_ok());
            drop(second);
            assert!(third.await.is_ok());
        }
    });
}

#[test]
fn a_full_queue_takes_one_more_while_its_head_waits_for_more_seats() {
    let now = Clock::system().now();
    let shape = QueueShape {
        queues: 1,
        hand_size: 1,
        queue_length_limit: 1,
    };
    let mut queues = FairQueues::new(shape, now);
    let place = queues.place(now, 3, 0, true).expect("it is empty");
    assert_eq!(queues.enqueue(place, WorkEstimate::of_seats(3), "wide"), 1);
    assert!(queues.place(now, 3, 0, false).is_none());
    let place = queues.place(now, 3, 0, true).expect("seats are free");
    assert_eq!(queues.enqueue(place, WorkEstimate::of_seats(1), "narrow"), 2);
}

#[test]
fn a_queue_saves_up_no_time_that_it_has_not_needed() {
    let mut now = Clock::system().now();
    let shape = QueueShape {
        queues: 2,
        hand_size: 1,
        queue_length_limit: 50,
    };
    let mut queues = FairQueues::new(shape, now);
    let one = WorkEstimate::of_seats(1);
    let enqueue = |queues: &mut FairQueues<u64>, now, flow| {
        let place = queues.place(now, 1, flow, false).expect("there is room");
        queues.enqueue(place, one, flow)
    };
    // Requests that are soon done, one every 10 ms, of which always some wait.
    enqueue(&mut queues, now, 0);
    for _ in 0..100 {
        enqueue(&mut queues, now, 0);
        let next = queues.dispatch(now, 1, |_| true).expect("one waits");
        next.executing.end(1, Duration::ZERO);
        next.executing.give_back(1);
        now += Duration::from_millis(10);
    }
    for _ in 0..20 {
        enqueue(&mut queues, now, 0);
    }
    enqueue(&mut queues, now, 1);
    let order: Vec<u64> = (0..8)
        .filter_map(|_| queues.dispatch(now, 1, |_| true))
        .map(|next| next.item)
        .collect();
    assert!(order.contains(&1), "the other flow waits behind what has just come: {order:?}");
}
