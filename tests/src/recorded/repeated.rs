//! Steps that are sent again and again until their answer is what they wait for, as they were when they were recorded.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::normal::Normalizer;
use super::variables::substitute_text;
use super::{Peers, Scenario};
use crate::http::{Answer, Client};
use crate::receiver::Receiver;
use crate::server::ADMIN_TOKEN;

/// The time limit for what the recorded server did before the client's next request; one that takes longer differs.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);
/// For steps that are repeated until their answer has a certain code.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Part of the paths of quotas.
const QUOTAS: &str = "/resourcequotas";

impl Scenario {
    /// Returns true if a quota counts what its steps write.
    fn has_quotas(&self) -> bool {
        let names_quota = |step: &Value| step["do"].as_str().is_some_and(|request| request.contains(QUOTAS));
        self.steps.iter().any(names_quota)
    }

    /// Returns the places of steps, from 0, that wait for a change but would take the answer from before it too: a server
    /// on which the change takes effect a moment later than on the recorded one would differ.
    /// Steps are judged where an earlier one asked the same.
    pub fn steps_that_do_not_wait(&self) -> Vec<usize> {
        let recorded = HashMap::from([("ns".to_owned(), "<ns>".to_owned())]);
        let takes_old_answer = |(number, step): (usize, &Value)| {
            let request = step["do"].as_str()?;
            let wait = Wait::of(step, request, &recorded);
            let asks_the_same = |other: &Value| ["do", "body", "as"].iter().all(|part| other[*part] == step[*part]);
            let earlier = self.steps.get(..number)?;
            let place = earlier.iter().rposition(asks_the_same)?;
            let before = earlier.get(place)?;
            // With another value of a variable it is another request.
            let keeps_values = earlier.get(place..)?.iter().any(|between| between["keep"].is_object());
            let [answer_before, answer] = [&before["expect"], &step["expect"]];
            let has_changed = ["code", "body"].iter().any(|part| answer_before[part] != answer[part]);
            let would_do = wait.ends_with(answer_before["code"].as_u64()?, &answer_before["body"].to_string());
            (!wait.patience.is_zero() && has_changed && would_do && !keeps_values).then_some(number)
        };
        self.steps.iter().enumerate().filter_map(takes_old_answer).collect()
    }

    /// Waits before a step that says so until the receiver has got all that is recorded: the step ends what asks it.
    pub(super) fn wait_until_asked(&self, peers: &Peers<'_>, step: &Value, normalizer: &Normalizer) {
        let (Some(script), Some(receiver), true) = (&self.receiver, peers.receiver, step["asked"] == true) else {
            return;
        };
        let begun = Instant::now();
        while script.difference(receiver, normalizer, 0).next().is_some() && begun.elapsed() < SETTLES_WITHIN {
            std::thread::sleep(ASKED_AGAIN_AFTER);
        }
    }
}

/// Repeats a step that says so until its answer is what it waits for. What the scenario's receiver is asked by writes before that
/// does not count.
pub(super) fn send_until(
    scenario: &Scenario,
    peers: &Peers<'_>,
    step: &Value,
    variables: &HashMap<String, String>,
    send: impl Fn() -> std::io::Result<Answer>,
) -> std::io::Result<Answer> {
    let begun = Instant::now();
    let request = step["do"].as_str().unwrap_or_default();
    let wait = Wait::of(step, request, variables);
    let path = path_of(request, variables);
    let receiver = peers.receiver.filter(|_| !request.starts_with("GET "));
    if seeks_settled_definition(step) {
        settle_definitions(peers.client)?;
    }
    if is_change(request) {
        // A change of a namespace is judged by the pods in it.
        if is_namespace(&path) {
            let_cache_follow(peers.client, &format!("{path}/pods"));
        }
        // A change of an older object is judged, refused by the store and judged once more, which a receiver sees and a quota
        // counts.
        if scenario.has_quotas() || receiver.is_some_and(|receiver| !receiver.is_asked_by_reads()) {
            let_cache_follow(peers.client, &path);
        }
    }
    let received = receiver.map(|receiver| (receiver, receiver.received().len()));
    let answer = loop {
        let answer = send()?;
        if wait.ends_with(answer.code.into(), &answer.text()) || begun.elapsed() >= wait.patience {
            break answer;
        }
        if let Some((receiver, before)) = received {
            receiver.forget_after(before);
        }
        // Part of the recording: it was asked again and again.
        std::thread::sleep(ASKED_AGAIN_AFTER);
    };
    // What is in a namespace is judged by its labels and its quotas.
    let has_written_quota = path.contains(QUOTAS) && !request.starts_with("GET ");
    if has_written_quota || (is_change(request) && is_namespace(&path)) {
        let_cache_follow(peers.client, &path);
    }
    Ok(answer)
}

fn is_change(request: &str) -> bool {
    ["PATCH ", "PUT ", "DELETE "]
        .iter()
        .any(|method| request.starts_with(method))
}

fn is_namespace(path: &str) -> bool {
    path.strip_prefix("/api/v1/namespaces/")
        .is_some_and(|name| !name.contains('/'))
}

