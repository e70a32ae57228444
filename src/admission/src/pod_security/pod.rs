//! A pod or a template as checks look at it.

use std::collections::BTreeSet;

use serde_json::Value;

/// The metadata and spec of a pod or a template.
#[derive(Clone, Copy)]
pub(super) struct CheckedPod<'p> {
    pub(super) metadata: &'p Value,
    pub(super) spec: &'p Value,
}

impl<'p> CheckedPod<'p> {
    /// Reads an object that has both.
    pub(super) fn of(object: &'p Value) -> Self {
        Self {
            metadata: object.get("metadata").unwrap_or(&Value::Null),
            spec: object.get("spec").unwrap_or(&Value::Null),
        }
    }

    /// Containers of all sorts, those first that run first.
    pub(super) fn containers(self) -> impl Iterator<Item = &'p Value> {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |field| items(self.spec, field))
    }

    pub(super) fn is_for_windows(self) -> bool {
        self.spec.pointer("/os/name").and_then(Value::as_str) == Some("windows")
    }

    /// Reports whether the pod has a user namespace, in which root is an unprivileged user of the node.
    pub(super) fn has_own_users(self) -> bool {
        self.spec.get("hostUsers") == Some(&Value::Bool(false))
    }

    pub(super) fn annotations(self) -> impl Iterator<Item = (&'p str, &'p str)> {
        let annotations = self.metadata.get("annotations").and_then(Value::as_object);
        let all = annotations.into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

/// The items of a list.
pub(super) fn items<'v>(object: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    object.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// The texts of a list.
pub(super) fn texts<'v>(object: &'v Value, field: &str) -> impl Iterator<Item = &'v str> + use<'v> {
    items(object, field).filter_map(Value::as_str)
}

pub(super) fn name(of: &Value) -> &str {
    of.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// A field of a security context, of a pod's spec or of a container.
pub(super) fn security<'v>(of: &'v Value, field: &str) -> Option<&'v Value> {
    of.get("securityContext")?.get(field)
}

/// Texts in quotes, with commas between.
pub(super) fn join_quote<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect();
    quoted.join(", ")
}

pub(super) fn pluralize<'t>(one: &'t str, several: &'t str, count: usize) -> &'t str {
    if count == 1 { one } else { several }
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn named_containers(names: &[&str]) -> String {
    let word = pluralize("container", "containers", names.len());
    format!("{word} {}", join_quote(names))
}

/// The parts of a pod that set something bad: the pod itself, containers.
#[derive(Default)]
pub(super) struct Setters<'p> {
    pub(super) pod: bool,
    pub(super) containers: Vec<&'p str>,
    /// The bad values.
    pub(super) values: BTreeSet<&'p str>,
}

impl<'p> Setters<'p> {
    /// Looks at a field of the security contexts of the pod and its containers; `bad` gives the value if it is bad.
    pub(super) fn of(pod: CheckedPod<'p>, field: &str, bad: impl Fn(&'p Value) -> Option<&'p str>) -> Self {
        let mut setters = Self::of_containers(pod, field, &bad);
        if let Some(value) = security(pod.spec, field).and_then(&bad) {
            setters.pod = true;
            setters.values.insert(value);
        }
        setters
    }

    /// The same without the pod itself.
    pub(super) fn of_containers(pod: CheckedPod<'p>, field: &str, bad: impl Fn(&'p Value) -> Option<&'p str>) -> Self {
        let mut setters = Self::default();
        for container in pod.containers() {
            if let Some(value) = security(container, field).and_then(&bad) {
                setters.containers.push(name(container));
                setters.values.insert(value);
            }
        }
        setters
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.pod && self.containers.is_empty()
    }

    /// `pod and containers "a", "b"`
    pub(super) fn described(&self) -> String {
        self.list().join(" and ")
    }

    pub(super) fn list(&self) -> Vec<String> {
        let pod = self.pod.then(|| "pod".to_owned());
        let containers = Some(&self.containers).filter(|names| !names.is_empty());
        pod.into_iter()
            .chain(containers.map(|names| named_containers(names)))
            .collect()
    }
}
