//! The store watcher: follows one store by one ordered watch, feeds all watch caches and keeps the revision clock.
//!
//! Callers: the director registers caches; readers wait for the clock. Promises: caches get every change once, in
//! order, in whole revisions; when history is lost they get a whole new state instead; the clock never shows a
//! revision whose changes are not at least on their way.

mod actor;
mod follower;
mod handle;
mod logic;
mod messages;
#[cfg(test)]
mod tests;

pub use handle::{StoreWatcherHandle, StoreWatcherOptions};
