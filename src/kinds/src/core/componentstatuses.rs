//! ComponentStatuses (`pkg/registry/core/componentstatus`): what a look at the other components says, kept by nobody.

use serde_json::{Value, json};
use trireme_registry::{ResourceInfo, Strategy};

use crate::{
    builtin::not_stored,
    columns::{self, column, described},
    kind::Kind,
    values::{items, text},
};

/// Columns and fields of component statuses. There is no registry of them.
pub fn component_statuses() -> ResourceInfo {
    not_stored("", "componentstatuses", kind())
}

/// The status of a component. `error` says why nothing is known of it.
pub fn component_status(name: &str, is_healthy: bool, message: &str, error: &str) -> Value {
    let mut condition = json!({"type": HEALTHY, "status": if is_healthy { "True" } else { "False" }});
    for (field, text) in [("message", message), ("error", error)] {
        if !text.is_empty() {
            condition[field] = json!(text);
        }
    }
    json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name},
        "conditions": [condition],
    })
}

const HEALTHY: &str = "Healthy";

fn kind() -> Kind {
    Kind::new(ComponentStatuses).columns(vec![
        columns::name(),
        column(
            "Status",
            "string",
            described("Status of the component conditions"),
            |object| match health(object) {
                None => "Unknown".into(),
                Some(condition) if text(condition, "status") == "True" => "Healthy".into(),
                Some(_) => "Unhealthy".into(),
            },
        ),
        column(
            "Message",
            "string",
            described("Message of the component conditions"),
            |object| health(object).map_or("", |condition| text(condition, "message")).into(),
        ),
        column(
            "Error",
            "string",
            described("Error of the component conditions"),
            |object| health(object).map_or("", |condition| text(condition, "error")).into(),
        ),
    ])
}

fn health(object: &Value) -> Option<&Value> {
    items(object, "conditions")
        .iter()
        .find(|condition| text(condition, "type") == HEALTHY)
}

/// Nothing is ever written.
struct ComponentStatuses;

impl Strategy for ComponentStatuses {}
