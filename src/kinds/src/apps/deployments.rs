//! Deployments (`pkg/registry/apps/deployment`, `pkg/apis/apps/validation`).

use serde_json::{Value, json};
use trireme_machinery::{
    Feature,
    field::{Error, ErrorList, Path},
    go_text::{
        parse_int,
        structs::{self, PrintedShape},
    },
    selector::compile_label_selector,
};
use trireme_registry::{
    ResetFields, Strategy, WriteContext,
    definition::ScalePaths,
    request::Subresource,
    strategy::{MetadataChecks, differs_beyond_metadata_and_status},
};

use crate::{
    checks::{not_supported_shown, validate_nonnegative_fields},
    columns::{self, column, documented, wide},
    gated::{GatedField, drop_disabled_fields},
    kind::Kind,
    pod_template::{Capabilities, drop_disabled_at},
    values::{integer_at, keep_field, remove, struct_mut, text, text_at},
    workload::{
        INTERNAL_STRATEGY, count_column, default_template, int_or_percent, is_not_more_than_100_percent, name_warnings,
        ready_column, template_columns, template_warnings, validate_collision_count, validate_counter_bounds,
        validate_immutable_selector, validate_pod_template_spec_for_replica_set, validate_positive_int_or_percent,
        validate_selector,
    },
};

const SPEC: &str = "io.k8s.api.apps.v1.DeploymentSpec";
const STATUS: &str = "io.k8s.api.apps.v1.DeploymentStatus";
/// The annotation with the revision to go back to; clients of the first versions had a field for it.
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const GATED: &[GatedField] = &[(
    Feature::DeploymentReplicaSetTerminatingReplicas,
    "/status",
    "terminatingReplicas",
)];

/// The kind's parts.
pub(crate) fn kind(capabilities: Capabilities) -> Kind {
    let up_to_date = count_column(
        "Up-to-date",
        "string",
        STATUS,
        "updatedReplicas",
        "/status/updatedReplicas",
    );
    let available = count_column(
        "Available",
        "string",
        STATUS,
        "availableReplicas",
        "/status/availableReplicas",
    );
    let [containers, images, _] = template_columns(SPEC);
    let selector = wide(column(
        "Selector",
        "string",
        documented(SPEC, "selector"),
        shown_selector,
    ));
    Kind::new("apps", "deployments", Deployments { capabilities })
        .columns(vec![
            columns::name(),
            ready_column(),
            up_to_date,
            available,
            columns::age(),
            containers,
            images,
            selector,
        ])
        .scale(ScalePaths {
            spec_replicas: "spec.replicas".into(),
            status_replicas: "status.replicas".into(),
            selector: Some("spec.selector".into()),
        })
}

/// The selector as a row has it, which is not as [`columns::label_selector`] has it.
fn shown_selector(object: &Value) -> Value {
    let selector = object.pointer("/spec/selector").and_then(Value::as_object);
    compile_label_selector(selector).map_or_else(|_| "<invalid>".into(), |selector| selector.to_string().into())
}

#[derive(Default)]
struct Deployments {
    capabilities: Capabilities,
}

