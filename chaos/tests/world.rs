//! A whole world: it serves, survives a death, and leaves nothing behind.

mod common;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{PATIENCE, turn, until};
use serde_json::json;
use trireme_chaos::proxy::Conditions;
use trireme_chaos::world::{ClientRoute, LinkId, Part, Proxied, World, WorldError, WorldSettings, WorldTarget};

fn server() -> PathBuf {
    trireme_tests::server::binary().expect("the server is built")
}

async fn world(change: impl FnOnce(&mut WorldSettings)) -> World {
    let mut settings = WorldSettings::new(server());
    settings.group = false;
    change(&mut settings);
    World::start(settings).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Creates a ConfigMap through the load balancer, as kubectl would.
async fn create(world: &World, name: &str) -> Result<u16, String> {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let path = "/api/v1/namespaces/default/configmaps";
    let answer = world.probe().send(world.address(), "POST", path, Some(&body), PATIENCE);
    answer.await.map(|(code, _)| code)
}

fn exists(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_world_serves_survives_a_death_and_leaves_nothing() {
    let _turn = turn().await;
    let world = world(|settings| {
        settings.proxied = Proxied {
            peers: false,
            ..Proxied::ALL
        }
    })
    .await;
    assert_eq!(create(&world, "before").await, Ok(201));
    let to_etcd = |member| {
        world
            .link(LinkId::Etcd { replica: 0, member })
            .expect("the link is proxied")
    };
    let connections: u64 = (0..3).map(|member| to_etcd(member).counts().connections).sum();
    assert!(connections > 0, "the replica speaks to etcd over its links");
    assert!(world.etcd_leader().await.is_some());

    world.kill(Part::Replica(0)).await.expect("it runs");
    until("the load balancer has noticed", async || {
        let statuses = world.balancer_statuses().await.expect("HAProxy answers");
        statuses.first().is_some_and(|status| status.starts_with("DOWN"))
    })
    .await;
    assert_eq!(create(&world, "after").await, Ok(201));

    world.restore().await.expect("all comes back");
    let address = world.replica_address(0, ClientRoute::Direct).expect("there is one");
    for name in ["before", "after"] {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        let answer = world.probe().get(address, &path, PATIENCE).await;
        assert!(matches!(answer, Ok((200, _))), "{name}: {answer:?}");
    }
    world.reload_balancer().expect("it runs");
    world.wait_ready(Part::Balancer).await.expect("the new one serves");
    assert_eq!(create(&world, "reloaded").await, Ok(201));

    let vitals = world.vitals();
    assert_eq!(vitals.len(), world.parts().len(), "{vitals:?}");
    let dir = world.dir().to_owned();
    drop(world);
    for vital in vitals {
        assert!(!exists(vital.process), "{} is left", vital.part);
    }
    assert!(!dir.exists(), "{} is left", dir.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_link_is_felt_and_a_pause_is_seen() {
    let _turn = turn().await;
    let world = world(|settings| {
        settings.replicas = 1;
        settings.etcd_members = 1;
        settings.proxied.clients = true;
    })
    .await;
    let replica = Part::Replica(0);
    let direct = world.replica_address(0, ClientRoute::Direct).expect("there is one");
    let linked = world.replica_address(0, ClientRoute::Linked).expect("there is one");
    let short = Duration::from_millis(500);

    let link = world.link(LinkId::Client { replica: 0 }).expect("it is proxied");
    link.set(Conditions::cut());
    assert!(
        world.probe().get(linked, "/readyz", short).await.is_err(),
        "the cable is cut"
    );
    assert!(link.counts().touched() > 0);
    link.heal();
    assert!(matches!(
        world.probe().get(linked, "/readyz", PATIENCE).await,
        Ok((200, _))
    ));

    world.pause(replica).await.expect("it runs");
    assert!(world.is_paused(replica));
    assert!(
        world.probe().get(direct, "/readyz", short).await.is_err(),
        "it is stopped"
    );
    world.resume(replica).expect("it is there");
    world.wait_ready(replica).await.expect("it goes on");
    assert!(!world.is_paused(replica));

    world.terminate(replica, PATIENCE).await.expect("it ends in order");
    assert!(!world.is_running(replica));
    assert!(matches!(world.pause(replica).await, Err(WorldError::NotRunning(_))));
    assert!(world.log(replica).contains("=== start 1"), "the log is kept");
}

#[tokio::test]
async fn an_impossible_world_is_reported() {
    let build = async |change: fn(&mut WorldSettings)| {
        let mut settings = WorldSettings::new(server());
        change(&mut settings);
        World::start(settings)
            .await
            .expect_err("it cannot be built")
            .to_string()
    };
    let error = build(|settings| (settings.target, settings.replicas) = (WorldTarget::Compose, 2)).await;
    assert!(error.contains("a group of three replicas"), "{error}");
    let error = build(|settings| settings.server = "/no/such".into()).await;
    assert!(error.contains("cargo build -p trireme"), "{error}");
    let error = build(|settings| (settings.group, settings.proxied) = (false, Proxied::ALL)).await;
    assert!(error.contains("no group"), "{error}");
}

/// Set in the process that is to be killed.
const VICTIM: &str = "CHAOS_TEST_VICTIM";

#[tokio::test]
async fn a_killed_experiment_leaves_no_process() {
    if std::env::var_os(VICTIM).is_some() {
        return be_killed().await;
    }
    let _turn = turn().await;
    let mut victim = Command::new(std::env::current_exe().expect("this test has a file"))
        .args(["--exact", "a_killed_experiment_leaves_no_process", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let output = BufReader::new(victim.stdout.take().expect("it is piped"));
    let mut lines = output.lines().map_while(Result::ok);
    let world = lines.find_map(|line| line.strip_prefix("world: ").map(str::to_owned));
    victim.kill().expect("it runs");
    victim.wait().expect("it is ours");
    let world = world.expect("it has started a world");
    let (dir, processes) = world.split_once(' ').expect("a directory and processes");
    let processes: Vec<u32> = processes.split(' ').map(|id| id.parse().expect("an id")).collect();
    assert_eq!(processes.len(), 3, "{world}");
    until("the kernel has ended them", async || {
        !processes.iter().copied().any(is_alive)
    })
    .await;
    // Files it cannot remove any more.
    std::fs::remove_dir_all(dir).expect("they are there");
}

/// Prints what it has started, and waits.
async fn be_killed() {
    let world = world(|settings| (settings.replicas, settings.etcd_members) = (1, 1)).await;
    let ids: Vec<String> = world.vitals().iter().map(|vital| vital.process.to_string()).collect();
    println!("\nworld: {} {}", world.dir().display(), ids.join(" "));
    std::future::pending::<()>().await;
}

/// Returns true if a process runs; a zombie that was not waited for does not.
fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:") && !line.contains('Z'))
}
