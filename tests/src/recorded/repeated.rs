//! Steps that are sent again and again until their answer is what they wait for, as they were when they were recorded.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::variables::substitute_text;
use super::{Peers, Scenario};
use crate::http::{Answer, Client};
use crate::server::ADMIN_TOKEN;

/// The time limit for what the recorded server did before the client's next request; one that takes longer differs.
const SETTLES_WITHIN: Duration = Duration::from_secs(10);
/// For steps that are repeated until their answer has a certain code.
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(100);

impl Scenario {
    /// Returns the places of steps, from 0, that wait for a change but would take the answer from before it too: a server
    /// on which the change takes effect a moment later than on the recorded one would differ.
    /// Steps are judged where an earlier one asked the same.
    pub fn steps_that_do_not_wait(&self) -> Vec<usize> {
        let takes_old_answer = |(number, step): (usize, &Value)| {
            let request = step["do"].as_str()?;
            let (until, patience) = wait_of(step, request);
            let asks_the_same = |other: &Value| ["do", "body", "as"].iter().all(|part| other[*part] == step[*part]);
            let earlier = self.steps.get(..number)?;
            let place = earlier.iter().rposition(asks_the_same)?;
            let before = earlier.get(place)?;
            // With another value of a variable it is another request.
            let keeps_values = earlier.get(place..)?.iter().any(|between| between["keep"].is_object());
            let [answer_before, answer] = [&before["expect"], &step["expect"]];
            let has_changed = ["code", "body"].iter().any(|part| answer_before[part] != answer[part]);
            let has_code = until.is_none_or(|code| answer_before["code"] == code);
            let recorded = HashMap::from([("ns".to_owned(), "<ns>".to_owned())]);
            let sought = substitute_text(step["seek"].as_str().unwrap_or_default(), &recorded);
            let would_do = has_code && contains(&answer_before["body"].to_string(), &sought);
            (!patience.is_zero() && has_changed && would_do && !keeps_values).then_some(number)
        };
        self.steps.iter().enumerate().filter_map(takes_old_answer).collect()
    }
}

/// Repeats a step that says so until the answer has the code that it waits for, and the text that it seeks. What the scenario's
/// receiver is asked by writes before that does not count.
pub(super) fn send_until(
    peers: &Peers<'_>,
    step: &Value,
    variables: &HashMap<String, String>,
    send: impl Fn() -> std::io::Result<Answer>,
) -> std::io::Result<Answer> {
    let begun = Instant::now();
    let sought = substitute_text(step["seek"].as_str().unwrap_or_default(), variables);
    let request = step["do"].as_str().unwrap_or_default();
    let (until, patience) = wait_of(step, request);
    let seeks_condition = ["Established", "Terminating"]
        .iter()
        .any(|condition| step["seek"] == *condition);
    let is_change = request.starts_with("PATCH ") || request.starts_with("DELETE ");
    let shows_status = request.starts_with("GET ") && step["expect"].to_string().contains("f:acceptedNames");
    if (seeks_condition || is_change || shows_status) && request.contains("/customresourcedefinitions/") {
        settle_definitions(peers.client)?;
    }
    let receiver = peers.receiver.filter(|_| !request.starts_with("GET "));
    let received = receiver.map(|receiver| (receiver, receiver.received().len()));
    loop {
        let answer = send()?;
        let is_it = until.is_none_or(|code| code == u64::from(answer.code)) && contains(&answer.text(), &sought);
        if is_it || begun.elapsed() >= patience {
            return Ok(answer);
        }
        if let Some((receiver, before)) = received {
            receiver.forget_after(before);
        }
        // Part of the recording: it was asked again and again.
        std::thread::sleep(ASKED_AGAIN_AFTER);
    }
}

/// Returns true if an answer has a text of a recording, which has Python's blanks in JSON.
fn contains(answer: &str, recorded: &str) -> bool {
    let compact = |text: &str| text.replace(' ', "");
    compact(answer).contains(&compact(recorded))
}

/// The code that a step is repeated for, and how long. What nodes may read follows their pods a moment later, and caches
/// follow the store, as in kube-apiserver, which was faster with both than the client with its next request.
fn wait_of(step: &Value, request: &str) -> (Option<u64>, Duration) {
    let is_of_node = step["as"].as_str().is_some_and(|token| token.starts_with("node"));
    let is_of_cache = request.ends_with("resourceVersion=0");
    if (is_of_node || is_of_cache) && request.starts_with("GET ") && step["until"].is_null() {
        return (step["expect"]["code"].as_u64(), SETTLES_WITHIN);
    }
    match step["retry"].as_f64() {
        Some(patience) => (step["until"].as_u64().or(Some(200)), Duration::from_secs_f64(patience)),
        None => (None, Duration::ZERO),
    }
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
