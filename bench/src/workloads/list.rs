//! Lists of pods: all of them, in pages, by label and by node.

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use trireme_http::client::StatusCode;

use super::Bench;
use crate::client::{Call, JSON_TYPE, PROTOBUF_TYPE, Session};
use crate::failure::Failure;
use crate::measure::{Limit, LoadOperation, drive};
use crate::objects::{POD_GROUPS, POD_PREFIX};

/// Counts how often a needle occurs in a stream of pieces, also across their borders.
pub(super) struct Counter {
    needle: Vec<u8>,
    border: Vec<u8>,
    pub(super) count: u64,
}

impl Counter {
    /// For the names of objects with this prefix, in JSON.
    pub(super) fn of_names(prefix: &str) -> Self {
        Self::of(format!("\"name\":\"{prefix}"))
    }

    fn of(needle: impl Into<Vec<u8>>) -> Self {
        Self {
            needle: needle.into(),
            border: Vec::new(),
            count: 0,
        }
    }

    /// Looks at the next piece.
    pub(super) fn see(&mut self, piece: &[u8]) {
        let carried = self.needle.len() - 1;
        // The border holds less than a needle on either side, so nothing is counted twice.
        self.border.extend_from_slice(&piece[..piece.len().min(carried)]);
        self.count += memmem::find_iter(&self.border, &self.needle).count() as u64;
        self.count += memmem::find_iter(piece, &self.needle).count() as u64;
        if piece.len() >= carried {
            self.border.clear();
            self.border.extend_from_slice(&piece[piece.len() - carried..]);
        } else {
            let surplus = self.border.len().saturating_sub(carried);
            self.border.drain(..surplus);
        }
    }
}

/// The list that is measured.
#[derive(Debug, Clone)]
struct Listing {
    name: &'static str,
    query: &'static str,
    limit: Option<u64>,
    media_type: &'static str,
    items: u64,
    at_once: usize,
}

/// One caller; with a limit it goes from page to page, each page an operation.
struct ListLoad<'a> {
    session: Session,
    collection: String,
    listing: &'a Listing,
    version: &'static str,
    next_page: Option<String>,
    seen: u64,
}

impl ListLoad<'_> {
    fn call(&self) -> Call {
        let Listing { query, limit, .. } = self.listing;
        let mut path = format!("{}?{query}", self.collection);
        if let Some(limit) = limit {
            path = format!("{path}&limit={limit}");
        }
        Call::get(match &self.next_page {
            // A token brings its own resourceVersion.
            Some(token) => format!("{path}&continue={token}"),
            None => format!("{path}{}", self.version),
        })
        .accepting(self.listing.media_type)
    }

    fn counter(&self) -> Counter {
        match self.listing.media_type {
            PROTOBUF_TYPE => Counter::of(POD_PREFIX),
            _ => Counter::of_names(POD_PREFIX),
        }
    }
}

impl LoadOperation for ListLoad<'_> {
    async fn once(&mut self, _: u64) -> Result<u64, Failure> {
        let call = self.call();
        let mut counter = self.counter();
        let mut head = BytesMut::new();
        let paged = self.listing.limit.is_some();
        let bytes = self.session.stream(&call, StatusCode::OK, |piece| {
            counter.see(piece);
            if paged && head.len() < HEAD_BYTES {
                head.extend_from_slice(piece);
            }
        });
        let bytes = bytes.await?;
        self.seen += counter.count;
        self.next_page = continue_token(&head);
        if self.next_page.is_none() {
            let (seen, items) = (std::mem::take(&mut self.seen), self.listing.items);
            if seen != items {
                let name = self.listing.name;
                return Err(Failure::Wrong(format!("{name}: {seen} items came, {items} are there")));
            }
        }
        Ok(bytes)
    }
}

/// A list's metadata stands before its items.
const HEAD_BYTES: usize = 4096;
const CONTINUE_IN_JSON: &[u8] = b"\"continue\":\"";

fn continue_token(head: &[u8]) -> Option<String> {
    let head = &head[..head.len().min(HEAD_BYTES)];
    let items = memmem::find(head, b"\"items\"").unwrap_or(head.len());
    let begin = memmem::find(&head[..items], CONTINUE_IN_JSON)? + CONTINUE_IN_JSON.len();
    let rest = head.get(begin..items)?;
    let token = &rest[..memchr::memchr(b'"', rest)?];
    (!token.is_empty()).then(|| String::from_utf8_lossy(token).into_owned())
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    bench.ensure_pods().await?;
    for listing in listings(bench.sizes.pods) {
        for (how, version) in [("rv unset", ""), ("rv=0", "&resourceVersion=0")] {
            let name = format!("list pods, {}, {how}", listing.name);
            measure(bench, &name, &listing, version, bench.window()).await?;
        }
    }
    Ok(())
}

