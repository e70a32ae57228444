//! Requests that wait: whose turn it is, and who finds room.

use metrics_exporter_prometheus::PrometheusBuilder;

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
        let place = queues.choose(now, 1, flow);
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
    assert!(
        order.contains(&1),
        "the other flow waits behind what has just come: {order:?}"
    );
}

#[test]
fn a_queue_is_charged_before_its_start_is_bounded_by_its_next_head() {
    let begin = Clock::system().now();
    let shape = QueueShape {
        queues: 1,
        hand_size: 1,
        queue_length_limit: 50,
    };
    // The start of the queue once the first request is let through, whose work is 3 ms from 0 on, and the second came then.
    let start_after = |second: Duration| {
        let mut queues = FairQueues::new(shape, begin);
        for at in [begin, begin + second] {
            let place = queues.choose(at, 1, 0);
            queues.enqueue(place, WorkEstimate::of_seats(1), ());
        }
        assert!(queues.dispatch(begin + second, 1, |()| true).is_some());
        let starts = queues.states().map(|(queue, _)| queue.next_start_seconds);
        starts.sum::<f64>()
    };
    let millis = |start: f64| (start * 1000.0).round();
    assert_eq!(millis(start_after(Duration::from_millis(2))), 3.0);
    assert_eq!(millis(start_after(Duration::from_millis(10))), 10.0);
}

#[test]
fn a_message_looks_at_waiting_requests_only_if_some_have_left() {
    let now = Clock::system().now();
    let shape = QueueShape {
        queues: 1,
        hand_size: 1,
        queue_length_limit: 100,
    };
    let mut queues = FairQueues::new(shape, now);
    let place = queues.choose(now, 1, 0);
    let leavers = queues.leavers(&place);
    for number in 0..100 {
        let place = queues.choose(now, 1, 0);
        queues.enqueue(place, WorkEstimate::of_seats(2), number);
    }
    assert!(!queues.has_room(&place, 0));
    let mut forget = |gone: std::ops::Range<i32>, leaving: usize| {
        (0..leaving).for_each(|_| leavers.add(2));
        let wanted = queues.waiting_seats();
        let looked = std::cell::Cell::new(0);
        let forgotten = queues.forget_gone(|number| {
            looked.set(looked.get() + 1);
            gone.contains(number)
        });
        (
            forgotten,
            looked.get(),
            queues.waiting(),
            wanted,
            queues.has_room(&place, 0),
        )
    };
    assert_eq!(forget(0..0, 0), (0, 0, 100, 200, false));
    // Those that came first are at the head.
    assert_eq!(forget(0..10, 10), (10, 11, 90, 180, true));
    // Behind one that waits: no longer wanted at once, and forgotten once they are half of the queue.
    assert_eq!(forget(20..50, 30), (0, 1, 90, 120, true));
    assert_eq!(forget(20..65, 15), (45, 90, 45, 90, true));
}

#[test]
fn one_that_has_left_a_full_queue_leaves_its_place_to_another() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(2))).await;
        let now = kit.system.clock().now();
        let ask = || Box::pin(ask(&fairness, "alice", Duration::from_secs(15), now));
        let seat = ask().await;
        let [mut first, mut leaves, mut next] = [ask(), ask(), ask()];
        assert!(first.as_mut().now_or_never().is_none());
        assert!(leaves.as_mut().now_or_never().is_none());
        assert_eq!(ask().await.err(), Some(Full));
        drop(leaves);
        assert!(next.as_mut().now_or_never().is_none());
        drop(seat);
        let first = first.await;
        assert!(first.is_ok());
        drop(first);
        assert!(next.await.is_ok());
    });
}

#[test]
fn a_full_queue_takes_one_more_while_its_head_waits_for_more_seats() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, three_seats_and_a_queue(1)).await;
        let now = kit.system.clock().now();
        let flow = fairness.classify(&request("alice", &[], LIST_PODS));
        let ask = |seats| Box::pin(fairness.acquire(&flow, demand_of(seats, now), RequestDetails::default()));
        let seat = ask(2).await;
        let (mut wide, mut narrow) = (ask(3), ask(1));
        assert!(wide.as_mut().now_or_never().is_none(), "one of three seats is free");
        while !dumped(&fairness).await.contains("\none, 1, false, false, 1, 1, ") {}
        assert!(
            narrow.as_mut().now_or_never().is_none(),
            "a wide request is not overtaken"
        );
        let shown = || async { dumped(&fairness).await };
        while !shown().await.contains("\none, 1, false, false, 2, 1, 1, 0, 0, 0\n") {}
        drop(seat);
        let wide = wide.await;
        assert!(wide.is_ok());
        drop(wide);
        assert!(narrow.await.is_ok());
    });
}

#[test]
fn exempt_requests_have_not_waited_and_refused_ones_are_not_executed() {
    run(Topology::trireme(), |kit| async move {
        let recorder = PrometheusBuilder::new().build_recorder();
        let start = || PriorityAndFairness::start(&kit.system, 1).expect("the actors start");
        let fairness = metrics::with_local_recorder(&recorder, start);
        let now = kit.system.clock().now();
        let masters = groups(&["system:masters"]);
        let exempt = fairness.classify(&request("admin", &masters, LIST_PODS));
        let demand = FlowDemand {
            work: WorkEstimate::of_seats(1),
            kind: RequestKind::ReadOnly,
            is_watch: false,
            deadline: now + Duration::from_secs(15),
        };
        let _exempt = fairness.acquire(&exempt, demand, RequestDetails::default()).await;
        let served = ask(&fairness, "nobody", Duration::from_secs(15), now).await;
        assert!(served.is_ok());
        let refused = ask(&fairness, "nobody", Duration::from_secs(15), now).await;
        assert_eq!(refused.err(), Some(Full));
        let page = recorder.handle().render();
        let count = |level: &str, is_executed: bool| {
            let labels = format!("priority_level=\"{level}\",flow_schema=\"{level}\",execute=\"{is_executed}\"");
            let series = format!("apiserver_flowcontrol_request_wait_duration_seconds_count{{{labels}}} ");
            let value = page.lines().find_map(|line| line.strip_prefix(&series));
            value.unwrap_or("0").to_owned()
        };
        assert_eq!([count("exempt", true), count("exempt", false)], ["0", "0"]);
        assert_eq!([count("catch-all", true), count("catch-all", false)], ["1", "1"]);
    });
}
