//! Says of each FlowSchema whether the priority level that it names is there (`apf_controller`).

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_cluster::Duty;
use trireme_machinery::{ApiError, Reason, go_text::quote};
use trireme_registry::{OwnObjects, RegistryHandle};

use super::{CATCH_ALL, EXEMPT};
use crate::{LeaseTenure, Reconciler};

const FIELD_MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// The updates of one schema's status within [`UPDATE_WINDOW`]. More are a fight with another server that sees other levels; the
/// next look, up to a period later, goes on with it.
const MOST_UPDATES: usize = 6;
const UPDATE_WINDOW: Duration = Duration::from_secs(60);

/// The duty.
pub struct FlowStatus {
    schemas: OwnObjects,
    levels: OwnObjects,
    clock: Clock,
    recent: Mutex<RecentUpdates>,
}

/// The times of the last updates, by schema.
#[derive(Default)]
struct RecentUpdates(HashMap<String, VecDeque<Instant>>);

impl RecentUpdates {
    /// Counts an update of a schema; false if it has had too many of late.
    fn admit(&mut self, schema: &str, now: Instant) -> bool {
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) <= UPDATE_WINDOW;
        self.0.retain(|_, updates| {
            updates.retain(is_recent);
            !updates.is_empty()
        });
        let updates = self.0.entry(schema.to_owned()).or_default();
        let is_admitted = updates.len() < MOST_UPDATES;
        if is_admitted {
            updates.push_back(now);
        }
        is_admitted
    }
}

impl FlowStatus {
    /// Works on the registries of FlowSchemas and of PriorityLevelConfigurations.
    pub fn new(schemas: RegistryHandle, levels: RegistryHandle, clock: Clock) -> Self {
        Self {
            schemas: OwnObjects::new(schemas, FIELD_MANAGER),
            levels: OwnObjects::new(levels, FIELD_MANAGER),
            clock,
            recent: Mutex::default(),
        }
    }

    fn admits_update(&self, schema: &str) -> bool {
        // Times are whole after every call, whoever panicked in between.
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.admit(schema, self.clock.now())
    }

    async fn update_status(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let levels = self.levels.all().await?;
        let mut names: HashSet<&str> = levels.iter().map(name).collect();
        // These two are there even when their objects are not.
        names.extend([EXEMPT, CATCH_ALL]);
        let schemas = self.schemas.under(term.fence());
        for schema in schemas.all().await? {
            let Some(mut condition) = outdated(&schema, &names) else {
                continue;
            };
            if !self.admits_update(name(&schema)) {
                continue;
            }
            let now = schemas.registry().now();
            condition["lastTransitionTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
            let status = json!({ "conditions": [condition] });
            match schemas.apply_status(name(&schema), &status).await {
                // It was deleted meanwhile.
                Err(error) if error.reason == Reason::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The condition that a schema should have, if it has another one or none.
fn outdated(schema: &Value, levels: &HashSet<&str>) -> Option<Value> {
    let level = schema["spec"]["priorityLevelConfiguration"]["name"]
        .as_str()
        .unwrap_or_default();
    let referred = format!(
        "This FlowSchema references the PriorityLevelConfiguration object named {}",
        quote(level)
    );
    let [status, reason, message] = if levels.contains(level) {
        ["False", "Found", &format!("{referred} and it exists")]
    } else {
        ["True", "NotFound", &format!("{referred} but there is no such object")]
    };
    let wanted = json!({ "type": "Dangling", "status": status, "reason": reason, "message": message });
    let conditions = schema.pointer("/status/conditions").and_then(Value::as_array);
    let current = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Dangling");
    let is_current = |current: &Value| {
        ["status", "reason", "message"]
            .iter()
            .all(|field| current.get(field) == wanted.get(field))
    };
    (!current.is_some_and(is_current)).then_some(wanted)
}

impl Reconciler for FlowStatus {
    fn duty(&self) -> Duty {
        Duty::named("flow-status")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        [&self.schemas, &self.levels]
            .map(|objects| objects.registry().clone())
            .into()
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.update_status(term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_updated_six_times_a_minute_at_most() {
        let (start, mut recent) = (Clock::system().now(), RecentUpdates::default());
        let mut at = |schema: &str, seconds| recent.admit(schema, start + Duration::from_secs(seconds));
        assert!((0..6).all(|second| at("a", second)));
        assert!(!at("a", 6));
        assert!(at("b", 6), "another one");
        assert!(!at("a", 60));
        assert!(at("a", 61), "the first one was a minute ago");
        assert!(!at("a", 61));
    }

    #[test]
    fn a_schema_dangles_without_its_level() {
        let mut schema = json!({ "spec": { "priorityLevelConfiguration": { "name": "a" } } });
        let dangling = outdated(&schema, &HashSet::from(["b"])).expect("nothing was said yet");
        assert_eq!(dangling["status"], "True");
        schema["status"] = json!({ "conditions": [{ "type": "Mine", "status": "True" }, dangling] });
        assert_eq!(outdated(&schema, &HashSet::from(["b"])), None, "all has been said");
        let found = outdated(&schema, &HashSet::from(["a"])).expect("the level is there now");
        assert_eq!(found["status"], "False");
        assert_eq!(
            found["message"],
            "This FlowSchema references the PriorityLevelConfiguration object named \"a\" and it exists"
        );
    }
}
