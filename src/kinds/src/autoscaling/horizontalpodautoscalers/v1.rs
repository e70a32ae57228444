//! Version 1: a CPU target as a field; everything else that version 2 knows travels in annotations.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use trireme_machinery::go_text::structs::{self, PrintedField, PrintedShape};
use trireme_registry::Conversion;

use crate::{
    values::{items, remove, struct_mut, text},
    workload::shown_selector,
};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

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

/// The names that the numbers of a metric have in the annotations of version 1: those wanted, those measured.
struct Words {
    part: &'static str,
    value: &'static str,
    average: &'static str,
    utilization: &'static str,
}

const WANTED: Words = Words {
    part: "target",
    value: "targetValue",
    average: "targetAverageValue",
    utilization: "targetAverageUtilization",
};
const MEASURED: Words = Words {
    part: "current",
    value: "currentValue",
    average: "currentAverageValue",
    utilization: "currentAverageUtilization",
};

/// Turns version 1 into version 2 and back.
pub(crate) struct V1;

impl Conversion for V1 {
    fn to_stored(&self, object: &mut Value) {
        let saved = take_annotations(object);
        let list = |name: &str| -> Option<Vec<Value>> { serde_json::from_str(saved.get(name)?.as_str()?).ok() };
        let spec = struct_mut(object, "spec");
        let cpu = spec.remove("targetCPUUtilizationPercentage");
        let cpu = cpu.map(|percent| json!({ "type": "Utilization", "averageUtilization": percent }));
        let cpu = cpu.map(|target| json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }));
        let others = list(METRICS).unwrap_or_default();
        let metrics: Vec<Value> = others
            .iter()
            .map(|metric| from_words(metric, &WANTED))
            .chain(cpu)
            .collect();
        if !metrics.is_empty() {
            spec.insert("metrics".into(), metrics.into());
        }
        let behavior = saved
            .get(BEHAVIOR)
            .and_then(Value::as_str)
            .and_then(|text| serde_json::from_str(text).ok());
        if let Some(behavior) = behavior {
            spec.insert("behavior".into(), uncapitalized(behavior));
        }
        let status = struct_mut(object, "status");
        let cpu = status.remove("currentCPUUtilizationPercentage");
        let cpu = cpu.map(|percent| json!({ "name": "cpu", "current": { "averageUtilization": percent } }));
        let measured = match list(CURRENT_METRICS) {
            Some(metrics) => metrics.iter().map(|metric| from_words(metric, &MEASURED)).collect(),
            None => cpu.map_or(Value::Null, |cpu| json!([{ "type": "Resource", "resource": cpu }])),
        };
        status.insert("currentMetrics".into(), measured);
        if let Some(conditions) = list(CONDITIONS).filter(|conditions| !conditions.is_empty()) {
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
        if let Some(percent) = measured.iter().find_map(|metric| cpu_percent(metric, &MEASURED)) {
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

/// Takes the annotations of this conversion away.
fn take_annotations(object: &mut Value) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
    else {
        return taken;
    };
    for name in [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR] {
        if let Some(value) = annotations.remove(name) {
            taken.insert(name.to_owned(), value);
        }
    }
    if annotations.is_empty() {
        remove(&mut object["metadata"], "annotations");
    }
    taken
}

fn cpu_percent<'a>(metric: &'a Value, words: &Words) -> Option<&'a Value> {
    let resource = metric
        .get("resource")
        .filter(|resource| text(resource, "name") == "cpu")?;
    resource
        .get(words.part)?
        .get("averageUtilization")
        .filter(|_| text(metric, "type") == "Resource")
}

/// A metric of version 2 from what an annotation says.
fn from_words(metric: &Value, words: &Words) -> Value {
    let mut out = json!({ "type": text(metric, "type") });
    for sort in ["object", "pods", "resource", "containerResource", "external"] {
        let Some(source) = metric.get(sort) else { continue };
        let mut fields = Map::new();
        let mut copy = |from: &str, to: &str| {
            if let Some(value) = source.get(from) {
                fields.insert(to.to_owned(), value.clone());
            }
        };
        copy("name", "name");
        copy("container", "container");
        copy("target", "describedObject");
        if source.get("metricName").is_some() {
            let selector = source.get("selector").or_else(|| source.get("metricSelector"));
            let mut identifier = json!({ "name": text(source, "metricName") });
            if let Some(selector) = selector {
                identifier["selector"] = selector.clone();
            }
            fields.insert("metric".into(), identifier);
        }
        let numbers = numbers_from_words(source, words);
        let lacks = |name: &str| words.part == WANTED.part && numbers.get(name).is_none();
        // Version 1 has these two as plain quantities: where they are absent they are 0.
        let numbers = match sort {
            "pods" if lacks("averageValue") => json!({ "type": "AverageValue", "averageValue": "0" }),
            "object" if lacks("averageValue") && lacks("value") => json!({ "type": "Value", "value": "0" }),
            _ => numbers,
        };
        fields.insert(words.part.into(), numbers);
        out[sort] = fields.into();
    }
    out
}

fn numbers_from_words(source: &Value, words: &Words) -> Value {
    let mut numbers = Map::new();
    let average = source.get(words.average).or_else(|| source.get("averageValue"));
    let zero = Value::from("0");
    let value = source
        .get(words.value)
        .filter(|value| average.is_none() || **value != zero);
    let given = [
        ("averageUtilization", source.get(words.utilization)),
        ("averageValue", average),
        ("value", value),
    ];
    let mut sort = "Value";
    for (name, number) in given.into_iter().rev() {
        let Some(number) = number else { continue };
        numbers.insert(name.to_owned(), number.clone());
        sort = match name {
            "averageUtilization" => "Utilization",
            "averageValue" => "AverageValue",
            _ => "Value",
        };
    }
    if words.part == WANTED.part {
        numbers.insert("type".into(), sort.into());
    }
    numbers.into()
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
    let is_wanted = words.part == WANTED.part;
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

/// PrintedField names of a struct without JSON names as the served types have them; nulls are left out.
fn uncapitalized(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| {
                    let mut letters = name.chars();
                    let first = letters.next().map(|first| first.to_ascii_lowercase());
                    (
                        first.into_iter().chain(letters).collect::<String>(),
                        uncapitalized(value),
                    )
                });
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.into_iter().map(uncapitalized).collect(),
        other => other,
    }
}
