//! VolumeAttributesClasses (`pkg/registry/storage/volumeattributesclass`).

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};
use trireme_registry::{Strategy, WriteContext};

use super::storageclasses::{validate_parameters, validate_provisioner};
use crate::{
    columns::{self, column, documented},
    kind::Kind,
    values::{entries, text},
};

const TYPE: &str = "io.k8s.api.storage.v1.VolumeAttributesClass";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("storage.k8s.io", "volumeattributesclasses", VolumeAttributesClasses).columns(vec![
        columns::default_marked_name(&["volumeattributesclass.alpha.kubernetes.io/is-default-class"]),
        column("DriverName", "string", documented(TYPE, "driverName"), |object| {
            Value::from(text(object, "driverName"))
        }),
        columns::age(),
    ])
}

struct VolumeAttributesClasses;

impl Strategy for VolumeAttributesClasses {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_provisioner(text(object, "driverName"), &Path::new("driverName"), &mut errors);
        let path = Path::new("parameters");
        if entries(object, "parameters").next().is_none() {
            errors.push(Error::required(&path, "must contain at least one key/value pair"));
        }
        validate_parameters(object, &path, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        for field in ["driverName", "parameters"] {
            if new.get(field) != old.get(field) {
                let detail = format!("updates to {field} are forbidden.");
                errors.push(Error::forbidden(&Path::new(field), &detail));
            }
        }
        errors.extend(self.validate(context, new));
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn a_class_has_a_driver_and_parameters_that_stay() {
        let trial = Trial::new("storage.k8s.io", "volumeattributesclasses", kind());
        trial.expect_errors(&[(
            json!({ "metadata": {}, "driverName": "" }),
            &[
                "driverName: Required value",
                "parameters: Required value: must contain at least one key/value pair",
            ],
        )]);
        let class = json!({ "metadata": {}, "driverName": "d", "parameters": { "a": "b" } });
        let old = trial.create(class).expect("a valid class");
        trial.expect_patch_errors(
            &old,
            &[
                (
                    json!({ "driverName": "e", "parameters": { "a": "c" } }),
                    &[
                        "driverName: Forbidden: updates to driverName are forbidden.",
                        "parameters: Forbidden: updates to parameters are forbidden.",
                    ],
                ),
                (json!({ "metadata": { "labels": { "a": "b" } } }), &[]),
            ],
        );
    }

    #[test]
    fn only_its_own_annotation_makes_a_class_the_default() {
        let name = |annotation: &str| {
            let class = json!({ "metadata": { "name": "c", "annotations": { annotation: "true" } } });
            (kind().columns[0].cell)(&class, jiff::Timestamp::UNIX_EPOCH)
        };
        assert_eq!(
            name("volumeattributesclass.alpha.kubernetes.io/is-default-class"),
            "c (default)"
        );
        assert_eq!(name("storageclass.beta.kubernetes.io/is-default-class"), "c");
    }
}
