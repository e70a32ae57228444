//! Forgetting history.

use super::subject::Subject;
use crate::{RangeRequest, StorageError};

pub(super) async fn older_reads_fail_and_newer_succeed(s: Subject) {
    let one = s.create("a", "1").await;
    let two = s.update("a", "2", one).await;
    let three = s.update("a", "3", two).await;
    s.compact(two).await.expect("the store compacts");
    let compacted = StorageError::Compacted { oldest: two };
    assert_eq!(s.get(&s.key("a"), Some(one)).await, Err(compacted.clone()));
    let request = RangeRequest {
        prefix: s.prefix.clone(),
        revision: Some(one),
        ..RangeRequest::default()
    };
    assert_eq!(s.range(request).await.err(), Some(compacted));
    assert_eq!(s.read_at("a", two).await.as_deref(), Some("2"));
    assert_eq!(s.read_at("a", three).await.as_deref(), Some("3"));
    assert_eq!(s.shown(&s.page(|request| request.revision = Some(two)).await), ["a=2"]);
}

pub(super) async fn newest_entries_stay_and_deleted_keys_go(s: Subject) {
    let old = s.create("old", "1").await;
    let gone = s.create("gone", "1").await;
    s.remove("gone", gone).await;
    let horizon = s.create("new", "1").await;
    s.compact(horizon).await.expect("the store compacts");
    assert_eq!(s.shown(&s.page(|_| {}).await), ["new=1", "old=1"]);
    assert_eq!(
        s.shown(&s.page(|request| request.revision = Some(horizon)).await),
        ["new=1", "old=1"]
    );
    let after = s.update("old", "2", old).await;
    assert_eq!(s.read_at("old", horizon).await.as_deref(), Some("1"));
    assert_eq!(s.create("gone", "2").await, after + 1);
    assert_eq!(s.read_at("gone", after).await, None);
}

pub(super) async fn compacting_again_fails(s: Subject) {
    let one = s.create("a", "1").await;
    let two = s.update("a", "2", one).await;
    s.compact(two).await.expect("the store compacts");
    let compacted = Err(StorageError::Compacted { oldest: two });
    assert_eq!(s.compact(two).await, compacted);
    assert_eq!(s.compact(one).await, compacted);
    let three = s.update("a", "3", two).await;
    assert_eq!(s.compact(three).await, Ok(()));
}

pub(super) async fn horizon_is_known(s: Subject) {
    let one = s.create("a", "1").await;
    let two = s.update("a", "2", one).await;
    assert!(s.compacted() <= one, "this is not compacted");
    s.compact(one).await.expect("the store compacts");
    assert_eq!(s.compacted(), one);
    assert!(s.compact(one).await.is_err());
    assert_eq!(s.compacted(), one);
    s.compact(two).await.expect("the store compacts");
    assert_eq!(s.compacted(), two);
}

pub(super) async fn future_revision_fails(s: Subject) {
    let current = s.create("a", "1").await;
    assert_eq!(s.compact(current + 1).await, Err(StorageError::Future { current }));
    assert_eq!(s.read_at("a", current).await.as_deref(), Some("1"));
}

pub(super) async fn watch_from_before_fails_and_from_the_horizon_works(s: Subject) {
    let one = s.create("a", "1").await;
    let two = s.update("a", "2", one).await;
    let three = s.update("a", "3", two).await;
    let four = s.remove("a", three).await;
    s.compact(two).await.expect("the store compacts");
    for after in [0, one - 1, one] {
        assert_eq!(
            s.watch_failure(after).await,
            StorageError::Compacted { oldest: two },
            "after {after}"
        );
    }
    let mut watch = s.watch_from(two).await;
    let events = watch.events(2).await;
    assert_eq!(s.described(&events), [format!("a=3@{three}"), format!("a-@{four}")]);
    let previous = events
        .iter()
        .map(|event| event.previous().expect("not compacted").mod_revision);
    assert!(previous.eq([two, three]));
}

pub(super) async fn open_watch_goes_on(s: Subject) {
    let one = s.create("a", "1").await;
    let mut watch = s.watch_from(one).await;
    let two = s.update("a", "2", one).await;
    assert_eq!(s.described(&watch.events(1).await), [format!("a=2@{two}")]);
    s.compact(two).await.expect("the store compacts");
    let three = s.update("a", "3", two).await;
    assert_eq!(s.described(&watch.events(1).await), [format!("a=3@{three}")]);
}
