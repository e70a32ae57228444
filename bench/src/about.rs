//! The circumstances of figures: the machine and the version of the server.

use std::fs;

use trireme_http::client::StatusCode;

use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::target::ServerTarget;

/// The version that the server gives.
pub(crate) async fn server_version(target: &ServerTarget) -> Result<String, Failure> {
    let mut session = Session::open(target).await?;
    let version = session.expect(&Call::get("/version"), StatusCode::OK).await?;
    let version: serde_json::Value =
        serde_json::from_slice(&version).map_err(|error| Failure::Wrong(format!("/version: {error}")))?;
    Ok(version["gitVersion"].as_str().unwrap_or("unknown").to_owned())
}

/// The processors and the kernel of this machine.
pub(crate) fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown CPU", |(_, model)| model);
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}
