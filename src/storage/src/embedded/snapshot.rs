//! One committed state of the store, immutable and shared by all readers.
//!
//! The writer publishes a new snapshot after each durable commit and before it acknowledges the
//! writes in it. A snapshot holds an in-memory index of the newest version of each key (without
//! values), the most recent commits with their values, and a read transaction in which all the rest
//! is found. Reads touch the disk: call them from a blocking thread.

use std::{ops::Bound, sync::Arc};

use imbl::{OrdMap, Vector};

use super::{
    file::redb_error,
    tables::{ChangePosition, KeysReader, LogReader, StoredRecord, entry_at},
};
use crate::{Event, KeyValue, LeaseId, RangePage, RangeRequest, Revision, StorageError};

/// The place of an existing key's newest version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) place: ChangePosition,
    pub(super) lease: LeaseId,
    pub(super) create_revision: Revision,
}

pub(super) type Index = OrdMap<Arc<str>, Live>;

/// The events of one group commit.
#[derive(Debug)]
pub(super) struct Commit {
    /// The revision before it.
    pub(super) base: Revision,
    /// The revision after it.
    pub(super) revision: Revision,
    pub(super) events: Vec<Event>,
    pub(super) bytes: usize,
}

/// See the module's header.
pub(super) struct StoreSnapshot {
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    pub(super) index: Index,
    pub(super) recent: Vector<Arc<Commit>>,
    pub(super) log: LogReader,
    pub(super) keys: KeysReader,
}

impl StoreSnapshot {
    /// Reads one key now or, with a positive `revision`, in the past.
    pub(super) fn get(&self, key: &str, revision: Option<Revision>) -> Result<Option<KeyValue>, StorageError> {
        match self.past(revision)? {
            None => match self.index.get_key_value(key) {
                Some((key, live)) => self.entry(key.clone(), live.place).map(Some),
                None => Ok(None),
            },
            Some(revision) => {
                let mut versions = self.keys.range((key, 0)..=(key, revision)).map_err(redb_error)?;
                let Some(newest) = versions.next_back() else {
                    return Ok(None);
                };
                let (place, facts) = newest.map_err(redb_error)?;
                let (_, number, deleted, _) = facts.value();
                if deleted {
                    return Ok(None);
                }
                self.entry(Arc::from(key), (place.value().1, number)).map(Some)
            }
        }
    }

    /// Reads a page of keys now or in the past.
    pub(super) fn range(&self, request: &RangeRequest) -> Result<RangePage, StorageError> {
        let start = match &request.start {
            Some(start) if start.as_str() > request.prefix.as_str() => start.as_str(),
            _ => request.prefix.as_str(),
        };
        let mut page = Page {
            limit: request.limit,
            entries: Vec::new(),
            count: 0,
        };
        match self.past(request.revision)? {
            None => self.range_newest(&request.prefix, start, &mut page)?,
            Some(revision) => self.range_past(&request.prefix, start, revision, &mut page)?,
        }
        Ok(RangePage {
            more: page.count > page.entries.len(),
            entries: page.entries,
            revision: self.revision,
            count: page.count,
        })
    }

    fn range_newest(&self, prefix: &str, start: &str, page: &mut Page) -> Result<(), StorageError> {
        let from = (Bound::Included(start), Bound::Unbounded);
        for (key, live) in self.index.range::<_, str>(from) {
            if !key.starts_with(prefix) {
                break;
            }
            if page.has_room() {
                page.entries.push(self.entry(key.clone(), live.place)?);
            }
            page.count += 1;
        }
        Ok(())
    }

    fn range_past(&self, prefix: &str, start: &str, as_of: Revision, page: &mut Page) -> Result<(), StorageError> {
        let mut newest: Option<(Arc<str>, ChangePosition, bool)> = None;
        for version in self.keys.range((start, 0)..).map_err(redb_error)? {
            let (place, facts) = version.map_err(redb_error)?;
            let (key, revision) = place.value();
            if !key.starts_with(prefix) {
                break;
            }
            if newest.as_ref().is_some_and(|(known, ..)| **known != *key) {
                self.take(newest.take(), page)?;
            }
            if revision <= as_of {
                let (_, number, deleted, _) = facts.value();
                let key = newest.map_or_else(|| Arc::from(key), |(known, ..)| known);
                newest = Some((key, (revision, number), deleted));
            }
        }
        self.take(newest, page)
    }

    /// Adds a key's version as of the wanted revision, unless it was deleted by then.
    fn take(&self, version: Option<(Arc<str>, ChangePosition, bool)>, page: &mut Page) -> Result<(), StorageError> {
        if let Some((key, place, false)) = version {
            if page.has_room() {
                page.entries.push(self.entry(key, place)?);
            }
            page.count += 1;
        }
        Ok(())
    }

    /// Whole revisions of events after `after`, oldest first, about `max_bytes` of them; and the
    /// revision up to which they are complete.
    pub(super) fn history(
        &self,
        prefix: &str,
        after: Revision,
        max_bytes: usize,
    ) -> Result<(Vec<Event>, Revision), StorageError> {
        let (mut events, mut bytes, mut done) = (Vec::new(), 0_usize, after);
        for item in self.log.range((after + 1, 0)..).map_err(redb_error)? {
            let (place, record) = item.map_err(redb_error)?;
            let (revision, _) = place.value();
            if revision > done && bytes >= max_bytes {
                return Ok((events, done));
            }
            done = revision;
            let record = StoredRecord::decode(record.value())?;
            bytes += record.key.len() + record.value.len();
            if record.key.starts_with(prefix) {
                events.push(self.event(&record, revision)?);
            }
        }
        Ok((events, self.revision))
    }

    fn event(&self, record: &StoredRecord<'_>, revision: Revision) -> Result<Event, StorageError> {
        let key: Arc<str> = Arc::from(record.key);
        let previous = match record.previous {
            Some(place) => entry_at(&self.log, key.clone(), place)?,
            None => None,
        };
        Ok(if record.deleted {
            Event::Delete {
                key,
                revision,
                previous,
            }
        } else {
            Event::Put {
                entry: record.entry(key, revision),
                previous,
            }
        })
    }

    /// `None` for the newest state, else the past revision to read, if it can still be read.
    fn past(&self, revision: Option<Revision>) -> Result<Option<Revision>, StorageError> {
        match revision {
            None => Ok(None),
            Some(revision) if revision <= 0 => Ok(None),
            Some(revision) if revision > self.revision => Err(StorageError::Future { current: self.revision }),
            Some(revision) if revision < self.compacted => Err(StorageError::Compacted { oldest: self.compacted }),
            Some(revision) if revision == self.revision => Ok(None),
            Some(revision) => Ok(Some(revision)),
        }
    }

    fn entry(&self, key: Arc<str>, place: ChangePosition) -> Result<KeyValue, StorageError> {
        entry_at(&self.log, key, place)?
            .ok_or_else(|| StorageError::Failed(format!("the log lacks revision {}", place.0)))
    }
}

struct Page {
    limit: usize,
    entries: Vec<KeyValue>,
    count: usize,
}

impl Page {
    fn has_room(&self) -> bool {
        self.limit == 0 || self.entries.len() < self.limit
    }
}
