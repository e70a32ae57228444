//! The limiter in a system of actors.

use trireme_actors::{
    testkit::{TestKit, run},
    topology::Topology,
};

use super::{MaxInFlight, RequestKind};
use crate::{Full, InFlightLimits};

fn limiter(kit: &TestKit, read_only: usize, mutating: usize) -> MaxInFlight {
    MaxInFlight::start(&kit.system, InFlightLimits { read_only, mutating }).expect("the actors start")
}

/// The number of turns that the actors of the limiter have taken.
fn turns(kit: &TestKit) -> u64 {
    kit.system.snapshot().iter().map(|actor| actor.turns).sum()
}

#[test]
fn a_full_class_refuses_until_a_seat_is_given_back() {
    run(Topology::trireme(), |kit| async move {
        let limiter = limiter(&kit, 1, 1);
        let seat = limiter.acquire(RequestKind::ReadOnly).await.ok();
        assert!(seat.is_some());
        assert_eq!(limiter.acquire(RequestKind::ReadOnly).await.err(), Some(Full));
        drop(seat);
        assert!(limiter.acquire(RequestKind::ReadOnly).await.is_ok());
    });
}

#[test]
fn a_free_seat_is_taken_without_the_actor() {
    run(Topology::trireme(), |kit| async move {
        let limiter = limiter(&kit, 2, 2);
        let before = turns(&kit);
        for _ in 0..100 {
            assert!(limiter.acquire(RequestKind::Mutating).await.is_ok());
        }
        assert_eq!(turns(&kit), before);
        let shown: Vec<String> = kit.system.snapshot().into_iter().map(|actor| actor.instance).collect();
        assert_eq!(shown, ["mutating", "readOnly"]);
    });
}

#[test]
fn the_classes_do_not_take_each_others_seats() {
    run(Topology::trireme(), |kit| async move {
        let limiter = limiter(&kit, 1, 1);
        let _reads = limiter.acquire(RequestKind::ReadOnly).await;
        assert!(limiter.acquire(RequestKind::Mutating).await.is_ok());
    });
}

#[test]
fn the_exempt_are_admitted_to_a_full_class() {
    run(Topology::trireme(), |kit| async move {
        let limiter = limiter(&kit, 1, 1);
        let one = limiter.acquire(RequestKind::Mutating).await;
        let two = limiter.exempt(RequestKind::Mutating);
        drop(two);
        assert_eq!(limiter.acquire(RequestKind::Mutating).await.err(), Some(Full));
        drop(one);
    });
}

#[test]
fn zero_means_no_limit() {
    run(Topology::trireme(), |kit| async move {
        let limiter = limiter(&kit, 0, 0);
        let mut seats = Vec::new();
        for _ in 0..1000 {
            seats.push(limiter.acquire(RequestKind::Mutating).await);
        }
        assert!(seats.iter().all(Result::is_ok));
    });
}

#[test]
fn a_smaller_class_refuses_until_enough_seats_are_given_back() {
    run(Topology::trireme(), |kit| async move {
        let limiter = limiter(&kit, 1, 2);
        let [one, two] = [
            limiter.acquire(RequestKind::Mutating).await,
            limiter.acquire(RequestKind::Mutating).await,
        ];
        let smaller = InFlightLimits {
            read_only: 1,
            mutating: 1,
        };
        limiter.resize(smaller).await.expect("the actors answer");
        drop(one);
        assert_eq!(limiter.acquire(RequestKind::Mutating).await.err(), Some(Full));
        drop(two);
        assert!(limiter.acquire(RequestKind::Mutating).await.is_ok());
    });
}

#[test]
fn verbs_fall_into_their_class() {
    for verb in ["get", "list", "watch"] {
        assert_eq!(RequestKind::of_verb(verb), RequestKind::ReadOnly);
    }
    for verb in [
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "post",
        "head",
        "options",
    ] {
        assert_eq!(RequestKind::of_verb(verb), RequestKind::Mutating);
    }
}
