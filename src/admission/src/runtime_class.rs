//! `RuntimeClass`: a pod gets the overhead, the node selector and the tolerations of its runtime class
//! (`plugin/pkg/admission/runtimeclass`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Map, Value};
use trireme_machinery::{ApiError, go_text::quote, json, quantity::Quantity};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{
    attributes::{forbidden, is_write_of},
    object_lookup::ObjectLookup,
    tolerations,
};

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const OWN_OVERHEAD: &str = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

/// The plugin.
pub(crate) struct RuntimeClass {
    classes: ObjectLookup,
}

impl RuntimeClass {
    /// Looks at these runtime classes.
    pub(crate) fn new(classes: ObjectLookup) -> Self {
        Self { classes }
    }

    /// The class of the pod; `None` if it names none.
    async fn class(&self, attributes: &Attributes) -> Result<Option<Value>, ApiError> {
        let spec = attributes.object.as_ref().and_then(|pod| pod.get("spec"));
        let Some(name) = spec.and_then(|spec| spec.get("runtimeClassName")?.as_str()) else {
            return Ok(None);
        };
        // kube-apiserver answers 500 to an empty name.
        let found = match name {
            "" => None,
            name => self.classes.find("", name).await?,
        };
        let missing = || {
            forbidden(
                attributes,
                format_args!("pod rejected: RuntimeClass {} not found", quote(name)),
            )
        };
        found.map(Some).ok_or_else(missing)
    }

    async fn set(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        let Some(class) = self.class(attributes).await? else {
            return Ok(());
        };
        let Some(Value::Object(mut spec)) = attributes
            .object
            .as_mut()
            .and_then(|pod| pod.get_mut("spec").map(Value::take))
        else {
            return Ok(());
        };
        let set = set_overhead(&mut spec, &class).and_then(|()| set_scheduling(&mut spec, &class));
        if let Some(place) = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec")) {
            *place = Value::Object(spec);
        }
        set.map_err(|why| forbidden(attributes, why))
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let class = self.class(attributes).await?;
        let own = attributes
            .object
            .as_ref()
            .and_then(|pod| json::at(pod, "/spec/overhead"));
        let given = class.as_ref().and_then(|class| class.get("overhead"));
        match (given, own) {
            (None, Some(_)) => Err(forbidden(attributes, OWN_OVERHEAD)),
            (Some(given), own) if !is_same(given.get("podFixed"), own) => Err(forbidden(attributes, OTHER_OVERHEAD)),
            _ => Ok(()),
        }
    }
}

fn set_overhead(spec: &mut Map<String, Value>, class: &Value) -> Result<(), String> {
    let Some(given) = class.get("overhead") else {
        return Ok(());
    };
    let (fixed, own) = (given.get("podFixed"), spec.get("overhead"));
    let has_own = own.and_then(Value::as_object).is_some_and(|own| !own.is_empty());
    if has_own && !is_same(fixed, own) {
        return Err(OTHER_OVERHEAD.to_owned());
    }
    match fixed {
        Some(fixed) => spec.insert("overhead".to_owned(), fixed.clone()),
        None => spec.remove("overhead"),
    };
    Ok(())
}

/// Compares quantities by name and value.
fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    let quantities = |value: Option<&Value>| -> Vec<(String, Option<Quantity>)> {
        let all = value.and_then(Value::as_object).into_iter().flatten();
        let parse = |value: &Value| Quantity::parse(value.as_str()?).ok();
        let mut all: Vec<_> = all.map(|(name, value)| (name.clone(), parse(value))).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    quantities(one) == quantities(other)
}

fn set_scheduling(spec: &mut Map<String, Value>, class: &Value) -> Result<(), String> {
    let Some(scheduling) = class.get("scheduling") else {
        return Ok(());
    };
    if let Some(Value::Object(given)) = scheduling.get("nodeSelector") {
        let own = spec.entry("nodeSelector").or_insert_with(|| Map::new().into());
        for (key, value) in given {
            match own.get(key) {
                Some(other) if other != value => return Err(conflict(key, value, other)),
                _ => drop(own.as_object_mut().map(|own| own.insert(key.clone(), value.clone()))),
            }
        }
    }
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let merged = tolerations::merged(list(spec.get("tolerations")), list(scheduling.get("tolerations")));
    if !merged.is_empty() {
        spec.insert("tolerations".to_owned(), merged.into());
    }
    Ok(())
}

fn conflict(key: &str, given: &Value, own: &Value) -> String {
    let (given, own) = (given.as_str().unwrap_or_default(), own.as_str().unwrap_or_default());
    format!("conflict: runtimeClass.scheduling.nodeSelector[{key}] = {given}; pod.spec.nodeSelector[{key}] = {own}")
}

impl Admission for RuntimeClass {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "pods", &[Operation::Create])
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.set(attributes).boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}
