//! `LimitPodHardAntiAffinityTopology`: pods keep others off a node, not off a zone (`plugin/pkg/admission/antiaffinity`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::{forbidden, is_write_of};

const HOSTNAME: &str = "kubernetes.io/hostname";
const TERMS: &str = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";

/// The plugin.
pub(crate) struct LimitPodHardAntiAffinityTopology;

fn check(attributes: &Attributes) -> Result<(), ApiError> {
    let terms = attributes
        .object
        .as_ref()
        .and_then(|pod| pod.pointer(TERMS)?.as_array());
    let keys = terms.into_iter().flatten().map(|term| term.get("topologyKey"));
    let mut keys = keys.map(|key| key.and_then(Value::as_str).unwrap_or_default());
    let Some(key) = keys.find(|key| *key != HOSTNAME) else {
        return Ok(());
    };
    let why = format!(
        "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
    );
    Err(forbidden(attributes, why))
}

impl Admission for LimitPodHardAntiAffinityTopology {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "pods", &[Operation::Create, Operation::Update])
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        std::future::ready(check(attributes)).boxed()
    }
}
