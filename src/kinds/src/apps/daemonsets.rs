//! DaemonSets (`pkg/registry/apps/daemonset`, `pkg/apis/apps/validation`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::{
        parse_int,
        structs::{self, PrintedShape},
    },
    selector::{compile_label_selector, validate_label_selector},
};
use trireme_registry::{
    Column, Strategy, WriteContext,
    strategy::{MetadataChecks, keep_all_but_status_and_metadata},
};

use crate::{
    checks::{not_supported_shown, validate_nonnegative_fields},
    columns::{self, column, documented, or_none},
    kind::Kind,
    pod_template::{self, Capabilities, Tolerated, drop_disabled_at},
    values::{keep_field, remove, struct_mut, text, text_at},
    workload::{
        INTERNAL_STRATEGY, count_column, default_template, int_or_percent, is_not_more_than_100_percent,
        shown_selector, template_columns, template_warnings, validate_collision_count, validate_immutable_selector,
        validate_positive_int_or_percent, validate_restart_policy_always, validate_template_labels,
    },
};

const SPEC: &str = "io.k8s.api.apps.v1.DaemonSetSpec";
const STATUS: &str = "io.k8s.api.apps.v1.DaemonSetStatus";
const POD_SPEC: &str = "io.k8s.api.core.v1.PodSpec";
/// The annotation with the number of the template's changes; clients of the first versions had a field for it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The kind's parts.
pub(crate) fn kind(capabilities: Capabilities) -> Kind {
    let status = |name, field, pointer| count_column(name, "integer", STATUS, field, pointer);
    let [containers, images, selector] = template_columns(SPEC);
    Kind::new("apps", "daemonsets", DaemonSets { capabilities })
        .columns(vec![
            columns::name(),
            status("Desired", "desiredNumberScheduled", "/status/desiredNumberScheduled"),
            status("Current", "currentNumberScheduled", "/status/currentNumberScheduled"),
            status("Ready", "numberReady", "/status/numberReady"),
            status("Up-to-date", "updatedNumberScheduled", "/status/updatedNumberScheduled"),
            status("Available", "numberAvailable", "/status/numberAvailable"),
            node_selector_column(),
            columns::age(),
            containers,
            images,
            selector,
        ])
        .hide_metadata(hide_template_generation)
}

/// The generation is part of the spec as Kubernetes holds it; only clients see it as an annotation.
fn hide_template_generation(metadata: &mut Value) {
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove(TEMPLATE_GENERATION);
        if annotations.is_empty() {
            remove(metadata, "annotations");
        }
    }
}

fn node_selector_column() -> Column {
    column(
        "Node Selector",
        "string",
        documented(POD_SPEC, "nodeSelector"),
        |object| {
            let selector = object
                .pointer("/spec/template/spec/nodeSelector")
                .and_then(Value::as_object);
            let pairs = selector
                .into_iter()
                .flatten()
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
            or_none(&pairs.collect::<Vec<_>>().join(","))
        },
    )
}

#[derive(Default)]
struct DaemonSets {
    capabilities: Capabilities,
}

impl Strategy for DaemonSets {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn default(&self, object: &mut Value) {
        // Seen as the client's, who gets it with every object.
        struct_mut(&mut object["metadata"], "annotations")
            .entry(TEMPLATE_GENERATION)
            .or_insert_with(|| "0".into());
        let spec = struct_mut(object, "spec");
        let strategy = spec.entry("updateStrategy").or_insert_with(|| json!({}));
        if text(strategy, "type").is_empty() {
            strategy["type"] = "RollingUpdate".into();
        }
        if text(strategy, "type") == "RollingUpdate" {
            let rolling = struct_mut(strategy, "rollingUpdate");
            rolling.entry("maxUnavailable").or_insert_with(|| 1.into());
            rolling.entry("maxSurge").or_insert_with(|| 0.into());
        } else if let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut) {
            // Not used by this strategy, but kept: kube-apiserver's internal type has no pointer here, so an absent number becomes 0.
            rolling.entry("maxUnavailable").or_insert_with(|| 0.into());
        }
        default_template(spec);
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(self.capabilities, object, old, "/spec/template/spec");
    }

    fn conversion_error(&self, object: &Value) -> Option<String> {
        let given = object.pointer(&format!("/metadata/annotations/{TEMPLATE_GENERATION}"))?;
        parse_int(given.as_str()?).err()
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        });
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if let Some(spec) = object.get("spec") {
            validate_daemon_set_spec(self.capabilities, spec, template_generation(object), &mut errors);
        }
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
        let template = |object: &Value| object.pointer("/spec/template").cloned();
        let grown = i64::from(template(new) != template(old));
        set_template_generation(new, template_generation(old) + grown);
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let capabilities = self
            .capabilities
            .in_change_of(old.pointer("/spec/template"))
            .with_selector_of(old.pointer("/spec/selector"));
        let mut errors = ErrorList::new();
        validate_immutable_selector(new, old, &mut errors);
        errors.extend(Self { capabilities }.validate(context, new));
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_all_but_status_and_metadata(new, old);
        set_template_generation(new, template_generation(old));
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let counters = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        let status = new.get("status").unwrap_or(&Value::Null);
        validate_nonnegative_fields(status, &Path::new("status"), &counters, &mut errors);
        validate_collision_count(new, old, &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        template_warnings(new, old)
    }

    fn has_generation(&self) -> bool {
        true
    }
}

