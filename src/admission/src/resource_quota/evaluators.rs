//! Evaluators: the use of quotas by the objects of a resource (`k8s.io/apiserver/pkg/quota/v1/generic`, `pkg/quota/v1/evaluator`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{
    pod_resources::ResourceList,
    quantity::{Format, Quantity},
};
use trireme_registry::{Operation, WriteRequest};

use super::{claims, pods, quota::ScopeSelector, resource_claims, services};

/// Resources that nothing is counted of.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];
/// Resources of the core group that count under their own name, too.
const NAMED: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// The way in which a resource counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evaluator {
    Pods,
    Services,
    Claims,
    ResourceClaims,
    /// Only the number of objects.
    ObjectCount,
}

impl Evaluator {
    /// The evaluator that handles a write; none if it does not count.
    pub(super) fn handling(request: &WriteRequest) -> Option<Self> {
        let (group, resource) = (&*request.resource.group, &*request.resource.resource);
        if request.namespace().is_empty() || IGNORED.contains(&(group, resource)) {
            return None;
        }
        let evaluator = match (group, resource) {
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Claims,
            ("resource.k8s.io", "resourceclaims") => Self::ResourceClaims,
            _ => Self::ObjectCount,
        };
        let handles = match (request.operation, request.subresource.name()) {
            (Operation::Create, "") => true,
            (Operation::Update, "") => evaluator != Self::ObjectCount,
            (Operation::Update, "resize") => evaluator == Self::Pods,
            (Operation::Update, "status") => evaluator == Self::Claims,
            _ => false,
        };
        handles.then_some(evaluator)
    }

    /// Measures an object.
    pub(super) fn measure(self, request: &WriteRequest, object: &Value) -> Measure {
        let count = count_name(&request.resource.group, &request.resource.resource);
        let mut measure = match self {
            Self::Pods => pods::measure(object, &count, request.context.now),
            Self::Services => Measure::of(services::usage(object)),
            Self::Claims => claims::measure(object),
            Self::ResourceClaims => Measure::of(resource_claims::usage(object)),
            Self::ObjectCount => Measure::default(),
        };
        measure.usage.insert(count, one());
        let resource = &*request.resource.resource;
        if request.resource.group.is_empty() && NAMED.contains(&resource) {
            measure.usage.insert(resource.to_owned(), one());
        }
        measure
    }

    /// Reports whether a limit of a quota concerns objects that use this.
    pub(super) fn matches_resource(self, name: &str, measure: &Measure) -> bool {
        let by_name = match self {
            Self::Pods => pods::counts(name),
            Self::Services => services::NAMES.contains(&name),
            Self::Claims => claims::counts(name),
            Self::ResourceClaims => resource_claims::counts(name),
            Self::ObjectCount => false,
        };
        // The classes of a claim's devices may be gone, and then nothing says that their names are of devices.
        let is_of_class = self == Self::ResourceClaims && name.starts_with(pods::REQUESTS);
        by_name || measure.limits.contains(name) || (!is_of_class && measure.usage.contains_key(name))
    }
}

/// The name under which the objects of a resource are counted.
fn count_name(group: &str, resource: &str) -> String {
    match group {
        "" => format!("count/{resource}"),
        group => format!("count/{resource}.{group}"),
    }
}

/// A quantity of one object.
pub(super) fn one() -> Quantity {
    number(1)
}

/// A quantity that counts.
pub(super) fn number(count: i64) -> Quantity {
    Quantity::from_integer(count, Format::DecimalSi)
}

/// The facts about an object that quotas look at.
#[derive(Debug, Clone, Default)]
pub(super) struct Measure {
    /// The amounts that it uses.
    pub(super) usage: ResourceList,
    /// The compute resources that some of its containers do not state, with the names of these.
    pub(super) unstated: BTreeMap<&'static str, Vec<String>>,
    /// The scopes that it may be in.
    pub(super) scopes: Scopes,
    /// More limits of quotas that concern it, beside those of its resource.
    pub(super) limits: BTreeSet<String>,
}

impl Measure {
    pub(super) fn of(usage: ResourceList) -> Self {
        Self {
            usage,
            ..Self::default()
        }
    }
}

/// The facts about an object that scopes select by.
#[derive(Debug, Clone, Default)]
pub(super) enum Scopes {
    /// It is in none.
    #[default]
    None,
    Pod(PodScopes),
    /// The volume attributes classes that a claim refers to.
    Claim(Vec<String>),
}

/// The facts about a pod that scopes select by.
#[derive(Debug, Clone, Default)]
pub(super) struct PodScopes {
    pub(super) terminating: bool,
    pub(super) best_effort: bool,
    pub(super) priority_class: String,
    pub(super) cross_namespace_affinity: bool,
}

impl Scopes {
    /// Reports whether it is a pod that ends by itself.
    pub(super) fn terminating(&self) -> bool {
        matches!(self, Self::Pod(pod) if pod.terminating)
    }

    /// Reports whether the object is in the scope.
    pub(super) fn are_in(&self, selector: &ScopeSelector) -> bool {
        match self {
            Self::None => false,
            Self::Pod(pod) => match selector.scope.as_str() {
                "Terminating" => pod.terminating,
                "NotTerminating" => !pod.terminating,
                "BestEffort" => pod.best_effort,
                "NotBestEffort" => !pod.best_effort,
                "CrossNamespacePodAffinity" => pod.cross_namespace_affinity,
                "PriorityClass" => {
                    let class = Some(pod.priority_class.as_str()).filter(|class| !class.is_empty());
                    selector.matches(class)
                }
                _ => false,
            },
            Self::Claim(classes) if selector.scope == "VolumeAttributesClass" => match classes.as_slice() {
                [] => selector.matches(None),
                classes => classes.iter().any(|class| selector.matches(Some(class))),
            },
            Self::Claim(_) => false,
        }
    }
}

/// The moment up to which a pod that is being deleted may still be there.
pub(super) fn is_over(deletion_timestamp: &str, grace_seconds: i64, now: Timestamp) -> bool {
    let deleted: Option<Timestamp> = deletion_timestamp.parse().ok();
    deleted.is_some_and(|deleted| now.as_second() > deleted.as_second().saturating_add(grace_seconds))
}
