//! Requests that leave before their turn, and those that are refused: what stays of them.

use metrics_exporter_prometheus::PrometheusBuilder;
use trireme_actors::{AskError, Message, Receive, Reply, Turn};

use super::{super::level::LevelActor, *};

#[test]
fn those_that_have_left_behind_one_that_waits_keep_no_places() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(10_000))).await;
        let now = kit.system.clock().now();
        let flow = fairness.classify(&request("alice", &[], LIST_PODS));
        let seats = &flow.route().expect("it is classified").level.seats;
        let ask = || Box::pin(ask(&fairness, "alice", Duration::from_secs(15), now));
        let _seat = ask().await;
        let mut head = ask();
        assert!(head.as_mut().now_or_never().is_none(), "the seat is taken");
        let pending = async || {
            let shown = unpadded(&fairness.dump(FlowDump::Queues).await);
            let rows = shown.lines().filter(|row| row.starts_with("one, "));
            let pending = rows.filter_map(|row| row.split(", ").nth(2)?.parse::<usize>().ok());
            pending.sum::<usize>()
        };
        // Together more than the actor has permits.
        for _ in 0..10 {
            let mut leaving: Vec<_> = (0..2_000).map(|_| ask()).collect();
            for asked in &mut leaving {
                assert!(asked.as_mut().now_or_never().is_none(), "it is not refused");
            }
            eventually("all wait", || seats.demand() == 2_002).await;
            drop(leaving);
            eventually("they are demand no more", || seats.demand() == 2).await;
            assert_eq!(pending().await, 1);
        }
        assert!(ask().now_or_never().is_none(), "there is a place");
        assert!(head.as_mut().now_or_never().is_none(), "it goes on waiting");
    });
}

#[test]
fn one_flow_takes_a_few_places_beyond_its_queue_while_a_seat_is_free() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, three_seats_and_a_queue(2)).await;
        let now = kit.system.clock().now();
        let flow = fairness.classify(&request("alice", &[], LIST_PODS));
        let ask = |seats| Box::pin(fairness.acquire(&flow, demand_of(seats, now), RequestDetails::default()));
        let seat = ask(2).await;
        let mut wide = ask(3);
        assert!(wide.as_mut().now_or_never().is_none(), "one of three seats is free");
        // Until it is in its queue, a request that comes later finds the free seat.
        while !dumped(&fairness).await.contains("\none, 1, false, false, 1, 1, ") {}
        let mut others: Vec<_> = (0..100).map(|_| ask(1)).collect();
        let mut still_wait = || {
            others.retain_mut(|other| other.as_mut().now_or_never().is_none());
            others.len()
        };
        still_wait();
        // A dump comes after them, and is answered after all of them that are refused.
        let _shown = dumped(&fairness).await;
        assert_eq!(still_wait(), 9);
        drop((seat, others));
        assert!(wide.await.is_ok());
    });
}

#[test]
fn those_that_are_refused_have_not_been_in_a_queue() {
    run(Topology::trireme(), |kit| async move {
        let recorder = PrometheusBuilder::new().build_recorder();
        let start = || PriorityAndFairness::start(&kit.system, 6).expect("the actors start");
        let fairness = metrics::with_local_recorder(&recorder, start);
        fairness.configure(one_level(&queue_of(1)));
        let schema = || fairness.classify(&request("alice", &[], LIST_PODS)).schema().to_owned();
        eventually("the configuration counts", || schema() == "one").await;
        let now = kit.system.clock().now();
        let ask = || Box::pin(ask(&fairness, "alice", Duration::from_secs(15), now));
        let shown = || {
            fairness.in_queue.read_only.show();
            let page = recorder.handle().render();
            let series = "apiserver_current_inqueue_requests{request_kind=\"readOnly\"} ";
            let value = page.lines().find_map(|line| line.strip_prefix(series));
            value.map(str::to_owned)
        };
        let seat = ask().await;
        let mut waits = ask();
        assert!(waits.as_mut().now_or_never().is_none(), "the seat is taken");
        for _ in 0..3 {
            assert_eq!(ask().await.err(), Some(Full));
        }
        assert_eq!(shown().as_deref(), Some("1"), "one waits");
        drop(seat);
        assert!(waits.await.is_ok());
        assert_eq!(shown().as_deref(), Some("1"), "the most since the last look");
        assert_eq!(shown().as_deref(), Some("0"));
    });
}

/// Makes the actor of a level panic.
struct Trip;

impl Message for Trip {
    type Reply = ();
}

impl Receive<Trip> for LevelActor {
    fn receive(&mut self, _: Trip, _: Reply<()>, _: &mut Turn<'_, Self>) {
        panic!("the level trips");
    }
}

#[test]
fn a_dead_instance_takes_no_wake_up_from_the_next() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(5))).await;
        let now = kit.system.clock().now();
        let flow = fairness.classify(&request("alice", &[], LIST_PODS));
        let level = &flow.route().expect("it is classified").level;
        let ask = || Box::pin(ask(&fairness, "alice", Duration::from_secs(15), now));
        let seat = ask().await;
        let mut lost = ask();
        assert!(lost.as_mut().now_or_never().is_none(), "the seat is taken");
        // Some turns later its actor listens for the seat.
        for _ in 0..5 {
            let _shown = dumped(&fairness).await;
        }
        assert_eq!(level.actor.ask(Trip).await, Err(AskError::Restarting { taken: true }));
        assert_eq!(lost.await.err(), Some(Full), "it is lost with the queues");
        eventually("there is another instance", || *level.actor.lives().borrow() == 2).await;
        let mut waits = ask();
        assert!(waits.as_mut().now_or_never().is_none(), "the seat is taken");
        let shown = dumped(&fairness).await;
        assert!(shown.contains("\none, 1, false, false, 1, 1, "), "{shown}");
        drop(seat);
        eventually("it gets the seat", || {
            waits.as_mut().now_or_never().is_some_and(|seat| seat.is_ok())
        })
        .await;
    });
}
