//! The rules alone: every sequence of commands keeps them, and every order of renewals keeps holders apart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::directory::{Incarnation, ReplicaDescription, ReplicaId, Standing};
use super::fence::{Renewals, Timing};
use super::leases::Holder;
use super::{Command, CommandOutcome, GroupState};

const DUTIES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn enter(replica: u64, incarnation: u64) -> Command {
    Command::Enter {
        replica: ReplicaId(replica),
        facts: ReplicaDescription {
            incarnation: Incarnation(incarnation),
            address: format!("replica-{replica}:1"),
            version: "1".to_owned(),
            duties: DUTIES.iter().map(|duty| (*duty).to_owned()).collect(),
        },
        token_floor: 100,
    }
}

fn held(state: &GroupState, replica: u64) -> Vec<(String, u64)> {
    let leases = state.leases.held_by(ReplicaId(replica));
    leases.map(|(duty, lease)| (duty.to_owned(), lease.token)).collect()
}

fn revoked(state: &GroupState) -> Vec<String> {
    let leases = state.leases.iter().filter(|(_, lease)| lease.revoked);
    leases.map(|(duty, _)| duty.to_owned()).collect()
}

fn give_way(state: &mut GroupState) {
    let asked: Vec<(String, u64, Holder)> = state
        .leases
        .iter()
        .filter(|(_, lease)| lease.revoked)
        .filter_map(|(duty, lease)| Some((duty.to_owned(), lease.token, lease.holder?)))
        .collect();
    for (duty, token, holder) in asked {
        state.apply(&Command::Yield {
            replica: holder.replica,
            incarnation: holder.incarnation,
            duties: BTreeMap::from([(duty, token)]),
            floors: BTreeMap::new(),
        });
    }
}

#[test]
fn commands_about_the_greatest_tokens_end() {
    let mut state = GroupState::default();
    let Command::Enter { replica, facts, .. } = enter(1, 1) else {
        unreachable!("it enters")
    };
    let token_floor = u64::MAX;
    state.apply(&Command::Enter {
        replica,
        facts,
        token_floor,
    });
    assert_eq!(held(&state, 1).len(), 5, "there are tokens above any floor");
    // As it would stand in a snapshot after all tokens were given out.
    let mut stored = serde_json::to_value(&state).expect("a state can be written");
    let lease = serde_json::json!({"token": u64::MAX, "holder": null, "revoked": false});
    stored["leases"]["by_duty"]["a"] = lease;
    let mut state: GroupState = serde_json::from_value(stored).expect("it can be read");
    state.apply(&enter(2, 1));
    let given: Vec<_> = state
        .leases
        .iter()
        .filter(|(_, lease)| lease.token == u64::MAX)
        .collect();
    assert!(given.len() == 1 && given[0].1.holder.is_none(), "it is given out once");
}

#[test]
fn a_newcomer_gets_its_share_when_the_holders_have_yielded() {
    let mut state = GroupState::default();
    state.apply(&enter(1, 1));
    assert_eq!(held(&state, 1).len(), 5);
    state.apply(&enter(2, 1));
    assert_eq!(
        held(&state, 1).len(),
        5,
        "nothing is taken from a holder that may act on it"
    );
    assert_eq!(revoked(&state), ["a", "b"]);
    give_way(&mut state);
    assert_eq!(held(&state, 2), [("a".to_owned(), 102), ("b".to_owned(), 102)]);
    assert_eq!(revoked(&state), Vec::<String>::new());
}

#[test]
fn an_expired_replica_comes_back_without_its_leases() {
    let mut state = GroupState::default();
    state.apply(&enter(1, 1));
    state.apply(&enter(2, 1));
    let (replica, incarnation) = (ReplicaId(1), Incarnation(1));
    state.apply(&Command::Expire { replica, incarnation });
    assert_eq!(held(&state, 2).len(), 5);
    assert_eq!(state.apply(&enter(1, 1)), CommandOutcome::Done);
    assert_eq!(held(&state, 1), []);
}

#[test]
fn what_a_former_process_held_is_free_when_the_next_enters() {
    let mut state = GroupState::default();
    state.apply(&enter(1, 1));
    let before = held(&state, 1);
    assert_eq!(state.apply(&enter(1, 2)), CommandOutcome::Done);
    let after = held(&state, 1);
    assert!(after.iter().zip(&before).all(|(after, before)| after.1 == before.1 + 1));
    assert_eq!(
        state.apply(&enter(1, 1)),
        CommandOutcome::Over,
        "the former process is dead"
    );
}

