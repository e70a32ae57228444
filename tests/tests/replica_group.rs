//! Tests of three replicas over one etcd when something happens to one of them, as their users see it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use trireme_tests::group::{Authority, Group, Replica, View, until};
use trireme_tests::http::Client;
use trireme_tests::server::{CONTROLLERS, USER_TOKEN};
use trireme_tests::{Server, StoreChoice};

/// Debug builds on a machine that compiles beside them take their time.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit for the move of duties. 3 s are promised, for a machine that does nothing else.
const MOVED_WITHIN: Duration = Duration::from_secs(10);
const ALL: [usize; 3] = [0, 1, 2];
/// The leaders that are stopped until one hands over all.
const HANDOVERS: usize = 3;
const COLLECTOR: &str = "garbage-collector-controller";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn group(flags: &[&str]) -> Group {
    Group::start(ALL.len(), flags).unwrap_or_else(|error| panic!("{error}"))
}

fn others(place: usize) -> Vec<usize> {
    ALL.into_iter().filter(|other| *other != place).collect()
}

/// The place of the replica with an id.
fn place_of(group: &Group, id: &str) -> usize {
    let place = ALL
        .into_iter()
        .find(|place| view(&group.replicas[*place]).own_id() == id);
    place.expect("it is one of them")
}

fn view(replica: &Replica) -> View {
    replica.view().expect("the replica answers")
}

