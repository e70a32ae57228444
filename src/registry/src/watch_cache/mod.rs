//! The watch cache: all objects of one resource in memory, with their recent history.
//!
//! ```text
//! store watcher ──batches──▶ State ──▶ Snapshot {index, log} ──▶ get, list, start of a watch (no mailbox)
//!                              └─────▶ Topics ──▶ watchers that wait
//! ```
//!
//! Promises: events keep the store's order; a snapshot is the exact state at its revision; once `applied` shows a
//! revision, the snapshot and all topics have everything up to it. A key whose value cannot be read is in the index as
//! such; its presence is no event, but the end of history. The index and the log are persistent structures, so
//! that a snapshot costs O(1) and history is part of it.

mod actor;
mod fingerprint;
mod handle;
mod index;
mod log;
mod logic;
mod messages;
mod meters;
mod shared_items;
#[cfg(test)]
mod tests;
mod topics;

pub(crate) use fingerprint::Fingerprint;
pub use handle::{CacheId, WatchCacheHandle};
pub(crate) use handle::{Feed, OwnedWatchCache, ReloadFn};
pub(crate) use index::{FieldValue, IndexHints, ItemIndex, KeyRange};
pub(crate) use logic::{CacheChange, CacheSnapshot};
pub(crate) use messages::Subscription;
pub(crate) use meters::{CacheMeters, ListCost};
pub(crate) use shared_items::SharedItems;
pub(crate) use topics::Topic;
