//! Errors of reads that cannot be answered, in kube-apiserver's words.

use trireme_actors::AskError;
use trireme_machinery::{ApiError, Reason};
use trireme_storage::Revision;

/// The wanted revision has not come within the time that readers wait for it.
pub(crate) fn too_large(wanted: Revision, current: Revision) -> ApiError {
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    ApiError::new(Reason::Timeout, message)
        .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
        .with_retry_after(1)
}

/// The cache has not caught up with the store in time.
pub(crate) fn lagging(wanted: Revision, current: Revision) -> ApiError {
    let message = format!("Timeout: the watch cache is at revision {current} and the store at {wanted}");
    ApiError::new(Reason::Timeout, message).with_retry_after(1)
}

/// The cache has not been loaded yet.
pub(crate) fn initializing() -> ApiError {
    ApiError::new(Reason::TooManyRequests, "storage is (re)initializing").with_retry_after(1)
}

/// The cache is superseded and cannot show what is asked for: the definition of the resource has changed, or is gone.
pub(crate) fn superseded() -> ApiError {
    let message = "the definition of the resource has changed, please try again";
    ApiError::new(Reason::ServiceUnavailable, message).with_retry_after(1)
}

/// A watch from before the history that is kept.
pub(crate) fn watch_expired(wanted: Revision, oldest: Revision) -> ApiError {
    ApiError::new(
        Reason::Expired,
        format!("too old resource version: {wanted} ({oldest})"),
    )
}

/// A list at a revision that the store has compacted.
pub(crate) fn list_expired() -> ApiError {
    ApiError::new(Reason::Expired, "The resourceVersion for the provided list is too old.")
}

/// The next page of a list at a revision that the store has compacted; `token` goes on at the newest one.
pub(crate) fn continue_expired(token: String) -> ApiError {
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a \
                   new list without the continue parameter, or use the continue token in this response to retrieve \
                   the remainder of the results. Continuing with the provided token results in an inconsistent list - \
                   objects that were created, modified, or deleted between the time the first chunk was returned and \
                   now may show up in the list.";
    let mut error = ApiError::new(Reason::Expired, message);
    error.continue_token = Some(token);
    error
}

/// Too many reads of old revisions go to the store already.
pub(crate) fn history_busy() -> ApiError {
    let message = "too many lists at old resource versions are being read, please try again later";
    ApiError::new(Reason::TooManyRequests, message).with_retry_after(1)
}

/// An actor has not answered.
pub(crate) fn ask(error: AskError) -> ApiError {
    let reason = match error {
        AskError::Overloaded => Reason::TooManyRequests,
        AskError::Restarting { .. } | AskError::Stopped { .. } => Reason::ServiceUnavailable,
        AskError::Deadline { .. } => Reason::Timeout,
    };
    ApiError::new(reason, format!("{error}, please try again later")).with_retry_after(1)
}
