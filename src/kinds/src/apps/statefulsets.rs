//! StatefulSets (`pkg/registry/apps/statefulset`, `pkg/apis/apps/validation`).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use trireme_machinery::{
    Feature,
    field::{Error, ErrorList, Path},
    names::{self, NameCheck},
};
use trireme_registry::{Strategy, WriteContext, definition::ScalePaths, strategy::MetadataChecks};

use crate::{
    checks::validate_nonnegative_fields,
    columns,
    gated::{GatedField, drop_disabled_fields},
    kind::Kind,
    pod_template::{self, Capabilities, drop_disabled_at},
    values::{integer_at, items, keep_field, remove, set_default, struct_mut, text, text_at},
    volumes::claim_spec::{ClaimOptions, claim_spec_warnings, validate_persistent_volume_claim_spec},
    workload::{
        container_columns, default_template, int_or_percent, is_not_more_than_100_percent, ready_column,
        template_warnings, validate_collision_count, validate_counter_bounds, validate_positive_int_or_percent,
        validate_restart_policy_always, validate_selector, validate_selector_conversion, validate_template_labels,
    },
};

/// Fields of the spec that an update may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

const GATED: &[GatedField] = &[(
    Feature::MaxUnavailableStatefulSet,
    "/spec/updateStrategy/rollingUpdate",
    "maxUnavailable",
)];

/// The kind's parts.
pub(crate) fn kind(capabilities: Capabilities) -> Kind {
    let [containers, images] = container_columns("/spec/template/spec");
    Kind::new("apps", "statefulsets", StatefulSets { capabilities })
        .columns(vec![
            columns::name(),
            ready_column(),
            columns::age(),
            containers,
            images,
        ])
        .scale(ScalePaths {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: Some("spec.selector".into()),
        })
}

struct StatefulSets {
    capabilities: Capabilities,
}

impl Strategy for StatefulSets {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn default(&self, object: &mut Value) {
        let spec = struct_mut(object, "spec");
        let strategy = spec.entry("updateStrategy").or_insert_with(|| json!({}));
        if text(strategy, "type").is_empty() {
            strategy["type"] = "RollingUpdate".into();
            struct_mut(strategy, "rollingUpdate");
        }
        // Who names the type gets no more than that.
        let is_rolling = text(strategy, "type") == "RollingUpdate";
        let rolling = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut);
        if let (true, Some(rolling)) = (is_rolling, rolling) {
            set_default(rolling, "partition", 0);
            if self.capabilities.features.has(Feature::MaxUnavailableStatefulSet) {
                set_default(rolling, "maxUnavailable", 1);
            }
        }
        for claim in spec
            .get_mut("volumeClaimTemplates")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            claim["apiVersion"] = "v1".into();
            claim["kind"] = "PersistentVolumeClaim".into();
        }
        default_template(spec);
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(self.capabilities, object, old, "/spec/template/spec");
        drop_disabled_fields(self.capabilities.features, GATED, object, old);
    }

    fn name_check(&self) -> NameCheck {
        names::name_is_dns_label
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "replicas": 0, "availableReplicas": 0 });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(spec) = object.get("spec") {
            validate_stateful_set_spec(
                spec,
                Checks {
                    capabilities: self.capabilities,
                    immutable: true,
                    templates: true,
                },
                &mut errors,
            );
        }
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let none = Value::Null;
        let (new, old) = (new.get("spec").unwrap_or(&none), old.get("spec").unwrap_or(&none));
        let capabilities = self.capabilities.in_change_of(old.get("template"));
        let mut old_errors = ErrorList::new();
        validate_stateful_set_spec(
            old,
            Checks {
                capabilities,
                immutable: false,
                templates: true,
            },
            &mut old_errors,
        );
        validate_stateful_set_spec(
            new,
            Checks {
                capabilities,
                immutable: false,
                templates: old_errors.is_empty(),
            },
            &mut errors,
        );
        if fixed_fields(new) != fixed_fields(old) {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                          'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                          'minReadySeconds' are forbidden";
            errors.push(Error::forbidden(&Path::new("spec"), detail));
        }
        errors
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = new.get("status").unwrap_or(&Value::Null);
        let counters = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        validate_nonnegative_fields(status, &Path::new("status"), &counters, &mut errors);
        let bounds = [
            ("readyReplicas", "replicas", "status.replicas"),
            ("currentReplicas", "replicas", "status.replicas"),
            ("updatedReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "status.readyReplicas"),
        ];
        validate_counter_bounds(status, &bounds, &mut errors);
        validate_collision_count(new, old, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = template_warnings(new, old);
        let claims = new
            .get("spec")
            .map_or(&[][..], |spec| items(spec, "volumeClaimTemplates"));
        for (index, claim) in claims.iter().enumerate() {
            let path = format!("spec.volumeClaimTemplates[{index}].spec");
            warnings.extend(claim_spec_warnings(claim.get("spec").unwrap_or(&Value::Null), &path));
        }
        if integer_at(new, "/spec/revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            let text = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                        recommended";
            warnings.push(text.to_owned());
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }
}

fn fixed_fields(spec: &Value) -> Map<String, Value> {
    let mut fields = spec.as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| !MUTABLE.contains(&name.as_str()));
    fields
}

/// Which checks a spec gets: an old object that is invalid by newer rules may still be changed.
#[derive(Clone, Copy)]
struct Checks {
    capabilities: Capabilities,
    /// Those of the fields that no update may change: the service's name and the claims.
    immutable: bool,
    templates: bool,
}

fn validate_volume_claim_templates(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
        let (spec, at) = (claim.get("spec").unwrap_or(&Value::Null), path.index(index));
        let options = ClaimOptions::default();
        errors.extend(validate_persistent_volume_claim_spec(spec, options, &at.child("spec")));
    }
}

