//! One quota, read for checks.

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_machinery::{
    ApiError,
    pod_resources::{ResourceList, resource_list},
};
use trireme_registry::{Item, item};

/// A quota at one revision, and what of it is used then or is going to be.
#[derive(Debug, Clone)]
pub(super) struct Quota {
    pub(super) item: Arc<Item>,
    pub(super) state: QuotaState,
}

/// The part of a quota that writes are held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuotaState {
    pub(super) name: String,
    /// The limits in force: those of the status.
    pub(super) hard: ResourceList,
    pub(super) used: ResourceList,
    pub(super) scopes: Vec<ScopeSelector>,
}

impl QuotaState {
    pub(super) fn read(object: &Value) -> Self {
        let list = |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let scopes = list("/spec/scopes")
            .filter_map(Value::as_str)
            .map(ScopeSelector::exists);
        let selectors = list("/spec/scopeSelector/matchExpressions").map(ScopeSelector::read);
        Self {
            name: name.unwrap_or_default().to_owned(),
            hard: resource_list(object.pointer("/status/hard")),
            used: resource_list(object.pointer("/status/used")),
            scopes: scopes.chain(selectors).collect(),
        }
    }
}

impl Quota {
    /// Reads a quota.
    ///
    /// # Errors
    /// If it is no JSON.
    pub(super) fn read(item: Arc<Item>) -> Result<Self, ApiError> {
        let state = QuotaState::read(&item::parse(&item)?);
        Ok(Self { item, state })
    }

    /// The body that writes what is used, if the quota is still as it was read.
    ///
    /// # Errors
    /// If the quota is no JSON.
    pub(super) fn status_update(&self) -> Result<Value, ApiError> {
        let mut object = item::parse(&self.item)?;
        let used = &self.state.used;
        let used: serde_json::Map<_, _> = used
            .iter()
            .map(|(name, amount)| (name.clone(), amount.to_string().into()))
            .collect();
        if let Some(object) = object.as_object_mut() {
            let status = object.entry("status").or_insert_with(|| json!({}));
            status["used"] = Value::Object(used);
        }
        Ok(object)
    }
}

/// A scope that objects have to be in to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScopeSelector {
    pub(super) scope: String,
    operator: String,
    values: Vec<String>,
}

impl ScopeSelector {
    fn exists(scope: &str) -> Self {
        Self {
            scope: scope.to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        }
    }

    pub(super) fn read(expression: &Value) -> Self {
        let text = |field: &str| {
            expression
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
        Self {
            scope: text("scopeName"),
            operator: text("operator"),
            values: values.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    /// The selector as Go prints it.
    pub(super) fn shown(&self) -> String {
        format!("{{{} {} [{}]}}", self.scope, self.operator, self.values.join(" "))
    }

    /// Reports whether a value that scopes select by is selected; `None` is that of an object without one.
    pub(super) fn matches(&self, value: Option<&str>) -> bool {
        let is_listed = value.is_some_and(|value| self.values.iter().any(|listed| listed == value));
        match self.operator.as_str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}
