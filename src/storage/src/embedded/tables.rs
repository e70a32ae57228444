//! The format on disk: four tables and the encoding of a log record.
//!
//! ```text
//! log     (revision, n)    -> record   every change, in order; n counts within one revision
//! keys    (key, revision)  -> facts    every version of every key, to read the past
//! leases  id               -> ttl_s    leases that have not ended
//! meta    name             -> number   revision clock, compaction marks, lease counter, format
//! ```
//! A record names the version that it superseded, so compaction walks the log once and never scans
//! the keys.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadableTable, Table, TableDefinition};

use super::file::redb_error;
use crate::{KeyValue, LeaseId, Revision, StorageError};

/// Place of a change: its revision, and its number among the changes of that revision.
pub(super) type ChangePosition = (Revision, u32);

pub(super) type LogKey = (i64, u32);
pub(super) type KeysKey = (&'static str, i64);
/// create revision, number within the revision, whether deleted, lease (0: none).
pub(super) type KeysValue = (i64, u32, bool, i64);

pub(super) const LOG: TableDefinition<'_, LogKey, &[u8]> = TableDefinition::new("log");
pub(super) const KEYS: TableDefinition<'_, KeysKey, KeysValue> = TableDefinition::new("keys");
pub(super) const LEASES: TableDefinition<'_, i64, u64> = TableDefinition::new("leases");
pub(super) const META: TableDefinition<'_, &str, i64> = TableDefinition::new("meta");

pub(super) const META_FORMAT: &str = "format";
pub(super) const META_REVISION: &str = "revision";
pub(super) const META_COMPACTED: &str = "compacted";
pub(super) const META_SWEPT: &str = "swept";
pub(super) const META_NEXT_LEASE: &str = "next_lease";

/// The layout described above.
pub(super) const FORMAT: i64 = 1;

pub(super) type LogReader = ReadOnlyTable<LogKey, &'static [u8]>;
pub(super) type KeysReader = ReadOnlyTable<KeysKey, KeysValue>;
pub(super) type LogWriter<'t> = Table<'t, LogKey, &'static [u8]>;

const PUT: u8 = 1;
const DELETE: u8 = 2;
const HEADER_BYTES: usize = 33;

/// One change as it stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredRecord<'a> {
    pub(super) deleted: bool,
    pub(super) create_revision: Revision,
    /// The version of the key that this change replaced.
    pub(super) previous: Option<ChangePosition>,
    pub(super) lease: LeaseId,
    pub(super) key: &'a str,
    pub(super) value: &'a [u8],
}

impl<'a> StoredRecord<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let key_bytes = u32::try_from(self.key.len()).expect("the request limit is far below 4 GiB");
        let (previous, number) = self.previous.unwrap_or((0, 0));
        let bytes = HEADER_BYTES
            .saturating_add(self.key.len())
            .saturating_add(self.value.len());
        let mut out = Vec::with_capacity(bytes);
        out.push(if self.deleted { DELETE } else { PUT });
        out.extend_from_slice(&self.create_revision.to_le_bytes());
        out.extend_from_slice(&previous.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&self.lease.to_le_bytes());
        out.extend_from_slice(&key_bytes.to_le_bytes());
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(self.value);
        out
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Result<Self, StorageError> {
        Self::parse(bytes).ok_or_else(|| StorageError::Failed("a log record is damaged".to_owned()))
    }

    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first_chunk::<1>()?;
        let (create, rest) = rest.split_first_chunk::<8>()?;
        let (previous, rest) = rest.split_first_chunk::<8>()?;
        let (number, rest) = rest.split_first_chunk::<4>()?;
        let (lease, rest) = rest.split_first_chunk::<8>()?;
        let (key_bytes, rest) = rest.split_first_chunk::<4>()?;
        let (key, value) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*key_bytes)).ok()?)?;
        let previous = i64::from_le_bytes(*previous);
        Some(Self {
            deleted: match kind {
                [PUT] => false,
                [DELETE] => true,
                _ => return None,
            },
            create_revision: i64::from_le_bytes(*create),
            previous: (previous != 0).then(|| (previous, u32::from_le_bytes(*number))),
            lease: i64::from_le_bytes(*lease),
            key: std::str::from_utf8(key).ok()?,
            value,
        })
    }

    /// The entry that this record put at `revision`; `key` saves a copy when the caller has one.
    pub(super) fn entry(&self, key: std::sync::Arc<str>, revision: Revision) -> KeyValue {
        KeyValue {
            key,
            value: Bytes::copy_from_slice(self.value),
            create_revision: self.create_revision,
            mod_revision: revision,
        }
    }
}

/// Reads the entry put at `place`, or `None` if compaction removed it.
pub(super) fn entry_at(
    log: &impl ReadableTable<LogKey, &'static [u8]>,
    key: std::sync::Arc<str>,
    place: ChangePosition,
) -> Result<Option<KeyValue>, StorageError> {
    let Some(found) = log.get(place).map_err(redb_error)? else {
        return Ok(None);
    };
    Ok(Some(StoredRecord::decode(found.value())?.entry(key, place.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_round_trip_and_damage_is_noticed() {
        let record = StoredRecord {
            deleted: false,
            create_revision: 7,
            previous: Some((6, 3)),
            lease: 11,
            key: "/registry/ü",
            value: b"\0\xffvalue",
        };
        let bytes = record.encode();
        assert_eq!(StoredRecord::decode(&bytes), Ok(record));
        let tombstone = StoredRecord {
            deleted: true,
            previous: None,
            value: b"",
            ..record
        };
        assert_eq!(StoredRecord::decode(&tombstone.encode()), Ok(tombstone));

        assert!(StoredRecord::decode(&bytes[..20]).is_err());
        let mut wrong_kind = bytes.clone();
        wrong_kind[0] = 9;
        assert!(StoredRecord::decode(&wrong_kind).is_err());
        let mut long_key = bytes;
        long_key[29] = 0xff;
        assert!(StoredRecord::decode(&long_key).is_err());
    }
}
