//! Replicas lose their store: one of them, or all for a while.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use trireme_tests::group::until as wait_until;
use trireme_tests::wire::Wire;
use trireme_tests::{Server, StoreChoice};

use crate::clients::{self, LISTS, Lists, Tally};
use crate::{FLAGS, PATIENCE, Scene, WATCHERS, until, watching};

/// Reads of a replica's memory, asked for over connections that would last longer than its patience.
const CACHED: Lists = Lists {
    query: "resourceVersion=0&limit=3",
    requests: 250,
};
/// The longest outage that is judged: a consistent read waits 3 s for the store.
const SOON: Duration = Duration::from_millis(2_500);
/// The longest one for a replica, from when it was not ready any more: after 1.4 s it sends its clients away.
const NOTICED_FOR: Duration = Duration::from_millis(1_300);
/// The outages that are tried until one can be judged.
const OUTAGES: usize = 6;
const VERSIONS: [(&str, &str); 2] = [("curl --http1.1", "--http1.1"), ("curl --http2", "--http2")];

/// The sum of a metric of a server over the labels that it has with these.
fn metric(server: &Server, name_and_label: &str) -> f64 {
    let answer = server.client().get("/metrics").expect("an answer").text();
    let samples = answer.lines().filter(|line| line.starts_with(name_and_label));
    samples
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// Runs `story` while the threads of `with` do; notifies them when it has ended, however it did.
fn play(scene: &Scene, story: impl FnOnce(), with: impl FnOnce()) {
    with();
    let outcome = catch_unwind(AssertUnwindSafe(story));
    println!("{:?}", scene.balancer);
    scene.ended.store(true, Ordering::Relaxed);
    outcome.unwrap_or_else(|panic| resume_unwind(panic));
}

#[test]
fn a_replica_that_loses_its_store_sends_its_clients_away_in_order() {
    assert!(
        (0..OUTAGES).any(|_| has_sent_all_away()),
        "the other replica was not ready either in {OUTAGES} outages: the machine is too busy"
    );
}

/// Cuts a replica off its store until all clients have gone to the other one, which must cost none of them anything. Returns
/// false if some came back as the other one was not ready either: a replica asks its clients once an outage.
fn has_sent_all_away() -> bool {
    let mut first = Server::try_start(StoreChoice::Etcd, FLAGS).unwrap_or_else(|error| panic!("{error}"));
    let url = first.etcd().expect("it is over an etcd").url();
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
    let wire = Wire::start(port.expect("a port")).unwrap_or_else(|error| panic!("{error}"));
    let servers = format!("--etcd-servers=http://127.0.0.1:{}", wire.port());
    let flags = [FLAGS, &[&servers]].concat();
    let mut second = Server::start_over(None, &flags).unwrap_or_else(|error| panic!("{error}"));
    let scene = Scene::before(&[&first, &second]);
    let (tally, watched) = (Tally::default(), watching::Watched::default());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let start = runtime.block_on(clients::prepare(&scene));
    let (writers, (one, other)) = (first.kubeconfig(), (first.port(), second.port()));
    let open = |port| scene.balancer.open(port);
    let mut all_are_gone = false;
    thread::scope(|threads| {
        let clients = || {
            for (name, version) in [VERSIONS, VERSIONS].concat() {
                tally.expect(name);
                let (scene, tally) = (&scene, &tally);
                threads.spawn(move || clients::curl(scene, tally, name, version, &CACHED));
            }
            threads.spawn(|| {
                runtime.block_on(async {
                    tokio::join!(
                        clients::kube(&scene, writers, &tally, &watched),
                        watching::follow_all(&scene, &watched, &start, WATCHERS),
                    )
                })
            });
        };
        let story = || {
            until(&mut second, "used by watches, too", || {
                open(other) >= WATCHERS / 2 && tally.all_have_answers()
            });
            tally.begin_anew();
            let astray = scene.balancer.astray();
            wire.cut();
            let all_have_gone = || open(other) == 0 && open(one) >= WATCHERS;
            until(&mut first, "used by all", || {
                all_have_gone() || scene.balancer.astray() > astray
            });
            all_are_gone = scene.balancer.astray() == astray;
            if !all_are_gone {
                return;
            }
            assert!(!scene.balancer.uses(other));
            assert!(metric(&second, "trireme_connections_sent_away_total{reason=\"outage\"}") > 0.0);
            tally.begin_anew();
            wait_until("all are answered", PATIENCE, || tally.all_have_answers());
            wire.mend();
            until(&mut second, "ready again", || scene.balancer.uses(other));
        };
        play(&scene, story, clients);
    });
    println!("{tally}");
    assert_eq!(tally.failures(), Vec::<String>::new());
    watched.check(WATCHERS);
    if !all_are_gone {
        return false;
    }
    assert!(watched.watches() > WATCHERS, "no client was sent away");
    let again = metric(&first, "trireme_connections_sent_away_total{reason=\"outage\"}");
    // The store of a very busy machine can be slow enough for an outage of its own.
    let has_lost_it_too = first.process().log().contains("not ready any more");
    assert!(again < 1.0 || has_lost_it_too, "the other one has its store");
    true
}

#[test]
fn an_outage_of_the_store_that_is_over_soon_costs_no_client_anything() {
    assert!(
        (0..OUTAGES).any(|_| has_short_outage()),
        "none of {OUTAGES} outages was over soon: the machine is too busy, or replicas notice too late"
    );
}

/// The longest outage of its store that a replica has logged the end of.
fn longest_outage(replica: &mut Server) -> Duration {
    let log = replica.process().log();
    let ends = log.split("outage_ms=").skip(1);
    let lengths = ends.filter_map(|rest| rest.split(|next: char| !next.is_ascii_digit()).next()?.parse().ok());
    lengths.map(Duration::from_millis).max().unwrap_or_default()
}

/// Freezes the store until no replica is in use, which must cost no client anything. Returns false if it was away for too long
/// for that.
fn has_short_outage() -> bool {
    let mut first = Server::try_start(StoreChoice::Etcd, FLAGS).unwrap_or_else(|error| panic!("{error}"));
    let mut second = first.start_beside(FLAGS).unwrap_or_else(|error| panic!("{error}"));
    let scene = Scene::before(&[&first, &second]);
    let (tally, watched) = (Tally::default(), watching::Watched::default());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let start = runtime.block_on(clients::prepare(&scene));
    let etcd = first.etcd().expect("it is over an etcd").clone();
    let (one, other) = (first.port(), second.port());
    for client in ["kube-rs", "kubectl", "python"] {
        tally.expect(client);
    }
    let mut lasted = Duration::ZERO;
    thread::scope(|threads| {
        let clients = || {
            for (name, version) in VERSIONS {
                tally.expect(name);
                let (scene, tally) = (&scene, &tally);
                threads.spawn(move || clients::curl(scene, tally, name, version, &LISTS));
            }
            threads.spawn(|| clients::kubectl(&scene, &tally));
            threads.spawn(|| clients::python(&scene, &tally));
            threads.spawn(|| {
                runtime.block_on(async {
                    tokio::join!(
                        clients::kube(&scene, scene.kubeconfig(), &tally, &watched),
                        watching::follow_all(&scene, &watched, &start, WATCHERS),
                    )
                })
            });
        };
        let story = || {
            until(&mut first, "in use", || tally.all_have_answers());
            let began = Instant::now();
            etcd.process().signal("STOP").expect("etcd is frozen");
            until(&mut first, "out of use with the other one", || {
                !scene.balancer.uses(one) && !scene.balancer.uses(other)
            });
            etcd.process().signal("CONT").expect("etcd goes on");
            lasted = began.elapsed();
            until(&mut first, "ready with the other one", || {
                scene.balancer.uses(one) && scene.balancer.uses(other)
            });
            tally.begin_anew();
            wait_until("all are answered", PATIENCE, || tally.all_have_answers());
        };
        play(&scene, story, clients);
    });
    // Replicas on a busy machine may notice late that it is back.
    let noticed = [&mut first, &mut second].map(longest_outage);
    println!("the store was away for {lasted:?}, and for the replicas {noticed:?}\n{tally}");
    if lasted > SOON || noticed.into_iter().any(|noticed| noticed > NOTICED_FOR) {
        println!("not judged: {:?}", tally.failures());
        return false;
    }
    assert_eq!(tally.failures(), Vec::<String>::new());
    watched.check(WATCHERS);
    for server in [&first, &second] {
        let sent = metric(server, "trireme_connections_sent_away_total{reason=\"outage\"}");
        assert!(sent < 1.0, "{sent} were sent away");
    }
    true
}