fn template_generation(object: &Value) -> i64 {
    text_at(object, &format!("/metadata/annotations/{TEMPLATE_GENERATION}"))
        .parse()
        .unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    struct_mut(&mut object["metadata"], "annotations")
        .insert(TEMPLATE_GENERATION.into(), generation.to_string().into());
}

/// As upstream's `ValidateDaemonSetSpec`.
fn validate_daemon_set_spec(capabilities: Capabilities, spec: &Value, generation: i64, errors: &mut ErrorList) {
    let path = Path::new("spec");
    let at = path.child("selector");
    let none = Value::Null;
    let (template, template_path) = (spec.get("template").unwrap_or(&none), path.child("template"));
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    if let Some(fields) = selector.and_then(Value::as_object) {
        let any_value = capabilities.tolerated.has(Tolerated::SELECTOR_VALUES);
        errors.extend(validate_label_selector(fields, any_value, &at));
    }
    validate_template_labels(selector, template, &template_path, errors);
    let selects_all = selector
        .and_then(Value::as_object)
        .is_some_and(|fields| compile_label_selector(Some(fields)).is_ok_and(|selector| selector.is_everything()));
    if let Some(selector) = selector.filter(|_| selects_all) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(Error::invalid_shown(&at, shown_selector(selector), detail));
    }
    pod_template::validate_pod_template_spec(capabilities, template, &template_path, errors);
    validate_restart_policy_always(template, &template_path, "DaemonSet", errors);
    validate_nonnegative_fields(spec, &path, &["minReadySeconds"], errors);
    let generation = json!({ "templateGeneration": generation });
    validate_nonnegative_fields(&generation, &path, &["templateGeneration"], errors);
    validate_daemon_set_update_strategy(spec, &path.child("updateStrategy"), errors);
    validate_nonnegative_fields(spec, &path, &["revisionHistoryLimit"], errors);
}

/// As upstream's `ValidateDaemonSetUpdateStrategy`.
fn validate_daemon_set_update_strategy(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::Null;
    let strategy = spec.get("updateStrategy").unwrap_or(&none);
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let at = path.child("rollingUpdate");
            match strategy.get("rollingUpdate") {
                None => errors.push(Error::required(&at, "")),
                Some(rolling) => validate_rolling_update_daemon_set(rolling, &at, errors),
            }
        }
        _ => {
            let shown = structs::compact(Some(strategy), PrintedShape::Struct(INTERNAL_STRATEGY));
            errors.push(not_supported_shown(path, &shown, &["RollingUpdate", "OnDelete"]));
        }
    }
}

