//! ComponentStatuses (`pkg/registry/core/componentstatus`): the result of a look at the other components, which is not stored.

use serde_json::Value;
use trireme_registry::Strategy;

use crate::{
    columns::{self, column, described},
    kind::Kind,
    values::{items, text},
};

const HEALTHY: &str = "Healthy";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("", "componentstatuses", ComponentStatusStrategy)
        .columns(vec![
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
        .deprecation("v1 ComponentStatus is deprecated in v1.19+")
}

fn health(object: &Value) -> Option<&Value> {
    items(object, "conditions")
        .iter()
        .find(|condition| text(condition, "type") == HEALTHY)
}

/// Nothing is ever written.
struct ComponentStatusStrategy;

impl Strategy for ComponentStatusStrategy {}
