//! The metrics of a structured configuration that is read again, by kube-apiserver's names
//! (`apiserver_authorization_config_controller_automatic_reloads_total` and its like).

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

use metrics::{counter, gauge};
use sha2::{Digest as _, Sha256};
use trireme_actors::Clock;

/// Counts reloads of one configuration.
pub(crate) struct ConfigController {
    /// `apiserver_authorization_config_controller`
    subsystem: &'static str,
    server: String,
    /// The hash of what is in use.
    applied: Mutex<Option<String>>,
}

impl ConfigController {
    /// Of this subsystem, on a server with this identity.
    pub(crate) fn new(subsystem: &'static str, server: &str) -> Self {
        Self {
            subsystem,
            server: hash(server.as_bytes()),
            applied: Mutex::default(),
        }
    }

    /// Reports which configuration is in use.
    pub(crate) fn apply(&self, content: &[u8]) {
        let info = |hash: String| {
            let name = format!("{}_last_config_info", self.subsystem);
            gauge!(name, "apiserver_id_hash" => self.server.clone(), "hash" => hash)
        };
        let new = hash(content);
        let mut applied = self.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(old) = applied.replace(new.clone()) {
            info(old).set(0);
        }
        info(new).set(1);
    }

    /// Counts a reload.
    pub(crate) fn count(&self, status: &'static str, clock: &Clock) {
        let total = format!("{}_automatic_reloads_total", self.subsystem);
        counter!(total, "apiserver_id_hash" => self.server.clone(), "status" => status).increment(1);
        let last = format!("{}_automatic_reload_last_timestamp_seconds", self.subsystem);
        let now = clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        gauge!(last, "apiserver_id_hash" => self.server.clone(), "status" => status).set(now.as_secs_f64());
    }
}

fn hash(content: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(content) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
