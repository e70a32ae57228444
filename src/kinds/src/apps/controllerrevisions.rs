//! ControllerRevisions (`pkg/registry/apps/controllerrevision`, `pkg/apis/apps/validation`).

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};
use trireme_registry::{Column, Strategy, WriteContext};

use crate::checks::validate_nonnegative_fields;
use crate::{
    columns::{self, column, described, documented, or_none},
    kind::Kind,
    values::{items, text},
};

const TYPE: &str = "io.k8s.api.apps.v1.ControllerRevision";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let revision = |object: &Value| object.get("revision").cloned().unwrap_or_else(|| 0.into());
    Kind::new("apps", "controllerrevisions", ControllerRevisions).columns(vec![
        columns::name(),
        controller_column(),
        column("Revision", "string", documented(TYPE, "revision"), revision),
        columns::age(),
    ])
}

/// The owner that manages the object, as `statefulset.apps/web`.
fn controller_column() -> Column {
    column(
        "Controller",
        "string",
        described("Controller of the object"),
        |object| {
            let owners = object
                .get("metadata")
                .map_or(&[][..], |metadata| items(metadata, "ownerReferences"));
            let is_controller = |owner: &&Value| owner.get("controller").and_then(Value::as_bool).unwrap_or(false);
            let name = owners.iter().find(is_controller).map(|owner| {
                let kind = text(owner, "kind").to_lowercase();
                match text(owner, "apiVersion").split_once('/') {
                    Some((group, _)) => format!("{kind}.{group}/{}", text(owner, "name")),
                    None => format!("{kind}/{}", text(owner, "name")),
                }
            });
            or_none(&name.unwrap_or_default())
        },
    )
}

struct ControllerRevisions;

impl Strategy for ControllerRevisions {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_nonnegative_fields(object, &Path::root(), &["revision"], &mut errors);
        let data = Path::new("data");
        match object.get("data") {
            None | Some(Value::Null) => errors.push(Error::required(&data, "data is mandatory")),
            Some(Value::Object(_)) => {}
            Some(_) => errors.push(Error::required(&data, "data must be a valid JSON object")),
        }
        errors
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_nonnegative_fields(new, &Path::root(), &["revision"], &mut errors);
        let (data, old_data) = (
            new.get("data").unwrap_or(&Value::Null),
            old.get("data").unwrap_or(&Value::Null),
        );
        if data != old_data {
            errors.push(Error::invalid_shown(
                &Path::new("data"),
                data.to_string(),
                "field is immutable",
            ));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn data_is_a_json_object_for_ever() {
        let trial = Trial::new("apps", "controllerrevisions", kind());
        let revision =
            |data: Value, revision: i64| json!({ "metadata": { "name": "a" }, "data": data, "revision": revision });
        trial.expect_errors(&[
            (
                revision(Value::Null, -1),
                &[
                    "revision: Invalid value: -1: must be greater than or equal to 0",
                    "data: Required value: data is mandatory",
                ],
            ),
            (
                revision("text".into(), 1),
                &["data: Required value: data must be a valid JSON object"],
            ),
            (revision(json!({ "a": 1 }), 1), &[]),
        ]);
        let old = trial
            .create(revision(json!({ "a": 1 }), 1))
            .expect("the revision is valid");
        trial.expect_patch_errors(
            &old,
            &[
                (json!({ "revision": 2 }), &[]),
                (
                    json!({ "data": { "a": 2 } }),
                    &[r#"data: Invalid value: {"a":2}: field is immutable"#],
                ),
                (
                    json!({ "data": null }),
                    &["data: Invalid value: null: field is immutable"],
                ),
            ],
        );
    }
}
