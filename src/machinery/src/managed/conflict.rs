//! The refusal of an apply that would change what others own.

use std::collections::BTreeMap;

use super::{entries::ManagerId, path::PathElement, set::FieldSet};
use crate::{ApiError, ErrorDetails, Reason, StatusCause};

/// The fields that others own with other values, by manager.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflicts(pub(super) BTreeMap<ManagerId, (String, FieldSet)>);

impl Conflicts {
    /// The conflicts without those over some fields.
    #[must_use]
    pub fn without(self, fields: &FieldSet) -> Self {
        let rest = self.0.into_iter().filter_map(|(id, (version, set))| {
            let set = set.difference(fields);
            (!set.is_empty()).then_some((id, (version, set)))
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

fn path_text(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// 409 with a cause for each field and manager.
impl From<Conflicts> for ApiError {
    fn from(conflicts: Conflicts) -> Self {
        let mut causes = Vec::new();
        let mut lines = Vec::new();
        for (id, (_, fields)) in &conflicts.0 {
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
