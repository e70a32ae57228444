//! The conformance suite on a real etcd, and what happens when etcd goes away.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture};
use metrics_exporter_prometheus::PrometheusBuilder;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::time::Instant;
use trireme_storage::{
    Compare, EtcdOptions, EtcdStore, PutOptions, Storage, StorageError, WriteOutcome, conformance,
    testing::{EtcdProcess, EtcdSetup, EtcdTls},
};

async fn connected(etcd: &EtcdProcess) -> EtcdStore {
    EtcdStore::connect(EtcdOptions::new([etcd.endpoint()]))
        .await
        .expect("the options are sound")
}

async fn create(store: &dyn Storage, key: &str) -> Result<WriteOutcome, StorageError> {
    store
        .put(key, Bytes::from_static(b"1"), Compare::Absent, PutOptions::default())
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conforms() {
    let etcd = Arc::new(EtcdProcess::start().await.expect("etcd starts"));
    let store = Arc::new(connected(&etcd).await);
    let counted = etcd.clone();
    let watches = Arc::new(move || {
        let etcd = counted.clone();
        let count = async move {
            let watches = etcd
                .metric("etcd_debugging_mvcc_watcher_total")
                .await
                .expect("etcd has metrics");
            format!("{watches}").parse().expect("a whole number")
        };
        Box::pin(count) as BoxFuture<'static, usize>
    });
    conformance::run(store, watches).await;
}

#[tokio::test]
async fn unreachable_etcd_had_no_effect() {
    // Nothing listens on the discard port.
    let mut options = EtcdOptions::new(["http://127.0.0.1:9"]);
    options.request_timeout = Duration::from_millis(500);
    let store = EtcdStore::connect(options).await.expect("the options are sound");
    let started = Instant::now();
    assert!(matches!(create(&store, "/a").await, Err(StorageError::Unavailable(_))));
    assert!(matches!(store.read_index().await, Err(StorageError::Unavailable(_))));
    assert!(matches!(
        store.watch("/", 0).await.err(),
        Some(StorageError::Unavailable(_))
    ));
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "the answers came in bounded time"
    );
}

#[tokio::test]
async fn requests_are_counted_under_the_usual_names() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let etcd = EtcdProcess::start().await.expect("etcd starts");
    let store = connected(&etcd).await;
    create(&store, "/registry/pods/default/a")
        .await
        .expect("etcd takes writes");
    assert!(store.get("/registry/pods/default/a", Some(99)).await.is_err());
    let page = recorder.handle().render();
    for line in [
        "etcd_requests_total{operation=\"create\",type=\"pods\"} 1",
        "etcd_requests_total{operation=\"get\",type=\"pods\"} 1",
        "etcd_request_errors_total{operation=\"get\",type=\"pods\"} 1",
        "etcd_request_duration_seconds_count{operation=\"create\",type=\"pods\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
    }
}

#[tokio::test]
async fn the_size_of_the_database_is_told() {
    let etcd = EtcdProcess::start().await.expect("etcd starts");
    let store = connected(&etcd).await;
    let size = store.size_bytes().await.expect("etcd answers");
    assert!(size.is_some_and(|bytes| bytes > 0), "{size:?}");
}

#[tokio::test]
async fn an_event_loop_that_is_gone_takes_nothing_with_it() {
    let etcd = EtcdProcess::start().await.expect("etcd starts");
    let store = Arc::new(connected(&etcd).await);
    for number in 0..3 {
        let elsewhere = store.clone();
        let outcome = tokio::task::spawn_blocking(move || {
            let other = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let other = other.expect("an event loop can be made");
            other.block_on(create(&*elsewhere, &format!("/elsewhere/{number}")))
        });
        let outcome = outcome.await.expect("the other loop ends");
        assert!(matches!(outcome, Ok(WriteOutcome::Committed(_))), "{outcome:?}");
        let outcome = create(&*store, &format!("/here/{number}")).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Committed(_))), "{outcome:?}");
    }
}

/// etcd cuts a connection over which it has been pinged three times within 5 s and has had nothing to say.
#[tokio::test]
async fn a_quiet_watch_goes_on() {
    let etcd = EtcdProcess::start().await.expect("etcd starts");
    let store = connected(&etcd).await;
    let Ok(WriteOutcome::Committed(first)) = create(&store, "/a").await else {
        panic!("etcd takes writes")
    };
    let mut watch = store.watch("/", first).await.expect("the watch opens");
    let quiet = tokio::time::timeout(Duration::from_secs(8), watch.next()).await;
    assert!(quiet.is_err(), "nothing has happened, and the watch says {quiet:?}");
    let Ok(WriteOutcome::Committed(second)) = create(&store, "/b").await else {
        panic!("etcd takes writes")
    };
    let batch = watch.next().await.expect("the watch goes on");
    assert_eq!(batch.expect("the watch is sound").revision, second);
}