/// The view of a replica when all are alive, and the output of `trireme cluster status` at that moment. On a busy machine a
/// lease may be lost at any time: the command is run again until nothing has changed meanwhile.
fn view_and_status(replica: &Replica) -> (View, String) {
    let mut seen = None;
    until("nothing changes while the status is made", PATIENCE, || {
        let before = view(replica);
        let output = replica.command(&["status"]);
        let after = view(replica);
        let is_same = before.agrees_with(&after) && before.leader() == after.leader();
        let is_whole = [&before, &after].iter().all(|view| {
            view.leader().is_some() && view.members().values().all(|is_alive| *is_alive) && view.all_are_held()
        });
        seen = (is_same && is_whole && output.status.success()).then(|| (after, text(&output)));
        seen.is_some()
    });
    seen.expect("it was waited for")
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

fn assert_all_grew(duties: &BTreeSet<String>, before: &BTreeMap<String, u64>, after: &View) {
    let after = after.tokens();
    assert!(!duties.is_empty(), "it held nothing");
    for duty in duties {
        assert!(
            after[duty] > before[duty],
            "{duty}: {} after {}",
            after[duty],
            before[duty]
        );
    }
}

#[test]
fn duties_are_spread_and_move_when_the_leader_dies() {
    let mut group = group(&[CONTROLLERS]);
    group.wait_until_held_by(&ALL, PATIENCE);
    let (before, shown) = view_and_status(&group.replicas[0]);
    println!("{shown}");
    let own_id = before.leader().expect("one leads");
    let leader = place_of(&group, &own_id);
    let survivors = others(leader);
    assert!(
        shown.contains(&format!("Group trireme: 3 of 3 members alive, led by {own_id} in term")),
        "{shown}"
    );
    for replica in &group.replicas {
        assert!(
            shown.contains(&replica.address),
            "{} is not in\n{shown}",
            replica.address
        );
    }
    for (duty, token) in before.tokens() {
        let row = shown.lines().find(|line| line.starts_with(&format!("{duty} ")));
        let row = row.unwrap_or_else(|| panic!("{duty} is not in\n{shown}"));
        let holder = before.holder(&duty).expect("it is held");
        assert!(row.contains(&holder) && row.ends_with(&token.to_string()), "{row}");
    }

    group.replicas[leader].server.process().kill();
    let took = group.wait_until_taken_over_by(&survivors, MOVED_WITHIN);
    println!("the leader was killed; all its duties were held by others after {took:?}");
    let after = view(&group.replicas[survivors[0]]);
    assert_all_grew(&before.held_by(&own_id), &before.tokens(), &after);
    assert_ne!(after.leader(), Some(own_id.clone()));
    assert_eq!(
        after.members().get(&own_id),
        Some(&false),
        "a dead member is shown as dead"
    );

    group.replicas[leader]
        .server
        .restart()
        .unwrap_or_else(|error| panic!("{error}"));
    group.wait_until_held_by(&ALL, PATIENCE);
    assert_eq!(view(&group.replicas[leader]).own_id(), own_id, "it is the same member");
}

#[test]
fn a_replica_that_is_asked_to_stop_hands_over() {
    // On a busy machine the successor may not be elected in time; the leader then logs that and stops.
    let is_complete = (0..HANDOVERS).any(|_| stops_its_leader(group(&[])));
    assert!(is_complete, "none of {HANDOVERS} leaders handed over all");
}

/// Has the leader of a group stop in good order. Returns true if it handed over all that it held, leadership with it.
fn stops_its_leader(mut group: Group) -> bool {
    group.wait_until_held_by(&ALL, PATIENCE);
    let leader = group.leader(PATIENCE);
    let survivors = others(leader);
    let own_id = view(&group.replicas[leader]).own_id();
    let before = view(&group.replicas[survivors[0]]);

    let process = group.replicas[leader].server.process();
    process.signal("TERM").expect("sent");
    let took = group.wait_until_taken_over_by(&survivors, MOVED_WITHIN);
    println!("the leader was asked to stop; all its duties were held by others after {took:?}");
    let after = view(&group.replicas[survivors[0]]);
    assert_all_grew(&before.held_by(&own_id), &before.tokens(), &after);
    let process = group.replicas[leader].server.process();
    let status = process.wait(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(status, "exit status: 0");
    let log = process.log();
    if log.contains("the other replicas did not take over in time") {
        return false;
    }
    assert!(log.contains("handed over to the other replicas leases=true"), "{log}");
    log.contains("leases=true leadership=true")
}

#[test]
fn without_a_quorum_the_api_is_served_and_duties_stop() {
    let mut group = group(&[]);
    group.wait_until_held_by(&ALL, PATIENCE);
    for place in [1, 2] {
        group.replicas[place].server.process().kill();
    }
    let last = &group.replicas[0];
    until("the last replica says that there is no quorum", PATIENCE, || {
        !view(last).has_quorum()
    });
    let alone = view(last);
    assert!(alone.held().is_empty(), "{alone:?}");
    assert_eq!(alone.leader(), None);
    let shown = text(&last.command(&["status"]));
    println!("{shown}");
    assert!(shown.contains("NO QUORUM of its 3 members"), "{shown}");
    let refused = last.command(&["remove", &group.replicas[1].address]);
    assert!(!refused.status.success());
    assert!(text(&refused).contains("the group has no quorum"), "{}", text(&refused));

    let client = last.server.client();
    let map = json!({ "metadata": { "name": "written-without-a-quorum" } });
    assert_eq!(client.json("POST", CONFIG_MAPS, &map).expect("an answer").code, 201);
    assert_eq!(client.get("/readyz").expect("an answer").code, 200);
    let verbose = client.get("/readyz?verbose").expect("an answer").text();
    assert!(
        verbose.contains("[i]replica-group: no quorum: duties are not done"),
        "{verbose}"
    );
    assert!(verbose.contains("readyz check passed"), "{verbose}");
    // Metrics of the group are written now and then, not with each change.
    until("the metric says so", PATIENCE, || {
        last.metric("trireme_cluster_has_quorum") == 0.0
    });

    for place in [1, 2] {
        let restarted = group.replicas[place].server.restart();
        restarted.unwrap_or_else(|error| panic!("{error}"));
    }
    group.wait_until_held_by(&ALL, PATIENCE);
    until("the metric says that it is back", PATIENCE, || {
        group.replicas[0].metric("trireme_cluster_has_quorum") == 1.0
    });
}

/// Makes config maps whose owner has never been, for the garbage collector to delete.
fn make_garbage(client: &Client, count: usize) {
    for number in 0..count {
        let map = json!({ "metadata": {
            "name": format!("garbage-{number}"),
            "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": format!("gone-{number}") }],
        } });
        assert_eq!(client.json("POST", CONFIG_MAPS, &map).expect("an answer").code, 201);
    }
}

