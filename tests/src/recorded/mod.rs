//! Replays recorded exchanges against a server and reports the scenarios that do not match, with the differences.
//!
//! A file holds one scenario a line; a scenario is a list of steps, each a request with the answer that kube-apiserver
//! gave. Both answers are normalised before they are compared, see `normal`. `tests/reference/README.md` explains the
//! format.

mod audit_events;
mod better;
mod bodies;
mod comparison;
mod echo;
mod headers;
mod identities;
pub mod known;
mod normal;
mod repeated;
mod scripted;
mod spaced;
mod variables;

pub use comparison::compare;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::http::{Answer, Client, Request};
use audit_events::AuditIds;
use identities::Identities;
use normal::Normalizer;
use scripted::Script;
use variables::{substitute, substitute_text};

pub use audit_events::AuditTape;
pub use identities::Peers;

/// Scenarios that run side by side; more only queue on a small machine.
const SIDE_BY_SIDE: usize = 4;
/// The most differences of one step that are reported.
const DIFFERENCES_REPORTED: usize = 4;
/// For steps that read lines and do not say how long.
const DEFAULT_SECONDS: u64 = 10;

/// One line of a recorded file.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name, unique in its file.
    pub name: String,
    own_namespace: bool,
    /// True if its answers' flow schemas and priority levels are recorded by name.
    names_flows: bool,
    receiver: Option<Script>,
    steps: Vec<Value>,
}

/// A scenario that did not match.
#[derive(Debug, Clone, Default)]
pub struct Mismatch {
    /// The scenario.
    pub name: String,
    /// The differences.
    pub differences: Vec<StepDifference>,
    /// The steps that are answered with a client error where a bare 500 is recorded, with its code and reason.
    pub better: BTreeMap<usize, String>,
}

/// A difference between the recorded answer to a step and the one that came.
#[derive(Debug, Clone)]
pub struct StepDifference {
    /// The place of the step in its scenario, from 0.
    pub step: usize,
    /// The request and the difference, in one line.
    pub text: String,
}

/// The results of the scenarios of one file.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Names of those that match.
    pub matching: Vec<String>,
    /// The others.
    pub mismatches: Vec<Mismatch>,
}

/// Reads a recorded file.
pub fn load(path: &Path) -> Vec<Scenario> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .map(|line| {
            let mut value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            Scenario {
                name: value["name"].as_str().expect("a scenario has a name").to_owned(),
                own_namespace: value["namespace"] != Value::Bool(false),
                names_flows: value["flow"] == Value::Bool(true),
                receiver: Script::of(&value),
                steps: match value["steps"].take() {
                    Value::Array(steps) => steps,
                    _ => panic!("{path:?}: a scenario has steps"),
                },
            }
        })
        .collect()
}

/// Replays all scenarios of a file: those that keep to a namespace of their own side by side, then the others in order.
/// `managedFields` are compared or left out.
pub fn replay(client: &Client, scenarios: &[Scenario], compares_managers: bool) -> Replayed {
    replay_with(&Peers::of(client), scenarios, compares_managers)
}

/// As [`replay`], of scenarios in which a webhook is asked, too.
pub fn replay_with(peers: &Peers<'_>, scenarios: &[Scenario], compares_managers: bool) -> Replayed {
    let (apart, others): (Vec<_>, Vec<_>) = scenarios.iter().partition(|scenario| scenario.keeps_to_its_namespace());
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let note = |mismatch: Mismatch| {
        results.lock().unwrap_or_else(PoisonError::into_inner).push(mismatch);
    };
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(scenario) = apart.get(next.fetch_add(1, Ordering::Relaxed)) {
                    note(scenario.run(peers, compares_managers));
                }
            });
        }
    });
    for scenario in others {
        note(scenario.run(peers, compares_managers));
    }
    let mut replayed = Replayed::default();
    for result in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        if result.differences.is_empty() {
            replayed.matching.push(result.name);
        } else {
            replayed.mismatches.push(result);
        }
    }
    replayed
}

impl Scenario {
    /// Returns true if every step reads and writes below the scenario's own namespace only.
    fn keeps_to_its_namespace(&self) -> bool {
        let below = |step: &Value| {
            step["do"]
                .as_str()
                .is_some_and(|request| request.contains("/namespaces/${ns}/"))
        };
        // Flow schemas of one scenario would catch the requests of another.
        self.own_namespace && !self.names_flows && self.steps.iter().all(below)
    }

