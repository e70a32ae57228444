//! The flow schemas and priority levels that a cluster starts with (`k8s.io/api/flowcontrol` bootstrap objects of 1.36).

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use super::config::{CATCH_ALL, EXEMPT};

/// The annotation that says that the server keeps an object's spec as it is here.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
const TEXT: &str = include_str!("defaults.json");

/// An object that a cluster starts with.
#[derive(Debug, Clone)]
pub struct BootstrapObject {
    /// True if it is always as kube-apiserver fixes it; the others are suggestions, which users may change.
    pub is_mandatory: bool,
    /// `FlowSchema` or `PriorityLevelConfiguration` with its name and spec.
    pub object: Value,
}

#[derive(Deserialize)]
struct BootstrapRow {
    kind: String,
    name: String,
    spec: Value,
}

/// All of them: levels first, then schemas by precedence.
pub fn bootstrap_objects() -> &'static [BootstrapObject] {
    static OBJECTS: LazyLock<Vec<BootstrapObject>> = LazyLock::new(|| {
        let rows: Vec<BootstrapRow> = serde_json::from_str(TEXT).expect("a test reads the file");
        rows.into_iter().map(BootstrapRow::object).collect()
    });
    &OBJECTS
}

impl BootstrapRow {
    fn object(self) -> BootstrapObject {
        BootstrapObject {
            is_mandatory: [EXEMPT, CATCH_ALL].contains(&self.name.as_str()),
            object: json!({
                "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
                "kind": self.kind,
                "metadata": { "name": self.name, "annotations": { AUTO_UPDATE: "true" } },
                "spec": self.spec,
            }),
        }
    }
}
