//! Version 1: a CPU target as a field; everything else that version 2 knows travels in annotations.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use trireme_machinery::go_text::structs::{self, PrintedField, PrintedShape};
use trireme_registry::Conversion;

use super::annotations::{
    BEHAVIOR, CONDITIONS, CURRENT_METRICS, MEASURED, METRICS, Saved, WANTED, Words, cpu_percent, take_annotations,
};
use crate::{
    values::{items, struct_mut, text},
    workload::shown_selector,
};

/// `autoscaling.HPAScalingRules`.
const RULES: &[PrintedField] = &[
    (
        "StabilizationWindowSeconds",
        "stabilizationWindowSeconds",
        PrintedShape::Plain,
    ),
    ("SelectPolicy", "selectPolicy", PrintedShape::Plain),
    (
        "Policies",
        "policies",
        PrintedShape::List(&[
            ("Type", "type", PrintedShape::Text),
            ("Value", "value", PrintedShape::Number),
            ("PeriodSeconds", "periodSeconds", PrintedShape::Number),
        ]),
    ),
    ("Tolerance", "tolerance", PrintedShape::Plain),
];
/// `autoscaling.HorizontalPodAutoscalerBehavior`.
const BEHAVIOR_SHAPE: &[PrintedField] = &[
    ("ScaleUp", "scaleUp", PrintedShape::Pointer(RULES)),
    ("ScaleDown", "scaleDown", PrintedShape::Pointer(RULES)),
];

/// Turns version 1 into version 2 and back.
pub(crate) struct V1;

impl Conversion for V1 {
    fn to_stored(&self, object: &mut Value) {
        let saved = Saved(take_annotations(object));
        let spec = struct_mut(object, "spec");
        let cpu = spec.remove("targetCPUUtilizationPercentage");
        let cpu = cpu.map(|percent| json!({ "type": "Utilization", "averageUtilization": percent }));
        let cpu = cpu.map(|target| json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }));
        let others = saved.metrics(METRICS, &WANTED).unwrap_or_default();
        let metrics: Vec<Value> = others.into_iter().chain(cpu).collect();
        if !metrics.is_empty() {
            spec.insert("metrics".into(), metrics.into());
        }
        if let Some(behavior) = saved.behavior() {
            spec.insert("behavior".into(), behavior);
        }
        let status = struct_mut(object, "status");
        let cpu = status.remove("currentCPUUtilizationPercentage");
        let cpu = cpu.map(|percent| json!({ "name": "cpu", "current": { "averageUtilization": percent } }));
        let measured = match saved.metrics(CURRENT_METRICS, &MEASURED) {
            Some(metrics) if !metrics.is_empty() => metrics.into(),
            Some(_) => Value::Null,
            None => cpu.map_or(Value::Null, |cpu| json!([{ "type": "Resource", "resource": cpu }])),
        };
        status.insert("currentMetrics".into(), measured);
        if let Some(conditions) = saved.conditions().filter(|conditions| !conditions.is_empty()) {
            status.insert("conditions".into(), conditions.into());
        }
        status.retain(|name, value| name != "currentReplicas" || value.as_i64() != Some(0));
    }

    fn to_served(&self, object: &mut Value) {
        take_annotations(object);
        let mut saved = Map::new();
        let spec = struct_mut(object, "spec");
        let metrics = spec.remove("metrics").unwrap_or(Value::Null);
        let metrics = metrics.as_array().map_or(&[][..], Vec::as_slice);
        let (cpu, others): (Vec<&Value>, Vec<&Value>) = metrics
            .iter()
            .partition(|metric| cpu_percent(metric, &WANTED).is_some());
        if let Some(percent) = cpu.first().and_then(|metric| cpu_percent(metric, &WANTED)) {
            spec.insert("targetCPUUtilizationPercentage".into(), percent.clone());
        }
        if !others.is_empty() {
            saved.insert(METRICS.into(), shown_metrics(&others, &WANTED).into());
        }
        if let Some(behavior) = spec.remove("behavior") {
            saved.insert(
                BEHAVIOR.into(),
                structs::compact(Some(&behavior), PrintedShape::Struct(BEHAVIOR_SHAPE)).into(),
            );
        }
        let status = struct_mut(object, "status");
        let measured = status.remove("currentMetrics").unwrap_or(Value::Null);
        let measured: Vec<&Value> = measured.as_array().into_iter().flatten().collect();
        if let Some(percent) = measured.iter().rev().find_map(|metric| cpu_percent(metric, &MEASURED)) {
            status.insert("currentCPUUtilizationPercentage".into(), percent.clone());
        }
        if !measured.is_empty() {
            saved.insert(CURRENT_METRICS.into(), shown_metrics(&measured, &MEASURED).into());
        }
        if let Some(conditions) = status.remove("conditions") {
            saved.insert(CONDITIONS.into(), shown_conditions(&conditions).into());
        }
        for counter in ["currentReplicas", "desiredReplicas"] {
            status.entry(counter).or_insert_with(|| 0.into());
        }
        if !saved.is_empty() {
            struct_mut(&mut object["metadata"], "annotations").extend(saved);
        }
    }
}

