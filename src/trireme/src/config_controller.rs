//! Structured configurations that are read again: which content is in use, and the metrics by kube-apiserver's names
//! (`apiserver_authorization_config_controller_automatic_reloads_total` and its like).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

use metrics::{counter, gauge};
use sha2::{Digest as _, Sha256};
use trireme_actors::Clock;

/// The file of a structured configuration as it was read when it came into use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FollowedFile {
    /// The file. It may have changed since.
    pub(crate) path: PathBuf,
    /// The hash of the content that is in use.
    pub(crate) hash: String,
}

impl FollowedFile {
    /// The file that had this content.
    pub(crate) fn new(path: PathBuf, content: &[u8]) -> Self {
        let hash = hash(content);
        Self { path, hash }
    }
}

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

    /// Reports the hash of the configuration that is in use.
    pub(crate) fn apply(&self, new: &str) {
        let info = |hash: String| {
            let name = format!("{}_last_config_info", self.subsystem);
            gauge!(name, "apiserver_id_hash" => self.server.clone(), "hash" => hash)
        };
        let mut applied = self.applied.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(old) = applied.replace(new.to_owned()) {
            info(old).set(0);
        }
        info(new.to_owned()).set(1);
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

/// `sha256:…`: identifies a content without keeping it, as it may be secret.
pub(crate) fn hash(content: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(content) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
