//! The desk where all that happens is written down: one clock, one recorder, and the signal that the load is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::wire::{Address, Call, HttpCaller, HttpReply, Protocol};
use crate::history::{
    Key, ListedItem, Nanos, Op, Outcome, Purpose, RecordedPage, RecordedVerb, Recorder, Revision, payload_hash,
};

/// The orders to all sources of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Make load.
    Load,
    /// Write no more; watches go on.
    Settle,
    /// End. Everything up to this revision should have come through every stream that was open all the while.
    Stop(Revision),
}

/// The state that all of them share.
#[derive(Debug, Clone)]
pub struct Desk {
    /// The recorder of all records.
    pub recorder: Arc<Recorder>,
    began: Instant,
    phase: watch::Receiver<Phase>,
    streams: Arc<AtomicU64>,
}

impl Desk {
    /// The run begins now.
    pub fn new(recorder: Arc<Recorder>, phase: watch::Receiver<Phase>) -> Self {
        Self {
            recorder,
            began: Instant::now(),
            phase,
            streams: Arc::default(),
        }
    }

    /// Since the run began.
    pub fn now(&self) -> Nanos {
        self.moment(Instant::now())
    }

    /// A moment as histories have it.
    pub fn moment(&self, at: Instant) -> Nanos {
        let since = at.saturating_duration_since(self.began);
        Nanos::try_from(since.as_nanos()).unwrap_or(Nanos::MAX)
    }

    /// The orders.
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Returns when the load is over.
    pub(crate) async fn settling(&self) {
        // An error says that nobody gives orders any more.
        let _ = self.phase.clone().wait_for(|now| *now != Phase::Load).await;
    }

    /// Returns when the run is over, with what should have come through every stream by then.
    pub(crate) async fn stopped(&self) -> Option<Revision> {
        match self
            .phase
            .clone()
            .wait_for(|now| matches!(now, Phase::Stop(_)))
            .await
            .map(|now| *now)
        {
            Ok(Phase::Stop(revision)) => Some(revision),
            _ => None,
        }
    }

    /// A number for a stream.
    pub(crate) fn next_stream(&self) -> u64 {
        self.streams.fetch_add(1, Ordering::Relaxed)
    }
}

/// A request with what its record says of it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) call: Call,
    pub(crate) verb: RecordedVerb,
    pub(crate) key: Key,
    /// The id that the request carries; drawn anew for each.
    pub(crate) attempt: String,
    pub(crate) request_rv: Option<String>,
    pub(crate) rv_match: Option<String>,
    pub(crate) selector: BTreeMap<String, String>,
    pub(crate) increments: bool,
    /// Of a list: the chain and the place in it.
    pub(crate) page: Option<(String, u32)>,
}

impl Asked {
    /// A request about which there is nothing more to say.
    pub(crate) fn new(call: Call, verb: RecordedVerb, key: Key, attempt: String) -> Self {
        Self {
            call,
            verb,
            key,
            attempt,
            request_rv: None,
            rv_match: None,
            selector: BTreeMap::new(),
            increments: false,
            page: None,
        }
    }
}

/// An answer, read.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) code: u16,
    pub(crate) outcome: Outcome,
    pub(crate) body: Value,
}

