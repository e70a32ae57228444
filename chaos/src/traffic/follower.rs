//! A client that keeps a copy of a collection by watching it, as informers do: it reads the state once, then watches,
//! and after every end of a stream goes on at another address from the last revision that it knows.
//!
//! Only a 410 makes it read the state anew. So the concatenation of its streams must lack nothing.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::Phase;
use super::desk::{Asked, Asker, item, revision};
use super::lines::{BodyLines, Next};
use super::objects::COLOUR;
use super::plan::Scope;
use super::wire::{Address, Call, HttpReply, Protocol};
use crate::history::{
    CacheRecord, Key, ListedItem, Outcome, RecordKind, RecordedVerb, Revision, StreamEnd, WatchEnd, WatchEvent,
    WatchOpened, WatchRecord,
};

/// Between two attempts to open a stream.
const RETRY: Duration = Duration::from_millis(100);
/// The time beyond that asked for that a stream may last before the client gives it up: its server is stuck.
const GRACE: Duration = Duration::from_secs(2);
/// The longest stream, in seconds, if the follower hops.
const HOPS_S: std::ops::Range<u64> = 2..7;

/// The manner of a follower.
#[derive(Debug, Clone)]
pub(crate) struct Manner {
    pub(crate) scope: Scope,
    /// The servers that it asks, one after the other.
    pub(crate) addresses: Vec<Address>,
    pub(crate) protocol: Protocol,
    /// It asks for short streams, so that it changes its address often.
    pub(crate) hops: bool,
    /// The first stream brings the state (`sendInitialEvents`); else a list does.
    pub(crate) streams_state: bool,
    /// The rate at which it reads, if slowly.
    pub(crate) bytes_per_second: Option<u64>,
}

/// A follower at work.
pub(crate) struct WatchFollower {
    asker: Asker,
    manner: Manner,
    rng: StdRng,
    /// The number of addresses that it has gone through.
    turns: usize,
    /// Up to where the copy is complete; `None` before the state was read.
    at: Option<Revision>,
    copy: HashMap<(String, String), ListedItem>,
}

/// The result of one stream.
struct Ended {
    how: StreamEnd,
    complete_to: Option<Revision>,
}

impl WatchFollower {
    /// Begins at the first address.
    pub(crate) fn new(asker: Asker, manner: Manner, rng: StdRng) -> Self {
        Self {
            asker,
            manner,
            rng,
            turns: 0,
            at: None,
            copy: HashMap::new(),
        }
    }

    /// Follows until the run is over, then records the copy.
    pub(crate) async fn run(mut self) {
        let desk = self.asker.desk.clone();
        let over = desk.stopped();
        tokio::pin!(over);
        loop {
            if self.at.is_none() && !self.manner.streams_state {
                tokio::select! {
                    _ = &mut over => break,
                    () = self.read_state() => {}
                }
                if self.at.is_none() {
                    sleep(RETRY).await;
                    self.turn();
                    continue;
                }
            }
            match self.stream().await {
                StreamEnd::Closed if matches!(desk.phase(), Phase::Stop(_)) => break,
                StreamEnd::Gone410 => self.at = None,
                StreamEnd::Cut | StreamEnd::Refused => sleep(RETRY).await,
                StreamEnd::Clean | StreamEnd::Closed => {}
            }
            if matches!(desk.phase(), Phase::Stop(_)) {
                break;
            }
            self.turn();
        }
        self.record_copy();
    }

    fn turn(&mut self) {
        self.turns += 1;
        let address = self.manner.addresses[self.turns % self.manner.addresses.len()].clone();
        self.asker.turn_to(address, self.manner.protocol);
    }

    fn key(&self) -> Key {
        self.manner.scope.resource.key(self.manner.scope.namespace)
    }

    fn selector(&self) -> BTreeMap<String, String> {
        let colour = self.manner.scope.colour;
        colour
            .map(|colour| (COLOUR.to_owned(), colour.to_owned()))
            .into_iter()
            .collect()
    }

    fn path(&self, query: &str) -> String {
        let scope = &self.manner.scope;
        let selector = scope.colour.map(|colour| format!("&labelSelector={COLOUR}%3D{colour}"));
        format!(
            "{}?{query}{}",
            scope.resource.collection(scope.namespace),
            selector.unwrap_or_default()
        )
    }

    async fn read_state(&mut self) {
        let attempt = self.asker.next_attempt();
        let mut asked = Asked::new(
            Call::get(self.path("limit=0")),
            RecordedVerb::List,
            self.key(),
            attempt.clone(),
        );
        asked.selector = self.selector();
        asked.page = Some((attempt, 0));
        let answered = self.asker.ask(asked).await;
        if answered.outcome == Outcome::Ok {
            let items = answered.items().into_iter();
            self.copy = items
                .map(|item| ((item.namespace.clone(), item.name.clone()), item))
                .collect();
            self.at = revision(&answered.body["metadata"]);
        }
    }