/// Reports whether a step changes a definition, waits for one of its conditions, or shows its names.
fn seeks_settled_definition(step: &Value) -> bool {
    let request = step["do"].as_str().unwrap_or_default();
    let seeks_condition = ["Established", "Terminating"]
        .iter()
        .any(|condition| step["seek"] == *condition);
    let shows_status = request.starts_with("GET ") && step["expect"].to_string().contains("f:acceptedNames");
    (seeks_condition || is_change(request) || shows_status) && request.contains("/customresourcedefinitions/")
}

/// Gives the server the time before the next step that the recorded one was given; its cache until it has what the step wrote,
/// and definitions until they are established.
pub(super) fn give_time(peers: &Peers<'_>, step: &Value, variables: &HashMap<String, String>) {
    let Some(seconds) = step["wait"].as_f64() else {
        return;
    };
    // Part of the recording.
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let request = step["do"].as_str().unwrap_or_default();
    let shows_reads = peers.audit.is_some() || peers.receiver.is_some_and(Receiver::is_asked_by_reads);
    if shows_reads || request.starts_with("GET ") {
        return;
    }
    let_cache_follow(peers.client, &path_of(request, variables));
    if request.contains("/customresourcedefinitions") {
        // A failure shows in the next step.
        let _ = settle_definitions(peers.client);
    }
}

fn path_of(request: &str, variables: &HashMap<String, String>) -> String {
    substitute_text(request.split([' ', '?']).nth(1).unwrap_or_default(), variables)
}

/// The answer that a step waits for, and how long it does.
struct Wait {
    patience: Duration,
    code: Option<u64>,
    /// The text that the answer must have, without blanks, as are the others.
    sought: String,
    /// The text that it must not have any more.
    lacked: Option<String>,
}

impl Wait {
    fn of(step: &Value, request: &str, variables: &HashMap<String, String>) -> Self {
        let text = |key: &str| {
            step[key]
                .as_str()
                .map(|text| compact(&substitute_text(text, variables)))
        };
        let is_of_node = step["as"].as_str().is_some_and(|token| token.starts_with("node"));
        let is_read = request.starts_with("GET ");
        let is_of_cache = is_read && request.ends_with("resourceVersion=0");
        if (is_of_node || is_of_cache) && step["until"].is_null() {
            // What nodes may do follows their pods a moment later, and caches follow the store, as in kube-apiserver, which was
            // faster with both than the client with its next request. A node that may not is told that it `cannot`.
            let may = is_of_node && !compact(&step["expect"].to_string()).contains("cannot");
            return Self {
                patience: SETTLES_WITHIN,
                code: step["expect"]["code"].as_u64().filter(|_| !may || is_read),
                sought: String::new(),
                lacked: may.then(|| "cannot".to_owned()),
            };
        }
        let (patience, code) = match step["retry"].as_f64() {
            Some(patience) => (Duration::from_secs_f64(patience), step["until"].as_u64().or(Some(200))),
            None => (Duration::ZERO, None),
        };
        Self {
            patience,
            code,
            sought: text("seek").unwrap_or_default(),
            lacked: text("lacks"),
        }
    }

    fn ends_with(&self, code: u64, answer: &str) -> bool {
        let answer = compact(answer);
        let has_gone = self.lacked.as_ref().is_none_or(|text| !answer.contains(text));
        self.code.is_none_or(|wanted| wanted == code) && answer.contains(&self.sought) && has_gone
    }
}

/// A text without its blanks: Python's JSON has some, which is how texts of recordings are written.
fn compact(text: &str) -> String {
    text.replace(' ', "")
}

/// Waits until a cache has what was written last, by a read that does: the recorded server's was faster than the client with its
/// next request. Failures show in the step.
fn let_cache_follow(client: &Client, path: &str) {
    let _ = client.with_token(ADMIN_TOKEN).get(path);
}

/// Waits until the names of all definitions are judged, those that can be are established, and the deletion of those that are
/// deleted has begun: the recorded server was faster with it than the client with its next request. Here a definition is
/// established when every replica serves it, a moment after the first one does.
fn settle_definitions(client: &Client) -> std::io::Result<()> {
    let begun = Instant::now();
    loop {
        let answer = client
            .with_token(ADMIN_TOKEN)
            .get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")?;
        let list: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
        let mut definitions = list["items"].as_array().into_iter().flatten();
        if definitions.all(is_settled) || begun.elapsed() >= SETTLES_WITHIN {
            return Ok(());
        }
        std::thread::sleep(ASKED_AGAIN_AFTER);
    }
}

fn is_settled(definition: &Value) -> bool {
    let condition = |kind: &str| {
        let mut all = definition["status"]["conditions"].as_array().into_iter().flatten();
        all.find(|condition| condition["type"] == kind)
            .cloned()
            .unwrap_or_default()
    };
    let [wanted, accepted] = ["/spec/names", "/status/acceptedNames"].map(|names| definition.pointer(names));
    let has_names = ["shortNames", "categories"]
        .iter()
        .all(|field| wanted.and_then(|names| names.get(field)) == accepted.and_then(|names| names.get(field)));
    let is_terminating = definition["metadata"]["deletionTimestamp"].is_string();
    (is_terminating && condition("Terminating")["reason"] != "InstanceDeletionPending")
        || condition("NamesAccepted")["status"] == "False"
        || (!is_terminating && has_names && condition("Established")["status"] == "True")
}
