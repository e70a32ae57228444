//! The conformance suite on the embedded store.

use std::sync::Arc;

use trireme_storage::{EmbeddedOptions, EmbeddedStore, conformance};

async fn run_with(options: EmbeddedOptions) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(EmbeddedStore::open(dir.path(), options).expect("the store opens"));
    let counted = store.clone();
    let watches = Arc::new(move || {
        let watches = counted.stats().watches;
        Box::pin(std::future::ready(watches)) as futures_util::future::BoxFuture<'static, usize>
    });
    conformance::run(store, watches).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms() {
    run_with(EmbeddedOptions::default()).await;
}

#[tokio::test]
async fn conforms_on_one_thread_without_fsync() {
    run_with(EmbeddedOptions {
        fsync: false,
        ..EmbeddedOptions::default()
    })
    .await;
}
