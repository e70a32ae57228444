//! Keeps the FlowSchemas and priority levels that a cluster starts with (`priority-and-fairness-config-producer`).
//!
//! Missing objects are made. Those that are there follow the catalogue as long as its annotation says so: always for the
//! mandatory objects, for the suggested ones until an administrator says otherwise. What follows a catalogue of the
//! past is removed.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_cluster::Duty;
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, RegistryHandle};

use super::EXEMPT;
use crate::{LeaseTenure, Reconciler};

/// The annotation that says whether the server keeps an object's spec as it is in the catalogue.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
const FIELD_MANAGER: &str = "api-priority-and-fairness-config-producer-v1";

/// An object of the catalogue.
#[derive(Debug, Clone)]
pub struct DesiredFlowObject {
    /// True if administrators may not change it.
    pub is_mandatory: bool,
    /// A FlowSchema or a PriorityLevelConfiguration.
    pub object: Value,
}

/// The duty.
pub struct FlowConfiguration {
    schemas: OwnObjects,
    levels: OwnObjects,
    catalogue: Vec<DesiredFlowObject>,
}

/// Objects of one kind as they should be.
struct DesiredObjects<'c>(Vec<&'c DesiredFlowObject>);

impl FlowConfiguration {
    /// Works on the registries of FlowSchemas and of PriorityLevelConfigurations.
    pub fn new(schemas: RegistryHandle, levels: RegistryHandle, catalogue: Vec<DesiredFlowObject>) -> Self {
        Self {
            schemas: OwnObjects::new(schemas, FIELD_MANAGER),
            levels: OwnObjects::new(levels, FIELD_MANAGER),
            catalogue,
        }
    }

    fn desired(&self, kind: &str) -> DesiredObjects<'_> {
        let of_kind = self.catalogue.iter().filter(|desired| desired.object["kind"] == kind);
        DesiredObjects(of_kind.collect())
    }

    async fn keep(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        // Levels first, so that no schema is reported as dangling meanwhile.
        let (levels, schemas) = (self.desired("PriorityLevelConfiguration"), self.desired("FlowSchema"));
        let [own_levels, own_schemas] = [&self.levels, &self.schemas].map(|objects| objects.under(term.fence()));
        levels.keep(&own_levels).await?;
        schemas.keep(&own_schemas).await?;
        schemas.remove_others(&own_schemas).await?;
        levels.remove_others(&own_levels).await
    }
}

