//! The dumps: rows and columns.

use super::*;

#[test]
fn dumps_show_who_waits_and_who_is_worked_on() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(5))).await;
        let now = kit.system.clock().now();
        let flow = fairness.classify(&request("alice", &[], LIST_PODS));
        let demand = |final_seats, additional_latency| FlowDemand {
            work: WorkEstimate {
                initial_seats: 1,
                final_seats,
                additional_latency,
            },
            kind: RequestKind::Mutating,
            is_watch: false,
            deadline: now + Duration::from_secs(15),
        };
        let details = |verb| RequestDetails::new(["alice", verb, "/p", "ns", "x", "apps", "v1", "r", ""]);
        let seat = fairness
            .acquire(&flow, demand(3, Duration::from_millis(5)), details("update"))
            .await;
        let waits = fairness.acquire(&flow, demand(0, Duration::ZERO), details("create"));
        let look = async {
            let lines = async || {
                let table = unpadded(&fairness.dump(FlowDump::RequestDetails).await);
                table.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
            };
            while lines().await.len() < 2 {}
            let shown = lines().await;
            let cells = |line: usize| shown[line].split(", ").collect::<Vec<_>>();
            let (waiting, executing) = (cells(0), cells(1));
            assert_eq!(waiting[..2], ["one", "one"]);
            assert!(waiting[2].parse::<usize>().is_ok(), "the index of a queue: {waiting:?}");
            assert_eq!(waiting[3..5], ["0", "alice"]);
            assert_eq!(waiting[6..10], ["1", "0", "0s", "0001-01-01T00:00:00Z"]);
            assert_eq!(waiting[10..], ["alice", "create", "/p", "ns", "x", "apps/v1", "r", ""]);
            assert_eq!(executing[2..5], ["-1", "-1", "alice"]);
            assert_eq!(executing[5], executing[9], "it did not wait");
            assert_eq!(executing[6..9], ["1", "3", "5ms"]);
            assert_eq!(executing[10..12], ["alice", "update"]);
            drop(seat);
            kit.clock.elapse(Duration::from_millis(5)).await;
        };
        let (got, ()) = futures_util::join!(waits, look);
        assert!(got.is_ok());
        let shown = unpadded(&fairness.dump(FlowDump::Requests).await);
        let of_queue = shown.lines().nth(1).unwrap_or_default().split(", ").nth(2);
        assert!(
            of_queue.is_some_and(|queue| queue != "-1"),
            "it has waited in a queue: {shown}"
        );
    });
}

#[test]
fn columns_are_as_wide_as_their_widest_cell() {
    run(Topology::trireme(), |kit| async move {
        let fairness = started(&kit, one_level(&queue_of(5))).await;
        let table = fairness.dump(FlowDump::Queues).await;
        let mut lines = table.lines();
        let head = "PriorityLevelName, Index,  PendingRequests, ExecutingRequests, SeatsInUse, NextDispatchR, InitialSeatsSum, MaxSeatsSum, TotalWorkSum";
        assert_eq!(lines.next(), Some(head));
        let first = "one,               0,      0,               0,                 0,          0.00000000ss,  0,               0,           0.00000000ss";
        assert_eq!(lines.next(), Some(first));
        assert_eq!(
            lines.count(),
            7,
            "all queues are shown, and levels without queues have none"
        );
    });
}
