//! The client's errors for failures of the store.

use trireme_machinery::{ApiError, Reason};
use trireme_storage::StorageError;

/// Room is made by a person or by the next compaction, not within a second.
const FULL_RETRY_S: u32 = 10;

/// Maps a store's error to the answer that the client gets. The store's own words go to the log, not to the
/// client, but for those about encryption, which kube-apiserver gives, too.
pub fn store_error(error: StorageError) -> ApiError {
    tracing::debug!(%error, "the store refused");
    match error {
        StorageError::Compacted { .. } => {
            ApiError::new(Reason::Expired, "The resourceVersion for the provided list is too old.")
        }
        StorageError::Future { current } => ApiError::new(
            Reason::Timeout,
            format!("Too large resource version, current: {current}"),
        )
        .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
        .with_retry_after(1),
        StorageError::TooLarge => ApiError::new(
            Reason::RequestEntityTooLarge,
            "the object is larger than the store takes",
        ),
        StorageError::Unavailable(_) => ApiError::new(
            Reason::ServiceUnavailable,
            "the store is unavailable, nothing was written",
        )
        .with_retry_after(1),
        StorageError::Timeout => ApiError::new(Reason::Timeout, "the store did not answer in time").with_retry_after(1),
        StorageError::UnknownOutcome(_) => ApiError::new(
            Reason::Timeout,
            "the store did not confirm the write: it may or may not have taken effect",
        ),
        StorageError::Fenced => ApiError::new(
            Reason::ServiceUnavailable,
            "another holder of the lease has taken over, nothing was written",
        ),
        StorageError::Full(_) => {
            tracing::error!(%error, "the store is full");
            ApiError::new(
                Reason::ServiceUnavailable,
                "the store is out of space, nothing was written; objects can still be read and deleted",
            )
            .with_retry_after(FULL_RETRY_S)
        }
        StorageError::Encryption(why) => ApiError::unspecified(why),
        StorageError::LeaseNotFound => ApiError::internal("the object's lease has expired"),
        StorageError::Failed(_) => {
            tracing::error!(%error, "the store failed");
            ApiError::internal("the store failed")
        }
    }
}
