//! Records events of owner references that lead into another namespace.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};
use trireme_machinery::{
    Object,
    meta::{Meta, ObjectMeta as _},
};
use trireme_registry::{ApiSurface, request::Freshness};

use super::{
    FoundObject, GarbageCollector, GarbageContext,
    owners::{Owners, registry_of},
};

const REASON: &str = "OwnerRefInvalidNamespace";
const COMPONENT: &str = "garbage-collector-controller";

impl GarbageCollector {
    /// Makes an event of each reference that leads to an object in another namespace. A failure is only logged: the
    /// event is for people.
    pub(super) async fn tell_misplaced(&self, scene: &GarbageContext<'_>, found: &FoundObject, owners: &Owners) {
        for reference in owners.suspicious() {
            if is_misplaced(scene.routes, found, reference).await {
                self.record(scene, found, reference).await;
            }
        }
    }

    async fn record(&self, scene: &GarbageContext<'_>, found: &FoundObject, reference: &Value) {
        let namespace = match found.item.namespace() {
            "" => "default",
            namespace => namespace,
        };
        let event = self.event(found, reference, namespace);
        if let Err(error) = self.events.under(scene.fence).create(namespace, &event).await {
            tracing::debug!(%error, name = found.item.name(), "an event could not be written");
        }
    }

    fn event(&self, found: &FoundObject, reference: &Value, namespace: &str) -> Value {
        let now = self.events.registry().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let owner = format!(
            "[{}/{}, namespace: {}, name: {}, uid: {}]",
            text("apiVersion"),
            text("kind"),
            found.item.namespace(),
            text("name"),
            text("uid")
        );
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": event_name(found, reference), "namespace": namespace },
            "involvedObject": {
                "apiVersion": found.tree.api_version(),
                "kind": found.tree.kind(),
                "namespace": found.item.namespace(),
                "name": found.item.name(),
                "uid": &*found.item.uid,
            },
            "type": "Warning",
            "reason": REASON,
            "message": format!("ownerRef {owner} does not exist in namespace \"{}\"", found.item.namespace()),
            "source": { "component": COMPONENT },
            "reportingComponent": COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        })
    }
}

/// The same for the same reference of the same object, so that it is reported once for as long as events are kept.
fn event_name(found: &FoundObject, reference: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    found.item.uid.hash(&mut hasher);
    reference.to_string().hash(&mut hasher);
    format!("{}.{:016x}", found.item.name(), hasher.finish())
}

/// An object in no namespace cannot be owned by one in a namespace; and an owner that is absent here may be an object of
/// another namespace.
async fn is_misplaced(routes: &ApiSurface, found: &FoundObject, reference: &Value) -> bool {
    let metadata = Object::from_iter([("ownerReferences".to_owned(), json!([reference]))]);
    let Some(reference) = Meta::new(&metadata).owner_references().next() else {
        return false;
    };
    let Some(registry) = registry_of(routes, reference) else {
        return false;
    };
    if !registry.info().namespaced {
        return false;
    }
    found.item.namespace().is_empty()
        || registry
            .with_uid(reference.uid(), Freshness::Any)
            .await
            .is_ok_and(|owner| owner.is_some_and(|owner| owner.namespace() != found.item.namespace()))
}