impl Answered {
    /// The resourceVersion as text.
    pub(crate) fn rv(&self) -> Option<&str> {
        self.body["metadata"]["resourceVersion"]
            .as_str()
            .filter(|rv| !rv.is_empty())
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> Vec<ListedItem> {
        self.body["items"].as_array().into_iter().flatten().map(item).collect()
    }
}

/// An object as a history has it.
pub(crate) fn item(object: &Value) -> ListedItem {
    let metadata = &object["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
    ListedItem {
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
        rv: revision(metadata).unwrap_or_default(),
        hash: payload_hash(object),
    }
}

/// The resourceVersion in an object's or list's metadata.
pub(crate) fn revision(metadata: &Value) -> Option<Revision> {
    metadata["resourceVersion"].as_str()?.parse().ok()
}

/// One who asks, one request at a time, and records each.
pub(crate) struct Asker {
    pub(crate) desk: Desk,
    pub(crate) name: String,
    purpose: Purpose,
    caller: HttpCaller,
    seq: u64,
}

impl Asker {
    pub(crate) fn new(desk: Desk, name: String, purpose: Purpose, address: Address, protocol: Protocol) -> Self {
        Self {
            desk,
            name,
            purpose,
            caller: HttpCaller::new(address, protocol),
            seq: 0,
        }
    }

    /// Asks another server from now on.
    pub(crate) fn turn_to(&mut self, address: Address, protocol: Protocol) {
        self.caller = HttpCaller::new(address, protocol);
    }

    pub(crate) fn caller(&mut self) -> &mut HttpCaller {
        &mut self.caller
    }

    /// An id for the next request.
    pub(crate) fn next_attempt(&mut self) -> String {
        self.seq += 1;
        format!("{}.{}", self.name, self.seq)
    }

    /// Sends, waits for the answer, records both.
    pub(crate) async fn ask(&mut self, asked: Asked) -> Answered {
        let (op, answered) = self.ask_unrecorded(asked).await;
        self.desk.recorder.op(&op);
        answered
    }

    /// The same for a request whose effects are recorded one by one.
    pub(crate) async fn ask_unrecorded(&mut self, mut asked: Asked) -> (Op, Answered) {
        asked.call.audit_id = Some(asked.attempt.clone());
        let called = self.desk.now();
        let reply = self.caller.call(&asked.call).await;
        let returned = self.desk.now();
        let (code, body, error) = read(reply);
        let mut op = self.record(asked, called, returned, code);
        op.error = error;
        if op.outcome == Outcome::Ok {
            describe(&mut op, &body);
        }
        let outcome = op.outcome;
        (op, Answered { code, outcome, body })
    }

    fn record(&self, asked: Asked, called: Nanos, returned: Nanos, code: u16) -> Op {
        let list = asked.page.map(|(chain, page)| RecordedPage {
            chain,
            page,
            ..RecordedPage::default()
        });
        Op {
            client: self.name.clone(),
            seq: self.seq,
            audit_id: asked.attempt.clone(),
            attempt: asked.attempt,
            purpose: self.purpose,
            called,
            returned,
            replica: self.caller.address.name.clone(),
            verb: asked.verb,
            key: asked.key,
            request_rv: asked.request_rv,
            rv_match: asked.rv_match,
            selector: asked.selector,
            code,
            outcome: Outcome::of(code),
            uid: None,
            rv: None,
            hash: None,
            list,
            increments: asked.increments,
            error: String::new(),
        }
    }
}

/// The code, the body, and what to say of it if it is no success.
fn read(reply: HttpReply) -> (u16, Value, String) {
    match reply {
        HttpReply::Answer { code, body } => match serde_json::from_slice::<Value>(&body) {
            Ok(body) if Outcome::of(code) == Outcome::Ok => (code, body, String::new()),
            Ok(body) => {
                let message = body["message"].as_str().unwrap_or_default().to_owned();
                (code, body, message)
            }
            // HAProxy and /readyz answer in plain text.
            Err(_) => (code, Value::Null, text(&body)),
        },
        HttpReply::NotSent(why) => (0, Value::Null, format!("not sent: {why}")),
        HttpReply::Lost(why) => (0, Value::Null, why),
    }
}

fn text(body: &Bytes) -> String {
    String::from_utf8_lossy(body).chars().take(200).collect()
}

/// Enters what a successful answer says.
fn describe(op: &mut Op, body: &Value) {
    let metadata = &body["metadata"];
    op.rv = revision(metadata);
    if let Some(list) = &mut op.list {
        list.items = body["items"].as_array().into_iter().flatten().map(item).collect();
        list.last = metadata["continue"].as_str().unwrap_or_default().is_empty();
    } else if body["kind"] == "Status" {
        op.uid = body["details"]["uid"].as_str().map(str::to_owned);
    } else {
        op.uid = metadata["uid"].as_str().map(str::to_owned);
        op.hash = Some(payload_hash(body));
    }
}
