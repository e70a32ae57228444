//! Division of the server's seats among levels.

use super::{
    super::limits::{BorrowedLimits, SeatDemand, SeatLimits, borrowed_limits, nominal_limits, widest_request},
    *,
};

#[test]
fn seats_are_divided_by_shares_as_kube_apiserver_divides_them() {
    let config = defaults();
    let specs: Vec<_> = config.levels.iter().map(|level| &level.spec).collect();
    let limits = nominal_limits(600, &specs);
    let named = config
        .levels
        .iter()
        .map(|level| level.metadata.name.as_str())
        .zip(limits);
    let shown: Vec<_> = named
        .map(|(name, limits)| (name, limits.nominal, limits.lower, limits.upper))
        .collect();
    assert_eq!(
        shown,
        [
            ("catch-all", 13, 13, 613),
            ("exempt", 0, 0, 600),
            ("global-default", 49, 24, 649),
            ("leader-election", 25, 25, 625),
            ("node-high", 98, 73, 698),
            ("system", 74, 50, 674),
            ("workload-high", 98, 49, 698),
            ("workload-low", 245, 24, 845),
        ]
    );
}

#[test]
fn one_request_leaves_seats_for_others() {
    let config = defaults();
    let widest = |name: &str, nominal: u32| {
        let level = config.levels.iter().find(|level| level.metadata.name == name);
        widest_request(&level.expect("it is a default").spec, nominal)
    };
    assert_eq!(widest("global-default", 49), 8, "a hand of six queues");
    assert_eq!(widest("global-default", 5), 1);
    assert_eq!(widest("catch-all", 13), u32::MAX, "it has no queues");
    assert_eq!(widest("exempt", 0), u32::MAX);
}

/// A level that has wanted so many seats of late.
fn level(nominal: u32, lower: u32, upper: u32, peak: u32) -> SeatDemand {
    SeatDemand {
        limits: SeatLimits { nominal, lower, upper },
        is_exempt: false,
        peak,
        smoothed_milli: u64::from(peak) * 1000,
    }
}

#[test]
fn a_busy_level_borrows_what_idle_ones_lend() {
    let busy = level(50, 25, 100, 90);
    let borrowed = borrowed_limits(&[busy, level(50, 25, 100, 0)]);
    assert_eq!(borrowed.limits, [75, 25]);
    // The busy level gets 75 of the 90 seats that it is to have.
    assert!((busy.target() - 90.0).abs() < 1e-9 && (borrowed.fair_fraction - 75.0 / 90.0).abs() < 1e-5);
    let bounded = borrowed_limits(&[level(50, 25, 60, 90), level(50, 25, 100, 0)]);
    assert_eq!(bounded.limits, [60, 40]);
    let both = borrowed_limits(&[busy, busy]);
    assert_eq!(both.limits, [50, 50]);
}

#[test]
fn all_who_wait_are_in_the_demand_of_their_level() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(5))).await;
        let now = kit.system.clock().now();
        let flow = fairness.classify(&request("alice", &[], LIST_PODS));
        let seats = &flow.route().expect("it is classified").level.seats;
        let ask = || Box::pin(ask(&fairness, "alice", Duration::from_secs(15), now));
        let seat = ask().await;
        let mut waiting = [ask(), ask(), ask()];
        for one in &mut waiting {
            assert!(one.now_or_never().is_none(), "the seat is taken");
        }
        eventually("one has a seat and three wait", || seats.take_peak() == 4).await;
        drop(seat);
        eventually("one has a seat and two wait", || seats.take_peak() == 3).await;
    });
}

#[test]
fn others_have_what_exempt_requests_leave() {
    // Levels of 100, 200 and 50 seats which lend a half, nine tenths and nothing of them, and an exempt one.
    let exempt = |peak| SeatDemand {
        is_exempt: true,
        ..level(0, 0, 350, peak)
    };
    let divided = |exempt_peak, peaks: [u32; 3]| {
        let [high, middle, low] = peaks;
        borrowed_limits(&[
            exempt(exempt_peak),
            level(100, 50, 450, high),
            level(200, 20, 550, middle),
            level(50, 50, 400, low),
        ])
    };
    let unfair = |limits: [u32; 4]| BorrowedLimits {
        limits: limits.into(),
        fair_fraction: 0.0,
    };
    let all = [1_000; 3];
    // All want more than there is, and the exempt ones take it.
    assert_eq!(divided(450, all), unfair([450, 50, 20, 50]));
    assert_eq!(divided(230, all), unfair([230, 50, 20, 50]), "no more than is lent");
    // Half of what is lent is left.
    assert_eq!(divided(115, all), unfair([115, 75, 110, 50]));
    assert_eq!(
        divided(115, [60, 120, 0]).limits,
        [115, 91, 183, 76],
        "enough for what is wanted"
    );
    // Enough for all is left: what the exempt ones take beyond that is nobody's.
    let enough = divided(100, [60, 100, 10]);
    assert_eq!(enough.limits.iter().skip(1).sum::<u32>(), 350);
    assert!((enough.fair_fraction - 350.0 / 210.0).abs() < 1e-5, "{enough:?}");
    assert_eq!(enough.limits, [100, 100, 167, 83]);
}

