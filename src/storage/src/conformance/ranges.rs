//! Reading many keys, now and in the past.

use super::subject::{Subject, text};
use crate::{RangeRequest, StorageError};

async fn fill(s: &Subject, names: &[&str]) {
    for name in names {
        s.create(name, "1").await;
    }
}

pub(super) async fn entries_come_in_key_order(s: Subject) {
    fill(&s, &["b", "a/2", "a/10", "c", "B", "a"]).await;
    let page = s.page(|_| {}).await;
    assert_eq!(s.shown(&page), ["B=1", "a=1", "a/10=1", "a/2=1", "b=1", "c=1"]);
    assert_eq!((page.more, page.count), (false, 6));
    assert_eq!(Ok(page.revision), s.read_index().await);
}

pub(super) async fn empty_range(s: Subject) {
    let page = s.page(|_| {}).await;
    assert_eq!((page.entries.len(), page.more, page.count), (0, false, 0));
    let limited = s.page(|request| request.limit = 3).await;
    assert_eq!((limited.entries.len(), limited.more, limited.count), (0, false, 0));
}

pub(super) async fn prefix_ends_at_its_boundary(s: Subject) {
    fill(&s, &["a/b", "a/b/c", "a/b0", "a/b.", "a/a", "a/c", "a/B"]).await;
    let with_slash = s.page(|request| request.prefix.push_str("a/b/")).await;
    assert_eq!(s.shown(&with_slash), ["a/b/c=1"]);
    let without = s.page(|request| request.prefix.push_str("a/b")).await;
    assert_eq!(s.shown(&without), ["a/b=1", "a/b.=1", "a/b/c=1", "a/b0=1"]);
}

pub(super) async fn prefix_whose_last_byte_is_high(s: Subject) {
    fill(&s, &["ÿ", "ÿa", "\u{100}", "\u{10ffff}", "\u{10ffff}z"]).await;
    let page = s.page(|request| request.prefix.push('ÿ')).await;
    assert_eq!(s.shown(&page), ["ÿ=1", "ÿa=1"]);
    let last = s.page(|request| request.prefix.push('\u{10ffff}')).await;
    assert_eq!(s.shown(&last), ["\u{10ffff}=1", "\u{10ffff}z=1"]);
}

pub(super) async fn limit_more_and_count(s: Subject) {
    fill(&s, &["a", "b", "c"]).await;
    for (limit, length, more) in [(1, 1, true), (2, 2, true), (3, 3, false), (4, 3, false), (0, 3, false)] {
        let page = s.page(|request| request.limit = limit).await;
        assert_eq!(
            (page.entries.len(), page.more, page.count),
            (length, more, 3),
            "limit {limit}"
        );
    }
}

pub(super) async fn start_continues_a_page(s: Subject) {
    fill(&s, &["a", "b", "b/1", "c", "d"]).await;
    let first = s.page(|request| request.limit = 2).await;
    assert_eq!(s.shown(&first), ["a=1", "b=1"]);
    let next = s.page(|request| {
        request.limit = 2;
        request.start = Some(format!("{}\0", first.entries[1].key));
    });
    let next = next.await;
    assert_eq!(
        (s.shown(&next), next.more, next.count),
        (vec!["b/1=1".to_owned(), "c=1".to_owned()], true, 3)
    );
    let inclusive = s.page(|request| request.start = Some(s.key("c"))).await;
    assert_eq!(s.shown(&inclusive), ["c=1", "d=1"]);
}

pub(super) async fn start_outside_the_prefix(s: Subject) {
    fill(&s, &["a/1", "b/1", "c/1"]).await;
    let before = s.page(|request| {
        request.prefix.push_str("b/");
        request.start = Some(s.key("a/"));
    });
    assert_eq!(s.shown(&before.await), ["b/1=1"]);
    let beyond = s.page(|request| {
        request.prefix.push_str("b/");
        request.start = Some(s.key("c/"));
    });
    let beyond = beyond.await;
    assert_eq!((beyond.entries.len(), beyond.more, beyond.count), (0, false, 0));
}

