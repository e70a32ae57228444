//! Leases: entries that go away with time.

use std::time::Duration;

use bytes::Bytes;

use super::subject::{Subject, committed};
use crate::{Compare, Event, LeaseId, PutOptions, Revision, StorageError};

async fn put_leased(s: &Subject, name: &str, compare: Compare, lease: LeaseId) -> Revision {
    let put = s
        .put(
            &s.key(name),
            Bytes::from_static(b"1"),
            compare,
            PutOptions {
                lease: Some(lease),
                fence: None,
            },
        )
        .await;
    committed(put.expect("the store takes writes"))
}

pub(super) async fn expiry_deletes_and_tells_watchers(s: Subject) {
    let lease = s
        .grant_lease(Duration::from_millis(500))
        .await
        .expect("a lease is granted");
    let other = s
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    s.create("stays", "1").await;
    put_leased(&s, "stays/leased", Compare::Absent, other).await;
    let written = put_leased(&s, "a", Compare::Absent, lease).await;
    let entry = s.read("a").await;
    let mut watch = s.watch_from(written).await;
    let events = watch.events(1).await;
    let expected = Event::Delete {
        key: s.key("a").into(),
        revision: written + 1,
        previous: entry,
    };
    assert_eq!(events, [expected]);
    assert_eq!(s.read("a").await, None);
    assert_eq!(s.page(|_| {}).await.count, 2);
    assert_eq!(s.revoke_lease(lease).await, Err(StorageError::LeaseNotFound));
    assert_eq!(s.revoke_lease(other).await, Ok(()));
}

pub(super) async fn revocation_deletes_at_one_revision(s: Subject) {
    let lease = s
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    for name in ["a", "b", "c"] {
        put_leased(&s, name, Compare::Absent, lease).await;
    }
    let before = s.create("stays", "1").await;
    s.revoke_lease(lease).await.expect("the lease is revoked");
    assert_eq!(s.shown(&s.page(|_| {}).await), ["stays=1"]);
    let mut events = s.described(&s.watch_from(before).await.events(3).await);
    events.sort_unstable();
    let gone = before + 1;
    assert_eq!(
        events,
        [format!("a-@{gone}"), format!("b-@{gone}"), format!("c-@{gone}")]
    );
    assert_eq!(s.read_index().await, Ok(gone));
}

pub(super) async fn unknown_lease_is_an_error(s: Subject) {
    let lease = s
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    s.revoke_lease(lease).await.expect("the lease is revoked");
    assert_eq!(s.revoke_lease(lease).await, Err(StorageError::LeaseNotFound));
    let put = s
        .put(
            &s.key("a"),
            Bytes::from_static(b"1"),
            Compare::Absent,
            PutOptions {
                lease: Some(lease),
                fence: None,
            },
        )
        .await;
    assert_eq!(put, Err(StorageError::LeaseNotFound));
    assert_eq!(s.read("a").await, None);
}

pub(super) async fn put_without_lease_detaches_the_key(s: Subject) {
    let lease = s
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    let detached = put_leased(&s, "detached", Compare::Absent, lease).await;
    s.update("detached", "2", detached).await;
    let attached = s.create("attached", "1").await;
    put_leased(&s, "attached", Compare::ModRevision(attached), lease).await;
    s.revoke_lease(lease).await.expect("the lease is revoked");
    assert_eq!(s.shown(&s.page(|_| {}).await), ["detached=2"]);
}

pub(super) async fn ids_are_distinct(s: Subject) {
    let one = s
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    let two = s
        .grant_lease(Duration::from_secs(600))
        .await
        .expect("a lease is granted");
    assert!(one > 0 && two > 0 && one != two);
    put_leased(&s, "a", Compare::Absent, one).await;
    s.revoke_lease(two).await.expect("the lease is revoked");
    assert!(s.read("a").await.is_some());
    s.revoke_lease(one).await.expect("the lease is revoked");
}
