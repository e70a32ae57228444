//! One rule: operations, groups, versions, resources with their subresources, scope.

use serde_json::Value;
use trireme_machinery::GroupVersionResource;
use trireme_registry::WriteRequest;

use super::operation_name;

/// A `RuleWithOperations`.
#[derive(Debug)]
pub(crate) struct OperationRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<ResourcePattern>,
    scope: RuleScope,
    /// `resourceNames`; all if there is none.
    names: Vec<String>,
}

/// A resource and a subresource; each may be `*`, and an empty subresource is the object itself.
#[derive(Debug)]
struct ResourcePattern {
    resource: String,
    subresource: String,
}

#[derive(Debug, Clone, Copy)]
enum RuleScope {
    All,
    Cluster,
    Namespaced,
    /// A scope that this server does not know: nothing matches.
    Unknown,
}

impl OperationRule {
    /// Reads a rule.
    pub(crate) fn read(fields: &Value) -> Self {
        let texts = |name: &str| -> Vec<String> {
            let items = fields.get(name).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let resources = texts("resources");
        Self {
            names: texts("resourceNames"),
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: resources.iter().map(|text| ResourcePattern::read(text)).collect(),
            scope: match fields.get("scope").and_then(Value::as_str) {
                None | Some("*") => RuleScope::All,
                Some("Cluster") => RuleScope::Cluster,
                Some("Namespaced") => RuleScope::Namespaced,
                Some(_) => RuleScope::Unknown,
            },
        }
    }

    /// Reports whether the rule matches a request as one for `resource`; without a name it may be of any object.
    pub(crate) fn matches(&self, request: &WriteRequest, resource: &GroupVersionResource, name: Option<&str>) -> bool {
        self.is_in_scope(request, resource)
            && (self.names.is_empty() || name.is_none_or(|name| self.names.iter().any(|one| one == name)))
            && has(&self.operations, operation_name(request.operation))
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self
                .resources
                .iter()
                .any(|pattern| pattern.matches(&resource.resource, request.subresource.name()))
    }

    /// Namespaces are outside of namespaces, though requests for them have one.
    fn is_in_scope(&self, request: &WriteRequest, resource: &GroupVersionResource) -> bool {
        let is_namespace = resource.group.is_empty() && &*resource.resource == "namespaces";
        let is_namespaced = !is_namespace && !request.namespace().is_empty();
        match self.scope {
            RuleScope::All => true,
            RuleScope::Cluster => !is_namespaced,
            RuleScope::Namespaced => is_namespaced,
            RuleScope::Unknown => false,
        }
    }
}

impl ResourcePattern {
    fn read(text: &str) -> Self {
        let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
        Self {
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    fn matches(&self, resource: &str, subresource: &str) -> bool {
        (self.resource == "*" || self.resource == resource)
            && (self.subresource == "*" || self.subresource == subresource)
    }
}

fn has(items: &[String], wanted: &str) -> bool {
    items.iter().any(|item| item == "*" || item == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_does_not_stand_for_its_subresources() {
        let matches = |pattern: &str, resource: &str, subresource: &str| {
            ResourcePattern::read(pattern).matches(resource, subresource)
        };
        assert!(matches("pods", "pods", "") && !matches("pods", "pods", "status"));
        assert!(matches("pods/*", "pods", "status") && matches("pods/*", "pods", ""));
        assert!(matches("*", "pods", "") && !matches("*", "pods", "exec"));
        assert!(matches("*/scale", "deployments", "scale") && !matches("*/scale", "deployments", ""));
        assert!(matches("*/*", "pods", "exec") && !matches("nodes/*", "pods", "exec"));
    }
}