    /// Runs the scenario; the differences from the record, none if it matches.
    fn run(&self, peers: &Peers<'_>, compares_managers: bool) -> Mismatch {
        let client = peers.client;
        let namespace = fresh_namespace();
        let mut variables = HashMap::from([("ns".to_owned(), namespace.clone())]);
        if self.own_namespace {
            make_namespace(client, &namespace);
        }
        let mut normalizer = Normalizer::new(&namespace, compares_managers);
        let receiver = self.receiver.as_ref();
        let receiver = receiver.map(|script| (script, script.start(&namespace, &mut variables)));
        if let Some((_, receiver)) = &receiver {
            normalizer.hide(receiver);
        }
        let mut ids = AuditIds::new();
        let peers = &Peers {
            receiver: receiver.as_ref().map(|(_, receiver)| receiver),
            ..*peers
        };
        let mut mismatch = self.run_steps(peers, &normalizer, &mut variables, &mut ids);
        if let Some(tape) = peers.audit {
            let of_events = ids.differences(tape, &self.steps, &normalizer);
            mismatch.differences.extend(of_events);
        }
        if let Some((script, receiver)) = &receiver {
            let of_receiver = script.difference(receiver, &normalizer, self.steps.len());
            mismatch.differences.extend(of_receiver.take(DIFFERENCES_REPORTED));
        }
        if self.own_namespace {
            // What is left over does no harm: every scenario has a namespace of its own.
            let _ = client.send(&Request {
                method: "DELETE",
                path: &format!("/api/v1/namespaces/{namespace}"),
                ..Request::default()
            });
        }
        mismatch
    }

    fn run_steps(
        &self,
        peers: &Peers<'_>,
        normalizer: &Normalizer,
        variables: &mut HashMap<String, String>,
        ids: &mut AuditIds,
    ) -> Mismatch {
        let mut identities = Identities::new(*peers);
        let mut mismatch = Mismatch {
            name: self.name.clone(),
            ..Mismatch::default()
        };
        for (number, step) in self.steps.iter().enumerate() {
            let step = match peers.audit {
                Some(_) => &ids.identified(step, variables),
                None => step,
            };
            self.wait_until_asked(peers, step, normalizer);
            let result = self.run_step(&mut identities, step, variables, normalizer);
            let better = better::client_error_for_bare_500(&step["expect"], &result.answer);
            mismatch.better.extend(better.map(|ours| (number, ours)));
            let request = step["do"].as_str().unwrap_or_default();
            let line = |difference: String| StepDifference {
                step: number,
                text: format!("step {number} {}: {difference}", before_query(request)),
            };
            let reported = result.differences.into_iter().take(DIFFERENCES_REPORTED);
            mismatch.differences.extend(reported.map(line));
        }
        mismatch
    }

    fn run_step(
        &self,
        identities: &mut Identities<'_>,
        step: &Value,
        variables: &mut HashMap<String, String>,
        normalizer: &Normalizer,
    ) -> StepResult {
        let answer = match identities.answer(step, &substitute(&step["body"], variables)) {
            Some(answer) => answer,
            None => match repeated::send_until(self, &identities.peers, step, variables, || {
                send_step(identities, step, variables)
            }) {
                Ok(answer) => answer,
                Err(error) => {
                    return StepResult {
                        differences: vec![format!("no answer: {error}")],
                        answer: Value::Null,
                    };
                }
            },
        };
        let body = bodies::parsed(&answer, step["do"].as_str().unwrap_or_default(), step["lines"].is_u64());
        variables::keep(step, &body, variables);
        let mut got = as_recorded(&answer, body);
        if let Some(recorded) = step["expect"]["headers"].as_object() {
            let flows_of = self.names_flows.then_some(identities.peers.client);
            got["headers"] = headers::shown(&answer, recorded.keys(), flows_of);
        }
        if let Some(only) = step["only"].as_str() {
            keep_only(&mut got["body"], &substitute_text(only, variables));
        }
        repeated::give_time(&identities.peers, step, variables);
        StepResult {
            differences: differences(step, &got, normalizer),
            answer: got,
        }
    }
}

fn before_query(request: &str) -> &str {
    request.split('?').next().unwrap_or(request)
}

/// Names like those of the recording: some expectations depend on their length.
fn fresh_namespace() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(
        "ref-{:08x}",
        (number << 16 | u64::from(std::process::id() & 0xffff)) & 0xffff_ffff
    )
}

fn make_namespace(client: &Client, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    // A failure shows in the first step.
    let _ = client.json("POST", "/api/v1/namespaces", &namespace);
    let _ = client.json("POST", &format!("/api/v1/namespaces/{name}/serviceaccounts"), &account);
}

