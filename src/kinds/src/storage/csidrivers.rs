//! CSIDrivers (`pkg/registry/storage/csidriver`).

use serde_json::Value;
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    meta,
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    checks::{number, validate_immutable_fields, validate_supported},
    columns::{self, column, documented},
    gated::{GatedField, drop_disabled_fields},
    kind::Kind,
    values::{integer_at, is_true_at, items, set_default, struct_mut, text},
};

const SPEC: &str = "io.k8s.api.storage.v1.CSIDriverSpec";
const PREVENTS_SCHEDULING: &str = "preventPodSchedulingIfMissing";
const GATED: &[GatedField] = &[(Feature::VolumeLimitScaling, "/spec", PREVENTS_SCHEDULING)];
const UNSET: &str = "<unset>";
const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const MIN_UPDATE_SECONDS: i64 = 10;

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let flag = |name: &'static str, field: &'static str, pointer: &'static str| {
        column(name, "boolean", documented(SPEC, field), move |object| {
            Value::from(is_true_at(object, pointer))
        })
    };
    let joined = |pointer: &'static str, item: fn(&Value) -> &str| {
        move |object: &Value| match object.pointer(pointer).and_then(Value::as_array) {
            Some(list) if !list.is_empty() => Value::from(list.iter().map(item).collect::<Vec<_>>().join(",")),
            _ => Value::from(UNSET),
        }
    };
    let audiences = joined("/spec/tokenRequests", |request| text(request, "audience"));
    let modes = joined("/spec/volumeLifecycleModes", |mode| mode.as_str().unwrap_or_default());
    let modes = move |object: &Value| match modes(object) {
        Value::String(text) if text == UNSET => Value::from("<none>"),
        shown => shown,
    };
    Kind::new("storage.k8s.io", "csidrivers", CsiDrivers { features }).columns(vec![
        columns::name(),
        flag("AttachRequired", "attachRequired", "/spec/attachRequired"),
        flag("PodInfoOnMount", "podInfoOnMount", "/spec/podInfoOnMount"),
        flag("StorageCapacity", "storageCapacity", "/spec/storageCapacity"),
        column("TokenRequests", "string", documented(SPEC, "tokenRequests"), audiences),
        flag("RequiresRepublish", "requiresRepublish", "/spec/requiresRepublish"),
        column("Modes", "string", documented(SPEC, "volumeLifecycleModes"), modes),
        columns::age(),
    ])
}

struct CsiDrivers {
    features: Features,
}

