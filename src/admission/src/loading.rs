//! Writes that come before it is known what users say about them.

use std::{sync::Arc, time::Duration};

use trireme_actors::Clock;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{Attributes, View, ViewSnapshot};

/// The patience of a write with webhooks and policies that are not loaded yet.
const LOADS_WITHIN: Duration = Duration::from_secs(10);

/// The newest snapshot, once the objects are loaded: before, nobody knows who is to be asked (`WaitForReady` of
/// `apiserver/pkg/admission`).
///
/// # Errors
/// 429 if that takes too long, so that clients try again; kube-apiserver has 403 for it, with the same text.
pub(crate) async fn loaded<T: Send + Sync + 'static>(
    view: &View<T>,
    clock: &Clock,
    attributes: &Attributes,
) -> Result<Arc<ViewSnapshot<T>>, ApiError> {
    let newest = view.load();
    if newest.is_loaded() {
        return Ok(newest);
    }
    let patience = clock.now() + LOADS_WITHIN;
    let deadline = attributes
        .target
        .deadline
        .map_or(patience, |deadline| deadline.min(patience));
    let mut changes = view.changes();
    let is_loaded = changes.wait_for(|_| view.load().is_loaded());
    match clock.timeout_at(deadline, is_loaded).await {
        Some(Ok(_)) => Ok(view.load()),
        _ => {
            let text = "not yet ready to handle request";
            Err(ApiError::new(Reason::TooManyRequests, text).with_retry_after(1))
        }
    }
}
