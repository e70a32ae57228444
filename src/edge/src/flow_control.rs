//! Follows flow schemas and priority levels for the limiter.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;
use trireme_actors::ActorSystem;
use trireme_flow::{FlowConfig, PriorityAndFairness};
use trireme_registry::{Fold, Item, ItemKey, Reader, Readiness, View, item::parse};

/// Lets the limiter go by the flow schemas and priority levels of the store, whose readers come in this order. Returns the view,
/// for readiness.
pub fn follow_flow_control(
    system: &ActorSystem,
    sources: [&Reader; 2],
    fairness: PriorityAndFairness,
) -> Arc<dyn Readiness> {
    let view = View::start(system, "flow-control", sources.map(Reader::clone), FlowFold::default);
    let followed = view.clone();
    system.tasks().spawn_restarting("follow-flow-control", move || {
        let (followed, fairness) = (followed.clone(), fairness.clone());
        async move {
            let mut changes = followed.changes();
            loop {
                fairness.configure((**followed.load()).clone());
                if changes.changed().await.is_err() {
                    return;
                }
            }
        }
    });
    Arc::new(view)
}

/// The objects of both kinds by name.
#[derive(Default)]
struct FlowFold {
    objects: [BTreeMap<ItemKey, Value>; 2],
}

impl Fold for FlowFold {
    type Value = FlowConfig;

    fn put(&mut self, source: usize, item: &Arc<Item>) {
        if let (Some(objects), Ok(object)) = (self.objects.get_mut(source), parse(item)) {
            objects.insert(item.key.clone(), object);
        }
    }

    fn remove(&mut self, source: usize, key: &ItemKey) {
        if let Some(objects) = self.objects.get_mut(source) {
            objects.remove(key);
        }
    }

    fn value(&self) -> FlowConfig {
        let [schemas, levels] = &self.objects;
        FlowConfig::of(schemas.values(), levels.values())
    }
}
