//! `PodNodeSelector`: the pods of a namespace run where its annotation says (`plugin/pkg/admission/podnodeselector`).

use std::collections::BTreeMap;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Map, Value};
use trireme_machinery::{ApiError, names, yaml};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{
    attributes::{annotation, forbidden, is_write_of},
    namespaces::Namespaces,
};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// The key of the selector for namespaces that have no annotation.
const CLUSTER_DEFAULT: &str = "clusterDefaultNodeSelector";
const NOT_LISTED: &str = "pod node label selector labels conflict with its namespace whitelist";
const CONFLICT: &str = "pod node label selector conflicts with its namespace node label selector";

/// The configuration: selectors by namespace, and one for all without an annotation.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterNodeSelectors(BTreeMap<String, String>);

impl ClusterNodeSelectors {
    /// Reads `podNodeSelectorPluginConfig`, which has no version.
    pub(crate) fn read(bytes: Option<&[u8]>) -> Result<Self, String> {
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        let value = yaml::decode(bytes).map_err(|error| error.to_string())?.value;
        let selectors = value["podNodeSelectorPluginConfig"].as_object().into_iter().flatten();
        let selectors = selectors.map(|(name, selector)| {
            let selector = selector.as_str().unwrap_or_default();
            parse(selector).map(|_| (name.clone(), selector.to_owned()))
        });
        selectors.collect::<Result<_, _>>().map(Self)
    }

    fn of(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

/// The plugin.
pub(crate) struct PodNodeSelector {
    namespaces: Namespaces,
    selectors: ClusterNodeSelectors,
}

impl PodNodeSelector {
    /// Looks at the annotations of these namespaces.
    pub(crate) fn new(namespaces: Namespaces, selectors: ClusterNodeSelectors) -> Self {
        Self { namespaces, selectors }
    }

    async fn of_namespace(&self, attributes: &Attributes) -> Result<BTreeMap<String, String>, ApiError> {
        let namespace = self.namespaces.find(attributes.namespace()).await?.object()?;
        let text = annotation(&namespace, ANNOTATION).unwrap_or_else(|| self.selectors.of(CLUSTER_DEFAULT));
        // kube-apiserver answers 500 to an annotation that is no selector.
        parse(text).map_err(|why| forbidden(attributes, why))
    }

    async fn set(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        let selector = self.of_namespace(attributes).await?;
        if conflicts(attributes, &selector) {
            return Err(forbidden(attributes, CONFLICT));
        }
        let spec = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec"));
        if let Some(spec) = spec.and_then(Value::as_object_mut).filter(|_| !selector.is_empty()) {
            let own = spec.entry("nodeSelector").or_insert(Value::Null);
            if own.is_null() {
                *own = Value::Object(Map::new());
            }
            if let Some(own) = own.as_object_mut() {
                own.extend(selector.into_iter().map(|(key, value)| (key, value.into())));
            }
        }
        self.check_listed(attributes)
    }

    /// A namespace that the configuration lists has its pods select by nothing else.
    fn check_listed(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let listed = parse(self.selectors.of(attributes.namespace())).unwrap_or_default();
        let pod = attributes.object.as_ref();
        let own = pod.and_then(|pod| pod.pointer("/spec/nodeSelector")?.as_object());
        let is_listed = |(key, value): (&String, &Value)| listed.get(key).map(String::as_str) == value.as_str();
        match listed.is_empty() || own.is_none_or(|own| own.iter().all(is_listed)) {
            true => Ok(()),
            false => Err(forbidden(attributes, NOT_LISTED)),
        }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let selector = self.of_namespace(attributes).await?;
        match conflicts(attributes, &selector) {
            true => Err(forbidden(attributes, CONFLICT)),
            false => self.check_listed(attributes),
        }
    }
}

fn conflicts(attributes: &Attributes, selector: &BTreeMap<String, String>) -> bool {
    let own = attributes
        .object
        .as_ref()
        .and_then(|pod| pod.pointer("/spec/nodeSelector"));
    let own = |key: &str| own.and_then(|own| own.get(key)?.as_str());
    selector
        .iter()
        .any(|(key, value)| own(key).is_some_and(|own| own != value))
}

/// Reads `key=value,…` (`ConvertSelectorToLabelsMap`).
fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let terms = text.split(',').filter(|_| !text.is_empty());
    terms
        .map(|term| {
            let parts: Vec<&str> = term.split('=').collect();
            let [key, value] = parts.as_slice() else {
                return Err(format!("invalid selector: [{}]", parts.join(" ")));
            };
            let (key, value) = (key.trim(), value.trim());
            let errors = [names::qualified_name(key), names::label_value(value)].concat();
            match errors.is_empty() {
                true => Ok((key.to_owned(), value.to_owned())),
                false => Err(format!("invalid selector: {}", errors.join("; "))),
            }
        })
        .collect()
}

impl Admission for PodNodeSelector {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_a_list_of_labels() {
        let expected = BTreeMap::from([("a".to_owned(), "b".to_owned()), ("c".to_owned(), String::new())]);
        assert_eq!(parse("a = b,c="), Ok(expected));
        assert_eq!(parse(""), Ok(BTreeMap::new()));
        assert_eq!(parse("a"), Err("invalid selector: [a]".to_owned()));
        assert!(parse("a=b c").is_err() && parse("-=b").is_err());
    }
}
