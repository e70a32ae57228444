//! Replicas behind a load balancer are restarted one after the other, or lose their store, while clients of many makes use
//! them: nothing is lost.

mod clients;
mod outages;
mod watching;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use trireme_tests::balancer::Balancer;
use trireme_tests::group::until as wait_until;
use trireme_tests::server::ADMIN_TOKEN;
use trireme_tests::{Server, StoreChoice};

use crate::clients::Tally;

const PATIENCE: Duration = Duration::from_secs(60);
/// Connections move one a second. On a busy machine many are not gone yet when their replica looks again, and then it waits
/// longer each time before it goes on.
const SPREAD_WITHIN: Duration = Duration::from_secs(300);
/// The settings of an operator: the balancer has noticed by then, and watches move over some time.
const FLAGS: &[&str] = &[
    "--shutdown-delay-duration=1s",
    "--shutdown-watch-termination-grace-period=500ms",
];
/// The delay, the spread of watches, and what clients need to leave; debug builds on busy machines take their time.
const END_WITHIN: Duration = Duration::from_secs(15);
/// So many requests must have been answered between two restarts, or nothing was tried.
const REQUESTS_BETWEEN: usize = 200;
const WATCHERS: usize = 4;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// State that all clients share.
struct Scene {
    balancer: Balancer,
    dir: TempDir,
    ended: AtomicBool,
}

impl Scene {
    fn before(replicas: &[&Server]) -> Self {
        let cas: Vec<_> = replicas.iter().map(|replica| replica.ca_file()).collect();
        let behind: Vec<_> = replicas
            .iter()
            .zip(&cas)
            .map(|(replica, ca)| (replica.port(), ca.as_path()))
            .collect();
        let balancer = Balancer::start(&behind).unwrap_or_else(|error| panic!("{error}"));
        let dir = TempDir::with_prefix("trireme-roll-").expect("a directory");
        let bundle: Vec<u8> = cas.iter().flat_map(|ca| fs::read(ca).expect("a CA")).collect();
        let scene = Self {
            balancer,
            dir,
            ended: AtomicBool::new(false),
        };
        fs::write(scene.ca_file(), bundle).expect("written");
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "a", "cluster": { "server": scene.url(), "certificate-authority": scene.ca_file() } }],
            "users": [{ "name": "a", "user": { "token": ADMIN_TOKEN } }],
            "contexts": [{ "name": "a", "context": { "cluster": "a", "user": "a" } }],
            "current-context": "a",
        });
        fs::write(scene.kubeconfig(), kubeconfig.to_string()).expect("written");
        scene
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.balancer.port())
    }

    fn ca_file(&self) -> std::path::PathBuf {
        self.dir.path().join("ca.crt")
    }

    fn kubeconfig(&self) -> std::path::PathBuf {
        self.dir.path().join("kubeconfig")
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    async fn end(&self) {
        while !self.has_ended() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

#[test]
fn clients_lose_nothing_by_a_rolling_restart() {
    let mut first = Server::try_start(StoreChoice::Etcd, FLAGS).unwrap_or_else(|error| panic!("{error}"));
    let mut second = first.start_beside(FLAGS).unwrap_or_else(|error| panic!("{error}"));
    let scene = Scene::before(&[&first, &second]);
    let (tally, watched) = (Tally::default(), watching::Watched::default());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let start = runtime.block_on(clients::prepare(&scene));
    for client in ["kube-rs", "kubectl", "python", "curl --http1.1", "curl --http2"] {
        tally.expect(client);
    }
    thread::scope(|threads| {
        threads.spawn(|| clients::kubectl(&scene, &tally));
        threads.spawn(|| clients::python(&scene, &tally));
        threads.spawn(|| clients::curl(&scene, &tally, "curl --http1.1", "--http1.1", &clients::LISTS));
        threads.spawn(|| clients::curl(&scene, &tally, "curl --http2", "--http2", &clients::LISTS));
        threads.spawn(|| {
            runtime.block_on(async {
                tokio::join!(
                    clients::kube(&scene, scene.kubeconfig(), &tally, &watched),
                    watching::follow_all(&scene, &watched, &start, WATCHERS),
                )
            })
        });
        let restarted = catch_unwind(AssertUnwindSafe(|| {
            for replica in [&mut first, &mut second] {
                restart(replica, &scene, &tally);
            }
        }));
        // Whatever has happened: threads that go on would never be joined.
        scene.ended.store(true, Ordering::Relaxed);
        restarted.unwrap_or_else(|panic| resume_unwind(panic));
    });
    println!("{tally}");
    assert_eq!(tally.failures(), Vec::<String>::new());
    watched.check(WATCHERS);
    assert!(watched.watches() > WATCHERS, "no client was sent away");
}

fn until(replica: &mut Server, what: &str, condition: impl Fn() -> bool) {
    let waited = replica.process().wait_until(what, PATIENCE, condition);
    waited.unwrap_or_else(|error| panic!("{error}"));
}

/// Restarts a replica that all clients use, and waits until they do again.
fn restart(replica: &mut Server, scene: &Scene, tally: &Tally) {
    let in_use = |replica: &mut Server| {
        let (port, so_far) = (replica.port(), tally.answered());
        until(replica, "in use", || {
            scene.balancer.uses(port) && tally.answered() >= so_far + REQUESTS_BETWEEN && tally.all_have_answers()
        });
        tally.begin_anew();
    };
    in_use(replica);
    let (status, took) = replica
        .restart_gently(END_WITHIN)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(status, "exit status: 0");
    println!("a replica ended after {took:?}");
    in_use(replica);
}

#[test]
fn a_replica_that_comes_back_gets_its_share_of_the_watches() {
    const MANY: usize = 24;
    let first = Server::try_start(StoreChoice::Etcd, FLAGS).unwrap_or_else(|error| panic!("{error}"));
    let mut second = first.start_beside(FLAGS).unwrap_or_else(|error| panic!("{error}"));
    let scene = Scene::before(&[&first, &second]);
    let (tally, watched) = (Tally::default(), watching::Watched::default());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let start = runtime.block_on(clients::prepare(&scene));
    thread::scope(|threads| {
        threads.spawn(|| {
            runtime.block_on(async {
                tokio::join!(
                    clients::kube(&scene, scene.kubeconfig(), &tally, &watched),
                    watching::follow_all(&scene, &watched, &start, MANY),
                )
            })
        });
        let (first, back) = (first.port(), second.port());
        let open = |port| scene.balancer.open(port);
        let moved = catch_unwind(AssertUnwindSafe(|| {
            until(&mut second, "connected", || open(first) + open(back) >= MANY);
            let ended = second.process().terminate(END_WITHIN);
            assert_eq!(ended, Ok("exit status: 0".to_owned()));
            wait_until("all have gone to the other one", PATIENCE, || open(first) >= MANY);
            second.restart().unwrap_or_else(|error| panic!("{error}"));
            let is_spread = || open(back) >= MANY / 2 - 2;
            let spread = second
                .process()
                .wait_until("used as much as the other one", SPREAD_WITHIN, is_spread);
            spread.unwrap_or_else(|error| panic!("{error}"));
        }));
        println!("{} connections to one, {} to the other", open(first), open(back));
        scene.ended.store(true, Ordering::Relaxed);
        moved.unwrap_or_else(|panic| resume_unwind(panic));
    });
    println!("{tally}{} watches for {MANY} watchers", watched.watches());
    assert_eq!(tally.failures(), Vec::<String>::new());
    watched.check(MANY);
}
