//! The annotations of version 1 as fields of version 2. One that does not fit its type says nothing, as upstream: it never becomes
//! part of an object.

use serde_json::{Map, Value, json};
use trireme_machinery::schema;

use crate::values::{remove, text};

pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
pub(super) const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
pub(super) const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// The annotations that conversion owns; the last two have no meaning any more.
const ALL: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The names that the numbers of a metric have in the annotations of version 1: those wanted, those measured.
pub(super) struct Words {
    /// The type of such a metric in version 2.
    metric_type: &'static str,
    pub(super) part: &'static str,
    pub(super) value: &'static str,
    pub(super) average: &'static str,
    pub(super) utilization: &'static str,
}

impl Words {
    /// Returns true for the numbers that are wanted.
    pub(super) fn is_wanted(&self) -> bool {
        self.part == WANTED.part
    }
}

/// The numbers that are wanted.
pub(super) const WANTED: Words = Words {
    metric_type: "MetricSpec",
    part: "target",
    value: "targetValue",
    average: "targetAverageValue",
    utilization: "targetAverageUtilization",
};
/// The numbers that are measured.
pub(super) const MEASURED: Words = Words {
    metric_type: "MetricStatus",
    part: "current",
    value: "currentValue",
    average: "currentAverageValue",
    utilization: "currentAverageUtilization",
};

/// Takes the annotations of conversion away (`DropRoundTripHorizontalPodAutoscalerAnnotations`).
pub(super) fn take_annotations(object: &mut Value) -> Map<String, Value> {
    let mut taken = Map::new();
    let Some(metadata) = object.get_mut("metadata") else {
        return taken;
    };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return taken;
    };
    for name in ALL {
        if let Some(value) = annotations.remove(name) {
            taken.insert(name.to_owned(), value);
        }
    }
    if annotations.is_empty() && !taken.is_empty() {
        remove(metadata, "annotations");
    }
    taken
}

/// The annotations of an object, as values of the types of version 2.
pub(super) struct Saved(pub(super) Map<String, Value>);

impl Saved {
    /// The metrics of an annotation, unless it has none that fit their type.
    pub(super) fn metrics(&self, name: &str, words: &Words) -> Option<Vec<Value>> {
        let metrics = self.list(name)?;
        let typed = |metric| typed(words.metric_type, from_words(metric, words)?);
        metrics.into_iter().map(typed).collect()
    }

    /// The conditions of the status.
    pub(super) fn conditions(&self) -> Option<Vec<Value>> {
        let typed = |condition| typed("HorizontalPodAutoscalerCondition", condition);
        self.list(CONDITIONS)?.into_iter().map(typed).collect()
    }

    /// The behavior, unless it says nothing.
    pub(super) fn behavior(&self) -> Option<Value> {
        let behavior = typed("HorizontalPodAutoscalerBehavior", uncapitalized(self.json(BEHAVIOR)?));
        behavior.filter(|behavior| behavior.as_object().is_some_and(|rules| !rules.is_empty()))
    }

    fn json(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.0.get(name)?.as_str()?).ok()
    }

    /// The items of a list; one that is null is a struct without fields.
    fn list(&self, name: &str) -> Option<Vec<Value>> {
        let items = match self.json(name)? {
            Value::Null => Vec::new(),
            Value::Array(items) => items,
            _ => return None,
        };
        let filled = |item: Value| if item.is_null() { json!({}) } else { item };
        Some(items.into_iter().map(filled).collect())
    }
}

/// A value of a type of version 2, unless it is not of that type.
fn typed(name: &str, value: Value) -> Option<Value> {
    let table = trireme_schema::complete_type_table();
    let id = table.find(&format!("io.k8s.api.autoscaling.v2.{name}"))?;
    schema::decode(table, id, value).ok().map(|decoded| decoded.value)
}

