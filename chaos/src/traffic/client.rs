//! A client of the load: takes a step at a steady pace, and keeps what a real one would keep from one to the next.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval};
use trireme_http::client::Method;

use super::desk::{Answered, Asked, Asker, Phase, revision};
use super::objects::{BATCH, COLOUR, COUNT, ObjectEdit, ObjectPath, Resource};
use super::plan::{How, Plan, RequestedFreshness, Scope, Step};
use super::wire::Call;
use crate::history::{Outcome, RecordedVerb, Revision};

/// The most attempts at a count that meets a conflict.
const COUNT_ATTEMPTS: usize = 5;
/// The number of revisions that a client remembers to ask for exactly.
const REMEMBERED: usize = 16;

/// One client.
pub(crate) struct TrafficClient {
    asker: Asker,
    plan: Plan,
    pace: Duration,
    /// The last state seen of each object.
    known: HashMap<ObjectPath, Value>,
    /// Revisions that this client got in answers, newest last.
    seen_revisions: Vec<Revision>,
}

impl TrafficClient {
    pub(crate) fn new(asker: Asker, plan: Plan, pace: Duration) -> Self {
        Self {
            asker,
            plan,
            pace,
            known: HashMap::new(),
            seen_revisions: Vec::new(),
        }
    }

    /// Steps until the load is over. What is missed while a request hangs is not made up for.
    pub(crate) async fn run(mut self) {
        let mut ticks = interval(self.pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while self.asker.desk.phase() == Phase::Load {
            ticks.tick().await;
            match self.plan.next() {
                Step::Create(place) => self.create(&place, None).await,
                Step::CreateInBatch(place) => self.create(&place, Some(self.plan.batch())).await,
                Step::Get(place, freshness) => drop(self.get(&place, freshness).await),
                Step::List(scope, freshness, limit) => self.list(&scope, freshness, limit).await,
                Step::Change(place, how) => self.change(&place, how).await,
                Step::Count(place, how) => self.count(&place, how).await,
                Step::Delete(place) => self.delete(&place).await,
                Step::DeleteBatch(resource, namespace) => self.delete_batch(resource, namespace).await,
            }
        }
    }

    fn draw(&mut self) -> ObjectEdit {
        let attempt = self.asker.next_attempt();
        ObjectEdit::draw(self.plan.rng(), attempt)
    }

    /// Sends a write or read of one object and remembers the state in the answer.
    async fn ask(&mut self, place: &ObjectPath, asked: Asked) -> Answered {
        let answered = self.asker.ask(asked).await;
        match answered.outcome {
            Outcome::Ok if answered.rv().is_some() => {
                self.seen_revisions.extend(revision(&answered.body["metadata"]));
                self.known.insert(place.clone(), answered.body.clone());
            }
            _ => drop(self.known.remove(place)),
        }
        if self.seen_revisions.len() > REMEMBERED {
            self.seen_revisions.remove(0);
        }
        answered
    }

    async fn create(&mut self, place: &ObjectPath, batch: Option<String>) {
        let change = ObjectEdit { batch, ..self.draw() };
        let asked = Asked::new(change.create(place), RecordedVerb::Create, place.key(), change.attempt);
        self.ask(place, asked).await;
    }

    async fn get(&mut self, place: &ObjectPath, freshness: RequestedFreshness) -> Answered {
        let rv = match freshness {
            // One object cannot be read as of a revision.
            RequestedFreshness::Newest | RequestedFreshness::Exact => None,
            RequestedFreshness::Any => Some("0".to_owned()),
            RequestedFreshness::Seen => self.seen_revisions.iter().max().map(ToString::to_string),
        };
        let path = match &rv {
            Some(rv) => format!("{}?resourceVersion={rv}", place.path()),
            None => place.path(),
        };
        let attempt = self.asker.next_attempt();
        let mut asked = Asked::new(Call::get(path), RecordedVerb::Get, place.key(), attempt);
        asked.request_rv = rv;
        self.ask(place, asked).await
    }

    async fn list(&mut self, scope: &Scope, freshness: RequestedFreshness, limit: Option<u32>) {
        let rv = match freshness {
            RequestedFreshness::Newest => None,
            RequestedFreshness::Any => Some("0".to_owned()),
            RequestedFreshness::Seen => self.seen_revisions.iter().max().map(ToString::to_string),
            RequestedFreshness::Exact => self.seen_revisions.first().map(ToString::to_string),
        };
        let exact = freshness == RequestedFreshness::Exact && rv.is_some();
        let mut query = Vec::from_iter(
            scope
                .selector()
                .map(|selector| format!("labelSelector={}", encoded(&selector))),
        );
        query.extend(limit.map(|limit| format!("limit={limit}")));
        let mut first = query.clone();
        first.extend(rv.as_ref().map(|rv| format!("resourceVersion={rv}")));
        first.extend(exact.then(|| "resourceVersionMatch=Exact".to_owned()));
        let mut path = format!("{}?{}", scope.resource.collection(scope.namespace), first.join("&"));
        let chain = self.asker.next_attempt();
        for page in 0.. {
            let mut asked = Asked::new(
                Call::get(path),
                RecordedVerb::List,
                scope.resource.key(scope.namespace),
                String::new(),
            );
            asked.attempt = if page == 0 {
                chain.clone()
            } else {
                self.asker.next_attempt()
            };
            asked.selector = scope
                .colour
                .map(|colour| (COLOUR.to_owned(), colour.to_owned()))
                .into_iter()
                .collect();
            asked.page = Some((chain.clone(), page));
            if page == 0 {
                asked.request_rv.clone_from(&rv);
                asked.rv_match = exact.then(|| "Exact".to_owned());
            }
            let answered = self.asker.ask(asked).await;
            if answered.outcome == Outcome::Ok {
                self.seen_revisions.extend(revision(&answered.body["metadata"]));
            }
            let token = answered.body["metadata"]["continue"].as_str().unwrap_or_default();
            if answered.outcome != Outcome::Ok || token.is_empty() {
                return;
            }
            let mut next = query.clone();
            next.push(format!("continue={}", encoded(token)));
            path = format!("{}?{}", scope.resource.collection(scope.namespace), next.join("&"));
        }
    }

    async fn change(&mut self, place: &ObjectPath, how: How) {
        let seen = self
            .known
            .get(place)
            .and_then(|object| object["metadata"]["resourceVersion"].as_str());
        let seen = seen.map(str::to_owned);
        let over = match (how, seen) {
            (How::BlindMergePatch | How::JsonPatch, _) => None,
            (_, Some(seen)) => Some(seen),
            // A client that does not know the object reads it first, and has done its step if there is none.
            (_, None) => match self.get(place, RequestedFreshness::Newest).await.rv() {
                Some(rv) => Some(rv.to_owned()),
                None => return,
            },
        };
        let change = self.draw();
        let (call, verb) = match (how, &over) {
            (How::Update, Some(over)) => (change.update(place, over), RecordedVerb::Update),
            (How::JsonPatch, _) => (change.json_patch(place, None), RecordedVerb::Patch),
            (_, over) => (change.merge_patch(place, over.as_deref()), RecordedVerb::Patch),
        };
        let mut asked = Asked::new(call, verb, place.key(), change.attempt);
        asked.request_rv = over;
        self.ask(place, asked).await;
    }

    /// Counts up by one. After an attempt of which nothing is known, the count is left as it is.
    async fn count(&mut self, place: &ObjectPath, how: How) {
        for _ in 0..COUNT_ATTEMPTS {
            let read = self.get(place, RequestedFreshness::Newest).await;
            let count = read.body["metadata"]["annotations"][COUNT]
                .as_str()
                .and_then(|text| text.parse().ok());
            let (Some(count), Some(over)) = (count, read.rv()) else {
                return;
            };
            let change = ObjectEdit {
                count: Some(count + 1),
                ..self.draw()
            };
            let (call, verb) = match how {
                How::Update => (change.update(place, over), RecordedVerb::Update),
                How::JsonPatch => (change.json_patch(place, Some(count)), RecordedVerb::Patch),
                How::MergePatch | How::BlindMergePatch => (change.merge_patch(place, Some(over)), RecordedVerb::Patch),
            };
            let mut asked = Asked::new(call, verb, place.key(), change.attempt);
            asked.request_rv = (how != How::JsonPatch).then(|| over.to_owned());
            asked.increments = true;
            // 422 is what a test in a JSON patch says of a count that has moved on.
            if !matches!(self.ask(place, asked).await.code, 409 | 422) {
                return;
            }
        }
    }

    async fn delete(&mut self, place: &ObjectPath) {
        let attempt = self.asker.next_attempt();
        let call = Call {
            method: Method::DELETE,
            ..Call::get(place.path())
        };
        let asked = Asked::new(call, RecordedVerb::Delete, place.key(), attempt);
        self.ask(place, asked).await;
    }

    /// One request, recorded as the deletion of each object that it names, or of each that it may have deleted if that
    /// is not known.
    async fn delete_batch(&mut self, resource: Resource, namespace: &'static str) {
        let attempt = self.asker.next_attempt();
        let selector = encoded(&format!("{BATCH}={}", self.plan.batch()));
        let path = format!("{}?labelSelector={selector}", resource.collection(Some(namespace)));
        let call = Call {
            method: Method::DELETE,
            ..Call::get(path)
        };
        let asked = Asked::new(call, RecordedVerb::Delete, resource.key(Some(namespace)), attempt);
        let (op, answered) = self.asker.ask_unrecorded(asked).await;
        let deleted: BTreeMap<String, Option<String>> = match op.outcome {
            Outcome::Ok => answered
                .items()
                .into_iter()
                .map(|item| (item.name, Some(item.uid)))
                .collect(),
            _ => self.plan.batch_names().into_iter().map(|name| (name, None)).collect(),
        };
        for (number, (name, uid)) in deleted.into_iter().enumerate() {
            let mut each = op.clone();
            each.attempt = format!("{}.{number}", op.attempt);
            each.key.name.clone_from(&name);
            (each.uid, each.rv, each.hash) = (uid, None, None);
            self.asker.desk.recorder.op(&each);
            self.known.remove(&ObjectPath {
                resource,
                namespace,
                name,
            });
        }
    }
}

/// A value in a query.
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(letter).collect()
}
