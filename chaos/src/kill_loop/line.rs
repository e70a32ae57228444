//! The lines that the probe prints.

use serde::Deserialize;

/// One line of the probe. `hash` stands for a value; a deletion has none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum Line {
    /// A write is about to be made.
    Try {
        /// The key.
        key: String,
        /// The value's hash, unless it is a deletion.
        hash: Option<String>,
    },
    /// A write was acknowledged.
    Ack {
        /// The key.
        key: String,
        /// The revision that the store named.
        revision: i64,
        /// The value's hash, unless it was a deletion.
        hash: Option<String>,
    },
    /// History before this revision is about to be forgotten.
    Compact {
        /// The revision.
        revision: i64,
    },
    /// A reopened store's clock.
    Clock {
        /// Its newest revision.
        revision: i64,
        /// The revision up to which it has forgotten.
        compacted: i64,
    },
    /// A change that a reopened store replays.
    Event {
        /// The key.
        key: String,
        /// The revision of the change.
        revision: i64,
        /// The value's hash, unless it is a deletion.
        hash: Option<String>,
    },
    /// The value that a reopened store has for a key as of the revision of a replayed put.
    Read {
        /// The key.
        key: String,
        /// The entry's own revision.
        revision: i64,
        /// Its value's hash.
        hash: String,
    },
    /// An entry that exists in a reopened store.
    Entry {
        /// The key.
        key: String,
        /// The revision of its last write.
        revision: i64,
        /// Its value's hash.
        hash: String,
    },
}

impl Line {
    /// Reads the lines of a killed program: the last one may be cut off.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, serde_json::Error> {
        let whole = text.rfind('\n').map_or("", |end| text.split_at(end).0);
        whole.lines().map(serde_json::from_str).collect()
    }
}