/// A metric of version 2 from that of an annotation; its values are as they were.
fn from_words(metric: Value, words: &Words) -> Option<Value> {
    let Value::Object(mut metric) = metric else { return None };
    let mut out = Map::new();
    if let Some(sort) = metric.remove("type") {
        out.insert("type".to_owned(), sort);
    }
    for sort in ["object", "pods", "resource", "containerResource", "external"] {
        match metric.remove(sort) {
            None | Some(Value::Null) => {}
            Some(Value::Object(source)) => {
                out.insert(sort.to_owned(), source_from_words(sort, source, words).into());
            }
            Some(_) => return None,
        }
    }
    Some(out.into())
}

fn source_from_words(sort: &str, mut source: Map<String, Value>, words: &Words) -> Map<String, Value> {
    source.retain(|_, value| !value.is_null());
    let mut out = Map::new();
    if matches!(sort, "resource" | "containerResource") {
        for name in ["name", "container"] {
            if let Some(value) = source.remove(name) {
                out.insert(name.to_owned(), value);
            }
        }
    } else {
        let selector = if sort == "external" {
            "metricSelector"
        } else {
            "selector"
        };
        let mut identifier = Map::new();
        for (from, to) in [("metricName", "name"), (selector, "selector")] {
            if let Some(value) = source.remove(from) {
                identifier.insert(to.to_owned(), value);
            }
        }
        out.insert("metric".to_owned(), identifier.into());
    }
    if sort == "object" {
        let described = source.remove("target").unwrap_or_else(|| json!({}));
        out.insert("describedObject".to_owned(), described);
    }
    out.insert(words.part.to_owned(), numbers_from_words(sort, source, words).into());
    out
}

/// The numbers of a metric. Version 1 has some as plain quantities: where they are absent they are 0.
fn numbers_from_words(sort: &str, mut source: Map<String, Value>, words: &Words) -> Map<String, Value> {
    let is_wanted = words.is_wanted();
    let zero = || Value::from("0");
    let utilization = source.remove(words.utilization);
    let average = source.remove(if sort == "object" {
        "averageValue"
    } else {
        words.average
    });
    let value = source.remove(words.value);
    let [utilization, average, value] = match (sort, is_wanted) {
        ("object", true) if average.is_some() => [None, average, value.filter(|value| *value != zero())],
        ("object", _) | ("external", false) => [None, average, Some(value.unwrap_or_else(zero))],
        ("external", true) => [None, average, value],
        ("pods", _) => [None, Some(average.unwrap_or_else(zero)), None],
        (_, true) => [utilization, average, None],
        (_, false) => [utilization, Some(average.unwrap_or_else(zero)), None],
    };
    let kind = match sort {
        "object" if average.is_none() => "Value",
        "external" if value.is_some() => "Value",
        "resource" | "containerResource" if utilization.is_some() => "Utilization",
        _ => "AverageValue",
    };
    let kind = is_wanted.then(|| Value::from(kind));
    let named = [
        ("type", kind),
        ("averageUtilization", utilization),
        ("averageValue", average),
        ("value", value),
    ];
    let numbers = named
        .into_iter()
        .filter_map(|(name, number)| Some((name.to_owned(), number?)));
    numbers.collect()
}

/// Field names of a struct without JSON names as the served types have them.
fn uncapitalized(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let renamed = fields.into_iter().map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|first| first.to_ascii_lowercase());
                let name: String = first.into_iter().chain(letters).collect();
                (name, uncapitalized(value))
            });
            Value::Object(renamed.collect())
        }
        Value::Array(items) => items.into_iter().map(uncapitalized).collect(),
        other => other,
    }
}

/// The utilization of the processor that a metric of version 2 wants or measures.
pub(super) fn cpu_percent<'a>(metric: &'a Value, words: &Words) -> Option<&'a Value> {
    let resource = metric
        .get("resource")
        .filter(|resource| text(resource, "name") == "cpu")?;
    resource
        .get(words.part)?
        .get("averageUtilization")
        .filter(|_| text(metric, "type") == "Resource")
}
