//! Fences: how the store refuses the writes of a holder that was deposed.
//!
//! Each duty has a key in the store whose value is the newest fencing token. The holder of a token raises the key to it
//! before its first write, and every write after that compares the key's revision in its own transaction. So as soon as
//! the next holder has raised it, nothing of the former one takes effect, however late it wakes up.
//!
//! ```text
//!  holder 1   raise to 1 ── write ── write ── (stopped) ─────────────── write: refused
//!  holder 2                                       raise to 2 ── write
//! ```
//! Callers: the loop of the duties raises; [`Target::fence`](crate::request::Target::fence) carries a fence to the store.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use tokio::sync::watch;
use trireme_storage::{Compare, KeyValue, PutOptions, Storage, StorageError, WriteOutcome};

/// A fence that was raised. Clones are the same fence.
#[derive(Clone)]
pub struct WriteFence(Arc<FenceState>);

struct FenceState {
    duty: String,
    at: trireme_storage::Fence,
    refused: watch::Sender<bool>,
}

impl fmt::Debug for WriteFence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.at.fmt(f)
    }
}

impl WriteFence {
    /// Returns when a write was refused because of this fence: its holder was deposed.
    pub async fn refused(&self) {
        // The sender lives in `self`.
        let _ = self.0.refused.subscribe().wait_for(|refused| *refused).await;
    }

    /// The comparison that the store makes.
    pub(crate) fn at(&self) -> trireme_storage::Fence {
        self.0.at.clone()
    }

    /// Notes what the store said of a write.
    pub(crate) fn note<T>(fence: Option<&Self>, written: &Result<T, StorageError>) {
        if let (Some(Self(inner)), Err(StorageError::Fenced)) = (fence, written) {
            tracing::warn!(
                duty = inner.duty,
                "a write was refused: another holder of the lease has taken over"
            );
            metrics::counter!("trireme_fenced_writes_refused_total", "duty" => inner.duty.clone()).increment(1);
            inner.refused.send_replace(true);
        }
    }
}

/// The reason that a fence could not be raised.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// A later holder was there first.
    #[error("the token {held} is outdated: {stored} is in use")]
    Deposed {
        /// The token of the caller.
        held: u64,
        /// The token of the replica that raised the fence last.
        stored: u64,
    },
    /// The key holds something else than a token.
    #[error("{0} does not hold a token")]
    Unreadable(String),
    /// The store did not do it, or not surely.
    #[error("the fence could not be written")]
    Store(#[from] StorageError),
}

/// The fences of one cluster's duties. Cheap to clone.
#[derive(Clone)]
pub struct Fences {
    store: Arc<dyn Storage>,
    root: Arc<str>,
}

impl Fences {
    /// The fences of the cluster whose objects are under this prefix (`/registry`).
    pub fn new(store: Arc<dyn Storage>, objects_root: &str) -> Self {
        Self {
            store,
            root: format!("/trireme/fence{objects_root}/").into(),
        }
    }

    /// Raises a duty's fence to a token, unless a higher one is there. To raise it to the same token again is no change.
    ///
    /// # Errors
    /// [`FenceError::Deposed`], and all that can be wrong with a write. It may be tried again after all others.
    pub async fn raise(&self, duty: &str, token: u64) -> Result<WriteFence, FenceError> {
        let key = self.key(duty);
        let (mut found, _) = self.store.get(&key, None).await?;
        loop {
            let stored = stored_token(&key, found.as_ref())?;
            let at = match &found {
                _ if stored > token => return Err(FenceError::Deposed { held: token, stored }),
                Some(entry) if stored == token => Ok(entry.mod_revision),
                _ => self.write(&key, found.as_ref(), token).await?,
            };
            match at {
                Ok(mod_revision) => {
                    let key: Arc<str> = key.into();
                    return Ok(WriteFence(Arc::new(FenceState {
                        duty: duty.to_owned(),
                        at: trireme_storage::Fence {
                            key,
                            mod_revision,
                            token,
                        },
                        refused: watch::Sender::new(false),
                    })));
                }
                Err(current) => found = current,
            }
        }
    }

    /// Takes an unused token, by raising the fence one above the last: for a replica without a group that
    /// would give out tokens. The replica that did the duty before is fenced out.
    ///
    /// # Errors
    /// All that can be wrong with a write. It may be tried again.
    pub async fn claim(&self, duty: &str) -> Result<u64, FenceError> {
        let key = self.key(duty);
        let (mut found, _) = self.store.get(&key, None).await?;
        loop {
            let token = stored_token(&key, found.as_ref())?.saturating_add(1);
            match self.write(&key, found.as_ref(), token).await? {
                Ok(_) => return Ok(token),
                Err(current) => found = current,
            }
        }
    }

    /// The revision of the write, or the current value if another write came first.
    async fn write(
        &self,
        key: &str,
        found: Option<&KeyValue>,
        token: u64,
    ) -> Result<Result<i64, Option<KeyValue>>, StorageError> {
        let compare = found.map_or(Compare::Absent, |entry| Compare::ModRevision(entry.mod_revision));
        let value = Bytes::from(token.to_string());
        Ok(
            match self.store.put(key, value, compare, PutOptions::default()).await? {
                WriteOutcome::Committed(revision) => Ok(revision),
                WriteOutcome::Conflict(current) => Err(current),
            },
        )
    }

    fn key(&self, duty: &str) -> String {
        format!("{}{duty}", self.root)
    }
}

/// 0 if there is none yet.
fn stored_token(key: &str, found: Option<&KeyValue>) -> Result<u64, FenceError> {
    let Some(entry) = found else { return Ok(0) };
    let token = std::str::from_utf8(&entry.value)
        .ok()
        .and_then(|text| text.parse().ok());
    token.ok_or_else(|| FenceError::Unreadable(key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::open_store;

    #[tokio::test]
    async fn fences_only_rise() {
        let (_dir, store) = open_store();
        let fences = Fences::new(store.clone(), "/registry");
        let first = fences.raise("d", 3).await.expect("it is the first");
        assert_eq!(&*first.at().key, "/trireme/fence/registry/d");
        let same = fences.raise("d", 3).await.expect("it is ours");
        assert_eq!(first.at(), same.at(), "nothing was written");
        let second = fences.raise("d", 4).await.expect("it is higher");
        assert!(second.at().mod_revision > first.at().mod_revision);
        let late = fences.raise("d", 3).await;
        assert!(
            matches!(late, Err(FenceError::Deposed { held: 3, stored: 4 })),
            "{late:?}"
        );
        assert_eq!(fences.claim("d").await.expect("the store is there"), 5);
        assert_eq!(fences.claim("other").await.expect("the store is there"), 1);
        let deposed = fences.raise("d", 4).await;
        assert!(
            matches!(deposed, Err(FenceError::Deposed { stored: 5, .. })),
            "{deposed:?}"
        );
    }

    #[tokio::test]
    async fn a_key_that_holds_no_token_is_left_alone() {
        let (_dir, store) = open_store();
        let value = Bytes::from_static(b"x");
        let put = store.put(
            "/trireme/fence/registry/d",
            value,
            Compare::Absent,
            PutOptions::default(),
        );
        put.await.expect("the store takes it");
        let fences = Fences::new(store.clone(), "/registry");
        assert!(matches!(fences.claim("d").await, Err(FenceError::Unreadable(_))));
        assert!(matches!(fences.raise("d", 1).await, Err(FenceError::Unreadable(_))));
    }
}
