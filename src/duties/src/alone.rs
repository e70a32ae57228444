//! Leases for a replica that has no peers.

use std::time::Duration;

use tokio::sync::watch;
use trireme_actors::ActorSystem;
use trireme_cluster::{Duty, FencingToken, LeaseWatch, Standalone};
use trireme_registry::Fences;

/// The delay before the store is asked again for a token when it did not answer.
const RETRY: Duration = Duration::from_millis(500);

/// Takes a duty as soon as the store can be written, and keeps it for as long as the process lives.
///
/// The token is one above the last one given out, so that of two processes which both believe to be alone over
/// one store the later one does the work, and the writes of the earlier one are refused from then on.
pub fn acquire_alone(system: &ActorSystem, fences: &Fences, duty: Duty) -> LeaseWatch {
    let (given, held) = watch::channel(None);
    let (clock, fences) = (system.clock().clone(), fences.clone());
    let _ = system.tasks().spawn_named(format!("lease/{duty}"), async move {
        let token = loop {
            match fences.claim(duty.name()).await {
                Ok(token) => break token,
                Err(error) => {
                    tracing::debug!(%duty, %error, "no token can be had yet");
                    clock.sleep(RETRY).await;
                }
            }
        };
        given.send_replace(Some(Standalone.acquire(duty, FencingToken(token))));
        given.closed().await;
    });
    LeaseWatch::new(held)
}