#[test]
fn exempt_requests_are_demand_that_other_levels_make_room_for() {
    run(Topology::trireme(), |kit| async move {
        let queuing = json!({ "queues": 8, "handSize": 1, "queueLengthLimit": 50 });
        let limited = json!({
            "nominalConcurrencyShares": 5, "lendablePercent": 100,
            "limitResponse": { "type": "Queue", "queuing": queuing },
        });
        let fairness = started(&kit, level_one("level-uid", &limited)).await;
        let now = kit.system.clock().now();
        let one = fairness.classify(&request("alice", &[], LIST_PODS));
        let masters = groups(&["system:masters"]);
        let exempt = fairness.classify(&request("admin", &masters, LIST_PODS));
        assert!(exempt.is_exempt());
        let demand = FlowDemand {
            work: WorkEstimate::of_seats(1),
            kind: RequestKind::ReadOnly,
            is_watch: false,
            deadline: now + Duration::from_secs(15),
        };
        let take = |flow| fairness.acquire(flow, demand, RequestDetails::default());
        let limits = || [&one, &exempt].map(|flow| flow.route().map_or(0, |route| route.level.seats.limit()));
        let mut waits = Box::pin(take(&one));
        assert!(
            waits.as_mut().now_or_never().is_none(),
            "the level has lent all its seats"
        );
        let _busy = [take(&exempt).await, take(&exempt).await, take(&exempt).await];
        kit.clock.elapse(Duration::from_secs(10)).await;
        eventually("nothing is left of three seats", || limits() == [0, 3]).await;
    });
}

#[test]
fn a_change_of_shares_takes_no_borrowed_seats_away() {
    run(Topology::trireme(), |kit| async move {
        let limited = |shares: u32| {
            let response =
                json!({ "type": "Queue", "queuing": { "queues": 1, "handSize": 1, "queueLengthLimit": 50 } });
            json!({ "nominalConcurrencyShares": shares, "limitResponse": response })
        };
        let lends = json!({
            "metadata": { "name": "two" },
            "spec": { "type": "Limited", "limited": {
                "nominalConcurrencyShares": 5, "lendablePercent": 100, "limitResponse": { "type": "Reject" },
            }},
        });
        let with_two = |uid, shares| {
            let mut config = level_one(uid, &limited(shares));
            config.levels.extend(
                FlowConfig::of([], [&lends])
                    .levels
                    .into_iter()
                    .filter(|level| level.metadata.name == "two"),
            );
            config
        };
        let fairness = PriorityAndFairness::start(&kit.system, 11).expect("the actors start");
        let flow = || fairness.classify(&request("alice", &[], LIST_PODS));
        let limit = || flow().route().map(|route| route.level.seats.limit());
        fairness.configure(with_two("before", 1));
        eventually("the configuration counts", || flow().level_uid() == "before").await;
        let now = kit.system.clock().now();
        let mut asked: Vec<_> = (0..7)
            .map(|_| Box::pin(ask(&fairness, "alice", Duration::from_secs(15), now)))
            .collect();
        let _held: Vec<_> = asked.iter_mut().map(|one| one.now_or_never()).collect();
        eventually("seven are wanted", || {
            flow().route().is_some_and(|route| route.level.seats.demand() == 7)
        })
        .await;
        kit.clock.elapse(Duration::from_secs(10)).await;
        eventually("five seats are borrowed", || limit() == Some(6)).await;
        fairness.configure(with_two("after", 2));
        eventually("the change counts", || flow().level_uid() == "after").await;
        assert!(limit() >= Some(5), "{:?}", limit());
    });
}
