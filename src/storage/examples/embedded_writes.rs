//! Prints how many durable writes a second the embedded store takes from 1 and from 16 writers.
//!
//! `cargo run --release -p trireme-storage --example embedded_writes [DIR]`; the directory decides
//! which disk is measured.

#![expect(clippy::disallowed_methods, reason = "all tasks are awaited by main")]

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;
use trireme_storage::{Compare, EmbeddedOptions, EmbeddedStore, PutOptions, Storage, StorageError};

const VALUE_BYTES: usize = 1024;
const TIME: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), StorageError> {
    let base = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = base.join(format!("trireme-embedded-writes-{}", std::process::id()));
    let result = measure_all(&dir).await;
    // Nothing of value is in it, and a leftover does no harm.
    drop(std::fs::remove_dir_all(&dir));
    result
}

async fn measure_all(dir: &std::path::Path) -> Result<(), StorageError> {
    println!("writers  writes/s  commits/s  writes/commit");
    for writers in [1, 4, 16, 64] {
        let store = Arc::new(EmbeddedStore::open(
            &dir.join(writers.to_string()),
            EmbeddedOptions::default(),
        )?);
        measure(&store, writers).await?;
    }
    Ok(())
}

async fn measure(store: &Arc<EmbeddedStore>, writers: u32) -> Result<(), StorageError> {
    let before = store.stats();
    let started = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| tokio::spawn(write(store.clone(), writer, started + TIME)))
        .collect();
    for task in tasks {
        task.await.map_err(|error| StorageError::Failed(error.to_string()))??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let after = store.stats();
    let count = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let (writes, commits) = (
        count(after.revisions - before.revisions),
        count(after.commits - before.commits),
    );
    println!(
        "{writers:>7}  {:>8.0}  {:>9.0}  {:>13.1}",
        writes / seconds,
        commits / seconds,
        writes / commits
    );
    Ok(())
}

async fn write(store: Arc<EmbeddedStore>, writer: u32, until: Instant) -> Result<(), StorageError> {
    let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
    let mut number = 0_u64;
    while Instant::now() < until {
        let key = format!("/registry/configmaps/default/{writer}-{number}");
        store
            .put(&key, value.clone(), Compare::Absent, PutOptions::default())
            .await?;
        number += 1;
    }
    Ok(())
}
