//! The columns of pods (`printPod`).

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_machinery::pod_resources::is_sidecar;
use trireme_registry::Column;

use crate::{
    columns::{self, column, described, documented, or_none, since, wide},
    values::{integer_at, is_true_at, items, text, text_at},
};

const SPEC: &str = "io.k8s.api.core.v1.PodSpec";
const STATUS: &str = "io.k8s.api.core.v1.PodStatus";

/// All columns in order.
pub(super) fn columns() -> Vec<Column> {
    let ready = "The aggregate readiness state of this pod for accepting traffic.";
    let status = "The aggregate status of the containers in this pod.";
    let restarts = "The number of times the containers in this pod have been restarted and when the last container in \
                    this pod has restarted.";
    vec![
        columns::name(),
        column("Ready", "string", described(ready), |pod| {
            let summary = Summary::of(pod);
            format!("{}/{}", summary.ready, summary.total).into()
        }),
        column("Status", "string", described(status), |pod| {
            Summary::of(pod).reason.into()
        }),
        Column {
            cell: std::sync::Arc::new(|pod, now| Summary::of(pod).restarts(now).into()),
            ..column("Restarts", "string", described(restarts), |_| Value::Null)
        },
        columns::age(),
        wide(column("IP", "string", documented(STATUS, "podIP"), |pod| {
            or_none(text_at(pod, "/status/podIPs/0/ip"))
        })),
        wide(column("Node", "string", documented(SPEC, "nodeName"), |pod| {
            or_none(text_at(pod, "/spec/nodeName"))
        })),
        wide(column(
            "Nominated Node",
            "string",
            documented(STATUS, "nominatedNodeName"),
            |pod| or_none(text_at(pod, "/status/nominatedNodeName")),
        )),
        wide(column(
            "Readiness Gates",
            "string",
            documented(SPEC, "readinessGates"),
            readiness_gates,
        )),
    ]
}

fn part<'a>(pod: &'a Value, part: &str, list: &str) -> &'a [Value] {
    pod.get(part).map_or(&[], |part| items(part, list))
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = part(pod, "spec", "readinessGates");
    if gates.is_empty() {
        return or_none("");
    }
    let is_true = |gate: &&Value| condition(pod, text(gate, "conditionType"), "status") == "True";
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len()).into()
}

fn condition<'a>(pod: &'a Value, kind: &str, field: &str) -> &'a str {
    let found = part(pod, "status", "conditions")
        .iter()
        .find(|condition| text(condition, "type") == kind);
    found.map_or("", |condition| text(condition, field))
}

/// Reports whether a condition of this type has this field. Nothing keeps the types of conditions apart.
fn has_condition(pod: &Value, kind: &str, field: &str, value: &str) -> bool {
    let mut conditions = part(pod, "status", "conditions").iter();
    conditions.any(|condition| text(condition, "type") == kind && text(condition, field) == value)
}

/// The summary of a pod's containers for its columns.
#[derive(Default)]
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    /// The time when the last of the containers that were restarted had ended; empty if that is not known.
    restarted: String,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let (phase, reason) = (text_at(pod, "/status/phase"), text_at(pod, "/status/reason"));
        let sidecars = part(pod, "spec", "initContainers")
            .iter()
            .filter(|container| is_sidecar(container))
            .count();
        let mut summary = Self {
            total: part(pod, "spec", "containers").len() + sidecars,
            reason: if reason.is_empty() { phase } else { reason }.to_owned(),
            ..Self::default()
        };
        if has_condition(pod, "PodScheduled", "reason", super::GATED) {
            summary.reason = super::GATED.to_owned();
        }
        let (initializing, of_sidecars) = summary.add_init_containers(pod);
        if !initializing || condition(pod, "Initialized", "status") == "True" {
            (summary.restarts, summary.restarted) = of_sidecars;
            summary.add_containers(pod);
        }
        if pod.pointer("/metadata/deletionTimestamp").is_some() {
            if reason == "NodeLost" {
                summary.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Failed" | "Succeeded") {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// Says whether they are at it still, and what restarted of those that stay.
    fn add_init_containers(&mut self, pod: &Value) -> (bool, (i64, String)) {
        let declared = part(pod, "spec", "initContainers");
        let mut of_sidecars = (0, String::new());
        for (index, status) in part(pod, "status", "initContainerStatuses").iter().enumerate() {
            self.count_restarts(status);
            let name = text(status, "name");
            let stays = declared
                .iter()
                .any(|container| text(container, "name") == name && is_sidecar(container));
            if stays {
                of_sidecars.0 += integer_at(status, "/restartCount").unwrap_or(0);
                raise(&mut of_sidecars.1, text_at(status, "/lastState/terminated/finishedAt"));
            }
            let ended = status.pointer("/state/terminated");
            let waiting = text_at(status, "/state/waiting/reason");
            if ended.is_some_and(|ended| integer_at(ended, "/exitCode").unwrap_or(0) == 0) {
                continue;
            }
            if stays && is_true_at(status, "/started") {
                self.ready += usize::from(is_true_at(status, "/ready"));
                continue;
            }
            self.reason = match ended {
                Some(ended) => format!("Init:{}", end_of(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", declared.len()),
            };
            return (true, of_sidecars);
        }
        (false, of_sidecars)
    }

    fn add_containers(&mut self, pod: &Value) {
        let mut running = false;
        let mut failure = None;
        for status in part(pod, "status", "containerStatuses").iter().rev() {
            self.count_restarts(status);
            let waiting = text_at(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(ended) = status.pointer("/state/terminated") {
                self.reason = end_of(ended);
                if integer_at(ended, "/exitCode").unwrap_or(0) != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if is_true_at(status, "/ready") && status.pointer("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        if running && has_condition(pod, "Ready", "status", "True") {
            self.reason = "Running".to_owned();
        } else if let Some(failure) = failure {
            self.reason = failure;
        } else if running {
            self.reason = "NotReady".to_owned();
        }
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += integer_at(status, "/restartCount").unwrap_or(0);
        raise(&mut self.restarted, text_at(status, "/lastState/terminated/finishedAt"));
    }

    fn restarts(&self, now: Timestamp) -> String {
        if self.restarts == 0 || self.restarted.is_empty() {
            return self.restarts.to_string();
        }
        format!("{} ({} ago)", self.restarts, since(&self.restarted, now))
    }
}

/// Conditions of a Table's row for a pod that has ended.
pub(super) fn row_conditions(pod: &Value) -> Value {
    let (reason, message) = match text_at(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Value::Null,
    };
    json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }])
}

/// Times of one form are ordered as their texts are.
fn raise(latest: &mut String, time: &str) {
    if time > latest.as_str() {
        time.clone_into(latest);
    }
}

fn end_of(ended: &Value) -> String {
    let (reason, signal) = (text(ended, "reason"), integer_at(ended, "/signal").unwrap_or(0));
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", integer_at(ended, "/exitCode").unwrap_or(0))
    }
}