pub(super) async fn old_revision_shows_the_past(s: Subject) {
    let a = s.create("a", "1").await;
    let b = s.create("b", "1").await;
    let a2 = s.update("a", "2", a).await;
    let gone = s.remove("b", b).await;
    let back = s.create("b", "3").await;
    let history: [(_, &[&str]); 5] = [
        (a, &["a=1"]),
        (b, &["a=1", "b=1"]),
        (a2, &["a=2", "b=1"]),
        (gone, &["a=2"]),
        (back, &["a=2", "b=3"]),
    ];
    for (revision, expected) in history {
        let page = s.page(|request| request.revision = Some(revision)).await;
        assert_eq!(
            (s.shown(&page).as_slice(), page.count),
            (&*own(expected), expected.len()),
            "at {revision}"
        );
        assert!(page.revision >= back, "the page names the newest revision");
    }
}

fn own(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

pub(super) async fn pages_at_one_revision_ignore_later_writes(s: Subject) {
    fill(&s, &["a", "b", "c"]).await;
    let first = s.page(|request| request.limit = 1).await;
    let b = s.read("b").await.expect("the key exists").mod_revision;
    s.update("b", "2", b).await;
    s.create("bb", "2").await;
    let c = s.read("c").await.expect("the key exists").mod_revision;
    s.remove("c", c).await;
    let rest = s.page(|request| {
        request.start = Some(s.key("a\0"));
        request.revision = Some(first.revision);
        request.limit = 2;
    });
    let rest = rest.await;
    assert_eq!((s.shown(&rest), rest.more), (own(&["b=1", "c=1"]), false));
}

pub(super) async fn get_at_old_revisions(s: Subject) {
    let before = s.read_index().await.expect("the store answers");
    let created = s.create("a", "1").await;
    let updated = s.update("a", "2", created).await;
    let deleted = s.remove("a", updated).await;
    let again = s.create("a", "3").await;
    s.create("a/other", "x").await;
    assert_eq!(s.read_at("a", before).await, None);
    assert_eq!(s.read_at("a", created).await.as_deref(), Some("1"));
    assert_eq!(s.read_at("a", updated).await.as_deref(), Some("2"));
    assert_eq!(s.read_at("a", deleted).await, None);
    assert_eq!(s.read_at("a", again).await.as_deref(), Some("3"));
    let (old, newest) = s
        .get(&s.key("a"), Some(updated))
        .await
        .expect("the revision can be read");
    let old = old.expect("the key existed");
    assert_eq!(
        (old.create_revision, old.mod_revision, newest),
        (created, updated, again + 1)
    );
}

pub(super) async fn future_revision_names_the_current_one(s: Subject) {
    let current = s.create("a", "1").await;
    let future = StorageError::Future { current };
    assert_eq!(s.get(&s.key("a"), Some(current + 5)).await, Err(future.clone()));
    let request = RangeRequest {
        prefix: s.prefix.clone(),
        revision: Some(current + 1),
        ..RangeRequest::default()
    };
    assert_eq!(s.range(request).await.err(), Some(future));
}

pub(super) async fn empty_prefix_is_the_whole_keyspace(s: Subject) {
    s.create("a", "here").await;
    let all = s.range(RangeRequest::default()).await.expect("the store answers");
    let ours: Vec<_> = all
        .entries
        .iter()
        .filter(|entry| entry.key.starts_with(&s.prefix))
        .map(text)
        .collect();
    assert_eq!(ours, ["here"]);
    assert_eq!(all.count, all.entries.len());
    assert!(all.entries.is_sorted_by(|one, next| one.key < next.key));
    let from = RangeRequest {
        start: Some(s.key("a")),
        limit: 1,
        ..RangeRequest::default()
    };
    let page = s.range(from).await.expect("the store answers");
    assert_eq!(&*page.entries[0].key, s.key("a"));
}
