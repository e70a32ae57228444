//! The refusal of an apply that would change what others own.

use std::collections::BTreeMap;

use super::{entries::ManagerId, path::PathElement, set::FieldSet};
use crate::{ApiError, ErrorDetails, Reason, StatusCause};

/// The fields that others own with other values, by manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflicts(pub(super) BTreeMap<ManagerId, Contested>);

/// Names the fields of one manager that an apply would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contested {
    pub(super) fields: FieldSet,
    /// `apiVersion` of the manager's entry.
    pub(super) version: String,
    /// `time` of the manager's entry.
    pub(super) time: Option<String>,
}

impl Conflicts {
    /// The conflicts without those over some fields.
    #[must_use]
    pub fn without(self, fields: &FieldSet) -> Self {
        let rest = self.0.into_iter().filter_map(|(id, mut contested)| {
            contested.fields = contested.fields.difference(fields);
            (!contested.fields.is_empty()).then_some((id, contested))
        });
        Self(rest.collect())
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn shown(id: &ManagerId) -> String {
    let mut text = format!("{:?}", id.manager);
    if !id.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", id.subresource));
    }
    if !id.applies {
        text.push_str(&format!(" using {}", id.version));
    }
    text
}

/// Makes the text that conflicts are sorted by, as `BuildManagerIdentifier` of `k8s.io/apimachinery` does: the JSON of
/// the manager's entry without its fields, and without the time of an apply.
fn identifier(id: &ManagerId, contested: &Contested) -> String {
    let mut text = format!(
        r#"{{"manager":{:?},"operation":"{}","apiVersion":{:?}"#,
        id.manager,
        if id.applies { "Apply" } else { "Update" },
        contested.version
    );
    if let Some(time) = contested.time.as_deref().filter(|_| !id.applies) {
        text.push_str(&format!(r#","time":{time:?}"#));
    }
    if !id.subresource.is_empty() {
        text.push_str(&format!(r#","subresource":{:?}"#, id.subresource));
    }
    text.push('}');
    text
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
        sorted.sort_by_cached_key(|(id, contested)| identifier(id, contested));
        for (id, contested) in sorted {
            lines.push(format!("conflicts with {}:", shown(id)));
            for path in contested.fields.paths() {
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
