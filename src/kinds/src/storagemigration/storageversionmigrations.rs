//! StorageVersionMigrations (`pkg/registry/storagemigration/storagemigration`), behind the gate StorageVersionMigrator. Their
//! work is kube-controller-manager's.

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names,
};
use trireme_registry::{Column, ResetFields, Strategy, WriteContext, request::Subresource};

use crate::{
    columns::{self, column, described},
    conditions::validate_conditions,
    kind::Kind,
    values::{items, keep_field, keep_metadata, text, text_at},
};

const GROUP: &str = "/spec/resource/group";
const RESOURCE: &str = "/spec/resource/resource";
const VERSION: &str = "/status/resourceVersion";
const STATES: [&str; 3] = ["Running", "Failed", "Succeeded"];

/// `storagemigration.StorageVersionMigrationSpec`.
const INTERNAL_SPEC: &[PrintedField] = &[(
    "Resource",
    "resource",
    PrintedShape::Struct(&[
        ("group", "group", PrintedShape::Text),
        ("resource", "resource", PrintedShape::Text),
    ]),
)];
/// `metav1.Condition`.
const CONDITION: &[PrintedField] = &[
    ("type", "type", PrintedShape::Text),
    ("status", "status", PrintedShape::Text),
    ("observedGeneration", "observedGeneration", PrintedShape::Plain),
    ("lastTransitionTime", "lastTransitionTime", PrintedShape::Plain),
    ("reason", "reason", PrintedShape::Text),
    ("message", "message", PrintedShape::Text),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let name = Column {
        format: "",
        ..columns::name()
    };
    Kind::new("storagemigration.k8s.io", "storageversionmigrations", Migrations).columns(vec![
        name,
        column("Resource", "string", described("GroupResource to migrate"), |object| {
            let (group, resource) = (text_at(object, GROUP), text_at(object, RESOURCE));
            match group {
                "" => resource.into(),
                group => format!("{resource}.{group}").into(),
            }
        }),
        column("Status", "string", described("Status of the migration"), |object| {
            state(object).into()
        }),
    ])
}

fn conditions(object: &Value) -> &[Value] {
    object.get("status").map_or(&[], |status| items(status, "conditions"))
}

fn state(object: &Value) -> &str {
    let last = conditions(object)
        .iter()
        .rfind(|condition| text(condition, "status") == "True" && STATES.contains(&text(condition, "type")));
    last.map_or("Unknown", |condition| text(condition, "type"))
}

/// Reports whether the first condition of a type is true.
fn is(object: &Value, kind: &str) -> bool {
    let mut all = conditions(object).iter();
    let found = all.find(|condition| text(condition, "type") == kind);
    found.is_some_and(|condition| text(condition, "status") == "True")
}

struct Migrations;

