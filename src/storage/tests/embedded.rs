//! The conformance suite on the embedded store.

use std::{sync::Arc, time::SystemTime};

use trireme_storage::{
    EmbeddedOptions, EmbeddedStore, RangeRequest, Storage as _, conformance,
    encryption::{
        CurrentProviders, EncryptedResources, EncryptedStore, EncryptionConfig, EncryptionProviders, KeyResources,
        KmsOptions, NamedKey, Provider, ReadableSignal, ResourceName, ShownKeyIds,
    },
};

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

#[tokio::test]
async fn conforms_with_encryption_before_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = EmbeddedOptions {
        fsync: false,
        ..EmbeddedOptions::default()
    };
    let store = Arc::new(EmbeddedStore::open(dir.path(), options).expect("the store opens"));
    let counted = store.clone();
    let watches = Arc::new(move || {
        let watches = counted.stats().watches;
        Box::pin(std::future::ready(watches)) as futures_util::future::BoxFuture<'static, usize>
    });
    let secret = vec![7; 32].into();
    let name = "k".to_owned();
    let config = EncryptionConfig {
        resources: vec![EncryptedResources {
            resources: vec![ResourceName::parse("*.*")],
            providers: vec![Provider::AesGcm(vec![NamedKey { name, secret }]), Provider::Identity],
        }],
    };
    let readable = ReadableSignal::default();
    let kms = KmsOptions {
        server: String::new(),
        wall: Arc::new(|| SystemTime::UNIX_EPOCH),
        readable: readable.clone(),
        key_ids: ShownKeyIds::default(),
    };
    let providers = EncryptionProviders::new(&config, &kms).expect("the configuration is sound");
    let places = (0..100).map(|case| (format!("{case:02}"), ResourceName::parse("cases")));
    let resources = KeyResources::new("/conformance", places);
    let current = CurrentProviders::new(providers, readable);
    let encrypted = EncryptedStore::new(store.clone(), current, resources);
    conformance::run(Arc::new(encrypted), watches).await;
    let page = store.range(RangeRequest {
        prefix: "/conformance/".to_owned(),
        ..RangeRequest::default()
    });
    let page = page.await.expect("a page");
    assert!(
        page.entries
            .iter()
            .any(|entry| entry.value.starts_with(b"k8s:enc:aesgcm:v1:k:"))
    );
}