/// Measures lists of all pods as protobuf: the first, for which every pod is encoded, and those after it.
pub(super) async fn measure_protobuf(bench: &mut Bench) -> Result<(), Failure> {
    let [all, ..] = listings(bench.sizes.pods);
    let all = Listing {
        media_type: PROTOBUF_TYPE,
        at_once: 1,
        ..all
    };
    let name = "list pods as protobuf, all, rv unset, the first";
    measure(bench, name, &all, "", Limit::Times(1)).await?;
    let all = Listing { at_once: 2, ..all };
    measure(bench, "list pods as protobuf, all, rv unset", &all, "", bench.window()).await
}

async fn measure(
    bench: &mut Bench,
    name: &str,
    listing: &Listing,
    version: &'static str,
    limit: Limit,
) -> Result<(), Failure> {
    let sessions = bench.sessions(listing.at_once).await?;
    let callers = sessions.into_iter().map(|session| ListLoad {
        session,
        collection: bench.path("pods"),
        listing,
        version,
        next_page: None,
        seen: 0,
    });
    let mut callers: Vec<_> = callers.collect();
    let measured = drive(bench.target.pid, limit, &mut callers).await?;
    callers[0].next_page = None;
    let sample = callers[0].call();
    let body: Bytes = callers[0].session.expect(&sample, StatusCode::OK).await?;
    let row = bench.row(name, &measured)?;
    bench.remember(listing.at_once, body);
    bench.report.row(row);
    Ok(())
}

fn listings(pods: u64) -> [Listing; 4] {
    // Group 0 also has what is left over when the pods do not divide evenly.
    let group = pods.div_ceil(POD_GROUPS);
    let listing = |name, query, limit, items, at_once| Listing {
        name,
        query,
        limit,
        media_type: JSON_TYPE,
        items,
        at_once,
    };
    [
        listing("all", "", None, pods, 2),
        listing("pages of 500", "", Some(500), pods, 2),
        listing("by label, 1 in 100", "labelSelector=app%3Dapp-0", None, group, 8),
        listing(
            "by spec.nodeName, 1 in 100",
            "fieldSelector=spec.nodeName%3Dnode-0",
            None,
            group,
            8,
        ),
    ]
}

/// Counts the objects of a resource that have names with this prefix, reading in pages.
pub(super) async fn count(bench: &Bench, resource: &str, prefix: &str) -> Result<u64, Failure> {
    count_in(bench, &bench.path(resource), prefix).await
}

/// Counts the objects of a collection that have names with this prefix.
pub(super) async fn count_in(bench: &Bench, collection: &str, prefix: &str) -> Result<u64, Failure> {
    let mut session = Session::open(&bench.target).await?;
    let (mut count, mut from) = (0, String::new());
    loop {
        let call = Call::get(format!("{collection}?limit=5000{from}"));
        let page = session.expect(&call, StatusCode::OK).await?;
        let mut counter = Counter::of_names(prefix);
        counter.see(&page);
        count += counter.count;
        match continue_token(&page) {
            Some(token) => from = format!("&continue={token}"),
            None => return Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_wherever_the_pieces_end() {
        let text = br#"{"items":[{"name":"pod-1"},{"name":"pod-2"},{"name":"other"},{"name":"pod-3"}]}"#;
        for size in 1..text.len() {
            let mut counter = Counter::of_names("pod-");
            text.chunks(size).for_each(|piece| counter.see(piece));
            assert_eq!(counter.count, 3, "pieces of {size}");
        }
    }

    #[test]
    fn the_token_is_that_of_the_list_and_not_of_an_item() {
        let head = br#"{"kind":"PodList","metadata":{"continue":"abc","resourceVersion":"1"},"items":["#;
        assert_eq!(continue_token(head).as_deref(), Some("abc"));
        assert_eq!(continue_token(br#"{"metadata":{},"items":[{"continue":"no"}"#), None);
        assert_eq!(continue_token(br#"{"metadata":{"continue":""},"items":[]"#), None);
    }
}