/// A header as the recorder read it: its bytes as ISO 8859-1.
fn as_read(header: &str) -> String {
    header.bytes().map(char::from).collect()
}

/// The outcome of a step.
struct StepResult {
    differences: Vec<String>,
    /// The answer as it is compared; null if none came.
    answer: Value,
}

/// An answer in the form of those that are recorded.
fn as_recorded(answer: &Answer, body: Value) -> Value {
    json!({
        "code": answer.code,
        "type": answer.header("content-type").next().unwrap_or_default().replace(' ', ""),
        "warning": answer.header("warning").map(as_read).collect::<Vec<_>>(),
        "body": body,
    })
}

/// The differences of an answer from that which is recorded for its step.
fn differences(step: &Value, got: &Value, normalizer: &Normalizer) -> Vec<String> {
    let mut expected = step["expect"].clone();
    if let Some(expected) = expected.as_object_mut() {
        // Compared when all steps are done.
        expected.remove("audit");
    }
    let mut differences = Vec::new();
    compare(
        &normalizer.apply(&expected),
        &normalizer.apply(got),
        "",
        &mut differences,
    );
    differences.extend(echo::lost(&step["body"], &step["expect"]["body"], &got["body"]));
    // They say why the others are there.
    let says_why = |line: &String| line.starts_with(".code:") || line.starts_with(".body.message:");
    differences.sort_by_key(|line| !says_why(line));
    differences
}

/// Leaves those of a list that contain a text; others may be other clients'.
fn keep_only(body: &mut Value, text: &str) {
    for field in ["items", "groups"] {
        if let Some(items) = body.get_mut(field).and_then(Value::as_array_mut) {
            items.retain(|item| item.to_string().contains(text));
        }
    }
}

fn send_step(
    identities: &Identities<'_>,
    step: &Value,
    variables: &HashMap<String, String>,
) -> std::io::Result<Answer> {
    let request = substitute_text(step["do"].as_str().unwrap_or_default(), variables);
    let (method, path) = request.split_once(' ').unwrap_or((&request, "/"));
    let body = match (step.get("raw"), step.get("body64"), step.get("body")) {
        (Some(raw), ..) => raw.as_str().map(|raw| substitute_text(raw, variables).into_bytes()),
        (None, Some(bytes), _) => bytes.as_str().and_then(|bytes| STANDARD.decode(bytes).ok()),
        (None, None, Some(body)) => Some(spaced::written(&substitute(body, variables))),
        (None, None, None) => None,
    };
    let has_body = body.is_some();
    let client = identities.client(
        step["as"]
            .as_str()
            .map(|name| substitute_text(name, variables))
            .as_deref(),
    );
    let lines = step["lines"].as_u64().unwrap_or_default();
    let seconds = step["seconds"].as_u64().unwrap_or(DEFAULT_SECONDS);
    // As the recording client, which names no coding that it takes.
    let recorded = ("Accept-Encoding".to_owned(), "identity".to_owned());
    let headers = step["headers"].as_object().into_iter().flatten();
    let headers: Vec<(String, String)> = headers
        .map(|(name, value)| {
            (
                name.clone(),
                substitute_text(value.as_str().unwrap_or_default(), variables),
            )
        })
        .chain([recorded])
        .collect();
    client.send(&Request {
        method,
        path,
        body,
        headers: &headers,
        content_type: step["type"].as_str().or(has_body.then_some("application/json")),
        accept: step["accept"].as_str(),
        lines: (lines > 0).then(|| {
            (
                usize::try_from(lines).unwrap_or(usize::MAX),
                Duration::from_secs(seconds),
            )
        }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{differences, normal::Normalizer};

    #[test]
    fn a_placeholder_does_not_hide_that_another_value_came_than_the_request_set() {
        let service = |port: Value| json!({"spec": {"ports": [{"nodePort": port}]}});
        let step = json!({
            "do": "POST /api/v1/namespaces/${ns}/services",
            "body": service(json!(30001)),
            "expect": {"code": 201, "body": service(json!("<port>"))},
        });
        let of_answer = |port: u16| {
            let got = json!({"code": 201, "body": service(json!(port))});
            differences(&step, &got, &Normalizer::new("ref-1", false))
        };
        assert_eq!(of_answer(30001), Vec::<String>::new());
        assert_eq!(
            of_answer(30002),
            [".spec.ports[0].nodePort: the request set 30001, got 30002"]
        );
    }
}