fn garbage(client: &Client) -> usize {
    let list = client
        .get(&format!("{CONFIG_MAPS}?resourceVersion=0"))
        .expect("an answer")
        .text();
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let items = list["items"].as_array().expect("a list");
    let is_garbage = |item: &&Value| {
        item["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("garbage-"))
    };
    items.iter().filter(is_garbage).count()
}

const GARBAGE: usize = 150;

#[test]
fn a_holder_that_was_stopped_past_its_lease_has_lost_it_when_it_goes_on() {
    let mut group = group(&[CONTROLLERS]);
    group.wait_until_held_by(&ALL, PATIENCE);
    let mut held_by = None;
    until("the duty is held", PATIENCE, || {
        held_by = view(&group.replicas[0]).holder(COLLECTOR);
        held_by.is_some()
    });
    let by_id = held_by.expect("it was waited for");
    let holder = place_of(&group, &by_id);
    let witness = others(holder)[0];
    let token = view(&group.replicas[witness]).tokens()[COLLECTOR];
    let client = group.replicas[witness].server.client();

    let took = std::thread::scope(|scope| {
        let maker = scope.spawn(|| make_garbage(&client, GARBAGE));
        until("the collector works", PATIENCE, || garbage(&client) > 0);
        group.replicas[holder].server.process().signal("STOP").expect("sent");
        let took = until("another replica collects", MOVED_WITHIN, || {
            let now = view(&group.replicas[witness]);
            now.tokens()[COLLECTOR] > token && now.holder(COLLECTOR).is_some_and(|now| now != by_id)
        });
        maker.join().expect("the garbage is made");
        took
    });
    until("the garbage is gone", PATIENCE, || garbage(&client) == 0);
    group.replicas[holder].server.process().signal("CONT").expect("sent");
    until("the replica is back", PATIENCE, || {
        group.replicas[holder].view().is_some_and(|view| view.has_quorum())
    });
    // A stop hardly ever meets a write that is under way; the chaos fault `DeposeLeader` makes it meet one.
    println!("the duty was another's after {took:?}");
    until("it knows that the duty is another's", PATIENCE, || {
        view(&group.replicas[holder]).tokens()[COLLECTOR] > token
    });
    group.wait_until_held_by(&ALL, PATIENCE);
}

#[test]
fn a_replica_that_lost_its_raft_directory_is_another_member() {
    let mut group = group(&[]);
    group.wait_until_held_by(&ALL, PATIENCE);
    let former = view(&group.replicas[1]).own_id();
    group.replicas[1].server.process().kill();
    std::fs::remove_dir_all(group.replicas[1].raft_dir()).expect("removed");
    group.replicas[1]
        .server
        .restart()
        .unwrap_or_else(|error| panic!("{error}"));
    group.wait_until_held_by(&ALL, PATIENCE);
    let now = view(&group.replicas[1]).own_id();
    assert_ne!(now, former);
    until("the former member is gone", PATIENCE, || {
        let members = view(&group.replicas[0]).members();
        members.len() == 3 && members.contains_key(&now) && !members.contains_key(&former)
    });
}

#[test]
fn duties_go_on_after_a_stranger_over_the_same_etcd_has_done_them() {
    const DUTY: &str = "kubernetes-service";
    const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
    let group = group(&[]);
    group.wait_until_held_by(&ALL, PATIENCE);
    let client = group.replicas[0].server.client();
    let exists = || client.get(SERVICE).expect("an answer").code == 200;
    until("the service is there", PATIENCE, exists);

    let mut stranger = group.start_stranger().unwrap_or_else(|error| panic!("{error}"));
    let seen = stranger.client();
    // One above the token in use, which need not be the group's newest: that one may not have been used yet.
    let mut taken = u64::MAX;
    until("the stranger has taken the duty", PATIENCE, || {
        let view: Value = serde_json::from_str(&seen.get("/debug/replicas").expect("an answer").text()).expect("JSON");
        let mut duties = view["duties"].as_array().expect("a list").iter();
        let held = duties.find(|duty| duty["duty"] == DUTY && duty["held"] == true);
        taken = held.map_or(taken, |duty| duty["token"].as_u64().expect("a token"));
        held.is_some()
    });
    stranger.process().kill();
    assert_eq!(client.json("DELETE", SERVICE, &json!({})).expect("an answer").code, 200);
    until("the group makes the service anew", PATIENCE, exists);
    // Who made it may be ahead of this replica.
    until("the token is not below the stranger's", PATIENCE, || {
        view(&group.replicas[0]).tokens()[DUTY] >= taken
    });
}

#[test]
fn members_come_and_go_while_the_group_runs() {
    let mut group = group(&[]);
    group.wait_until_held_by(&ALL, PATIENCE);
    group.start_waiting().unwrap_or_else(|error| panic!("{error}"));
    let newcomer = group.replicas[3].address.clone();
    let shown = text(&group.replicas[3].command(&["status"]));
    assert!(shown.contains("this replica is not a member (yet)"), "{shown}");

    // A group that is electing a leader just then refuses any change, and one that is slow does not know what became of it.
    let run_until = |place: usize, args: &[&str], expected: &[&str]| {
        let mut ran = (false, String::new());
        until(&format!("{args:?}: {expected:?}"), PATIENCE, || {
            let output = group.replicas[place].command(args);
            println!("trireme cluster {}\n{}", args.join(" "), text(&output));
            ran = (output.status.success(), text(&output));
            expected.iter().any(|expected| ran.1.contains(expected))
        });
        ran
    };
    let refused = |place: usize, args: &[&str], why: &str| assert!(!run_until(place, args, &[why]).0);
    let (known, unknown) = (
        "is in the group already",
        "no member of the group has the id or address",
    );
    let added = format!("replica at {newcomer} added");
    let (succeeded, shown) = run_until(1, &["add", &newcomer], &[&added, known]);
    assert_eq!(succeeded, shown.contains(&added), "{shown}");
    let four = [0, 1, 2, 3];
    group.wait_until_held_by(&four, PATIENCE);
    refused(1, &["add", &newcomer], known);
    refused(
        1,
        &["add", "127.0.0.1:1"],
        "no replica of this group answers at 127.0.0.1:1",
    );
    refused(1, &["remove", "00000000000000ff"], unknown);

    let first = group.replicas[0].address.clone();
    let id = view(&group.replicas[0]).own_id();
    let removed = format!("replica {id} removed");
    let (succeeded, shown) = run_until(3, &["remove", &first], &[&removed, unknown]);
    assert_eq!(succeeded, shown.contains(&removed), "{shown}");
    group.wait_until_held_by(&[1, 2, 3], PATIENCE);
    until("it is no member any more", PATIENCE, || {
        !view(&group.replicas[3]).members().contains_key(&id)
    });
    refused(3, &["remove", &id], unknown);
    assert!(view(&group.replicas[0]).held().is_empty());
    // Its caches may be behind the writes of the others.
    until("it is ready", PATIENCE, || {
        group.replicas[0]
            .server
            .client()
            .get("/readyz")
            .expect("an answer")
            .code
            == 200
    });
}

#[test]
fn only_masters_see_and_change_the_group_and_a_lone_replica_says_that_it_is_alone() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let user = admin.with_token(USER_TOKEN);
    let address = json!({ "address": "127.0.0.1:1" });
    assert_eq!(user.get("/debug/replicas").expect("an answer").code, 403);
    assert_eq!(
        user.json("POST", "/debug/replicas", &address).expect("an answer").code,
        403
    );
    assert_eq!(
        user.json("DELETE", "/debug/replicas/1", &json!({}))
            .expect("an answer")
            .code,
        403
    );

    let view: Value = serde_json::from_str(&admin.get("/debug/replicas").expect("an answer").text()).expect("JSON");
    assert_eq!(
        (&view["self"], &view["group"], &view["quorum"]),
        (&Value::Null, &Value::Null, &json!(false))
    );
    let pods = view["resources"].as_array().expect("a list").iter();
    let pods = pods
        .clone()
        .find(|resource| resource["resource"] == "pods")
        .expect("pods are served");
    assert!(pods["revision"].as_i64().is_some_and(|revision| revision > 0), "{pods}");
    for refused in [
        admin.json("POST", "/debug/replicas", &address),
        admin.json("DELETE", "/debug/replicas/00000000000000ff", &json!({})),
    ] {
        let refused = refused.expect("an answer");
        assert_eq!(refused.code, 400);
        assert!(refused.text().contains("this replica is alone"), "{}", refused.text());
    }
    let nothing = admin.json("POST", "/debug/replicas", &json!({})).expect("an answer");
    assert!(nothing.text().contains("HOST:PORT"), "{}", nothing.text());
    assert_eq!(
        admin.json("PUT", "/debug/replicas", &address).expect("an answer").code,
        405
    );
}

