//! What stays of requests that leave before their turn, are refused, or are lost with the actor of their level.

use trireme_actors::{AskError, Message, Receive, Reply, Turn};

use super::{super::level::LevelActor, *};

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
