//! The refusal of an apply that would change what others own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{entries::ManagerId, path::PathElement, set::FieldSet};
use crate::{ApiError, ErrorDetails, Reason, StatusCause, go_text::quote, json};

/// The fields that others own with other values, by manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflicts(pub(super) BTreeMap<ManagerId, FieldSet>);

impl Conflicts {
    /// The conflicts without those over some fields.
    #[must_use]
    pub fn without(self, fields: &FieldSet) -> Self {
        let rest = self.0.into_iter().filter_map(|(id, contested)| {
            let contested = contested.difference(fields);
            (!contested.is_empty()).then_some((id, contested))
        });
        Self(rest.collect())
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn shown(id: &ManagerId) -> String {
    let mut text = quote(&id.manager);
    if !id.subresource.is_empty() {
        text.push_str(&format!(" with subresource {}", quote(&id.subresource)));
    }
    if !id.applies {
        text.push_str(&format!(" using {}", id.version));
    }
    text
}

/// Makes the text that conflicts are sorted by (`BuildManagerIdentifier` of `k8s.io/apimachinery`): the JSON of the manager's
/// entry without its fields and time, and without the version of an apply.
fn identifier(id: &ManagerId) -> String {
    let mut text = format!(
        r#"{{"manager":{},"operation":"{}""#,
        json_text(&id.manager),
        if id.applies { "Apply" } else { "Update" },
    );
    for (name, value) in [("apiVersion", &id.version), ("subresource", &id.subresource)] {
        if !value.is_empty() {
            text.push_str(&format!(r#","{name}":{}"#, json_text(value)));
        }
    }
    text.push('}');
    text
}

fn json_text(text: &str) -> String {
    json::compact(&Value::from(text).to_string())
}

fn path_text(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// 409 with a cause for each field and manager.
impl From<Conflicts> for ApiError {
    fn from(conflicts: Conflicts) -> Self {
        let mut causes = Vec::new();
        let mut lines = Vec::new();
        let mut sorted: Vec<_> = conflicts.0.iter().collect();
        sorted.sort_by_cached_key(|(id, _)| identifier(id));
        for (id, fields) in sorted {
            lines.push(format!("conflicts with {}:", shown(id)));
            for path in fields.paths() {
                lines.push(format!("- {}", path_text(&path)));
                causes.push(StatusCause {
                    reason: "FieldManagerConflict".into(),
                    message: format!("conflict with {}", shown(id)),
                    field: path_text(&path),
                });
            }
        }
        let message = match causes.as_slice() {
            [one] => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
            many => format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n")),
        };
        Self::new(Reason::Conflict, message).with_details(ErrorDetails {
            causes,
            ..ErrorDetails::default()
        })
    }
}