    /// One stream, from beginning to end, recorded.
    async fn stream(&mut self) -> StreamEnd {
        if self.at.is_none() {
            // A stream without its end has not sent the whole state.
            self.copy.clear();
        }
        let stream = self.asker.desk.next_stream();
        let patience = self
            .manner
            .hops
            .then(|| self.rng.random_range(HOPS_S))
            .map(Duration::from_secs);
        let start = WatchOpened {
            client: self.asker.name.clone(),
            stream,
            replica: self.asker.caller().address.name.clone(),
            key: self.key(),
            selector: self.selector(),
            from_rv: self.at,
            reads_per_second: self.manner.bytes_per_second,
            at: self.asker.desk.now(),
        };
        self.asker.desk.recorder.watch(&WatchRecord::Start(start));
        let call = Call::get(self.path(&self.watch_query(patience)));
        let ended = match patience {
            Some(patience) => timeout(patience + GRACE, self.read(stream, &call))
                .await
                .unwrap_or(Ended {
                    how: StreamEnd::Closed,
                    complete_to: None,
                }),
            None => self.read(stream, &call).await,
        };
        let end = WatchEnd {
            stream,
            how: ended.how,
            complete_to: ended.complete_to,
            at: self.asker.desk.now(),
        };
        self.asker.desk.recorder.watch(&WatchRecord::End(end));
        ended.how
    }

    fn watch_query(&self, patience: Option<Duration>) -> String {
        let mut query = "watch=1&allowWatchBookmarks=true".to_owned();
        match self.at {
            Some(at) => query.push_str(&format!("&resourceVersion={at}")),
            None => query.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
        }
        if let Some(patience) = patience {
            query.push_str(&format!("&timeoutSeconds={}", patience.as_secs()));
        }
        query
    }

    async fn read(&mut self, stream: u64, call: &Call) -> Ended {
        let of = |how| Ended { how, complete_to: None };
        let desk = self.asker.desk.clone();
        let over = desk.stopped();
        tokio::pin!(over);
        let opened_while = desk.phase();
        let opened = tokio::select! {
            _ = &mut over => return of(StreamEnd::Closed),
            opened = self.asker.caller().open(call) => opened,
        };
        let mut lines = match opened {
            Ok((code, body)) if code == 200 => BodyLines::new(body, self.manner.bytes_per_second),
            Ok((code, _)) if code == 410 => return of(StreamEnd::Gone410),
            // A replica that stops or is not ready yet: no stream was made.
            Ok((code, _)) if code == 429 || code == 503 => return of(StreamEnd::Cut),
            Ok(_) => return of(StreamEnd::Refused),
            Err(HttpReply::Answer { .. } | HttpReply::NotSent(_) | HttpReply::Lost(_)) => return of(StreamEnd::Cut),
        };
        loop {
            let next = tokio::select! {
                revision = &mut over => {
                    // A stream that was opened later may still be catching up.
                    let was_open = opened_while == Phase::Load && self.manner.bytes_per_second.is_none();
                    return Ended { how: StreamEnd::Closed, complete_to: revision.filter(|_| was_open) };
                }
                next = lines.next() => next,
            };
            match next {
                Next::Line(line) => {
                    if let Some(how) = self.take(stream, &line) {
                        return of(how);
                    }
                }
                Next::End => return of(StreamEnd::Clean),
                Next::Cut => return of(StreamEnd::Cut),
            }
        }
    }

    /// Enters an event into the copy and the history. Returns how the stream ends, if it does.
    fn take(&mut self, stream: u64, line: &[u8]) -> Option<StreamEnd> {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            return Some(StreamEnd::Cut);
        };
        let kind = match event["type"].as_str() {
            Some("ADDED") => RecordKind::Added,
            Some("MODIFIED") => RecordKind::Modified,
            Some("DELETED") => RecordKind::Deleted,
            Some("BOOKMARK") => RecordKind::Bookmark,
            _ => RecordKind::Error,
        };
        let object = &event["object"];
        let rv = revision(&object["metadata"]).unwrap_or_default();
        let is_state = matches!(kind, RecordKind::Added | RecordKind::Modified | RecordKind::Deleted);
        let marks_end = &object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
        let record = WatchEvent {
            stream,
            kind,
            rv,
            object: if is_state { item(object) } else { ListedItem::default() },
            initial_events_end: marks_end,
            at: self.asker.desk.now(),
        };
        self.asker.desk.recorder.watch(&WatchRecord::Event(record.clone()));
        if kind == RecordKind::Error {
            return Some(if object["code"] == 410 {
                StreamEnd::Gone410
            } else {
                StreamEnd::Refused
            });
        }
        self.enter(kind, record, marks_end);
        None
    }

    /// The state that a stream begins with is complete at its bookmark only: before, there is no revision to go on from.
    fn enter(&mut self, kind: RecordKind, event: WatchEvent, marks_end: bool) {
        let place = (event.object.namespace.clone(), event.object.name.clone());
        match kind {
            RecordKind::Deleted => drop(self.copy.remove(&place)),
            RecordKind::Bookmark | RecordKind::Error => {}
            RecordKind::Added | RecordKind::Modified => drop(self.copy.insert(place, event.object)),
        }
        if self.at.is_some() || marks_end {
            self.at = Some(event.rv);
        }
    }

    fn record_copy(&self) {
        let Some(rv) = self.at else { return };
        self.asker.desk.recorder.cache(&CacheRecord {
            holder: self.asker.name.clone(),
            key: self.key(),
            selector: self.selector(),
            rv,
            items: self.copy.values().cloned().collect(),
            at: self.asker.desk.now(),
            // One that reads slowly on purpose has not caught up.
            settled: self.manner.bytes_per_second.is_none(),
        });
    }
}