/// As upstream's `ValidateStatefulSetSpec`.
fn validate_stateful_set_spec(spec: &Value, checks: Checks, errors: &mut ErrorList) {
    let path = Path::new("spec");
    match text(spec, "podManagementPolicy") {
        "" => errors.push(Error::required(&path.child("podManagementPolicy"), "")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(Error::invalid_str(&path.child("podManagementPolicy"), other, detail));
        }
    }
    validate_stateful_set_update_strategy(spec, &path.child("updateStrategy"), errors);
    validate_persistent_volume_claim_retention_policy(
        spec,
        &path.child("persistentVolumeClaimRetentionPolicy"),
        errors,
    );
    if checks.immutable {
        validate_volume_claim_templates(spec, &path.child("volumeClaimTemplates"), errors);
    }
    validate_nonnegative_fields(spec, &path, &["replicas", "minReadySeconds"], errors);
    if let Some(ordinals) = spec.get("ordinals") {
        validate_nonnegative_fields(ordinals, &path.child("ordinals"), &["start"], errors);
    }
    let service = text(spec, "serviceName");
    if checks.immutable && !service.is_empty() {
        let at = path.child("serviceName");
        errors.extend(
            names::dns1123_label(service)
                .iter()
                .map(|error| Error::invalid_str(&at, service, error)),
        );
    }
    validate_selector(spec, &path, "statefulset", errors);
    validate_pod_template_spec_for_stateful_set(spec, &path, checks, errors);
}

fn validate_stateful_set_update_strategy(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::Null;
    let strategy = spec.get("updateStrategy").unwrap_or(&none);
    let rolling = strategy.get("rollingUpdate");
    match text(strategy, "type") {
        "RollingUpdate" => {
            if let Some(rolling) = rolling {
                validate_rolling_update_stateful_set(rolling, &path.child("rollingUpdate"), errors);
            }
        }
        "OnDelete" => {
            if let Some(rolling) = rolling {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(Error::invalid_shown(
                    &path.child("rollingUpdate"),
                    shown_rolling(Some(rolling)),
                    detail,
                ));
            }
        }
        other => {
            let shown = format!(
                r#"{{"Type":{},"RollingUpdate":{}}}"#,
                Value::from(other),
                shown_rolling(rolling)
            );
            errors.push(Error::invalid_shown(
                path,
                shown,
                "must be 'RollingUpdate' or 'OnDelete'",
            ));
        }
    }
}

/// As upstream's `validateRollingUpdateStatefulSet`.
fn validate_rolling_update_stateful_set(rolling: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_nonnegative_fields(rolling, path, &["partition"], errors);
    let Some(unavailable) = rolling.get("maxUnavailable") else {
        return;
    };
    let at = path.child("maxUnavailable");
    validate_positive_int_or_percent(unavailable, &at, errors);
    if int_or_percent(unavailable) == 0 {
        errors.push(Error::invalid(&at, unavailable, "cannot be 0"));
    }
    is_not_more_than_100_percent(unavailable, &at, errors);
}

/// As Go prints the type behind the served one.
fn shown_rolling(rolling: Option<&Value>) -> String {
    let Some(rolling) = rolling else {
        return "null".to_owned();
    };
    let partition = integer_at(rolling, "/partition").unwrap_or(0);
    let unavailable = rolling.get("maxUnavailable").unwrap_or(&Value::Null);
    format!(r#"{{"Partition":{partition},"MaxUnavailable":{unavailable}}}"#)
}

/// As upstream's `ValidatePersistentVolumeClaimRetentionPolicy`.
fn validate_persistent_volume_claim_retention_policy(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(policy) = spec.get("persistentVolumeClaimRetentionPolicy") else {
        return;
    };
    for field in ["whenDeleted", "whenScaled"] {
        let value = text(policy, field);
        if !matches!(value, "Retain" | "Delete") {
            errors.push(Error::not_supported(&path.child(field), value, &["Retain", "Delete"]));
        }
    }
}

/// As upstream's `ValidatePodTemplateSpecForStatefulSet`.
fn validate_pod_template_spec_for_stateful_set(spec: &Value, path: &Path<'_>, checks: Checks, errors: &mut ErrorList) {
    let none = Value::Null;
    let template = spec.get("template").unwrap_or(&none);
    let at = path.child("template");
    if !validate_selector_conversion(spec, path, "", errors) {
        validate_template_labels(spec.get("selector"), template, &at, errors);
        if checks.templates {
            pod_template::validate_pod_template_spec(
                checks.capabilities,
                &template_of_pods(template, spec),
                &at,
                errors,
            );
        }
        // A second time, as kube-apiserver does.
        pod_template::validate_template_metadata(checks.capabilities, template, &at, errors);
    }
    validate_restart_policy_always(template, &at, "StatefulSet", errors);
}

/// The template without the names that its pods get from the controller, and with the volumes that they get from claims.
fn template_of_pods(template: &Value, spec: &Value) -> Value {
    let claims = items(spec, "volumeClaimTemplates");
    let mut template = template.clone();
    let Some(pod) = template.get_mut("spec") else {
        return template;
    };
    remove(pod, "hostname");
    remove(pod, "subdomain");
    if claims.is_empty() {
        return template;
    }
    // The volume of a name that two claims have is that of either.
    let names: BTreeSet<&str> = claims.iter().map(|claim| text_at(claim, "/metadata/name")).collect();
    let claimed = names
        .iter()
        .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }));
    let mut volumes: Vec<Value> = claimed.collect();
    let others = items(pod, "volumes").iter();
    volumes.extend(others.filter(|volume| !names.contains(text(volume, "name"))).cloned());
    pod["volumes"] = volumes.into();
    template
}

#[cfg(test)]
mod tests;
