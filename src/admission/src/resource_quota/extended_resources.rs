//! The extended resources that the devices of claims stand for, behind the gate DRAExtendedResource
//! (`addExtendedResourceQuota`, `getVerifiedPodUsage`).

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{ApiError, pod_resources::ResourceList};
use trireme_registry::{Attributes, item};

use super::{
    evaluators::Measure,
    pods::{DEVICE_CLASS, REQUESTS, measure},
    resource_claims::PER_CLASS,
};
use crate::{attributes::annotation, object_lookup::ObjectLookup};

const OF_EXTENDED_RESOURCE: &str = "resource.kubernetes.io/extended-resource-claim";

/// Counts devices as the extended resources of their classes.
pub(crate) struct ExtendedResources {
    classes: ObjectLookup,
    pods: ObjectLookup,
    claims: ObjectLookup,
}

impl ExtendedResources {
    /// Looks at these device classes, pods and resource claims.
    pub(crate) fn new(classes: ObjectLookup, pods: ObjectLookup, claims: ObjectLookup) -> Self {
        Self { classes, pods, claims }
    }

    /// Adds to the measures of a claim what its devices are as extended resources.
    pub(super) async fn count(
        &self,
        attributes: &Attributes,
        new: &mut Measure,
        old: Option<&mut Measure>,
    ) -> Result<(), ApiError> {
        let classes = self.classes.list("").await?;
        let (objects, now) = (
            [attributes.object.as_ref(), attributes.old_object.as_deref()],
            attributes.context.now,
        );
        for (claim, measure) in objects.into_iter().zip([Some(new), old]) {
            if let (Some(claim), Some(measure)) = (claim, measure) {
                let counted = self.usage_of_pod(attributes.namespace(), claim, now).await;
                add_extended_resources(measure, &classes, &counted.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// The usage of the pod that a claim was made for, which counts already; none if that is in doubt.
    async fn usage_of_pod(&self, namespace: &str, claim: &Value, now: Timestamp) -> Option<ResourceList> {
        let owner = owning_pod(claim)?;
        let found = self.pods.cached(namespace, owner.get("name")?.as_str()?).await.ok()??;
        let pod = item::parse(&found).ok()?;
        if text(&pod, "/metadata/uid") != text(owner, "/uid") {
            return None;
        }
        let is_of_pod = match pod.pointer("/status/extendedResourceClaimStatus") {
            Some(status) => text(status, "/resourceClaimName") == text(claim, "/metadata/name"),
            None => is_first(claim, owner, &self.claims.list(namespace).await.ok()?),
        };
        is_of_pod.then(|| measure(&pod, "", now).usage)
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The reference to the pod for whose extended resources a claim was made.
fn owning_pod(claim: &Value) -> Option<&Value> {
    annotation(claim, OF_EXTENDED_RESOURCE).filter(|is| *is == "true")?;
    let mut owners = claim.pointer("/metadata/ownerReferences")?.as_array()?.iter();
    let controller = owners.find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    (text(controller, "/kind") == "Pod" && text(controller, "/apiVersion") == "v1").then_some(controller)
}

/// Reports whether no claim that was made for the same pod is older, or as old and before this one by its name.
fn is_first(claim: &Value, owner: &Value, claims: &[Value]) -> bool {
    let age = |claim: &Value| {
        let created: Option<Timestamp> = text(claim, "/metadata/creationTimestamp").parse().ok();
        (created, text(claim, "/metadata/name").to_owned())
    };
    let own = age(claim);
    let is_of_pod = |other: &&Value| owning_pod(other).is_some_and(|pod| text(pod, "/uid") == text(owner, "/uid"));
    claims.iter().filter(is_of_pod).all(|other| age(other) >= own)
}

/// Adds the extended resources of the devices in a measure, less what a pod uses of them.
fn add_extended_resources(measure: &mut Measure, classes: &[Value], of_pod: &ResourceList) {
    measure.limits = classes.iter().flat_map(names).collect();
    let of_class = measure.usage.iter().filter_map(|(name, amount)| {
        let class = name.strip_suffix(PER_CLASS).filter(|class| !class.is_empty())?;
        let known = classes.iter().find(|known| text(known, "/metadata/name") == class);
        let names = known.map_or_else(|| BTreeSet::from([implicit(class)]), names);
        Some(names.into_iter().map(|name| (name, *amount)))
    });
    let extended: ResourceList = of_class.flatten().collect();
    for (name, amount) in extended {
        let left = of_pod.get(&name).map_or(amount, |counted| amount - *counted);
        if left.signum() > 0 {
            measure.usage.insert(name, left);
        }
    }
}

/// The names in quotas of a device class: the one that each has, and that of its extended resource.
fn names(class: &Value) -> BTreeSet<String> {
    let extended = class.pointer("/spec/extendedResourceName").and_then(Value::as_str);
    let extended = extended.map(|name| format!("{REQUESTS}{name}"));
    extended
        .into_iter()
        .chain([implicit(text(class, "/metadata/name"))])
        .collect()
}

fn implicit(class: &str) -> String {
    format!("{REQUESTS}{DEVICE_CLASS}{class}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::pod_resources::resource_list;

    use super::*;
    use crate::resource_quota::evaluators::Evaluator;

    fn claim(name: &str, created: &str) -> Value {
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true });
        json!({ "metadata": {
            "name": name,
            "creationTimestamp": created,
            "annotations": { OF_EXTENDED_RESOURCE: "true" },
            "ownerReferences": [owner],
        }})
    }

    #[test]
    fn devices_count_as_the_extended_resources_of_their_classes() {
        let classes = [
            json!({ "metadata": { "name": "gpu" }, "spec": { "extendedResourceName": "ex.com/gpu" } }),
            json!({ "metadata": { "name": "nic" }, "spec": {} }),
        ];
        let devices = json!({
            "gpu.deviceclass.resource.k8s.io/devices": "3",
            "gone.deviceclass.resource.k8s.io/devices": "1",
        });
        let shown = |of_pod: Value| {
            let mut measure = Measure::of(resource_list(Some(&devices)));
            add_extended_resources(&mut measure, &classes, &resource_list(Some(&of_pod)));
            let of_requests = measure.usage.iter().filter(|(name, _)| name.starts_with(REQUESTS));
            let shown: Vec<String> = of_requests.map(|(name, amount)| format!("{name}={amount}")).collect();
            (measure, shown)
        };
        let (measure, all) = shown(json!({}));
        let gone = "requests.deviceclass.resource.kubernetes.io/gone=1";
        let implicit = "requests.deviceclass.resource.kubernetes.io/gpu=3";
        assert_eq!(all, [gone, implicit, "requests.ex.com/gpu=3"]);
        let (_, left) = shown(json!({ "requests.ex.com/gpu": "3" }));
        assert_eq!(left, [gone, implicit]);
        let concerns = |name: &str| Evaluator::ResourceClaims.matches_resource(name, &measure);
        assert!(concerns("requests.ex.com/gpu") && concerns("requests.deviceclass.resource.kubernetes.io/nic"));
        assert!(!concerns("requests.deviceclass.resource.kubernetes.io/gone") && !concerns("requests.ex.com/other"));
    }

    #[test]
    fn a_pod_answers_for_its_first_claim() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let own = claim("b", early);
        let owner = owning_pod(&own).expect("a claim of a pod");
        let first = |others: &[Value]| is_first(&own, owner, others);
        assert!(first(&[]) && first(&[own.clone(), claim("a", late), claim("c", early)]));
        assert!(!first(&[claim("a", early)]));
        let younger = claim("a", late);
        assert!(!is_first(&younger, owner, std::slice::from_ref(&own)));
        let mut unmarked = own.clone();
        unmarked["metadata"]["annotations"] = json!({});
        assert_eq!(owning_pod(&unmarked), None);
    }
}
