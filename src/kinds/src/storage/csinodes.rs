//! CSINodes (`pkg/registry/storage/csinode`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names,
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    checks::{push_invalid, validate_nonnegative_field},
    columns::{self, column, described},
    kind::Kind,
    pod_template::validate_csi_driver_name,
    values::{items, text},
};

const MAX_NODE_ID: usize = 256;
const DRIVER: &[PrintedField] = &[
    ("Name", "name", PrintedShape::Text),
    ("NodeID", "nodeID", PrintedShape::Text),
    ("TopologyKeys", "topologyKeys", PrintedShape::Plain),
    (
        "Allocatable",
        "allocatable",
        PrintedShape::Pointer(&[("Count", "count", PrintedShape::Plain)]),
    ),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let count = |object: &Value| Value::from(drivers(object).len());
    let description = "Drivers indicates the number of CSI drivers registered on the node";
    Kind::new("storage.k8s.io", "csinodes", CsiNodes).columns(vec![
        columns::name(),
        column("Drivers", "integer", described(description), count),
        columns::age(),
    ])
}

struct CsiNodes;

impl Strategy for CsiNodes {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec.drivers");
        for (index, driver) in drivers(object).iter().enumerate() {
            let at = path.index(index);
            let earlier = drivers(object).get(..index).unwrap_or_default();
            validate_csi_node_driver(driver, earlier, &at, &mut errors);
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        // What a driver said of its node stays, but for how many volumes fit.
        for old_driver in drivers(old) {
            let same = drivers(new)
                .iter()
                .find(|driver| text(driver, "name") == text(old_driver, "name"));
            if let Some(driver) = same.filter(|driver| without_count(driver) != without_count(old_driver)) {
                let shown = structs::compact(Some(&without_count(driver)), PrintedShape::Struct(DRIVER));
                errors.push(Error::invalid_shown(
                    &Path::new("spec.drivers"),
                    shown,
                    "field is immutable",
                ));
            }
        }
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfNew
    }
}

fn drivers(object: &Value) -> &[Value] {
    object.get("spec").map_or(&[], |spec| items(spec, "drivers"))
}

fn without_count(driver: &Value) -> Value {
    let mut driver = driver.clone();
    crate::values::remove(&mut driver, "allocatable");
    driver
}

/// As upstream's `validateCSINodeDriver`.
fn validate_csi_node_driver(driver: &Value, earlier: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(text(driver, "name"), &path.child("name"), errors);
    let id = text(driver, "nodeID");
    let id_path = path.child("nodeID");
    if id.is_empty() {
        errors.push(Error::required(&id_path, ""));
    }
    if id.len() > MAX_NODE_ID {
        errors.push(Error::invalid_str(
            &id_path,
            id,
            &format!("must be {MAX_NODE_ID} characters or less"),
        ));
    }
    if let Some(allocatable) = driver.get("allocatable") {
        validate_nonnegative_field(allocatable, &path.child("allocatable"), "count", errors);
    }
    let name = text(driver, "name");
    if earlier.iter().any(|earlier| text(earlier, "name") == name) {
        errors.push(Error::duplicate(&path.child("name"), &name.into()));
    }
    let keys = items(driver, "topologyKeys");
    for (index, key) in keys.iter().enumerate() {
        let is_duplicate = keys.iter().take(index).any(|earlier| earlier == key);
        let key = key.as_str().unwrap_or_default();
        if key.is_empty() {
            errors.push(Error::required(path, ""));
        }
        if is_duplicate {
            errors.push(Error::duplicate(path, &key.into()));
        }
        push_invalid(path, key, names::qualified_name(key), errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn drivers_are_checked_and_stay() {
        let trial = Trial::new("storage.k8s.io", "csinodes", kind());
        let keyed = |keys: &[&str]| json!({ "name": "d", "nodeID": "1", "topologyKeys": keys });
        trial.expect_errors(&[
            (
                named("n", json!({ "drivers": [{ "name": "", "nodeID": "" }] })),
                &[
                    "spec.drivers[0].name: Required value",
                    "spec.drivers[0].nodeID: Required value",
                ],
            ),
            (
                named("n", json!({ "drivers": [keyed(&[]), keyed(&["a", "a"])] })),
                &[
                    r#"spec.drivers[1].name: Duplicate value: "d""#,
                    r#"spec.drivers[1]: Duplicate value: "a""#,
                ],
            ),
        ]);
        let old = trial
            .create(named("n", json!({ "drivers": [{ "name": "d", "nodeID": "1" }] })))
            .expect("a valid node");
        let drivers = |drivers: Value| json!({ "spec": { "drivers": drivers } });
        let error = r#"spec.drivers: Invalid value: {"Name":"d","NodeID":"2","TopologyKeys":null,"Allocatable":null}: field is immutable"#;
        trial.expect_patch_errors(
            &old,
            &[
                (drivers(json!([{ "name": "d", "nodeID": "2" }])), &[error]),
                (
                    drivers(json!([{ "name": "d", "nodeID": "1", "allocatable": { "count": 3 } }])),
                    &[],
                ),
                (drivers(json!([])), &[]),
            ],
        );
    }
}
