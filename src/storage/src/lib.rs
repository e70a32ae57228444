//! The storage contract and its implementations.
//!
//! A [`Storage`] is an ordered map from keys to bytes under one revision clock, as etcd v3 defines
//! it: every committed write takes the next revision, every read can name the revision it wants,
//! and a watch replays all changes after a revision in order. The room knows keys and bytes; it
//! knows nothing of Kubernetes kinds.
//!
//! Callers: `registry` (the store watcher, the registries and the read index). Implementations:
//! `embedded` (redb, one process) and `etcd`, and before either of them `encryption`. All pass the one suite in `conformance` (feature `testing`).

#[cfg(feature = "testing")]
pub mod conformance;
mod contract;
pub mod embedded;
pub mod encryption;
pub mod etcd;
#[cfg(feature = "testing")]
pub mod testing;

pub use contract::{
    Compare, Event, Fence, KeyValue, LeaseId, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError,
    WatchBatch, WatchStream, WriteOutcome,
};
pub use embedded::{EmbeddedOptions, EmbeddedStats, EmbeddedStore};
pub use etcd::{EtcdOptions, EtcdStore};
