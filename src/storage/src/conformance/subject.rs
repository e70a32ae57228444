//! The subject of a case: the store, a prefix of its own, and short forms of the usual steps.

use std::{ops::Deref, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;

use super::WatchCount;
use crate::{
    Compare, Event, KeyValue, PutOptions, RangePage, RangeRequest, Revision, Storage, StorageError, WatchBatch,
    WatchStream, WriteOutcome,
};

/// The time for which a watch may stay silent when an event is due.
const EVENT_DEADLINE: Duration = Duration::from_secs(20);

/// The store under test, as one case sees it.
#[derive(Clone)]
pub struct Subject {
    /// The store.
    pub store: Arc<dyn Storage>,
    /// Only this case uses keys under this prefix.
    pub prefix: String,
    watches: WatchCount,
}

impl Deref for Subject {
    type Target = dyn Storage;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl Subject {
    pub(super) fn new(store: Arc<dyn Storage>, prefix: String, watches: WatchCount) -> Self {
        Self { store, prefix, watches }
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(super) async fn open_watches(&self) -> usize {
        (self.watches)().await
    }

    pub(super) async fn write(&self, name: &str, value: &str, compare: Compare) -> WriteOutcome {
        let value = Bytes::copy_from_slice(value.as_bytes());
        self.put(&self.key(name), value, compare, PutOptions::default())
            .await
            .expect("the store takes writes")
    }

    /// Creates a key that does not exist.
    pub(super) async fn create(&self, name: &str, value: &str) -> Revision {
        committed(self.write(name, value, Compare::Absent).await)
    }

    /// Updates a key that was last written at `revision`.
    pub(super) async fn update(&self, name: &str, value: &str, revision: Revision) -> Revision {
        committed(self.write(name, value, Compare::ModRevision(revision)).await)
    }

    /// Deletes a key that was last written at `revision`.
    pub(super) async fn remove(&self, name: &str, revision: Revision) -> Revision {
        committed(
            self.delete(&self.key(name), revision, None)
                .await
                .expect("the store takes deletions"),
        )
    }

    pub(super) async fn read(&self, name: &str) -> Option<KeyValue> {
        self.get(&self.key(name), None)
            .await
            .expect("the store answers reads")
            .0
    }

    pub(super) async fn read_at(&self, name: &str, revision: Revision) -> Option<String> {
        let entry = self
            .get(&self.key(name), Some(revision))
            .await
            .expect("the revision can be read")
            .0;
        entry.map(|entry| text(&entry))
    }

    pub(super) async fn page(&self, change: impl FnOnce(&mut RangeRequest)) -> RangePage {
        let mut request = RangeRequest {
            prefix: self.prefix.clone(),
            ..RangeRequest::default()
        };
        change(&mut request);
        self.range(request).await.expect("the store answers ranges")
    }

    /// `name=value` for each entry of a page.
    pub(super) fn shown(&self, page: &RangePage) -> Vec<String> {
        let show = |entry: &KeyValue| format!("{}={}", self.name(&entry.key), text(entry));
        page.entries.iter().map(show).collect()
    }

    /// A key without this case's prefix.
    pub(super) fn name<'k>(&self, key: &'k str) -> &'k str {
        key.strip_prefix(self.prefix.as_str())
            .expect("only keys under the prefix")
    }

    pub(super) async fn watch_from(&self, after: Revision) -> CheckedWatch {
        CheckedWatch::new(self.watch(&self.prefix, after).await.expect("the watch opens"))
    }

    /// The error of a watch that cannot go on after `after`: the store may say so at once or in the stream.
    pub(super) async fn watch_failure(&self, after: Revision) -> StorageError {
        match self.watch(&self.prefix, after).await {
            Err(error) => error,
            Ok(stream) => CheckedWatch::new(stream).failure().await,
        }
    }

    /// `name=value@revision` for a put, `name-@revision` for a deletion.
    pub(super) fn described(&self, events: &[Event]) -> Vec<String> {
        let describe = |event: &Event| match event {
            Event::Put { entry, .. } => {
                format!("{}={}@{}", self.name(&entry.key), text(entry), entry.mod_revision)
            }
            Event::Delete { key, revision, .. } => format!("{}-@{revision}", self.name(key)),
        };
        events.iter().map(describe).collect()
    }
}

/// An open watch, with a check of every batch that passes.
pub(super) struct CheckedWatch {
    stream: WatchStream,
    seen: Revision,
}

impl CheckedWatch {
    pub(super) fn new(stream: WatchStream) -> Self {
        Self { stream, seen: 0 }
    }

    /// The next batch, empty or not.
    pub(super) async fn batch(&mut self) -> WatchBatch {
        let item = tokio::time::timeout(EVENT_DEADLINE, self.stream.next())
            .await
            .expect("the watch is not silent");
        let batch = item
            .expect("the watch has not ended")
            .expect("the watch has not failed");
        let revisions: Vec<_> = batch.events.iter().map(Event::revision).collect();
        assert!(revisions.is_sorted(), "a batch is in order: {revisions:?}");
        assert!(
            revisions.first().is_none_or(|first| *first > self.seen),
            "a revision was split or repeated"
        );
        assert!(
            revisions.last().is_none_or(|last| *last <= batch.revision),
            "the batch's revision covers it"
        );
        assert!(batch.revision >= self.seen, "the clock does not go back");
        self.seen = batch.revision;
        batch
    }

    /// The next `count` events.
    pub(super) async fn events(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < count {
            events.extend(self.batch().await.events);
        }
        assert_eq!(events.len(), count, "no more events than expected");
        events
    }

    /// Waits for the watch to end with an error.
    pub(super) async fn failure(&mut self) -> StorageError {
        loop {
            let item = tokio::time::timeout(EVENT_DEADLINE, self.stream.next())
                .await
                .expect("the watch ends in time");
            match item.expect("a watch ends with an error") {
                Err(error) => return error,
                Ok(batch) => assert!(batch.events.is_empty(), "no events from a watch that must fail"),
            }
        }
    }
}

pub(super) fn committed(outcome: WriteOutcome) -> Revision {
    match outcome {
        WriteOutcome::Committed(revision) => revision,
        WriteOutcome::Conflict(entry) => panic!("a conflict with {entry:?} where none can be"),
    }
}

pub(super) fn text(entry: &KeyValue) -> String {
    String::from_utf8_lossy(&entry.value).into_owned()
}