/// Metrics as the annotations have them, fields in the order of Go's types.
fn shown_metrics(metrics: &[&Value], words: &Words) -> String {
    let shown: Vec<String> = metrics.iter().map(|metric| shown_metric(metric, words)).collect();
    format!("[{}]", shown.join(","))
}

fn shown_metric(metric: &Value, words: &Words) -> String {
    let mut out = format!(r#"{{"type":{}"#, Value::from(text(metric, "type")));
    for sort in ["object", "pods", "resource", "containerResource", "external"] {
        if let Some(source) = metric.get(sort) {
            let fields: Vec<String> = source_fields(sort, source, words).into_iter().flatten().collect();
            // Writing to a text cannot fail.
            let _ = write!(out, r#","{sort}":{{{}}}"#, fields.join(","));
        }
    }
    out.push('}');
    out
}

fn source_fields(sort: &str, source: &Value, words: &Words) -> Vec<Option<String>> {
    let numbers = source.get(words.part).unwrap_or(&Value::Null);
    let entry = |name: &str, value: Option<&Value>| value.map(|value| format!(r#""{name}":{value}"#));
    let zero = Value::from("0");
    let number = |name: &str, from: &str| entry(name, numbers.get(from));
    let always = |name: &str, from: &str| entry(name, Some(numbers.get(from).unwrap_or(&zero)));
    let metric = source.get("metric").unwrap_or(&Value::Null);
    let metric_name = || entry("metricName", Some(&Value::from(text(metric, "name"))));
    let selector = |name: &str| {
        metric
            .get("selector")
            .map(|selector| format!(r#""{name}":{}"#, shown_selector(selector)))
    };
    let average = |is_wanted: bool| {
        if is_wanted {
            number(words.average, "averageValue")
        } else {
            always(words.average, "averageValue")
        }
    };
    let is_wanted = words.is_wanted();
    match sort {
        "object" => vec![
            Some(format!(
                r#""target":{}"#,
                shown_reference(source.get("describedObject").unwrap_or(&Value::Null))
            )),
            metric_name(),
            always(words.value, "value"),
            selector("selector"),
            number("averageValue", "averageValue"),
        ],
        "pods" => vec![
            metric_name(),
            always(words.average, "averageValue"),
            selector("selector"),
        ],
        "external" => {
            let value = if is_wanted {
                number(words.value, "value")
            } else {
                always(words.value, "value")
            };
            vec![
                metric_name(),
                selector("metricSelector"),
                value,
                number(words.average, "averageValue"),
            ]
        }
        _ => vec![
            entry("name", source.get("name")),
            number(words.utilization, "averageUtilization"),
            average(is_wanted),
            entry("container", source.get("container")),
        ],
    }
}

fn shown_reference(reference: &Value) -> String {
    let part = |name: &str| Value::from(text(reference, name)).to_string();
    let version = if text(reference, "apiVersion").is_empty() {
        String::new()
    } else {
        format!(r#","apiVersion":{}"#, part("apiVersion"))
    };
    format!(r#"{{"kind":{},"name":{}{version}}}"#, part("kind"), part("name"))
}

fn shown_conditions(conditions: &Value) -> String {
    let holder = json!({ "conditions": conditions });
    let shown = items(&holder, "conditions").iter().map(|condition| {
        let fields = ["type", "status", "lastTransitionTime", "reason", "message"]
            .into_iter()
            .filter_map(|name| {
                let value = condition.get(name)?;
                let is_empty = matches!(name, "reason" | "message") && value.as_str() == Some("");
                (!is_empty).then(|| format!(r#""{name}":{value}"#))
            });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(","))
}