#[test]
fn who_has_left_needs_a_new_process_to_come_back() {
    let mut state = GroupState::default();
    state.apply(&enter(1, 1));
    let (replica, incarnation) = (ReplicaId(1), Incarnation(1));
    state.apply(&Command::Leave { replica, incarnation });
    assert_eq!(state.apply(&enter(1, 1)), CommandOutcome::Over);
    assert_eq!(state.apply(&enter(1, 2)), CommandOutcome::Done);
}

#[test]
fn a_replica_is_removed_when_it_has_yielded_and_never_comes_back() {
    let mut state = GroupState::default();
    state.apply(&enter(1, 1));
    state.apply(&enter(2, 1));
    let replica = ReplicaId(1);
    state.apply(&Command::Retire { replica });
    assert_eq!(state.apply(&Command::Remove { replica }), CommandOutcome::Holding);
    give_way(&mut state);
    assert_eq!(held(&state, 2).len(), 5);
    assert_eq!(state.apply(&Command::Remove { replica }), CommandOutcome::Done);
    assert_eq!(state.apply(&enter(1, 2)), CommandOutcome::Removed);
}

#[test]
fn a_group_founded_anew_gives_out_greater_tokens() {
    let mut state = GroupState::default();
    state.apply(&enter(1, 1));
    assert_eq!(held(&state, 1)[0].1, 101);
}

#[test]
fn a_lease_whose_token_was_outbid_is_given_out_above() {
    let mut state = GroupState::default();
    state.apply(&enter(1, 1));
    let outbid = |token, floor| Command::Yield {
        replica: ReplicaId(1),
        incarnation: Incarnation(1),
        duties: BTreeMap::from([("a".to_owned(), token)]),
        floors: BTreeMap::from([("a".to_owned(), floor)]),
    };
    state.apply(&outbid(101, 500));
    assert_eq!(held(&state, 1)[0], ("a".to_owned(), 501));
    state.apply(&outbid(101, 900));
    assert_eq!(
        held(&state, 1)[0],
        ("a".to_owned(), 501),
        "it is held under another token by now"
    );
    state.apply(&outbid(501, u64::MAX));
    assert_eq!(held(&state, 1)[0], ("a".to_owned(), 502), "there would be none above");
}

fn commands() -> impl Strategy<Value = Command> {
    let process = (0..4_u64, 0..3_u64);
    prop_oneof![
        4 => process.clone().prop_map(|(replica, incarnation)| enter(replica, incarnation)),
        2 => process.clone().prop_map(|(replica, incarnation)| Command::Expire {
            replica: ReplicaId(replica),
            incarnation: Incarnation(incarnation),
        }),
        1 => process.clone().prop_map(|(replica, incarnation)| Command::Leave {
            replica: ReplicaId(replica),
            incarnation: Incarnation(incarnation),
        }),
        3 => (process, 0..5_usize, 100..110_u64, 0..120_u64).prop_map(|((replica, incarnation), duty, token, floor)| {
            Command::Yield {
                replica: ReplicaId(replica),
                incarnation: Incarnation(incarnation),
                duties: BTreeMap::from([(DUTIES[duty].to_owned(), token)]),
                floors: BTreeMap::from([(DUTIES[duty].to_owned(), floor)]),
            }
        }),
        1 => (0..4_u64).prop_map(|replica| Command::Retire { replica: ReplicaId(replica) }),
        1 => (0..4_u64).prop_map(|replica| Command::Remove { replica: ReplicaId(replica) }),
    ]
}

/// Invariants from one state to the next.
fn check_step(before: &GroupState, after: &GroupState, given: &mut BTreeMap<(String, u64), Holder>) {
    let former: BTreeMap<&str, u64> = before.leases.iter().map(|(duty, lease)| (duty, lease.token)).collect();
    for (duty, lease) in after.leases.iter() {
        assert!(
            lease.token >= former.get(duty).copied().unwrap_or_default(),
            "the token of {duty} shrank"
        );
        let Some(holder) = lease.holder else { continue };
        let first = given.entry((duty.to_owned(), lease.token)).or_insert(holder);
        assert_eq!(*first, holder, "token {} of {duty} has two holders", lease.token);
        let found = &after.directory.replicas[&holder.replica];
        assert!(found.renews(), "{duty} is held by one who is {:?}", found.standing);
        assert_eq!(
            found.facts.incarnation, holder.incarnation,
            "{duty} is held by a dead process"
        );
    }
}

