//! Writes that hold only as long as a second key is as it was.

use bytes::Bytes;

use super::subject::{Subject, text};
use crate::{Compare, Fence, PutOptions, Revision, StorageError, WriteOutcome};

impl Subject {
    fn fence(&self, mod_revision: Revision) -> Fence {
        Fence {
            key: self.key("fence").into(),
            mod_revision,
            token: 1,
        }
    }

    async fn fenced_put(&self, name: &str, compare: Compare, fence: Fence) -> Result<WriteOutcome, StorageError> {
        let options = PutOptions {
            lease: None,
            fence: Some(fence),
        };
        self.put(&self.key(name), Bytes::from_static(b"fenced"), compare, options)
            .await
    }

    async fn fenced_delete(&self, name: &str, at: Revision, fence: Fence) -> Result<WriteOutcome, StorageError> {
        self.delete(&self.key(name), at, Some(fence)).await
    }
}

pub(super) async fn holder_writes_and_deletes(s: Subject) {
    let held = s.create("fence", "1").await;
    let created = s.fenced_put("a", Compare::Absent, s.fence(held)).await;
    let Ok(WriteOutcome::Committed(created)) = created else {
        panic!("the fence holds: {created:?}")
    };
    let updated = s.fenced_put("a", Compare::ModRevision(created), s.fence(held)).await;
    let Ok(WriteOutcome::Committed(updated)) = updated else {
        panic!("the fence still holds: {updated:?}")
    };
    assert_eq!(text(&s.read("a").await.expect("it was written")), "fenced");
    let deleted = s.fenced_delete("a", updated, s.fence(held)).await;
    assert!(matches!(deleted, Ok(WriteOutcome::Committed(_))), "{deleted:?}");
    assert_eq!(s.read("a").await, None);
}

pub(super) async fn deposed_holder_changes_nothing(s: Subject) {
    let held = s.create("fence", "1").await;
    let there = s.create("a", "old").await;
    s.update("fence", "2", held).await;
    let before = s.read_index().await.expect("the store answers");
    for refused in [
        s.fenced_put("b", Compare::Absent, s.fence(held)).await,
        s.fenced_put("a", Compare::ModRevision(there), s.fence(held)).await,
        s.fenced_delete("a", there, s.fence(held)).await,
    ] {
        assert_eq!(refused, Err(StorageError::Fenced));
    }
    assert_eq!(text(&s.read("a").await.expect("it is still there")), "old");
    assert_eq!(s.read("b").await, None);
    assert_eq!(s.read_index().await, Ok(before), "what is refused takes no revision");
}

pub(super) async fn fence_is_reported_before_a_conflict(s: Subject) {
    let held = s.create("fence", "1").await;
    let there = s.create("a", "old").await;
    s.update("fence", "2", held).await;
    for refused in [
        s.fenced_put("a", Compare::Absent, s.fence(held)).await,
        s.fenced_put("a", Compare::ModRevision(there - 1), s.fence(held)).await,
        s.fenced_put("none", Compare::ModRevision(there), s.fence(held)).await,
        s.fenced_delete("a", there - 1, s.fence(held)).await,
        s.fenced_delete("none", there, s.fence(held)).await,
    ] {
        assert_eq!(refused, Err(StorageError::Fenced));
    }
}

pub(super) async fn conflict_behind_a_fence_is_reported(s: Subject) {
    let held = s.create("fence", "1").await;
    let there = s.create("a", "old").await;
    for conflict in [
        s.fenced_put("a", Compare::Absent, s.fence(held)).await,
        s.fenced_put("a", Compare::ModRevision(there - 1), s.fence(held)).await,
        s.fenced_delete("a", there - 1, s.fence(held)).await,
    ] {
        let Ok(WriteOutcome::Conflict(Some(current))) = conflict else {
            panic!("the fence holds, the key does not: {conflict:?}")
        };
        assert_eq!((text(&current).as_str(), current.mod_revision), ("old", there));
    }
    let missing = s.fenced_delete("none", there, s.fence(held)).await;
    assert_eq!(missing, Ok(WriteOutcome::Conflict(None)));
}

pub(super) async fn removed_fence_stops_only_its_holder(s: Subject) {
    let held = s.create("fence", "1").await;
    s.remove("fence", held).await;
    let refused = s.fenced_put("a", Compare::Absent, s.fence(held)).await;
    assert_eq!(refused, Err(StorageError::Fenced));
    s.create("fence", "1").await;
    let refused = s.fenced_put("a", Compare::Absent, s.fence(held)).await;
    assert_eq!(
        refused,
        Err(StorageError::Fenced),
        "the same value is not the same fence"
    );
    let absent = Fence {
        key: s.key("never").into(),
        mod_revision: 0,
        token: 1,
    };
    let written = s.fenced_put("a", Compare::Absent, absent).await;
    assert!(matches!(written, Ok(WriteOutcome::Committed(_))), "{written:?}");
}

pub(super) async fn no_write_of_a_deposed_holder_comes_after_its_successor(s: Subject) {
    let held = s.create("fence", "1").await;
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let s = s.clone();
            tokio::spawn(async move {
                let mut last = 0;
                for write in 0..1_000 {
                    match s
                        .fenced_put(&format!("{writer}/{write}"), Compare::Absent, s.fence(held))
                        .await
                    {
                        Ok(WriteOutcome::Committed(revision)) => last = revision,
                        Err(StorageError::Fenced) => return Some(last),
                        other => panic!("neither written nor fenced: {other:?}"),
                    }
                }
                None
            })
        })
        .collect();
    while s.read("0/3").await.is_none() {
        tokio::task::yield_now().await;
    }
    let deposed = s.update("fence", "2", held).await;
    for writer in writers {
        let last = writer
            .await
            .expect("no writer fails")
            .expect("all are fenced out in the end");
        assert!(
            last < deposed,
            "a write at {last} after the fence was raised at {deposed}"
        );
    }
}
