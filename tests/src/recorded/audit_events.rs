//! The audit events of the requests of a scenario, held against those that were recorded.
//!
//! Each request of such a scenario has an id of its own in the header `Audit-ID`, by which its events are found.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::{Map, Value, json};

use super::{StepDifference, compare, normal::Normalizer, variables::substitute_text};
use crate::audit_receiver::AuditReceiver;

/// For events that are written after the answer.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const ID_HEADER: &str = "Audit-ID";
/// The fields that no two servers share.
const VOLATILE: [&str; 3] = ["auditID", "requestReceivedTimestamp", "stageTimestamp"];
const LATENCY: &str = "apiserver.latency.k8s.io/";
/// Headers of a post that belong to the client's library, or to one post.
const OF_THE_LIBRARY: [&str; 5] = [
    "content-length",
    "host",
    "transfer-encoding",
    "user-agent",
    "accept-encoding",
];

/// The place of the server's audit events.
#[derive(Clone)]
pub enum AuditTape<'p> {
    /// In a file of lines.
    Log(PathBuf),
    /// At a receiver; each event also names its post.
    Posts {
        /// The receiver.
        receiver: &'p AuditReceiver,
        /// True if it counts how many events a post has.
        counts: bool,
    },
}

/// The ids of the requests of a scenario.
pub(super) struct AuditIds(Vec<String>);

impl AuditIds {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The step with an id, unless it brings its own.
    pub(super) fn identified(&mut self, step: &Value, variables: &HashMap<String, String>) -> Value {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut step = step.clone();
        if step["headers"][ID_HEADER].is_null() {
            let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            step["headers"][ID_HEADER] = format!("{process:08x}-0000-4000-8000-{number:012x}").into();
        }
        let id = step["headers"][ID_HEADER].as_str().unwrap_or_default();
        self.0.push(substitute_text(id, variables));
        step
    }

    /// Waits for the recorded number of events of each step; reports the differences.
    pub(super) fn differences(
        &self,
        tape: &AuditTape<'_>,
        steps: &[Value],
        normalizer: &Normalizer,
    ) -> Vec<StepDifference> {
        let end = Instant::now() + PATIENCE;
        let wanted = |step: &Value| step["expect"]["audit"].as_array().map_or(0, Vec::len);
        let found = loop {
            let found: Vec<Vec<Value>> = self.0.iter().map(|id| tape.events(id)).collect();
            let is_all = found
                .iter()
                .zip(steps)
                .all(|(events, step)| events.len() >= wanted(step));
            if is_all || Instant::now() >= end {
                break found;
            }
            thread::sleep(LOOK_AGAIN);
        };
        let mut errors = Vec::new();
        for (number, (events, step)) in found.into_iter().zip(steps).enumerate() {
            let mut differences = Vec::new();
            let recorded = step["expect"]["audit"].as_array().into_iter().flatten();
            let recorded: Value = recorded.cloned().map(comparable).collect();
            // A step that was repeated has events of each time; those of the last one are recorded.
            let earlier = match step["retry"].is_number() {
                true => events.len().saturating_sub(wanted(step)),
                false => 0,
            };
            let events: Value = events.into_iter().skip(earlier).map(comparable).collect();
            compare(
                &normalizer.apply(&recorded),
                &normalizer.apply(&events),
                ".audit",
                &mut differences,
            );
            let line = |difference: String| StepDifference {
                step: number,
                text: format!("step {number}: {difference}"),
            };
            errors.extend(differences.into_iter().map(line));
        }
        errors
    }
}

impl AuditTape<'_> {
    /// The events of one request, in the order in which they were written.
    fn events(&self, id: &str) -> Vec<Value> {
        let of_request = |event: &Value| event["auditID"] == id;
        match self {
            Self::Log(path) => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
                let events = whole.filter(|line| line.contains(id)).map(event);
                events.filter(of_request).collect()
            }
            Self::Posts { receiver, counts } => {
                let posts = receiver.posts();
                let events = posts.iter().flat_map(|post| posted(post, *counts));
                events.filter(of_request).collect()
            }
        }
    }
}

/// An event of a line: JSON, or a text for people.
fn event(line: &str) -> Value {
    static FIELD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"([\w-]+)="((?:[^"\\]|\\.)*)""#).expect("a valid pattern"));
    if line.starts_with('{') {
        return serde_json::from_str(line).expect("a line is an event");
    }
    let fields = FIELD
        .captures_iter(line)
        .map(|field| (field[1].to_owned(), Value::from(&field[2])));
    let mut fields: Map<String, Value> = fields.collect();
    // The recording took the part behind the dash for the name.
    if let Some(agent) = fields.remove("user-agent") {
        fields.insert("agent".to_owned(), agent);
    }
    json!({"auditID": fields.remove("id"), "stage": fields.get("stage"), "legacy": fields, "time": ""})
}

/// The events of a post, each with what is special about it.
fn posted(post: &Value, counts: bool) -> Vec<Value> {
    let mut list = post["list"].clone();
    let items = list.as_object_mut().and_then(|list| list.remove("items"));
    let Some(Value::Array(mut items)) = items else {
        return Vec::new();
    };
    let mut post = json!({"path": post["path"], "headers": post["headers"], "list": list});
    if counts {
        post["items"] = items.len().into();
    }
    for item in &mut items {
        item["post"] = post.clone();
    }
    items
}

fn comparable(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
        if let Some(annotations) = fields.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !name.starts_with(LATENCY));
            if annotations.is_empty() {
                fields.remove("annotations");
            }
        }
    }
    if let Some(headers) = event.pointer_mut("/post/headers").and_then(Value::as_object_mut) {
        headers.retain(|name, _| !OF_THE_LIBRARY.contains(&name.as_str()));
    }
    event
}