impl Strategy for Migrations {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_storage_version_migration(object)
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_storage_version_migration(new);
        if new.get("spec") != old.get("spec") {
            let shown = structs::compact(new.get("spec"), PrintedShape::Struct(INTERNAL_SPEC));
            errors.push(Error::invalid_shown(&Path::new("spec"), shown, "field is immutable"));
        }
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validate_storage_version_migration_status_update(new, old)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// As upstream's `ValidateStorageVersionMigration`.
fn validate_storage_version_migration(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec.resource");
    let mut push = |field: &str, value: &str, messages: Vec<String>| {
        if !messages.is_empty() {
            errors.push(Error::invalid_str(&path.child(field), value, &messages.join(",")));
        }
    };
    let (group, resource) = (text_at(object, GROUP), text_at(object, RESOURCE));
    if !resource.is_empty() {
        push("resource", resource, names::dns1035_label(resource));
    }
    if !group.is_empty() {
        push("group", group, names::dns1123_subdomain(group));
    }
    if resource.is_empty() {
        errors.insert(
            0,
            Error::required(&path.child("resource"), "resource is required to be set"),
        );
    }
    errors
}

/// As upstream's `ValidateStorageVersionMigrationStatusUpdate`.
fn validate_storage_version_migration_status_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let (version, before) = (text_at(new, VERSION), text_at(old, VERSION));
    let at = path.child("resourceVersion");
    if let Some(error) = version_error(version) {
        errors.push(Error::invalid_str(&at, version, &error));
    }
    let status = new.get("status").unwrap_or(&Value::Null);
    let at_conditions = path.child("conditions");
    validate_conditions(status, &at_conditions, &mut errors);
    if !before.is_empty() && before != version {
        errors.push(Error::invalid_str(&at, version, "field is immutable"));
    }
    let shown = structs::compact(status.get("conditions"), PrintedShape::NamedList(CONDITION));
    let mut refuse = |holds: bool, detail: &str| {
        if holds {
            errors.push(Error::invalid_shown(&at_conditions, shown.as_str(), detail));
        }
    };
    refuse(
        is(new, "Succeeded") && is(new, "Failed"),
        "Both success and failed conditions cannot be true at the same time",
    );
    refuse(
        is(old, "Succeeded") && !is(new, "Succeeded"),
        "Success condition cannot be set to false once it is true",
    );
    refuse(
        is(old, "Failed") && !is(new, "Failed"),
        "Failed condition cannot be set to false once it is true",
    );
    errors
}

/// The error of a revision that cannot be compared with others (`CompareResourceVersion`).
fn version_error(version: &str) -> Option<String> {
    let is_number = version.bytes().all(|byte| byte.is_ascii_digit());
    if version.is_empty() || is_number && !version.starts_with('0') {
        return None;
    }
    Some(format!("resource version is not well formed: {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    fn trial() -> Trial {
        Trial::new("storagemigration.k8s.io", "storageversionmigrations", kind())
    }

    fn of(group: &str, resource: &str) -> Value {
        named("m", json!({ "resource": { "group": group, "resource": resource } }))
    }

    #[test]
    fn a_migration_is_of_a_resource() {
        let names = names::dns1035_label("A").join(",");
        let invalid = format!("spec.resource.resource: Invalid value: \"A\": {names}");
        trial().expect_errors(&[
            (of("", "pods"), &[]),
            (
                of("apps", ""),
                &["spec.resource.resource: Required value: resource is required to be set"],
            ),
            (of("", "A"), &[&invalid]),
        ]);
        let made = trial().create(of("apps", "deployments")).expect("a valid migration");
        trial().expect_patch_errors(
            &made,
            &[(
                json!({ "spec": { "resource": { "group": null } } }),
                &[
                    "spec: Invalid value: {\"Resource\":{\"group\":\"\",\"resource\":\"deployments\"}}: field is immutable",
                ],
            )],
        );
    }

    #[test]
    fn a_migration_ends_once() {
        let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z" });
        let made = trial().create(of("apps", "deployments")).expect("a valid migration");
        assert_eq!(state(&made), "Unknown");
        let done = json!({ "resourceVersion": "5", "conditions": [condition("Succeeded", "True")] });
        let done = trial().status(&made, done).expect("a valid status");
        assert_eq!(state(&done), "Succeeded");
        let shown = "[{\"type\":\"Failed\",\"status\":\"True\",\"lastTransitionTime\":\"2024-01-01T00:00:00Z\",\"reason\":\"R\",\"message\":\"\"}]";
        let ended = format!(
            "status.conditions: Invalid value: {shown}: Success condition cannot be set to false once it is true"
        );
        trial().expect_status_errors(
            &done,
            &[(
                json!({ "resourceVersion": "x", "conditions": [condition("Failed", "True")] }),
                &[
                    "status.resourceVersion: Invalid value: \"x\": resource version is not well formed: x",
                    "status.resourceVersion: Invalid value: \"x\": field is immutable",
                    &ended,
                ],
            )],
        );
    }
}
