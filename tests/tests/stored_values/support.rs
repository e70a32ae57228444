//! Writes into a store past the server, and what the tests ask the server in the same way.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use trireme_storage::{
    Compare, EmbeddedOptions, EmbeddedStore, EtcdOptions, EtcdStore, PutOptions, Storage, StorageError, WriteOutcome,
};
use trireme_tests::{
    Server,
    http::{Answer, Client},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// The object in an answer.
pub(crate) fn object_of(answer: &Answer) -> Value {
    serde_json::from_str(&answer.text()).expect("JSON")
}

/// Waits until the server shows something.
pub(crate) fn until(server: &mut Server, what: &'static str, condition: impl Fn(&Client) -> bool) {
    let client = server.client();
    let waited = server.process().wait_until(what, PATIENCE, || condition(&client));
    waited.unwrap_or_else(|error| panic!("{error}"));
}

/// Puts values at their keys, whatever is there. Over the embedded store, which has one process at a time, the server is
/// restarted.
pub(crate) fn put_past(server: &mut Server, values: &[(String, Vec<u8>)]) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    match server.etcd() {
        Some(etcd) => {
            let options = EtcdOptions::new([etcd.url()]);
            runtime.block_on(async {
                let store = EtcdStore::connect(options).await.expect("etcd answers");
                put_all(Arc::new(store), values).await;
            });
        }
        None => {
            let dir = server.data_dir().join("store");
            let restarted = server.restart_after(|| {
                runtime.block_on(async {
                    let store =
                        EmbeddedStore::open(&dir, EmbeddedOptions::default()).expect("no other process has it open");
                    put_all(Arc::new(store), values).await;
                });
            });
            restarted.unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

async fn put_all(store: Arc<dyn Storage>, values: &[(String, Vec<u8>)]) {
    for (key, value) in values {
        let (entry, _) = store.get(key, None).await.expect("the store answers");
        let compare = entry.map_or(Compare::Absent, |entry| Compare::ModRevision(entry.mod_revision));
        let outcome = store
            .put(key, value.clone().into(), compare, PutOptions::default())
            .await;
        assert!(matches!(outcome, Ok(WriteOutcome::Committed(_))), "{key}: {outcome:?}");
    }
}

/// The value at a key in the etcd of a server.
pub(crate) fn read_past(server: &Server, key: &str) -> Vec<u8> {
    read_past_if_any(server, key).expect("there is a value")
}

/// The same, if there is one.
pub(crate) fn read_past_if_any(server: &Server, key: &str) -> Option<Vec<u8>> {
    let etcd = server.etcd().expect("the server is over etcd");
    let options = EtcdOptions::new([etcd.url()]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        let store = EtcdStore::connect(options).await.expect("etcd answers");
        let (entry, _) = store.get(key, None).await.expect("the store answers");
        entry.map(|entry| entry.value.to_vec())
    })
}

/// Has the etcd of a server forget all states but the newest, which a server that starts then begins with.
pub(crate) fn compact_past(server: &Server) {
    let etcd = server.etcd().expect("the server is over etcd");
    let options = EtcdOptions::new([etcd.url()]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        let store = EtcdStore::connect(options).await.expect("etcd answers");
        let newest = store.read_index().await.expect("the store answers");
        let compacted = store.compact(newest).await;
        // The second is the answer to another attempt.
        let is_done = matches!(compacted, Ok(()) | Err(StorageError::Compacted { .. }));
        assert!(is_done, "{compacted:?}");
    });
}
