//! Installs faults one after the other in a world of its own, and prints what proves that each has bitten.
//!
//! ```sh
//! cargo run -p trireme-chaos --example nemesis -- target/debug/trireme            # all of them
//! cargo run -p trireme-chaos --example nemesis -- target/debug/trireme 2 12 18    # these numbers only
//! cargo run -p trireme-chaos --example nemesis -- --compose 2                     # over containers
//! ```
//!
//! A loop that writes through the load balancer stands in for traffic, one connection a write; what it saw is printed.
//! Nothing is checked here but that the world comes back; checks are what experiments are for.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::json;
use trireme_chaos::faults::{Fault, InstallVerdict};
use trireme_chaos::world::{World, WorldError, WorldSettings, WorldTarget};

/// Long enough for every proof.
const HOLD: Duration = Duration::from_secs(4);
/// Writes are under way when the fault comes.
const WARM_UP: Duration = Duration::from_secs(1);
const WRITE_PERIOD: Duration = Duration::from_millis(20);
const WRITE_PATIENCE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(server) = args.next() else {
        eprintln!("usage: nemesis PATH-OF-TRIREME|--compose [NUMBER]…");
        return ExitCode::FAILURE;
    };
    let mut settings = WorldSettings::new(&server);
    if server == "--compose" {
        settings.target = WorldTarget::Compose;
    }
    let numbers: Vec<String> = args.collect();
    let wanted = |fault: &Fault| numbers.is_empty() || numbers.contains(&fault.number().to_string());
    let run = async {
        let mut all_seen = true;
        for fault in Fault::all().into_iter().filter(wanted) {
            match show(&fault, settings.clone()).await {
                Ok(is_seen) => all_seen &= is_seen,
                Err(error) => {
                    println!("{:>2} {fault}: FAILED: {error}", fault.number());
                    all_seen = false;
                }
            }
        }
        all_seen
    };
    // Dropping the run drops its world.
    let all_seen = tokio::select! {
        all_seen = run => all_seen,
        _ = tokio::signal::ctrl_c() => false,
    };
    if all_seen { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says whether it was seen to bite, or could not be installed here.
async fn show(fault: &Fault, mut settings: WorldSettings) -> Result<bool, WorldError> {
    fault.prepare(&mut settings);
    let world = Arc::new(World::start(settings).await?);
    let writes = Arc::<Mutex<Writes>>::default();
    let writer = tokio::spawn(write(Arc::clone(&world), Arc::clone(&writes)));
    tokio::time::sleep(WARM_UP).await;
    let shown = go_through(fault, &world).await;
    writer.abort();
    // It holds the world, which has to be gone before the next one.
    let _ = writer.await;
    println!("   {:?}", writes.lock().unwrap_or_else(PoisonError::into_inner));
    shown
}

async fn go_through(fault: &Fault, world: &Arc<World>) -> Result<bool, WorldError> {
    let mut chance = StdRng::seed_from_u64(1);
    let number = fault.number();
    match fault.install(world, &mut chance).await {
        InstallVerdict::Installed(mut active) => {
            println!("{number:>2} {fault} [{}]", active.targets().join(", "));
            tokio::time::sleep(fault.hold().max(HOLD)).await;
            active.done().await;
            active.observe(world).await;
            let before_healing = Instant::now();
            let healed = active.heal(world).await?;
            println!("   {:?}", healed.observed);
            for note in healed.notes {
                println!("   note: {note}");
            }
            println!("   came back within {:?} of healing", before_healing.elapsed());
            Ok(healed.observed.is_seen())
        }
        InstallVerdict::Skipped(why) => {
            println!("{number:>2} {fault}: skipped: {why}");
            Ok(true)
        }
        InstallVerdict::Indeterminate(why) => {
            println!("{number:>2} {fault}: indeterminate: {why}");
            Ok(false)
        }
    }
}

/// The outcome of the writes, from the start of the world to the end of the healing.
#[derive(Debug, Default)]
struct Writes {
    done: u64,
    /// Each in words, with how often.
    failed: BTreeMap<String, u64>,
    /// Between two that were done.
    longest_gap: Duration,
    last_done: Option<Instant>,
}

async fn write(world: Arc<World>, writes: Arc<Mutex<Writes>>) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "nemesis-"}});
    let path = "/api/v1/namespaces/default/configmaps";
    loop {
        let probe = world.probe();
        let answer = probe
            .send(world.address(), "POST", path, Some(&body), WRITE_PATIENCE)
            .await;
        {
            let mut writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
            match answer {
                Ok((201, _)) => {
                    writes.done += 1;
                    let gap = writes.last_done.map_or(Duration::ZERO, |last| last.elapsed());
                    writes.longest_gap = writes.longest_gap.max(gap);
                    writes.last_done = Some(Instant::now());
                }
                Ok((code, _)) => *writes.failed.entry(code.to_string()).or_default() += 1,
                Err(why) => *writes.failed.entry(why).or_default() += 1,
            }
        }
        tokio::time::sleep(WRITE_PERIOD).await;
    }
}
