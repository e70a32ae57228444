//! Reading and writing single keys.

use bytes::Bytes;

use super::subject::{Subject, committed, text};
use crate::{Compare, KeyValue, PutOptions, StorageError, WriteOutcome};

pub(super) async fn create_then_get(s: Subject) {
    let revision = s.create("a", "1").await;
    let (entry, newest) = s.get(&s.key("a"), None).await.expect("the store answers");
    let expected = KeyValue {
        key: s.key("a").into(),
        value: Bytes::from_static(b"1"),
        create_revision: revision,
        mod_revision: revision,
    };
    assert_eq!(entry, Some(expected));
    assert!(newest >= revision);
}

pub(super) async fn create_of_existing_key_conflicts(s: Subject) {
    let revision = s.create("a", "1").await;
    let WriteOutcome::Conflict(Some(entry)) = s.write("a", "2", Compare::Absent).await else {
        panic!("a conflict with the existing entry");
    };
    assert_eq!((text(&entry).as_str(), entry.mod_revision), ("1", revision));
    assert_eq!(s.read("a").await, Some(entry));
}

pub(super) async fn get_of_missing_key_is_none(s: Subject) {
    let revision = s.create("other", "1").await;
    let (entry, newest) = s.get(&s.key("a"), None).await.expect("the store answers");
    assert_eq!(entry, None);
    assert!(newest >= revision);
}

pub(super) async fn update_keeps_create_revision(s: Subject) {
    let created = s.create("a", "1").await;
    let updated = s.update("a", "2", created).await;
    let entry = s.read("a").await.expect("the key exists");
    assert!(updated > created);
    assert_eq!((entry.create_revision, entry.mod_revision), (created, updated));
    assert_eq!(text(&entry), "2");
}

pub(super) async fn update_with_stale_revision_conflicts(s: Subject) {
    let created = s.create("a", "1").await;
    let updated = s.update("a", "2", created).await;
    let WriteOutcome::Conflict(Some(entry)) = s.write("a", "3", Compare::ModRevision(created)).await else {
        panic!("a conflict with the newer entry");
    };
    assert_eq!(
        (text(&entry).as_str(), entry.create_revision, entry.mod_revision),
        ("2", created, updated)
    );
}

pub(super) async fn update_of_missing_key_conflicts(s: Subject) {
    assert_eq!(
        s.write("a", "1", Compare::ModRevision(1)).await,
        WriteOutcome::Conflict(None)
    );
    assert_eq!(s.read("a").await, None);
}

pub(super) async fn delete_removes(s: Subject) {
    let created = s.create("a", "1").await;
    let deleted = s.remove("a", created).await;
    assert!(deleted > created);
    assert_eq!(s.read("a").await, None);
}

pub(super) async fn delete_with_stale_revision_conflicts(s: Subject) {
    let created = s.create("a", "1").await;
    let updated = s.update("a", "2", created).await;
    let outcome = s.delete(&s.key("a"), created, None).await.expect("the store answers");
    let WriteOutcome::Conflict(Some(entry)) = outcome else {
        panic!("a conflict with the newer entry")
    };
    assert_eq!((text(&entry).as_str(), entry.mod_revision), ("2", updated));
    assert!(s.read("a").await.is_some());
}

pub(super) async fn delete_of_missing_key_conflicts(s: Subject) {
    assert_eq!(s.delete(&s.key("a"), 1, None).await, Ok(WriteOutcome::Conflict(None)));
    let created = s.create("a", "1").await;
    s.remove("a", created).await;
    assert_eq!(
        s.delete(&s.key("a"), created, None).await,
        Ok(WriteOutcome::Conflict(None))
    );
}

pub(super) async fn recreated_key_has_new_create_revision(s: Subject) {
    let created = s.create("a", "1").await;
    let deleted = s.remove("a", created).await;
    let again = s.create("a", "2").await;
    let entry = s.read("a").await.expect("the key exists");
    assert!(again > deleted);
    assert_eq!((entry.create_revision, entry.mod_revision), (again, again));
}

pub(super) async fn empty_value_is_kept(s: Subject) {
    s.create("a", "").await;
    assert_eq!(s.read("a").await.expect("the key exists").value, Bytes::new());
}

pub(super) async fn one_mebibyte_value_is_kept(s: Subject) {
    let value: Bytes = (0..1_u32 << 20)
        .map(|i| i.to_le_bytes()[usize::from(i % 3 == 0)])
        .collect();
    let put = s
        .put(&s.key("a"), value.clone(), Compare::Absent, PutOptions::default())
        .await;
    let revision = committed(put.expect("1 MiB fits"));
    let entry = s.read("a").await.expect("the key exists");
    assert_eq!((entry.value == value, entry.mod_revision), (true, revision));
}

pub(super) async fn too_large_request_is_refused(s: Subject) {
    let before = s.read_index().await.expect("the store answers");
    for bytes in [1_600_000, 3 << 20] {
        let put = s
            .put(
                &s.key("a"),
                vec![b'x'; bytes].into(),
                Compare::Absent,
                PutOptions::default(),
            )
            .await;
        assert_eq!(put, Err(StorageError::TooLarge), "{bytes} bytes");
    }
    assert_eq!(s.read("a").await, None);
    assert_eq!(s.read_index().await, Ok(before));
}

pub(super) async fn odd_keys_are_kept_apart(s: Subject) {
    let names = [
        "\0",
        "\0\0",
        " ",
        "%2e%2e",
        "..",
        "/",
        "//",
        "a\nb",
        "a\0b",
        "ü",
        "u\u{308}",
        "\u{10ffff}",
        "\u{7f}",
    ];
    for name in names {
        s.create(name, name).await;
    }
    for name in names {
        assert_eq!(text(&s.read(name).await.expect("the key exists")), name);
    }
    assert_eq!(s.page(|_| {}).await.count, names.len());
}

pub(super) async fn empty_key_is_refused(s: Subject) {
    let failed = |error| matches!(error, StorageError::Failed(_));
    let put = s
        .put("", Bytes::from_static(b"1"), Compare::Absent, PutOptions::default())
        .await;
    assert!(put.is_err_and(failed));
    assert!(s.get("", None).await.is_err_and(failed));
    assert!(s.delete("", 1, None).await.is_err_and(failed));
}

pub(super) async fn each_write_takes_one_revision(s: Subject) {
    let first = s.create("a", "1").await;
    let second = s.create("b", "1").await;
    let third = s.update("a", "2", first).await;
    let fourth = s.remove("b", second).await;
    assert_eq!([second, third, fourth], [first + 1, first + 2, first + 3]);
    assert_eq!(s.read_index().await, Ok(fourth));
}

pub(super) async fn conflict_takes_no_revision(s: Subject) {
    let created = s.create("a", "1").await;
    s.write("a", "2", Compare::Absent).await;
    s.write("a", "2", Compare::ModRevision(created + 7)).await;
    s.write("b", "2", Compare::ModRevision(created)).await;
    s.delete(&s.key("b"), created, None).await.expect("the store answers");
    assert_eq!(s.create("c", "1").await, created + 1);
}
