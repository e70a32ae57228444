//! The `trireme` binary: settings, build, announce, wait for a signal, drain.

mod aggregation;
mod app;
mod audit;
mod authentication;
mod authorization;
mod build_error;
mod checks;
mod cluster;
mod compaction;
mod components;
mod config_controller;
mod duties;
mod encryption;
mod first_objects;
mod front;
mod group;
mod hooks;
mod image_review;
mod kubeconfig;
mod kubelet_tls;
mod lifecycle;
mod limiter;
mod outage;
mod pki;
mod probe;
mod process_metrics;
mod profiling;
mod proxy_identity;
mod rebalance;
mod reload;
mod replicas;
mod resources;
mod settings;
mod spans;
mod startup_files;
mod store;
mod store_size;
mod telemetry;
mod tokens;
mod version_metrics;

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use trireme_actors::Clock;

use crate::app::App;
use crate::cluster::{Access, Action};
use crate::settings::{Invocation, PkiInit, Settings};
use crate::telemetry::SetVerbosity;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `EX_USAGE` of sysexits.h: the settings are wrong, a restart will not help.
const EXIT_USAGE: u8 = 64;
const EXIT_FAILED: u8 = 1;

fn main() -> ExitCode {
    match settings::read() {
        Ok(Invocation::Serve(settings)) => serve(&settings),
        Ok(Invocation::Cluster(action, access)) => ask_the_group(&action, &access),
        Ok(Invocation::PkiInit(asked)) => pki_init(&asked),
        Ok(Invocation::Version) => {
            println!("trireme {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(Invocation::Help(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(errors) => {
            eprintln!("{errors}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn ask_the_group(action: &Action, access: &Access) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map(|runtime| runtime.block_on(cluster::run(action, access))) {
        Ok(Ok(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => {
            eprintln!("{error}");
            ExitCode::from(EXIT_FAILED)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn serve(settings: &Settings) -> ExitCode {
    let set_verbosity = telemetry::start_logs(settings.log);
    let workers = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let served = trireme_actors::run_system(workers, replica(settings, set_verbosity));
    match served.map_err(Into::into).and_then(|result| result) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %chain(error.as_ref()), "the replica could not serve");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn pki_init(asked: &PkiInit) -> ExitCode {
    let now = Clock::system().wall();
    match pki::init(&pki::InitWanted { asked, now }) {
        Ok(()) => {
            announce(&asked.dir.join("admin.kubeconfig"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("trireme pki init: {}", chain(&error));
            ExitCode::from(EXIT_FAILED)
        }
    }
}

async fn replica(settings: &Settings, set_verbosity: SetVerbosity) -> Result<(), Box<dyn Error>> {
    let metrics = telemetry::start_metrics()?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let app = App::build(settings, Clock::system(), metrics, set_verbosity).await?;
    announce(app.kubeconfig());
    app.run(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
    .await;
    Ok(())
}

/// The one line on standard output: what to type to use this replica.
fn announce(kubeconfig: &Path) {
    let kubeconfig = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
    println!("export KUBECONFIG={}", kubeconfig.display());
}

/// An error with all that caused it.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
