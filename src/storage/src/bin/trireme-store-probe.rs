//! A process that writes to an embedded store until it is killed, and one that prints its contents.
//!
//! Callers: crash experiments, which see a store only through this program.
//! * `trireme-store-probe write DIR ROUND` opens the store and lets several tasks create, update
//!   and delete keys and now and then compact. It prints a line before each try and one after each
//!   acknowledgement.
//! * `trireme-store-probe dump DIR` prints the clock, every event that can still be replayed, every
//!   put of those read back at its own revision, and every entry that exists.
//!
//! Each line is one JSON object whose `line` names it; a value is given by its hash.

#![expect(clippy::disallowed_methods, reason = "all tasks are awaited by main")]

use std::{collections::BTreeMap, io::Write, path::Path, process::ExitCode, sync::Arc};

use bytes::Bytes;
use futures_util::{StreamExt, future::try_join_all};
use trireme_storage::{
    Compare, EmbeddedOptions, EmbeddedStore, Event, PutOptions, RangeRequest, Revision, Storage, StorageError,
    WriteOutcome,
};

/// Enough that commits are shared.
const WRITERS: u64 = 8;
/// Few keys a writer, so that versions pile up and compaction has work.
const KEYS: u64 = 6;
const WRITES_BETWEEN_COMPACTIONS: u64 = 150;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["write", dir, round] => write(Path::new(dir), round).await,
        ["dump", dir] => dump(Path::new(dir)).await,
        _ => Err(StorageError::Failed(
            "usage: trireme-store-probe write DIR ROUND | dump DIR".to_owned(),
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trireme-store-probe: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line at once: after a kill, all that was printed counts.
fn say(line: &str) -> Result<(), StorageError> {
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{line}").and_then(|()| out.flush());
    said.map_err(|error| StorageError::Failed(format!("cannot print: {error}")))
}

/// FNV-1a: enough to distinguish our values.
fn hash(value: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", value.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

async fn write(dir: &Path, round: &str) -> Result<(), StorageError> {
    let store = Arc::new(EmbeddedStore::open(dir, EmbeddedOptions::default())?);
    let writers = (0..WRITERS).map(|writer| {
        let (store, round) = (store.clone(), round.to_owned());
        async move {
            let task = tokio::spawn(write_forever(store, round, writer));
            task.await.map_err(|error| StorageError::Failed(error.to_string()))?
        }
    });
    try_join_all(writers).await.map(drop)
}

async fn write_forever(store: Arc<EmbeddedStore>, round: String, writer: u64) -> Result<(), StorageError> {
    let mut known: BTreeMap<String, Revision> = BTreeMap::new();
    for step in 0_u64.. {
        let key = format!("/probe/{writer}/{}", step % KEYS);
        let held = match known.get(&key) {
            Some(revision) => Some(*revision),
            None => store.get(&key, None).await?.0.map(|entry| entry.mod_revision),
        };
        let now = match held {
            // Every fifth time round, a key goes away.
            Some(revision) if step / KEYS % 5 == 4 => delete(&store, &key, revision).await?,
            held => put(&store, &key, &format!("{round}/{writer}/{step}"), held).await?,
        };
        match now {
            Some(revision) => known.insert(key, revision),
            None => known.remove(&key),
        };
        if writer == 0 && step % WRITES_BETWEEN_COMPACTIONS == WRITES_BETWEEN_COMPACTIONS - 1 {
            compact(&store).await?;
        }
    }
    Ok(())
}

/// The revision that the key has now.
async fn put(
    store: &EmbeddedStore,
    key: &str,
    name: &str,
    held: Option<Revision>,
) -> Result<Option<Revision>, StorageError> {
    // Values of several sizes, each unlike all others.
    let value = Bytes::from(name.repeat(1 + name.len() * 7 % 40));
    let hash = hash(&value);
    say(&format!(r#"{{"line":"try","key":"{key}","hash":"{hash}"}}"#))?;
    let compare = held.map_or(Compare::Absent, Compare::ModRevision);
    match store.put(key, value, compare, PutOptions::default()).await? {
        WriteOutcome::Committed(revision) => {
            say(&format!(
                r#"{{"line":"ack","key":"{key}","revision":{revision},"hash":"{hash}"}}"#
            ))?;
            Ok(Some(revision))
        }
        WriteOutcome::Conflict(entry) => Err(StorageError::Failed(format!("{key} has a second writer: {entry:?}"))),
    }
}

async fn delete(store: &EmbeddedStore, key: &str, held: Revision) -> Result<Option<Revision>, StorageError> {
    say(&format!(r#"{{"line":"try","key":"{key}"}}"#))?;
    match store.delete(key, held, None).await? {
        WriteOutcome::Committed(revision) => {
            say(&format!(r#"{{"line":"ack","key":"{key}","revision":{revision}}}"#))?;
            Ok(None)
        }
        WriteOutcome::Conflict(entry) => Err(StorageError::Failed(format!("{key} has a second writer: {entry:?}"))),
    }
}

async fn compact(store: &EmbeddedStore) -> Result<(), StorageError> {
    let horizon = store.read_index().await? - 200;
    if horizon <= store.compacted() {
        return Ok(());
    }
    say(&format!(r#"{{"line":"compact","revision":{horizon}}}"#))?;
    store.compact(horizon).await
}

async fn dump(dir: &Path) -> Result<(), StorageError> {
    let store = EmbeddedStore::open(dir, EmbeddedOptions::default())?;
    let (newest, compacted) = (store.read_index().await?, store.compacted());
    say(&format!(
        r#"{{"line":"clock","revision":{newest},"compacted":{compacted}}}"#
    ))?;
    let mut watch = store.watch("", compacted).await?;
    let mut seen = compacted;
    while seen < newest {
        let Some(batch) = watch.next().await else { break };
        let batch = batch?;
        for event in &batch.events {
            dump_event(&store, event).await?;
        }
        seen = batch.revision;
    }
    for entry in store.range(RangeRequest::default()).await?.entries {
        let (key, revision, hash) = (&entry.key, entry.mod_revision, hash(&entry.value));
        say(&format!(
            r#"{{"line":"entry","key":"{key}","revision":{revision},"hash":"{hash}"}}"#
        ))?;
    }
    Ok(())
}

async fn dump_event(store: &EmbeddedStore, event: &Event) -> Result<(), StorageError> {
    let (key, revision) = (event.key(), event.revision());
    let Event::Put { entry, .. } = event else {
        return say(&format!(r#"{{"line":"event","key":"{key}","revision":{revision}}}"#));
    };
    let hash_text = hash(&entry.value);
    say(&format!(
        r#"{{"line":"event","key":"{key}","revision":{revision},"hash":"{hash_text}"}}"#
    ))?;
    if let (Some(found), _) = store.get(key, Some(revision)).await? {
        let (revision, found_hash) = (found.mod_revision, hash(&found.value));
        say(&format!(
            r#"{{"line":"read","key":"{key}","revision":{revision},"hash":"{found_hash}"}}"#
        ))?;
    }
    Ok(())
}