#[tokio::test]
async fn one_living_endpoint_is_enough() {
    let etcd = EtcdProcess::start().await.expect("etcd starts");
    let endpoints = [
        "http://127.0.0.1:9".to_owned(),
        etcd.endpoint(),
        "http://127.0.0.1:10".to_owned(),
    ];
    let store = EtcdStore::connect(EtcdOptions::new(endpoints))
        .await
        .expect("the options are sound");
    for number in 0..5 {
        let outcome = create(&store, &format!("/{number}")).await;
        assert!(matches!(outcome, Ok(WriteOutcome::Committed(_))), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_killed_etcd_ends_watches_and_is_found_again() {
    let mut etcd = EtcdProcess::start().await.expect("etcd starts");
    let store = connected(&etcd).await;
    let Ok(WriteOutcome::Committed(first)) = create(&store, "/a").await else {
        panic!("etcd takes writes")
    };
    let mut watch = store.watch("/", first).await.expect("the watch opens");
    let Ok(WriteOutcome::Committed(second)) = create(&store, "/b").await else {
        panic!("etcd takes writes")
    };
    let batch = watch
        .next()
        .await
        .expect("the watch goes on")
        .expect("the watch is sound");
    assert_eq!(batch.revision, second);

    etcd.kill();
    assert!(matches!(watch.next().await, Some(Err(StorageError::Unavailable(_)))));
    assert!(watch.next().await.is_none());
    let lost = create(&store, "/c").await;
    assert!(matches!(lost, Err(StorageError::Unavailable(_))), "{lost:?}");

    etcd.restart(&store).await.expect("etcd starts again");
    let Ok(WriteOutcome::Committed(third)) = create(&store, "/c").await else {
        panic!("etcd takes writes")
    };
    let mut watch = store.watch("/", second).await.expect("the watch opens");
    let batch = watch
        .next()
        .await
        .expect("the watch goes on")
        .expect("the watch is sound");
    let keys: Vec<_> = batch
        .events
        .iter()
        .map(|event| (&**event.key(), event.revision()))
        .collect();
    assert_eq!(keys, [("/c", third)]);
}

#[tokio::test]
async fn a_frozen_etcd_leaves_writes_unknown_and_reads_in_bounded_time() {
    let etcd = EtcdProcess::start().await.expect("etcd starts");
    let store = connected(&etcd).await;
    let mut watch = store.watch("/", 0).await.expect("the watch opens");
    create(&store, "/a").await.expect("etcd takes writes");
    watch
        .next()
        .await
        .expect("the watch goes on")
        .expect("the watch is sound");

    etcd.pause().expect("etcd is frozen");
    let started = Instant::now();
    let notified = async {
        let ended = watch.next().await;
        assert!(matches!(ended, Some(Err(StorageError::Unavailable(_)))), "{ended:?}");
        assert!(
            started.elapsed() < Duration::from_secs(4),
            "notified in {:?}",
            started.elapsed()
        );
    };
    let (write, ()) = tokio::join!(create(&store, "/b"), notified);
    assert!(matches!(write, Err(StorageError::UnknownOutcome(_))), "{write:?}");
    assert!(
        started.elapsed() < Duration::from_secs(6),
        "notified in {:?}",
        started.elapsed()
    );
    let read = store.get("/a", None).await;
    assert!(
        matches!(read, Err(StorageError::Timeout | StorageError::Unavailable(_))),
        "{read:?}"
    );
    assert!(
        started.elapsed() < Duration::from_secs(12),
        "notified in {:?}",
        started.elapsed()
    );

    etcd.resume().expect("etcd goes on");
    let recovered = tokio::time::timeout(Duration::from_secs(20), async {
        while store.read_index().await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    recovered.await.expect("the store recovers by itself");
    // Sent before the freeze was noticed, so it may have landed; but it is one or the other.
    let (entry, _) = store.get("/b", None).await.expect("etcd answers");
    match create(&store, "/b").await.expect("etcd takes writes") {
        WriteOutcome::Committed(_) => assert_eq!(entry, None),
        WriteOutcome::Conflict(found) => assert!(found.is_some()),
    }
}

struct Certificates {
    server: EtcdTls,
    client_cert_pem: String,
    client_key_pem: String,
}

fn certificates() -> Certificates {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(authority, key).expect("an authority");
    let issue = |name: &str| {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([name.to_owned()]).expect("a name");
        (
            params.signed_by(&key, &authority).expect("a certificate").pem(),
            key.serialize_pem(),
        )
    };
    let (cert_pem, key_pem) = issue("127.0.0.1");
    let (client_cert_pem, client_key_pem) = issue("client");
    Certificates {
        server: EtcdTls {
            ca_pem: authority.pem(),
            cert_pem,
            key_pem,
        },
        client_cert_pem,
        client_key_pem,
    }
}

#[tokio::test]
async fn tls_with_client_certificates() {
    let certificates = certificates();
    let setup = EtcdSetup {
        tls: Some(certificates.server.clone()),
        ..EtcdSetup::default()
    };
    let etcd = EtcdProcess::start_with(setup).await.expect("etcd starts");
    let mut options = EtcdOptions::new([etcd.endpoint()]);
    let without_ca = EtcdStore::connect(options.clone()).await;
    assert!(matches!(without_ca.err(), Some(StorageError::Failed(why)) if why.contains("certificate authority")));

    options.ca_pem = Some(certificates.server.ca_pem.into_bytes());
    options.cert_pem = Some(certificates.client_cert_pem.into_bytes());
    options.key_pem = Some(certificates.client_key_pem.into_bytes());
    let store = EtcdStore::connect(options.clone())
        .await
        .expect("the options are sound");
    let etcd = etcd.ready(&store).await.expect("etcd serves");
    assert!(matches!(create(&store, "/a").await, Ok(WriteOutcome::Committed(_))));

    let stranger = EtcdOptions {
        cert_pem: None,
        key_pem: None,
        request_timeout: Duration::from_secs(1),
        ..options.clone()
    };
    let stranger_options = stranger.clone();
    let stranger = EtcdStore::connect(stranger).await.expect("the options are sound");
    assert!(stranger.get("/a", None).await.is_err(), "no certificate, no answer");
    let renewed = stranger.renew_certificates(&options).await;
    assert_eq!(renewed, Ok(()));
    assert!(stranger.get("/a", None).await.is_ok(), "the certificate counts at once");
    let refused = stranger.renew_certificates(&stranger_options).await;
    assert!(matches!(refused, Err(StorageError::Unavailable(_))), "{refused:?}");
    assert!(stranger.get("/a", None).await.is_ok(), "the former one stays in use");
    drop(etcd);
}
