//! HorizontalPodAutoscalers (`pkg/registry/autoscaling/horizontalpodautoscaler`, `pkg/apis/autoscaling`). Version 2 is
//! stored.

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features, GroupVersion,
    field::{ErrorList, Path},
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    checks::validate_nonnegative_fields,
    columns::{self, column, documented},
    kind::Kind,
    values::{at, integer_at, items, keep_field, remove, struct_mut, text, text_at},
};

mod annotations;
mod metrics;
mod v1;
mod validation;

pub(crate) use v1::V1;

const SPEC: &str = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec";
const STATUS: &str = "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus";
const SHOWN_METRICS: usize = 2;

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let reference = |object: &Value| {
        let part = |name: &str| text_at(object, &format!("/spec/scaleTargetRef/{name}")).to_owned();
        Value::from(format!("{}/{}", part("kind"), part("name")))
    };
    let min = |object: &Value| match integer_at(object, "/spec/minReplicas") {
        Some(min) => Value::from(min.to_string()),
        None => Value::from("<unset>"),
    };
    Kind::new("autoscaling", "horizontalpodautoscalers", Autoscalers { features })
        .columns(vec![
            columns::name(),
            column("Reference", "string", documented(SPEC, "scaleTargetRef"), reference),
            column("Targets", "string", documented(SPEC, "metrics"), |object| {
                targets(object).into()
            }),
            column("MinPods", "string", documented(SPEC, "minReplicas"), min),
            column("MaxPods", "string", documented(SPEC, "maxReplicas"), |object| {
                integer_at(object, "/spec/maxReplicas").unwrap_or(0).into()
            }),
            column("Replicas", "string", documented(STATUS, "currentReplicas"), |object| {
                integer_at(object, "/status/currentReplicas").unwrap_or(0).into()
            }),
            columns::age(),
        ])
        .conversion(GroupVersion::new("autoscaling", "v1"), V1)
}