proptest! {
    #[test]
    fn tokens_grow_and_each_has_one_holder(commands in prop::collection::vec(commands(), 0..60)) {
        let (mut state, mut given) = (GroupState::default(), BTreeMap::new());
        for command in &commands {
            let before = state.clone();
            state.apply(command);
            check_step(&before, &state, &mut given);
        }
    }

    #[test]
    fn the_same_commands_give_the_same_state(commands in prop::collection::vec(commands(), 0..60)) {
        let (mut one, mut other) = (GroupState::default(), GroupState::default());
        for command in &commands {
            prop_assert_eq!(one.apply(command), other.apply(command));
        }
        prop_assert_eq!(&one, &other);
        let kept = serde_json::to_vec(&one).expect("the state is JSON");
        prop_assert_eq!(one, serde_json::from_slice::<GroupState>(&kept).expect("JSON is the state"));
    }

    #[test]
    fn leases_end_up_spread_evenly(commands in prop::collection::vec(commands(), 0..60)) {
        let mut state = GroupState::default();
        for command in &commands {
            state.apply(command);
        }
        for _ in 0..20 {
            give_way(&mut state);
        }
        let live = state.directory.replicas.iter().filter(|(_, found)| found.standing == Standing::Live);
        let loads: BTreeSet<usize> = live.map(|(id, _)| state.leases.held_by(*id).count()).collect();
        if let (Some(least), Some(most)) = (loads.first(), loads.last()) {
            prop_assert!(most - least <= 1, "{loads:?}");
            prop_assert!(state.leases.iter().all(|(_, lease)| lease.holder.is_some() && !lease.revoked));
        }
    }
}

const TIMING: Timing = Timing {
    ttl: Duration::from_millis(1_000),
    margin: Duration::from_millis(100),
};
const HOLDER: Holder = Holder {
    replica: ReplicaId(1),
    incarnation: Incarnation(1),
};

#[test]
fn a_new_leader_waits_a_full_ttl_before_it_expires_a_holder() {
    let elected = some_time();
    let mut renewals = Renewals::new(TIMING, elected);
    let just_before = elected + Duration::from_millis(1_099);
    let holders = BTreeSet::from([HOLDER]);
    assert_eq!(renewals.overdue(&holders, just_before), []);
    let due = elected + Duration::from_millis(1_100);
    assert_eq!(renewals.overdue(&holders, due), [HOLDER]);
    assert!(!renewals.receive(HOLDER, due), "its expiry is under way");
    assert_eq!(
        renewals.overdue(&holders, due),
        [HOLDER],
        "a proposal that failed is made again"
    );
    assert!(!renewals.receive(HOLDER, due), "its expiry is still under way");
    assert_eq!(renewals.overdue(&BTreeSet::new(), due), [], "its expiry is applied");
    assert!(renewals.receive(HOLDER, due));
    assert_eq!(renewals.overdue(&BTreeSet::new(), due), [], "it enters");
    assert_eq!(renewals.overdue(&holders, due), [], "it was heard while it entered");
}

/// A point in time to count from; its value does not matter.
fn some_time() -> Instant {
    trireme_actors::Clock::system().now()
}

proptest! {
    /// A holder renews with the leader of the day; leaders follow each other. Whatever the delays, it is not expired
    /// while it believes itself the holder.
    #[test]
    fn no_holder_is_expired_that_may_still_act(
        steps in prop::collection::vec((1..700_u64, 0..200_u64, 0..200_u64, prop::bool::weighted(0.2), any::<bool>()), 1..40),
    ) {
        let start = some_time();
        let (mut now, mut may_act_until) = (start, start);
        let mut renewals = Renewals::new(TIMING, start);
        for (pause, there, back, is_new_leader, is_answer_lost) in steps {
            now += Duration::from_millis(pause);
            if is_new_leader {
                renewals = Renewals::new(TIMING, now);
            }
            if !renewals.overdue(&BTreeSet::from([HOLDER]), now).is_empty() {
                prop_assert!(may_act_until < now);
                renewals.overdue(&BTreeSet::new(), now);
            }
            let sent = now;
            now += Duration::from_millis(there);
            let is_acknowledged = renewals.receive(HOLDER, now);
            now += Duration::from_millis(back);
            if is_acknowledged && !is_answer_lost {
                may_act_until = TIMING.holder_stops(sent);
            }
        }
    }
}
