//! The part of a configuration that says which requests it is for, as webhooks and policies have it: rules, selectors of
//! namespaces and objects, and whether other versions of a resource count
//! (`k8s.io/apiserver/pkg/admission/plugin/webhook/{generic,predicates}`).

mod rule;

use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupVersionKind, GroupVersionResource,
    selector::{LabelSelector, compile_label_selector},
};
use trireme_registry::{Attributes, Operation, WriteRequest};

pub(crate) use self::rule::OperationRule;
use crate::namespaces::Namespaces;

/// The requests that a configuration is for.
pub(crate) struct MatchCriteria {
    rules: Vec<OperationRule>,
    /// Rules whose requests it is not for, whatever the others say.
    excluded: Vec<OperationRule>,
    /// True if it is for all requests where it has no rules.
    matches_without_rules: bool,
    matches_equivalents: bool,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
}

/// The resource and kind that a rule matched: those of the request, or of another version of its resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatchedKind {
    pub(crate) kind: GroupVersionKind,
    pub(crate) resource: GroupVersionResource,
}

impl MatchedKind {
    /// Those of the request.
    fn of(request: &WriteRequest) -> Self {
        Self {
            kind: request.kind.clone(),
            resource: request.resource.clone(),
        }
    }
}

impl MatchCriteria {
    /// Reads the fields of a webhook, with its rules under `rules`.
    pub(crate) fn of_webhook(fields: &Value) -> Self {
        Self::read(fields, "rules")
    }

    /// Reads `MatchResources`; without rules they are for all requests.
    pub(crate) fn of_policy(fields: &Value) -> Self {
        let criteria = Self::read(fields, "resourceRules");
        Self {
            matches_without_rules: criteria.rules.is_empty(),
            ..criteria
        }
    }

    fn read(fields: &Value, rules: &str) -> Self {
        let selector = |name: &str| {
            let selector = fields.get(name).and_then(Value::as_object);
            selector.map_or(Ok(LabelSelector::everything()), |fields| {
                compile_label_selector(Some(fields)).map_err(|error| error.to_string())
            })
        };
        let read = |name: &str| {
            let items = fields.get(name).and_then(Value::as_array).into_iter().flatten();
            items.map(OperationRule::read).collect()
        };
        Self {
            rules: read(rules),
            excluded: read("excludeResourceRules"),
            matches_without_rules: false,
            matches_equivalents: fields.get("matchPolicy").and_then(Value::as_str) != Some("Exact"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// The kind to show the request in, if it is one of these.
    ///
    /// # Errors
    /// If a rule matches, but the namespace is not to be found.
    pub(crate) async fn matched(
        &self,
        attributes: &Attributes,
        namespaces: &Namespaces,
    ) -> Result<Option<MatchedKind>, ApiError> {
        // The rules are looked at first: they need nothing, and nothing else matters where none matches.
        let name = Some(attributes.name.as_str());
        let Some(matched) = self.matching_rule(attributes, name) else {
            return Ok(None);
        };
        if self.excludes(attributes, name) {
            return Ok(None);
        }
        let is_selected = self.selects_object(attributes)? && self.selects_namespace(attributes, namespaces).await?;
        Ok(is_selected.then_some(matched))
    }

    /// Reports whether a rule may match a request, whatever the object.
    pub(crate) fn may_match(&self, request: &WriteRequest) -> bool {
        self.matching_rule(request, None).is_some()
    }

    fn excludes(&self, request: &WriteRequest, name: Option<&str>) -> bool {
        !self.excluded.is_empty() && self.first_match(&self.excluded, request, name).is_some()
    }

    fn matching_rule(&self, request: &WriteRequest, name: Option<&str>) -> Option<MatchedKind> {
        if self.matches_without_rules {
            return Some(MatchedKind::of(request));
        }
        self.first_match(&self.rules, request, name)
    }

    /// The match of the first rule; without a name that of any object.
    fn first_match(&self, rules: &[OperationRule], request: &WriteRequest, name: Option<&str>) -> Option<MatchedKind> {
        if rules.iter().any(|rule| rule.matches(request, &request.resource, name)) {
            return Some(MatchedKind::of(request));
        }
        if !self.matches_equivalents {
            return None;
        }
        let versions = request.definition.versions.iter().filter(|version| version.is_served);
        let others: Vec<GroupVersionResource> = versions
            .map(|version| version.group_version.with_resource(&request.resource.resource))
            .filter(|resource| *resource != request.resource)
            .collect();
        // Earlier rules come before earlier versions.
        let resource = rules
            .iter()
            .find_map(|rule| others.iter().find(|resource| rule.matches(request, resource, name)))?;
        Some(MatchedKind {
            kind: request.kind_in(&resource.group_version()),
            resource: resource.clone(),
        })
    }

    /// `MatchObjectSelector`: the object as it will be or as it was.
    fn selects_object(&self, attributes: &Attributes) -> Result<bool, ApiError> {
        let selector = self.objects.as_ref().map_err(ApiError::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        // The options of a connection have no metadata to be selected by.
        if attributes.operation == Operation::Connect {
            return Ok(false);
        }
        let is_selected = |object: Option<&Value>| {
            object.is_some_and(|object| selector.matches(object.pointer("/metadata/labels").and_then(Value::as_object)))
        };
        Ok(is_selected(attributes.object.as_ref()) || is_selected(attributes.old_object.as_deref()))
    }

    /// `MatchNamespaceSelector`: objects outside of namespaces are always selected, namespaces by their own labels.
    async fn selects_namespace(&self, attributes: &Attributes, namespaces: &Namespaces) -> Result<bool, ApiError> {
        let namespace = namespace_of(attributes);
        if namespace.is_empty() && !is_namespaces(attributes) {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(ApiError::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let is_written = is_namespaces(attributes)
            && attributes.subresource.name().is_empty()
            && matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_written {
            let object = attributes.object.as_ref();
            let labels = object.and_then(|object| object.pointer("/metadata/labels")?.as_object());
            return Ok(selector.matches(labels));
        }
        let found = namespaces.find(namespace).await?;
        Ok(selector.matches_with(|key| found.label(key)))
    }
}

/// The namespace of a request as admission sees it: that of a namespace is the namespace itself.
pub(crate) fn namespace_of(attributes: &Attributes) -> &str {
    if is_namespaces(attributes) {
        &attributes.name
    } else {
        attributes.namespace()
    }
}

fn is_namespaces(request: &WriteRequest) -> bool {
    request.resource.group.is_empty() && &*request.resource.resource == "namespaces"
}

/// Reports whether a request writes what configures admission itself: no webhook is asked about it
/// (`IsExemptAdmissionConfigurationResource`).
pub(crate) fn is_exempt(request: &WriteRequest) -> bool {
    &*request.kind.group == "admissionregistration.k8s.io"
        && matches!(
            &*request.kind.kind,
            "ValidatingWebhookConfiguration"
                | "MutatingWebhookConfiguration"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding"
        )
}

/// An operation as configurations and reviews name it.
pub(crate) const fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}