impl Strategy for CsiDrivers {
    fn default(&self, object: &mut Value) {
        let spec = struct_mut(object, "spec");
        set_default(spec, "volumeLifecycleModes", vec!["Persistent"]);
        if self.features.has(Feature::VolumeLimitScaling) {
            set_default(spec, PREVENTS_SCHEDULING, false);
        }
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_fields(self.features, GATED, object, old);
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_csi_driver_spec(
            object.get("spec").unwrap_or(&Value::Null),
            &Path::new("spec"),
            &mut errors,
        );
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        // New drivers have no generation; changes of them are counted all the same.
        if new.get("spec") != old.get("spec") {
            let before = integer_at(old, "/metadata/generation").unwrap_or(0);
            struct_mut(new, "metadata").insert("generation".into(), (before + 1).into());
        }
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_csi_driver_spec(new.get("spec").unwrap_or(&Value::Null), &Path::new("spec"), &mut errors);
        let pointer = "/spec/attachRequired";
        // The name of the field in messages is not that of the field.
        let path = Path::new("spec.attachedRequired");
        errors.extend(meta::validate_immutable_field(
            new.pointer(pointer),
            old.pointer(pointer),
            &path,
        ));
        validate_immutable_fields(new, old, &["spec.volumeLifecycleModes"], &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let requests = |object: &Value| object.pointer("/spec/tokenRequests").cloned();
        let asks = new
            .get("spec")
            .is_some_and(|spec| !items(spec, "tokenRequests").is_empty())
            && old.is_none_or(|old| requests(old) != requests(new));
        let unsaid = new.pointer("/spec/serviceAccountTokenInSecrets").is_none();
        let warning = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
        (asks && unsaid).then(|| warning.to_owned()).into_iter().collect()
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }
}

/// As upstream's `validateCSIDriverSpec`.
fn validate_csi_driver_spec(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["attachRequired", "podInfoOnMount", "storageCapacity"] {
        if spec.get(field).is_none() {
            errors.push(Error::required(&path.child(field), ""));
        }
    }
    validate_supported(
        spec,
        path,
        "fsGroupPolicy",
        &["File", "None", "ReadWriteOnceWithFSType"],
        errors,
    );
    validate_token_requests(spec, path, errors);
    let modes_path = path.child("volumeLifecycleModes");
    for mode in items(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
        if !["Persistent", "Ephemeral"].contains(&mode) {
            errors.push(Error::not_supported(&modes_path, mode, &["Persistent", "Ephemeral"]));
        }
    }
    if spec.get("seLinuxMount").is_none() {
        errors.push(Error::required(&path.child("seLinuxMount"), ""));
    }
    if let Some(seconds) = number(spec, "nodeAllocatableUpdatePeriodSeconds").filter(|s| *s < MIN_UPDATE_SECONDS) {
        let detail = "must be greater than or equal to 10 seconds";
        errors.push(Error::invalid(
            &path.child("nodeAllocatableUpdatePeriodSeconds"),
            &seconds.into(),
            detail,
        ));
    }
    let has_requests = !items(spec, "tokenRequests").is_empty();
    if spec.get("serviceAccountTokenInSecrets").is_some() && !has_requests {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        let value = spec.get("serviceAccountTokenInSecrets").unwrap_or(&Value::Null);
        errors.push(Error::invalid(
            &path.child("serviceAccountTokenInSecrets"),
            value,
            detail,
        ));
    }
}

/// As upstream's `validateTokenRequests`.
fn validate_token_requests(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list_path = path.child("tokenRequests");
    let requests = items(spec, "tokenRequests");
    for (index, request) in requests.iter().enumerate() {
        let at = list_path.index(index);
        let audience = text(request, "audience");
        if requests
            .iter()
            .take(index)
            .any(|earlier| text(earlier, "audience") == audience)
        {
            errors.push(Error::duplicate(&at.child("audience"), &audience.into()));
            continue;
        }
        let Some(seconds) = number(request, "expirationSeconds") else {
            continue;
        };
        let seconds_path = at.child("expirationSeconds");
        if seconds < MIN_TOKEN_SECONDS {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(Error::invalid(&seconds_path, &seconds.into(), detail));
        }
        if seconds > MAX_TOKEN_SECONDS {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.push(Error::invalid(&seconds_path, &seconds.into(), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    fn trial(features: &[Feature]) -> Trial {
        Trial::new("storage.k8s.io", "csidrivers", kind(Features::with(features)))
    }

    #[test]
    fn errors() {
        trial(&[]).expect_errors(&[
            (named("d", json!({})), &[]),
            (named("d", json!({ "fsGroupPolicy": "Z", "volumeLifecycleModes": ["X"] })), &[
                r#"spec.fsGroupPolicy: Unsupported value: "Z": supported values: "File", "None", "ReadWriteOnceWithFSType""#,
                r#"spec.volumeLifecycleModes: Unsupported value: "X": supported values: "Persistent", "Ephemeral""#,
            ]),
            (named("d", json!({ "tokenRequests": [{ "audience": "a", "expirationSeconds": 1 }, { "audience": "a" }] })), &[
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
                r#"spec.tokenRequests[1].audience: Duplicate value: "a""#,
            ]),
        ]);
    }

    #[test]
    fn a_field_of_a_feature_that_is_off_is_dropped_unless_it_was_stored() {
        let (off, on) = (trial(&[]), trial(&[Feature::VolumeLimitScaling]));
        let prevents = |driver: &Value| driver["spec"].get(PREVENTS_SCHEDULING).cloned();
        let asks = json!({ "spec": { "preventPodSchedulingIfMissing": true } });
        let made = off.create(named("d", asks["spec"].clone())).expect("a valid driver");
        assert_eq!(prevents(&made), None);
        let patched = off.patch(&made, &asks).expect("it may be asked for");
        assert_eq!(prevents(&patched), None);
        assert_eq!(patched.pointer("/metadata/generation"), None, "nothing has changed");
        let stored = on.create(named("d", json!({}))).expect("a valid driver");
        assert_eq!(prevents(&stored), Some(json!(false)));
        for trial in [off, on] {
            let kept = trial.patch(&stored, &asks).expect("it may change");
            assert_eq!(prevents(&kept), Some(json!(true)));
        }
    }

    #[test]
    fn changes_are_counted() {
        let trial = trial(&[]);
        let driver = trial.create(named("d", json!({}))).expect("a valid driver");
        assert_eq!(driver.pointer("/metadata/generation"), None);
        let changed = trial.patch(&driver, &json!({ "spec": { "requiresRepublish": true } }));
        assert_eq!(changed.expect("it may change")["metadata"]["generation"], 1);
        let labelled = trial.patch(&driver, &json!({ "metadata": { "labels": { "a": "b" } } }));
        assert_eq!(labelled.expect("it may change").pointer("/metadata/generation"), None);
    }

    #[test]
    fn volumes_are_persistent_unless_said_otherwise() {
        let trial = trial(&[]);
        let driver = trial.create(named("d", json!({}))).expect("a valid driver");
        assert_eq!(driver["spec"]["volumeLifecycleModes"], json!(["Persistent"]));
        trial.expect_patch_errors(
            &driver,
            &[
                (
                    json!({ "spec": { "attachRequired": false } }),
                    &["spec.attachedRequired: Invalid value: false: field is immutable"],
                ),
                (
                    json!({ "spec": { "fsGroupPolicy": "File", "podInfoOnMount": true } }),
                    &[],
                ),
            ],
        );
    }
}
