//! Health checks of what is done once, at the start.

use std::sync::atomic::{AtomicBool, Ordering};

use trireme_edge::{Health, Probes};

/// Reports whether something has been done.
pub(crate) type IsDone = Box<dyn Fn() -> bool + Send + Sync>;

/// Adds checks of what is done once, at the start. What has been done stays done: a check that fails again later would
/// end a replica, or take it out of service, for what another server does.
pub(crate) fn add_hooks(health: Health, probes: Probes, hooks: Vec<(&'static str, IsDone)>) -> Health {
    hooks.into_iter().fold(health, |health, (name, is_done)| {
        let was_done = AtomicBool::new(false);
        health.check(name, probes, move || {
            if was_done.load(Ordering::Relaxed) || is_done() {
                was_done.store(true, Ordering::Relaxed);
                return Ok(());
            }
            Err("not finished".to_owned())
        })
    })
}
