//! The content of a store, which another program may have written: the first line is a key, the rest a value.
//!
//! Invariants: an entry is refused or becomes an item whose bytes are JSON with the revision in it; a record of the
//! embedded store's log that can be read is written as it was.

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::json;
use trireme_registry::{Item, versions};
use trireme_storage::embedded;

use crate::{input::first_line, world};

const REVISION: i64 = 1_234_567;

/// Checks the input as an entry and as a record of the log.
pub fn check(data: &[u8]) {
    record(data);
    let (key, value) = first_line(data);
    let Ok(key) = std::str::from_utf8(key) else { return };
    for info in world::RESOURCES
        .iter()
        .filter(|info| key.starts_with(&*info.storage_prefix))
    {
        let Ok(item) = Item::from_stored(info, key, Bytes::copy_from_slice(value), REVISION) else {
            continue;
        };
        // Strings are taken over as they are: only what was JSON before is JSON after.
        let Ok(stored) = json::decode(value) else { continue };
        let served = json::decode(&item.bytes).expect("what is served is JSON");
        let revision = served
            .value
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str);
        if stored.duplicates.is_empty() {
            assert_eq!(revision, Some("1234567"));
            assert_eq!(served.duplicates, [""; 0]);
        }
        for index in 0..info.versions.len() {
            json::decode(&versions::object_bytes(info, &item, index)).expect("what is served is JSON");
            json::decode(&versions::list_item_bytes(info, &item, index)).expect("what is served is JSON");
        }
    }
}

fn record(data: &[u8]) {
    if let Ok(written) = embedded::reread_log_record(data) {
        assert_eq!(embedded::reread_log_record(&written).as_ref(), Ok(&written));
        assert_eq!(written.len(), data.len());
    }
}