/// As upstream's `ValidateRollingUpdateDaemonSet`.
fn validate_rolling_update_daemon_set(rolling: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::from(0);
    let (at_unavailable, at_surge) = (path.child("maxUnavailable"), path.child("maxSurge"));
    let unavailable = rolling.get("maxUnavailable").unwrap_or(&none);
    let surge = rolling.get("maxSurge").unwrap_or(&none);
    validate_positive_int_or_percent(unavailable, &at_unavailable, errors);
    validate_positive_int_or_percent(surge, &at_surge, errors);
    is_not_more_than_100_percent(unavailable, &at_unavailable, errors);
    is_not_more_than_100_percent(surge, &at_surge, errors);
    match (int_or_percent(unavailable) != 0, int_or_percent(surge) != 0) {
        (true, true) => {
            errors.push(Error::invalid(
                &at_surge,
                surge,
                "may not be set when maxUnavailable is non-zero",
            ));
        }
        (false, false) => errors.push(Error::required(&at_unavailable, "cannot be 0 when maxSurge is 0")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Trial, named};

    fn trial() -> Trial {
        Trial::new("apps", "daemonsets", kind(Default::default()))
    }

    fn daemon_set(patch: &Value) -> Value {
        let spec = json!({ "selector": testing::selector(), "template": testing::template() });
        named("a", testing::merged(&spec, patch))
    }

    #[test]
    fn changes_of_the_template_are_counted_in_an_annotation() {
        let trial = trial();
        let old = trial.create(daemon_set(&json!({}))).expect("the daemon set is valid");
        assert_eq!(template_generation(&old), 1);
        let template = json!({ "spec": { "template": { "metadata": { "annotations": { "r": "1" } } } } });
        let changed = trial.patch(&old, &template).expect("templates may change");
        assert_eq!(template_generation(&changed), 2);
        let forged =
            json!({ "metadata": { "annotations": { TEMPLATE_GENERATION: "9" } }, "spec": { "minReadySeconds": 1 } });
        let kept = trial.patch(&changed, &forged).expect("other fields may change");
        assert_eq!(template_generation(&kept), 2);
    }

    #[test]
    fn a_stored_annotation_below_zero_is_refused() {
        let mut body = daemon_set(&json!({}));
        body["metadata"]["annotations"] = json!({ TEMPLATE_GENERATION: "-1" });
        let old = trial().decode(body);
        let error = "spec.templateGeneration: Invalid value: -1: must be greater than or equal to 0";
        assert_eq!(trial().patch(&old, &json!({})).map(drop), Err(vec![error.to_owned()]));
    }

    #[test]
    fn a_selector_may_keep_values_that_no_label_can_have() {
        let requirement = json!({ "key": "app", "operator": "NotIn", "values": ["-1"] });
        let body = daemon_set(&json!({ "selector": { "matchExpressions": [requirement] } }));
        let trial = trial();
        assert_eq!(trial.errors(body.clone()).len(), 1);
        let changed = testing::merged(&body, &json!({ "spec": { "minReadySeconds": 1 } }));
        assert!(trial.update(&trial.decode(body), changed.clone()).is_ok());
        let valid = trial.decode(daemon_set(&json!({})));
        assert!(trial.update(&valid, changed).is_err());
    }

    #[test]
    fn the_annotation_must_be_a_number() {
        let error = |given: &str| {
            let annotations = json!({ TEMPLATE_GENERATION: given });
            <DaemonSets as Default>::default().conversion_error(&json!({ "metadata": { "annotations": annotations } }))
        };
        let message = |why: &str| Some(format!("strconv.ParseInt: parsing {why}"));
        assert_eq!(error("-3"), None);
        assert_eq!(error("x"), message(r#""x": invalid syntax"#));
        assert_eq!(error(""), message(r#""": invalid syntax"#));
        assert_eq!(
            error("9223372036854775808"),
            message(r#""9223372036854775808": value out of range"#)
        );
        assert_eq!(<DaemonSets as Default>::default().conversion_error(&json!({})), None);
    }

    #[test]
    fn the_numbers_of_a_rolling_update_depend_on_the_strategy() {
        let defaulted = |strategy: Value| {
            let created = trial().create(daemon_set(&json!({ "updateStrategy": strategy })));
            created.expect("the daemon set is valid")["spec"]["updateStrategy"]["rollingUpdate"].clone()
        };
        let rolling = |unavailable: i64, surge: i64| json!({ "maxUnavailable": unavailable, "maxSurge": surge });
        assert_eq!(defaulted(json!({})), rolling(1, 0));
        assert_eq!(defaulted(json!({ "type": "OnDelete" })), Value::Null);
        let kept = json!({ "type": "OnDelete", "rollingUpdate": { "maxSurge": 1 } });
        assert_eq!(defaulted(kept), rolling(0, 1));
    }

    #[test]
    fn errors_of_the_spec() {
        let rolling = |rolling: Value| json!({ "updateStrategy": { "rollingUpdate": rolling } });
        let disk = json!([{ "name": "v", "gcePersistentDisk": { "pdName": "d" } }]);
        let cases: [(Value, &[&str]); 8] = [
            (json!({}), &[]),
            // That many nodes could not write to it at once is nothing that the server looks at.
            (json!({ "template": { "spec": { "volumes": disk } } }), &[]),
            (
                json!({ "selector": null }),
                &[
                    r#"spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`"#,
                ],
            ),
            (
                json!({ "selector": { "matchLabels": null } }),
                &["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
            ),
            (
                json!({ "minReadySeconds": -1, "revisionHistoryLimit": -1, "updateStrategy": { "type": "Z" } }),
                &[
                    "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                    r#"spec.updateStrategy: Unsupported value: {"Type":"Z","RollingUpdate":null}: supported values: "RollingUpdate", "OnDelete""#,
                    "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
            (
                rolling(json!({ "maxSurge": 0, "maxUnavailable": 0 })),
                &["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
            ),
            (
                rolling(json!({ "maxSurge": "5%" })),
                &[
                    r#"spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "5%": may not be set when maxUnavailable is non-zero"#,
                ],
            ),
            (
                rolling(json!({ "maxUnavailable": "200%" })),
                &[
                    r#"spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "200%": must not be greater than 100%"#,
                ],
            ),
        ];
        trial().expect_errors(&cases.map(|(patch, errors)| (daemon_set(&patch), errors)));
    }
}