impl Strategy for Deployments {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields(match subresource {
            Subresource::Status => &["spec", "metadata.labels"],
            _ => &["status"],
        })
    }

    fn default(&self, object: &mut Value) {
        let spec = struct_mut(object, "spec");
        let strategy = spec.entry("strategy").or_insert_with(|| json!({}));
        if text(strategy, "type").is_empty() {
            strategy["type"] = "RollingUpdate".into();
        }
        if text(strategy, "type") == "RollingUpdate" {
            let rolling = struct_mut(strategy, "rollingUpdate");
            for bound in ["maxSurge", "maxUnavailable"] {
                rolling.entry(bound).or_insert_with(|| "25%".into());
            }
        }
        default_template(spec);
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(self.capabilities, object, old, "/spec/template/spec");
        drop_disabled_fields(self.capabilities.features, GATED, object, old);
    }

    fn conversion_error(&self, object: &Value) -> Option<String> {
        let given = text_at(object, &format!("/metadata/annotations/{ROLLBACK_TO}"));
        let why = parse_int(given).err().filter(|_| !given.is_empty())?;
        Some(format!(
            "failed to parse annotation[{ROLLBACK_TO}]={given} as int64: {why}"
        ))
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(spec) = object.get("spec") {
            validate_deployment_spec(self.capabilities, spec, rollback_to(object), &mut errors);
        }
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let capabilities = self.capabilities.in_change_of(old.pointer("/spec/template"));
        let mut errors = Self { capabilities }.validate(context, new);
        validate_immutable_selector(new, old, &mut errors);
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        let labels = old.pointer("/metadata/labels").cloned();
        match labels {
            Some(labels) => new["metadata"]["labels"] = labels,
            None => remove(&mut new["metadata"], "labels"),
        }
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = new.get("status").unwrap_or(&Value::Null);
        let path = Path::new("status");
        let counters = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        validate_nonnegative_fields(status, &path, &counters, &mut errors);
        let bounds = [
            ("updatedReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ];
        validate_counter_bounds(status, &bounds, &mut errors);
        validate_collision_count(new, old, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = name_warnings(new, old);
        warnings.extend(template_warnings(new, old));
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn is_new_generation(&self, new: &Value, old: &Value) -> bool {
        let annotations = |object: &Value| object.pointer("/metadata/annotations").cloned();
        differs_beyond_metadata_and_status(new, old) || annotations(new) != annotations(old)
    }
}

/// The revision to go back to, if there is one.
fn rollback_to(object: &Value) -> Option<i64> {
    parse_int(text_at(object, &format!("/metadata/annotations/{ROLLBACK_TO}"))).ok()
}

/// As upstream's `ValidateDeploymentSpec`; `revision` is the one to go back to.
fn validate_deployment_spec(capabilities: Capabilities, spec: &Value, revision: Option<i64>, errors: &mut ErrorList) {
    let path = &Path::new("spec");
    validate_nonnegative_fields(spec, path, &["replicas"], errors);
    validate_selector(spec, path, "deployment", errors);
    validate_pod_template_spec_for_replica_set(capabilities, spec, path, "ReplicaSet", errors);
    if let Some(strategy) = spec.get("strategy") {
        validate_deployment_strategy(strategy, &path.child("strategy"), errors);
    }
    validate_nonnegative_fields(spec, path, &["minReadySeconds", "revisionHistoryLimit"], errors);
    let rollback = json!({ "version": revision });
    validate_nonnegative_fields(&rollback, &path.child("rollback"), &["version"], errors);
    validate_nonnegative_fields(spec, path, &["progressDeadlineSeconds"], errors);
    let ready = integer_at(spec, "/minReadySeconds").unwrap_or(0);
    if let Some(deadline) = integer_at(spec, "/progressDeadlineSeconds").filter(|deadline| *deadline <= ready) {
        let at = path.child("progressDeadlineSeconds");
        errors.push(Error::invalid(
            &at,
            &deadline.into(),
            "must be greater than minReadySeconds",
        ));
    }
}

/// As upstream's `ValidateDeploymentStrategy`.
fn validate_deployment_strategy(strategy: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let rolling = strategy.get("rollingUpdate").filter(|rolling| !rolling.is_null());
    match text(strategy, "type") {
        "Recreate" => {
            if rolling.is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(Error::forbidden(&path.child("rollingUpdate"), detail));
            }
        }
        "RollingUpdate" => {
            let at = path.child("rollingUpdate");
            match rolling {
                None => errors.push(Error::required(&at, "this should be defaulted and never be nil")),
                Some(rolling) => validate_rolling_update_deployment(rolling, &at, errors),
            }
        }
        _ => {
            let shown = structs::compact(Some(strategy), PrintedShape::Struct(INTERNAL_STRATEGY));
            errors.push(not_supported_shown(path, &shown, &["Recreate", "RollingUpdate"]));
        }
    }
}

/// As upstream's `ValidateRollingUpdateDeployment`.
fn validate_rolling_update_deployment(rolling: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::from(0);
    let unavailable = rolling.get("maxUnavailable").unwrap_or(&none);
    let surge = rolling.get("maxSurge").unwrap_or(&none);
    validate_positive_int_or_percent(unavailable, &path.child("maxUnavailable"), errors);
    validate_positive_int_or_percent(surge, &path.child("maxSurge"), errors);
    if int_or_percent(unavailable) == 0 && int_or_percent(surge) == 0 {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(Error::invalid(&path.child("maxUnavailable"), unavailable, detail));
    }
    is_not_more_than_100_percent(unavailable, &path.child("maxUnavailable"), errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Trial, named};

    fn trial() -> Trial {
        Trial::new("apps", "deployments", kind(Default::default()))
    }

    fn deployment(patch: &Value) -> Value {
        let spec = json!({ "selector": testing::selector(), "template": testing::template() });
        named("a", testing::merged(&spec, patch))
    }

    #[test]
    fn the_revision_to_go_back_to_must_be_a_number() {
        let error = |given: &str| {
            let annotations = json!({ ROLLBACK_TO: given });
            <Deployments as Default>::default().conversion_error(&json!({ "metadata": { "annotations": annotations } }))
        };
        assert_eq!(error("2"), None);
        assert_eq!(error(""), None, "as if it were not there");
        let message = "failed to parse annotation[deprecated.deployment.rollback.to]=x as int64: strconv.ParseInt: parsing \
                    \"x\": invalid syntax";
        assert_eq!(error("x").as_deref(), Some(message));
    }

    #[test]
    fn the_revision_to_go_back_to_is_not_negative() {
        let mut body = deployment(&json!({}));
        body["metadata"]["annotations"] = json!({ ROLLBACK_TO: "-3" });
        let error = "spec.rollback.version: Invalid value: -3: must be greater than or equal to 0";
        trial().expect_errors(&[(body, &[error])]);
    }

    #[test]
    fn the_strategy_is_filled_in_by_its_type() {
        let quarter =
            json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } });
        let cases = [
            (json!({}), quarter.clone()),
            (json!({ "strategy": { "type": "" } }), quarter),
            (
                json!({ "strategy": { "type": "Recreate" } }),
                json!({ "type": "Recreate" }),
            ),
            (
                json!({ "strategy": { "rollingUpdate": { "maxSurge": 3 } } }),
                json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 3, "maxUnavailable": "25%" } }),
            ),
        ];
        for (given, expected) in cases {
            assert_eq!(
                trial().decode(deployment(&given))["spec"]["strategy"],
                expected,
                "{given}"
            );
        }
    }

    #[test]
    fn terminating_replicas_are_dropped_unless_they_were_stored() {
        testing::expect_terminating_replicas_gated("deployments", kind, deployment(&json!({})));
    }

    #[test]
    fn errors_of_the_spec() {
        let rolling = |rolling: Value| json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": rolling } });
        let cases: [(Value, &[&str]); 10] = [
            (json!({}), &[]),
            (
                json!({ "replicas": -1, "selector": null, "minReadySeconds": 9, "progressDeadlineSeconds": 9 }),
                &[
                    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                    "spec.selector: Required value",
                    r#"spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`"#,
                    "spec.progressDeadlineSeconds: Invalid value: 9: must be greater than minReadySeconds",
                ],
            ),
            (
                json!({ "selector": { "matchLabels": null } }),
                &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
            ),
            (
                json!({ "strategy": { "type": "Recreate", "rollingUpdate": {} } }),
                &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
            ),
            (
                json!({ "strategy": { "type": "Odd" } }),
                &[
                    r#"spec.strategy: Unsupported value: {"Type":"Odd","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate""#,
                ],
            ),
            (
                json!({ "strategy": { "type": "Odd", "rollingUpdate": { "maxSurge": "5%", "maxUnavailable": 1 } } }),
                &[
                    r#"spec.strategy: Unsupported value: {"Type":"Odd","RollingUpdate":{"MaxUnavailable":1,"MaxSurge":"5%"}}: supported values: "Recreate", "RollingUpdate""#,
                ],
            ),
            (
                json!({
                    "selector": { "matchExpressions": [{ "key": "a", "operator": "Z" }] },
                    "template": { "spec": { "restartPolicy": "Never" } },
                }),
                &[
                    r#"spec.selector.matchExpressions[0].operator: Invalid value: "Z": not a valid selector operator"#,
                    r#"spec.selector: Invalid value: {"matchLabels":{"app":"x"},"matchExpressions":[{"key":"a","operator":"Z"}]}: invalid label selector"#,
                ],
            ),
            (
                rolling(json!({ "maxSurge": 0, "maxUnavailable": "0%" })),
                &[
                    r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0"#,
                ],
            ),
            (
                rolling(json!({ "maxSurge": "x", "maxUnavailable": "101%" })),
                &[
                    r#"spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"#,
                    r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%"#,
                ],
            ),
            (
                rolling(json!({ "maxSurge": "5", "maxUnavailable": 0 })),
                &[
                    r#"spec.strategy.rollingUpdate.maxSurge: Invalid value: "5": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"#,
                ],
            ),
        ];
        trial().expect_errors(&cases.map(|(patch, errors)| (deployment(&patch), errors)));
    }

    #[test]
    fn selectors_and_collision_counters_do_not_change() {
        let trial = trial();
        let old = trial.create(deployment(&json!({}))).expect("the deployment is valid");
        let other = json!({ "matchLabels": { "app": "y" } });
        let template = json!({ "metadata": { "labels": { "app": "y" } } });
        trial.expect_patch_errors(
            &old,
            &[(
                json!({ "spec": { "selector": other, "template": template } }),
                &[r#"spec.selector: Invalid value: {"matchLabels":{"app":"y"}}: field is immutable"#],
            )],
        );
        let counted = trial
            .status(&old, json!({ "collisionCount": 2 }))
            .expect("counters may grow");
        trial.expect_status_errors(
            &counted,
            &[
                (
                    json!({ "collisionCount": 1 }),
                    &["status.collisionCount: Invalid value: 1: cannot be decremented"],
                ),
                (
                    json!({}),
                    &["status.collisionCount: Invalid value: 0: cannot be decremented"],
                ),
                (
                    json!({ "collisionCount": 2, "readyReplicas": 1, "replicas": -1 }),
                    &[
                        "status.replicas: Invalid value: -1: must be greater than or equal to 0",
                        "status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas",
                        "status.readyReplicas: Invalid value: 1: cannot be greater than status.replicas",
                        "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
                    ],
                ),
            ],
        );
    }

    #[test]
    fn annotations_count_as_a_change() {
        let old = json!({ "metadata": {}, "spec": {} });
        let annotated = json!({ "metadata": { "annotations": { "a": "b" } }, "spec": {} });
        let labelled = json!({ "metadata": { "labels": { "a": "b" } }, "spec": {} });
        assert!(<Deployments as Default>::default().is_new_generation(&annotated, &old));
        assert!(!<Deployments as Default>::default().is_new_generation(&labelled, &old));
    }

    #[test]
    fn names_that_hosts_cannot_have_are_warned_of() {
        let expected = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a \
                        DNS label is recommended: [must not contain dots]";
        let new = json!({ "metadata": { "name": "a.b" } });
        assert_eq!(trial().warnings(&new, None), [expected]);
        assert!(trial().warnings(&new, Some(&new)).is_empty());
    }
}