impl DesiredObjects<'_> {
    async fn keep(&self, objects: &OwnObjects) -> Result<(), ApiError> {
        let found = objects.all().await?;
        for DesiredFlowObject { object, is_mandatory } in self.0.iter().copied() {
            match found.iter().find(|found| name(found) == name(object)) {
                None => {
                    objects.create("", object).await?;
                }
                Some(current) => {
                    if let Some(changed) = update(current, object, *is_mandatory) {
                        objects.replace("", name(object), &changed).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes what claims to follow the catalogue and is not in it.
    async fn remove_others(&self, objects: &OwnObjects) -> Result<(), ApiError> {
        for object in objects.all().await? {
            let is_wanted = self.0.iter().any(|wanted| name(&wanted.object) == name(&object));
            if !is_wanted && annotation(&object) == Some(true) {
                tracing::info!(
                    name = name(&object),
                    "removing a flow-control object that is kept no longer"
                );
                objects.delete("", name(&object)).await?;
            }
        }
        Ok(())
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The annotation's value, if it is there and a boolean as Go reads them.
fn annotation(object: &Value) -> Option<bool> {
    match object["metadata"]["annotations"].get(AUTO_UPDATE)?.as_str()? {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The object with what has to change, if something has to.
fn update(current: &Value, wanted: &Value, mandatory: bool) -> Option<Value> {
    // A suggested object without the annotation follows as long as no user has changed its spec.
    let untouched = || current["metadata"]["generation"] == 1;
    let follows = mandatory || annotation(current).unwrap_or_else(untouched);
    let mut changed = current.clone();
    if annotation(current) != Some(follows) {
        let annotations = &mut changed["metadata"]["annotations"];
        if annotations.is_null() {
            *annotations = json!({});
        }
        annotations[AUTO_UPDATE] = follows.to_string().into();
    }
    if follows {
        changed["spec"] = spec(current, wanted);
    }
    (changed != *current).then_some(changed)
}

/// The spec to have: the numbers of the exempt level are the administrator's.
fn spec(current: &Value, wanted: &Value) -> Value {
    let mut spec = wanted["spec"].clone();
    if name(wanted) == EXEMPT && spec.get("exempt").is_some() && current["spec"].get("exempt").is_some() {
        spec["exempt"] = current["spec"]["exempt"].clone();
    }
    spec
}

impl Reconciler for FlowConfiguration {
    fn duty(&self) -> Duty {
        Duty::named("flow-configuration")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.keep(term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level() -> Value {
        let queuing = json!({ "queues": 64, "handSize": 6, "queueLengthLimit": 50 });
        limited("system", 30, json!({ "type": "Queue", "queuing": queuing }))
    }

    fn limited(name: &str, shares: u32, limit_response: Value) -> Value {
        json!({ "metadata": { "name": name }, "spec": { "type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "lendablePercent": 0, "limitResponse": limit_response,
        } } })
    }

    fn with(mut object: Value, annotation: Value, generation: i64, shares: i64) -> Value {
        object["metadata"]["annotations"] = annotation;
        object["metadata"]["generation"] = generation.into();
        object["spec"]["limited"]["nominalConcurrencyShares"] = shares.into();
        object
    }

    #[test]
    fn suggested_objects_follow_until_a_user_changes_them() {
        let shares = |changed: Option<Value>| {
            changed.map(|object| object["spec"]["limited"]["nominalConcurrencyShares"].clone())
        };
        let follows = json!({ AUTO_UPDATE: "true" });
        let stays = json!({ AUTO_UPDATE: "false" });
        assert_eq!(update(&with(level(), follows.clone(), 3, 30), &level(), false), None);
        assert_eq!(
            shares(update(&with(level(), follows, 3, 7), &level(), false)),
            Some(json!(30))
        );
        assert_eq!(update(&with(level(), stays, 3, 7), &level(), false), None);
        let unsaid = update(&with(level(), json!({}), 2, 7), &level(), false).expect("the annotation is set");
        assert_eq!(annotation(&unsaid), Some(false));
        assert_eq!(unsaid["spec"]["limited"]["nominalConcurrencyShares"], 7);
        let untouched = update(&with(level(), Value::Null, 1, 7), &level(), false).expect("it follows");
        assert_eq!(annotation(&untouched), Some(true));
        assert_eq!(shares(Some(untouched)), Some(json!(30)));
    }

    #[test]
    fn mandatory_objects_follow_always_but_for_the_numbers_of_the_exempt_level() {
        let shares = json!({ "nominalConcurrencyShares": 0, "lendablePercent": 0 });
        let metadata = json!({ "name": EXEMPT, "annotations": { AUTO_UPDATE: "true" } });
        let exempt = json!({ "metadata": metadata, "spec": { "type": "Exempt", "exempt": shares } });
        let catch_all = limited("catch-all", 5, json!({ "type": "Reject" }));
        let mut changed = exempt.clone();
        changed["spec"]["exempt"]["lendablePercent"] = 7.into();
        assert_eq!(update(&changed, &exempt, true), None);
        changed["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
        let kept = update(&changed, &exempt, true).expect("the annotation is set back");
        assert_eq!(annotation(&kept), Some(true));
        assert_eq!(kept["spec"]["exempt"]["lendablePercent"], 7);
        let other = with(catch_all.clone(), json!({ AUTO_UPDATE: "false" }), 4, 9);
        assert_eq!(
            update(&other, &catch_all, true).expect("it is set back")["spec"],
            catch_all["spec"]
        );
    }
}