/// Prints current and target values of the first metrics.
fn targets(object: &Value) -> String {
    let specs = object.get("spec").map_or(&[][..], |spec| items(spec, "metrics"));
    let statuses = object
        .get("status")
        .map_or(&[][..], |status| items(status, "currentMetrics"));
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let none = Value::Null;
    let shown = specs
        .iter()
        .take(SHOWN_METRICS)
        .enumerate()
        .map(|(index, spec)| target(spec, statuses.get(index).unwrap_or(&none)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match specs.len().saturating_sub(SHOWN_METRICS) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn target(spec: &Value, status: &Value) -> String {
    let kind = text(spec, "type");
    let Some(field) = metrics::field_of(kind) else {
        return "<unknown type>".to_owned();
    };
    let at = |value: &Value, part: &str, name: &str| {
        let number = value
            .get(field)
            .and_then(|source| source.get(part))
            .and_then(|part| part.get(name))?;
        Some(number.as_str().map_or_else(|| format!("{number}%"), str::to_owned))
    };
    let (wanted, current) = (|name| at(spec, "target", name), |name| at(status, "current", name));
    // Go prints a quantity that is absent so.
    let nil = || "<nil>".to_owned();
    let unknown = || "<unknown>".to_owned();
    let measured = |name| current(name).unwrap_or_else(if status.get(field).is_some() { nil } else { unknown });
    let name = spec.get(field).map_or("", |source| text(source, "name"));
    match (kind, wanted("averageValue")) {
        ("Resource" | "ContainerResource", Some(average)) => format!("{name}: {}/{average}", measured("averageValue")),
        ("Resource" | "ContainerResource", None) => {
            let share = wanted("averageUtilization").unwrap_or_else(|| "<auto>".to_owned());
            let current = current("averageUtilization").unwrap_or_else(unknown);
            format!("{name}: {current}/{share}")
        }
        ("Pods", average) => format!("{}/{}", measured("averageValue"), average.unwrap_or_else(nil)),
        (_, Some(average)) => format!("{}/{average} (avg)", current("averageValue").unwrap_or_else(unknown)),
        (_, None) => format!("{}/{}", measured("value"), wanted("value").unwrap_or_else(nil)),
    }
}

/// The rules of both directions, which may have tolerances.
const SCALING_RULES: [&str; 2] = ["/spec/behavior/scaleDown", "/spec/behavior/scaleUp"];
const TOLERANCE: &str = "tolerance";

struct Autoscalers {
    features: Features,
}

impl Strategy for Autoscalers {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn default(&self, object: &mut Value) {
        annotations::take_annotations(object);
        let spec = struct_mut(object, "spec");
        if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let cpu = json!({ "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } });
            spec.insert("metrics".into(), json!([{ "type": "Resource", "resource": cpu }]));
        }
        if let Some(behavior) = spec.get_mut("behavior") {
            let every_15_seconds =
                |kind: &str, value: i64| json!({ "type": kind, "value": value, "periodSeconds": 15 });
            let percent = every_15_seconds("Percent", 100);
            let up = struct_mut(behavior, "scaleUp");
            up.entry("stabilizationWindowSeconds").or_insert_with(|| 0.into());
            up.entry("selectPolicy").or_insert_with(|| "Max".into());
            up.entry("policies")
                .or_insert_with(|| json!([every_15_seconds("Pods", 4), percent.clone()]));
            let down = struct_mut(behavior, "scaleDown");
            down.entry("selectPolicy").or_insert_with(|| "Max".into());
            down.entry("policies").or_insert_with(|| json!([percent]));
        }
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        if !self.features.has(Feature::HpaConfigurableTolerance) && !old.is_some_and(has_tolerance) {
            drop_tolerances(object);
        }
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "currentMetrics": null, "desiredReplicas": 0 });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validation::validate_horizontal_pod_autoscaler_spec(
            self.features,
            object.get("spec").unwrap_or(&Value::Null),
            None,
            &mut errors,
        );
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validation::validate_horizontal_pod_autoscaler_spec(
            self.features,
            new.get("spec").unwrap_or(&Value::Null),
            old.get("spec"),
            &mut errors,
        );
        errors
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = new.get("status").unwrap_or(&Value::Null);
        validate_nonnegative_fields(
            status,
            &Path::new("status"),
            &["currentReplicas", "desiredReplicas"],
            &mut errors,
        );
        errors
    }
}

/// Returns true if the rules of either direction have a tolerance.
fn has_tolerance(object: &Value) -> bool {
    let mut rules = SCALING_RULES.iter().filter_map(|rules| at(object, rules));
    rules.any(|rules| rules.get(TOLERANCE).is_some())
}

fn drop_tolerances(object: &mut Value) {
    for rules in SCALING_RULES {
        if let Some(rules) = object.pointer_mut(rules) {
            remove(rules, TOLERANCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, merged, named};

    fn trial() -> Trial {
        Trial::new("autoscaling", "horizontalpodautoscalers", kind(Features::default()))
    }

    fn autoscaler(patch: &Value) -> Value {
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" });
        named(
            "a",
            merged(&json!({ "maxReplicas": 3, "scaleTargetRef": target }), patch),
        )
    }

    #[test]
    fn errors_of_the_spec() {
        let metric = |metric: Value| json!({ "metrics": [metric] });
        let cases: [(Value, &[&str]); 7] = [
            (json!({}), &[]),
            (
                json!({ "maxReplicas": 0, "minReplicas": 0, "scaleTargetRef": { "apiVersion": "v1", "name": "a/b" } }),
                &[
                    "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                    "spec.maxReplicas: Required value: must be set and greater than 0",
                    r#"spec.scaleTargetRef.name: Invalid value: "a/b": may not contain '/'"#,
                    r#"spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group"#,
                    "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
                ],
            ),
            (
                json!({ "scaleTargetRef": { "apiVersion": "v1", "kind": "ReplicationController" } }),
                &[],
            ),
            (
                metric(json!({ "type": "Pods" })),
                &["spec.metrics[0].pods: Required value: must populate information for the given metric source"],
            ),
            (
                metric(json!({
                    "type": "Pods",
                    "pods": { "metric": { "name": "q" }, "target": { "type": "AverageValue", "averageValue": "0" } },
                })),
                &[r#"spec.metrics[0].pods.target.averageValue: Invalid value: "0": must be positive"#],
            ),
            (
                metric(json!({
                    "type": "ContainerResource",
                    "containerResource": {
                        "name": "pods",
                        "container": "a.b",
                        "target": { "type": "Utilization", "averageUtilization": 50 },
                    },
                })),
                &[
                    r#"spec.metrics[0].containerResource.name: Invalid value: "pods": must be a standard resource for containers"#,
                    r#"spec.metrics[0].containerResource.container: Invalid value: "a.b": must not contain dots"#,
                ],
            ),
            (
                json!({ "behavior": { "scaleUp": { "policies": [], "tolerance": "-1" } } }),
                &[
                    "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy",
                    r#"spec.behavior.scaleUp.tolerance: Invalid value: "-1": must be greater than or equal to 0"#,
                ],
            ),
        ];
        trial().expect_errors(&cases.map(|(patch, errors)| (autoscaler(&patch), errors)));
    }

    #[test]
    fn tolerances_are_dropped_unless_one_was_stored() {
        let features = Features::without(&[Feature::HpaConfigurableTolerance]);
        let off = Trial::new("autoscaling", "horizontalpodautoscalers", kind(features));
        let asked = autoscaler(&json!({ "behavior": { "scaleUp": { "tolerance": "10m" } } }));
        let dropped = off.create(asked.clone()).expect("the autoscaler is valid");
        assert!(!has_tolerance(&dropped));
        let stored = trial().create(asked).expect("the autoscaler is valid");
        assert_eq!(stored["spec"]["behavior"]["scaleUp"]["tolerance"], "10m");
        let patch = json!({ "spec": { "behavior": { "scaleDown": { "tolerance": "20m" } } } });
        let kept = off.patch(&stored, &patch).expect("the autoscaler is valid");
        assert_eq!(kept["spec"]["behavior"]["scaleDown"]["tolerance"], "20m");
        assert!(!has_tolerance(
            &off.patch(&dropped, &patch).expect("the autoscaler is valid")
        ));
    }

    #[test]
    fn there_may_be_no_replica_where_the_feature_is_on_or_where_there_was_none_before() {
        let metric = json!({
            "type": "External",
            "external": { "metric": { "name": "q" }, "target": { "type": "AverageValue", "averageValue": "1" } },
        });
        let body = |min: i64| autoscaler(&json!({ "minReplicas": min, "metrics": [metric] }));
        let on = Trial::new(
            "autoscaling",
            "horizontalpodautoscalers",
            kind(Features::with(&[Feature::HpaScaleToZero])),
        );
        let too_few = "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1";
        trial().expect_errors(&[(body(0), &[too_few])]);
        let negative = "spec.minReplicas: Invalid value: -1: must be greater than or equal to 0";
        on.expect_errors(&[(body(0), &[]), (body(-1), &[negative])]);
        let [none, one] = [0, 1].map(|min| on.create(body(min)).expect("the autoscaler is valid"));
        assert!(trial().update(&none, body(0)).is_ok(), "it may stay");
        assert_eq!(trial().update(&one, body(0)), Err(vec![too_few.to_owned()]));
        assert!(on.update(&one, body(0)).is_ok());
    }

    #[test]
    fn versions_tell_the_same_in_their_own_ways() {
        let both = json!({ "metrics": [
            { "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 70 } } },
            { "type": "Pods", "pods": { "metric": { "name": "q" }, "target": { "type": "AverageValue", "averageValue": "5" } } },
        ] });
        let stored = trial().create(autoscaler(&both)).expect("the autoscaler is valid");
        let old_style = trial().in_version("v1", V1);
        let shown = old_style.shown(&stored);
        assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 70);
        let annotation = &shown["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"];
        assert_eq!(
            annotation,
            r#"[{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"5"}}]"#
        );
        let back = old_style.decode(shown);
        let kinds: Vec<&str> = items(&back["spec"], "metrics")
            .iter()
            .map(|metric| text(metric, "type"))
            .collect();
        assert_eq!(kinds, ["Pods", "Resource"]);
        assert!(back["metadata"]["annotations"].is_null());
    }

    #[test]
    fn annotations_that_do_not_fit_their_types_say_nothing() {
        let old_style = trial().in_version("v1", V1);
        let default = json!([{ "type": "Resource",
            "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } } }]);
        let read = |name: &str, text: &str| {
            let mut body = autoscaler(&json!({}));
            body["metadata"]["annotations"] = json!({ format!("autoscaling.alpha.kubernetes.io/{name}"): text });
            let read = old_style.decode(body);
            assert!(read["metadata"].get("annotations").is_none(), "{text}");
            read
        };
        for metrics in [
            r#"[{"type":5}]"#,
            r#"["x"]"#,
            "{}",
            "null",
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":"x"}}]"#,
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":4294967296}}]"#,
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"x"}}]"#,
            r#"[{"type":"Pods","pods":{"metricName":"q","selector":{"matchLabels":5}}}]"#,
            r#"[{"type":"Pods","pods":{"metricName":5}}]"#,
            r#"[{"type":"Object","object":{"target":"x"}}]"#,
            r#"[{"type":"Pods","pods":7}]"#,
        ] {
            assert_eq!(read("metrics", metrics)["spec"]["metrics"], default, "{metrics}");
            let measured = metrics.replace("targetAverage", "currentAverage");
            assert_eq!(
                read("current-metrics", &measured)["status"]["currentMetrics"],
                Value::Null
            );
        }
        for behavior in [
            "{}",
            "5",
            "null",
            r#"{"Foo":1}"#,
            r#"{"ScaleUp":5}"#,
            r#"{"ScaleUp":{"SelectPolicy":5}}"#,
        ] {
            assert_eq!(read("behavior", behavior)["spec"].get("behavior"), None, "{behavior}");
        }
        for conditions in [r#"["x"]"#, r#"[{"type":1}]"#, r#"[{"lastTransitionTime":"x"}]"#, "7"] {
            assert_eq!(
                read("conditions", conditions)["status"].get("conditions"),
                None,
                "{conditions}"
            );
        }
    }

    #[test]
    fn annotations_are_read_as_the_types_of_version_1() {
        let old_style = trial().in_version("v1", V1);
        let mut body = autoscaler(&json!({}));
        let prefix = "autoscaling.alpha.kubernetes.io";
        body["metadata"]["annotations"] = json!({
            format!("{prefix}/metrics"): r#"[null,{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"1024m","more":1}},
                {"type":"External","external":{"metricName":"e","targetValue":"0","targetAverageValue":"3"}},
                {"type":"Object","object":{"target":{"kind":"K","more":1},"targetValue":"0","averageValue":"3"}}]"#,
            format!("{prefix}/current-metrics"): r#"[{"type":"External","external":{"metricName":"e","currentAverageValue":"1"}}]"#,
            format!("{prefix}/behavior"): r#"{"ScaleUp":{"Tolerance":"0.1","Policies":null}}"#,
            format!("{prefix}/conditions"): r#"[{"type":"A","status":"True","more":1}]"#,
            format!("{prefix}/scale-up-tolerance"): "1",
            "kept": "1",
        });
        let read = old_style.decode(body);
        assert_eq!(read["metadata"]["annotations"], json!({ "kept": "1" }));
        let expected = json!([
            { "type": "" },
            { "type": "Pods", "pods": { "metric": { "name": "q" }, "target": { "type": "AverageValue", "averageValue": "1024m" } } },
            { "type": "External", "external": { "metric": { "name": "e" },
                "target": { "type": "Value", "value": "0", "averageValue": "3" } } },
            { "type": "Object", "object": { "describedObject": { "kind": "K", "name": "" }, "metric": { "name": "" },
                "target": { "type": "AverageValue", "averageValue": "3" } } },
        ]);
        assert_eq!(read["spec"]["metrics"], expected);
        let external = json!({ "metric": { "name": "e" }, "current": { "value": "0", "averageValue": "1" } });
        assert_eq!(
            read["status"]["currentMetrics"],
            json!([{ "type": "External", "external": external }])
        );
        assert_eq!(read["spec"]["behavior"]["scaleUp"]["tolerance"], "100m");
        assert_eq!(
            read["status"]["conditions"],
            json!([{ "type": "A", "status": "True", "lastTransitionTime": null }])
        );
    }

    #[test]
    fn version_2_keeps_no_annotations_of_conversion() {
        let mut body = autoscaler(&json!({}));
        body["metadata"]["annotations"] = json!({
            "autoscaling.alpha.kubernetes.io/metrics": "[]",
            "autoscaling.alpha.kubernetes.io/scale-down-tolerance": "1",
            "kept": "1",
        });
        let made = trial().create(body).expect("the autoscaler is valid");
        assert_eq!(made["metadata"]["annotations"], json!({ "kept": "1" }));
    }

    #[test]
    fn versions_that_were_accepted_once_may_stay() {
        let group = r#"spec.scaleTargetRef.apiVersion: Invalid value: "v1": apiVersion must specify API group"#;
        let object = |version: &str| {
            json!({ "metrics": [{ "type": "Object", "object": {
                "describedObject": { "apiVersion": version, "kind": "K", "name": "n" },
                "metric": { "name": "q" }, "target": { "type": "Value", "value": "1" } } }] })
        };
        let mut old = trial()
            .create(autoscaler(&object("v1")))
            .expect("the autoscaler is valid");
        old["spec"]["scaleTargetRef"]["apiVersion"] = "v1".into();
        old["spec"]["metrics"][0]["object"]["describedObject"]["apiVersion"] = "a/b/c".into();
        let patch =
            |target: Value, object: Value| json!({ "spec": merged(&json!({ "scaleTargetRef": target }), &object) });
        trial().expect_patch_errors(
            &old,
            &[
                (patch(json!({ "name": "other" }), object("d/e/f")), &[]),
                (patch(json!({ "kind": "Other" }), object("v1")), &[group]),
            ],
        );
        let refused = r#"spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#;
        trial().expect_errors(&[
            (autoscaler(&object("a/b/c")), &[refused]),
            (autoscaler(&object("/")), &[]),
        ]);
    }

    #[test]
    fn targets_are_shown_with_what_is_measured() {
        let object = json!({
            "spec": { "metrics": [
                { "type": "Resource", "resource": { "name": "cpu", "target": { "averageUtilization": 80 } } },
                { "type": "External", "external": { "target": { "averageValue": "30" } } },
                { "type": "Pods" },
            ] },
            "status": { "currentMetrics": [
                { "type": "Resource", "resource": { "current": { "averageUtilization": 41, "averageValue": "1" } } },
            ] },
        });
        assert_eq!(targets(&object), "cpu: 41%/80%, <unknown>/30 (avg) + 1 more...");
        let object = json!({
            "spec": { "metrics": [{ "type": "Pods", "pods": {} }, { "type": "Object", "object": {} }] },
            "status": { "currentMetrics": [{}, { "type": "Object", "object": { "current": {} } }] },
        });
        assert_eq!(targets(&object), "<unknown>/<nil>, <nil>/<nil>");
    }
}
