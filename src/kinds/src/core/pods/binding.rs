//! `/binding`: a scheduler says on which node a pod is to run.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, Feature, Features, GroupResource, GroupVersion,
    field::{Error, ErrorList, Path},
};
use trireme_registry::{
    RuleChange, RuleStages, WriteContext,
    request::Target,
    subresource::{Create, CreateBody, CreateCall},
};

use super::conditions::set_condition;
use crate::values::{entries, items, struct_mut, text, text_at};

/// POST of a `Binding`.
pub(super) struct PodBinding {
    pub(super) features: Features,
}

impl Create for PodBinding {
    fn name(&self) -> &'static str {
        "binding"
    }

    fn body(&self) -> CreateBody {
        CreateBody {
            kind: GroupVersion::new("", "v1").with_kind("Binding"),
            also: Vec::new(),
            type_name: "io.k8s.api.core.v1.Binding",
        }
    }

    /// kube-apiserver answers 500 to a target that cannot be; the error is the client's, so it gets 400.
    fn check(&self, target: &Target, body: &Value) -> Result<(), ApiError> {
        if text_at(body, "/metadata/name") != target.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        let errors: Vec<String> = validate_pod_binding(body).iter().map(ToString::to_string).collect();
        match errors.as_slice() {
            [] => Ok(()),
            [one] => Err(ApiError::bad_request(one)),
            more => Err(ApiError::bad_request(format!("[{}]", more.join(", ")))),
        }
    }

    fn run<'a>(&'a self, call: &'a CreateCall) -> BoxFuture<'a, Result<Option<Value>, ApiError>> {
        Box::pin(async move {
            let binding = call.body.clone();
            let key = call.registry.storage_key(&call.target.namespace, &call.target.name);
            let features = self.features;
            let rule = move |context: &WriteContext, pod: &mut Value| {
                check_preconditions(pod, &binding, &key)?;
                bind(features, context, pod, &binding)
            };
            let change = RuleChange::new(call.target.clone(), RuleStages::CommitOnly, rule);
            call.registry.change(change.with_dry_run(call.dry_run)).await?;
            Ok(None)
        })
    }
}

/// As upstream's `ValidatePodBinding`.
fn validate_pod_binding(binding: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let kind = text_at(binding, "/target/kind");
    if !matches!(kind, "" | "Node") {
        errors.push(Error::not_supported(
            &Path::new("target.kind"),
            kind,
            &["Node", "<empty>"],
        ));
    }
    if text_at(binding, "/target/name").is_empty() {
        errors.push(Error::required(&Path::new("target.name"), ""));
    }
    errors
}

fn bind(features: Features, context: &WriteContext, pod: &mut Value, binding: &Value) -> Result<(), ApiError> {
    let name = text_at(pod, "/metadata/name").to_owned();
    let refuse = |why: String| {
        let resource = GroupResource {
            group: "".into(),
            resource: "pods/binding".into(),
        };
        Err(ApiError::conflict(&resource, &name, why))
    };
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = text_at(pod, "/spec/nodeName");
    if !node.is_empty() {
        return refuse(format!("pod {name} is already assigned to node \"{node}\""));
    }
    if pod
        .get("spec")
        .is_some_and(|spec| !items(spec, "schedulingGates").is_empty())
    {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    struct_mut(pod, "spec").insert("nodeName".into(), text_at(binding, "/target/name").into());
    // Where it might have gone is of no interest once it is known where it goes.
    if features.has(Feature::ClearingNominatedNodeNameAfterBinding) {
        struct_mut(pod, "status").remove("nominatedNodeName");
    }
    let gives_labels = features.has(Feature::PodTopologyLabelsAdmission).then_some("labels");
    for field in ["annotations"].into_iter().chain(gives_labels) {
        let given = binding
            .get("metadata")
            .into_iter()
            .flat_map(|metadata| entries(metadata, field));
        let given: Vec<(String, Value)> = given.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        if let (false, Some(metadata)) = (given.is_empty(), pod.get_mut("metadata")) {
            struct_mut(metadata, field).extend(given);
        }
    }
    set_condition(pod, context.now, json!({ "type": "PodScheduled", "status": "True" }));
    Ok(())
}

/// A binding's uid and revision are those of the pod that was looked at.
fn check_preconditions(pod: &Value, binding: &Value, key: &str) -> Result<(), ApiError> {
    let none = Value::Null;
    let (actual, given) = (
        pod.get("metadata").unwrap_or(&none),
        binding.get("metadata").unwrap_or(&none),
    );
    for (field, shown) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, is) = (text(given, field), text(actual, field));
        if !wanted.is_empty() && wanted != is {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: {shown} in precondition: {wanted}, {shown} in object meta: {is}"
            );
            let resource = GroupResource {
                group: "".into(),
                resource: "pods".into(),
            };
            return Err(ApiError::conflict(&resource, text(actual, "name"), why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn a_pod_with_a_node_is_nominated_to_none_while_the_feature_is_on() {
        let trial = Trial::new("", "pods", crate::core::pods::kind(Default::default()));
        let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
        let created = trial.create(named("p", spec)).expect("a valid pod");
        let nominated = trial
            .status(&created, json!({ "nominatedNodeName": "m", "phase": "Pending" }))
            .expect("a valid status");
        assert_eq!(nominated["status"]["nominatedNodeName"], "m");
        let bound = |features: Features| {
            let mut pod = nominated.clone();
            let target = json!({ "target": { "name": "n" } });
            bind(features, &trial.context(), &mut pod, &target).expect("it may be bound");
            assert_eq!(pod["spec"]["nodeName"], "n");
            pod["status"].get("nominatedNodeName").cloned()
        };
        let feature = Feature::ClearingNominatedNodeNameAfterBinding;
        assert_eq!(bound(Features::default()), None);
        assert_eq!(bound(Features::without(&[feature])), Some("m".into()));
    }

    #[test]
    fn labels_of_a_binding_are_those_of_the_pod_while_the_feature_is_on() {
        let trial = Trial::new("", "pods", crate::core::pods::kind(Default::default()));
        let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
        let created = trial.create(named("p", spec)).expect("a valid pod");
        let bound = |features: Features| {
            let mut pod = created.clone();
            let both = json!({ "annotations": { "a": "1" }, "labels": { "topology.kubernetes.io/zone": "z" } });
            let binding = json!({ "metadata": both, "target": { "name": "n" } });
            bind(features, &trial.context(), &mut pod, &binding).expect("it may be bound");
            assert_eq!(pod["metadata"]["annotations"]["a"], "1");
            pod.pointer("/metadata/labels/topology.kubernetes.io~1zone").cloned()
        };
        assert_eq!(bound(Features::default()), Some("z".into()));
        assert_eq!(bound(Features::without(&[Feature::PodTopologyLabelsAdmission])), None);
    }
}