#[test]
fn certificates_and_their_ca_are_exchanged_while_the_group_runs() {
    let mut group = group(&[]);
    group.wait_until_held_by(&ALL, PATIENCE);
    let next = Authority::new();
    let reloads = |group: &Group, status: &str| {
        let name = format!("trireme_file_reloads_total{{file=\"peer-certificates\",status=\"{status}\"}}");
        let count = |replica: &Replica| replica.metric(&name);
        group.replicas.iter().map(count).fold(f64::INFINITY, f64::min)
    };
    let mut expected = 0.0;
    let mut exchange = |group: &Group, what: &str, change: &dyn Fn(&Replica)| {
        group.replicas.iter().for_each(change);
        expected += 1.0;
        until(what, PATIENCE, || reloads(group, "success") >= expected);
    };
    let both = format!("{}{}", group.authority.pem(), next.pem());
    exchange(&group, "both CAs are believed", &|replica| {
        std::fs::write(&replica.files.ca, &both).expect("written");
    });
    exchange(&group, "certificates are of the next CA", &|replica| {
        replica.files.write_own(&next)
    });
    exchange(&group, "only the next CA is believed", &|replica| {
        std::fs::write(&replica.files.ca, next.pem()).expect("written");
    });

    // There are no connections from before, neither from it nor to it.
    group.replicas[2]
        .server
        .restart()
        .unwrap_or_else(|error| panic!("{error}"));
    group.wait_until_held_by(&ALL, PATIENCE);

    std::fs::write(&group.replicas[0].files.key, "no key").expect("written");
    until("the key is refused", PATIENCE, || {
        let name = "trireme_file_reloads_total{file=\"peer-certificates\",status=\"failure\"}";
        group.replicas[0].metric(name) >= 1.0
    });
    group.replicas[2]
        .server
        .restart()
        .unwrap_or_else(|error| panic!("{error}"));
    group.wait_until_held_by(&ALL, PATIENCE);
}
