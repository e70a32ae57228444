//! `PodTolerationRestriction`: a namespace's annotations give its pods tolerations, and bound those they have
//! (`plugin/pkg/admission/podtolerationrestriction`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError,
    configuration::ConfigFields,
    pod_resources::{ListName, listed},
};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{
    attributes::{annotation, forbidden, is_write_of},
    namespaces::Namespaces,
    tolerations,
};

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

const VERSIONS: &[&str] = &["podtolerationrestriction.admission.k8s.io/v1alpha1"];

/// The configuration: what counts for namespaces without annotations.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterTolerations {
    default: Vec<Value>,
    whitelist: Vec<Value>,
}

impl ClusterTolerations {
    /// Reads a configuration.
    pub(crate) fn read(bytes: Option<&[u8]>) -> Result<Self, String> {
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        let (_, mut fields) = ConfigFields::read(bytes, VERSIONS, "Configuration")?;
        let mut list = |name: &str| match fields.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) if items.iter().all(Value::is_object) => Ok(items),
            Some(_) => Err(format!("{name} is no list of tolerations")),
        };
        Ok(Self {
            default: list("default")?,
            whitelist: list("whitelist")?,
        })
    }
}

/// The plugin.
pub(crate) struct PodTolerationRestriction {
    namespaces: Namespaces,
    cluster: ClusterTolerations,
}

impl PodTolerationRestriction {
    /// Looks at the annotations of these namespaces.
    pub(crate) fn new(namespaces: Namespaces, cluster: ClusterTolerations) -> Self {
        Self { namespaces, cluster }
    }

    /// The tolerations in an annotation; `None` if there is no such annotation.
    async fn listed_in(&self, attributes: &Attributes, key: &str) -> Result<Option<Vec<Value>>, ApiError> {
        let namespace = self.namespaces.find(attributes.namespace()).await?.object()?;
        let text = annotation(&namespace, key).map(|text| if text.is_empty() { "[]" } else { text });
        let list = text.map(serde_json::from_str::<Option<Vec<Value>>>).transpose();
        // kube-apiserver answers 500 to an annotation that is no list.
        let list = list.map_err(|_| {
            forbidden(
                attributes,
                format_args!("the annotation {key} of the namespace is no list"),
            )
        });
        Ok(list?.map(Option::unwrap_or_default))
    }

    async fn set(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        let mut given = Vec::new();
        if attributes.operation == Operation::Create {
            let own = self.listed_in(attributes, DEFAULTS).await?;
            given = own.unwrap_or_else(|| self.cluster.default.clone());
        }
        let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec")) else {
            return Ok(());
        };
        if !is_best_effort(spec) {
            given.push(json!({ "key": MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule" }));
        }
        if !given.is_empty() {
            let own = spec.get("tolerations").and_then(Value::as_array).cloned();
            spec["tolerations"] = tolerations::merged(own.unwrap_or_default(), given).into();
        }
        self.check(attributes).await
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let own = attributes
            .object
            .as_ref()
            .and_then(|pod| pod.pointer("/spec/tolerations")?.as_array());
        let Some(own) = own.filter(|own| !own.is_empty()) else {
            return Ok(());
        };
        let listed = self.listed_in(attributes, WHITELIST).await?;
        let scope = if listed.is_some() { "namespace" } else { "cluster" };
        let allowed = listed.as_ref().unwrap_or(&self.cluster.whitelist);
        if allowed.is_empty() || tolerations::are_within(own, allowed) {
            return Ok(());
        }
        // kube-apiserver answers 500.
        let why = format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        );
        Err(forbidden(attributes, why))
    }
}

/// Reports whether a pod asks for no CPU and no memory.
fn is_best_effort(spec: &Value) -> bool {
    let asks = |of: &Value| {
        let lists = [ListName::Requests, ListName::Limits].map(|list| listed(of, list));
        let amounts = lists
            .iter()
            .flat_map(|list| ["cpu", "memory"].map(|name| list.get(name)));
        amounts.flatten().any(|amount| amount.signum() > 0)
    };
    let containers = ["containers", "initContainers"].into_iter();
    let mut containers = containers.flat_map(|field| spec.get(field).and_then(Value::as_array).into_iter().flatten());
    !asks(spec) && !containers.any(asks)
}

impl Admission for PodTolerationRestriction {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "pods", &[Operation::Create, Operation::Update])
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.set(attributes).boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_nothing_gets_the_best_effort() {
        let spec = |list: &str, name: &str, amount: &str| json!({ "containers": [{}], "initContainers": [{ "resources": { list: { name: amount } } }] });
        assert!(is_best_effort(&spec("requests", "cpu", "0")));
        assert!(is_best_effort(&spec("limits", "ephemeral-storage", "1")));
        assert!(!is_best_effort(&spec("limits", "memory", "1")));
        assert!(!is_best_effort(&json!({ "resources": { "requests": { "cpu": "1" } } })));
    }
}
