//! Finds the flow schema of a request, and its flow.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::config::{Distinguisher, FlowPathRule, FlowResourceRule, FlowRule, FlowRuleSubject, FlowSchema};

const ALL: &str = "*";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The attributes of a request that schemas match by.
#[derive(Debug, Clone, Copy)]
pub struct FlowRequest<'r> {
    /// The user's name.
    pub user: &'r str,
    /// The user's groups.
    pub groups: &'r [String],
    /// `get`, `list`, … or a method in lower case.
    pub verb: &'r str,
    /// Objects or a path.
    pub subject: FlowSubject<'r>,
}

/// The subject of a request.
#[derive(Debug, Clone, Copy)]
pub enum FlowSubject<'r> {
    /// Objects.
    Resource {
        /// The API group; empty for core.
        group: &'r str,
        /// The plural.
        resource: &'r str,
        /// Empty if it is for the objects themselves.
        subresource: &'r str,
        /// Empty for all namespaces and for cluster-scoped objects.
        namespace: &'r str,
    },
    /// Another path.
    Path(&'r str),
}

impl FlowSchema {
    pub(super) fn matches(&self, request: &FlowRequest<'_>) -> bool {
        self.spec.rules.iter().any(|rule| rule.matches(request))
    }

    /// What tells the requests of this schema apart.
    pub(super) fn distinguisher<'r>(&self, request: &FlowRequest<'r>) -> &'r str {
        match (&self.spec.distinguisher_method, request.subject) {
            (None, _) => "",
            (Some(method), _) if method.kind == Distinguisher::ByUser => request.user,
            (Some(_), FlowSubject::Resource { namespace, .. }) => namespace,
            (Some(_), FlowSubject::Path(_)) => "",
        }
    }

    /// The number of a flow, from which its queues are dealt.
    pub(super) fn flow_hash(&self, distinguisher: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.name(), distinguisher).hash(&mut hasher);
        hasher.finish()
    }
}

impl FlowRule {
    fn matches(&self, request: &FlowRequest<'_>) -> bool {
        let asks_for = || match request.subject {
            FlowSubject::Resource { .. } => self.resource_rules.iter().any(|rule| rule.matches(request)),
            FlowSubject::Path(path) => self
                .non_resource_rules
                .iter()
                .any(|rule| rule.matches(request.verb, path)),
        };
        self.subjects.iter().any(|subject| subject.is(request)) && asks_for()
    }
}

impl FlowRuleSubject {
    fn is(&self, request: &FlowRequest<'_>) -> bool {
        if let Some(user) = &self.user {
            return is(&user.name, request.user);
        }
        if let Some(group) = &self.group {
            return group.name == ALL || request.groups.contains(&group.name);
        }
        self.service_account.as_ref().is_some_and(|account| {
            let parts = request
                .user
                .strip_prefix(SERVICE_ACCOUNT)
                .and_then(|rest| rest.split_once(':'));
            parts.is_some_and(|(namespace, name)| namespace == account.namespace && is(&account.name, name))
        })
    }
}

impl FlowResourceRule {
    fn matches(&self, request: &FlowRequest<'_>) -> bool {
        let FlowSubject::Resource {
            group,
            resource,
            subresource,
            namespace,
        } = request.subject
        else {
            return false;
        };
        let has_scope = if namespace.is_empty() {
            self.cluster_scope
        } else {
            contains(&self.namespaces, namespace)
        };
        has_scope
            && contains(&self.verbs, request.verb)
            && contains(&self.api_groups, group)
            && self
                .resources
                .iter()
                .any(|pattern| is_resource(pattern, resource, subresource))
    }
}

impl FlowPathRule {
    fn matches(&self, verb: &str, path: &str) -> bool {
        contains(&self.verbs, verb) && self.paths.iter().any(|pattern| is_path(pattern, path))
    }
}

fn is(pattern: &str, text: &str) -> bool {
    pattern == ALL || pattern == text
}

fn contains(patterns: &[String], text: &str) -> bool {
    patterns.iter().any(|pattern| is(pattern, text))
}

fn is_resource(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == ALL {
        return true;
    }
    match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        Some((first, second)) => first == resource && second == subresource,
    }
}

/// A pattern matches its path and all below it (`matchPolicyRuleNonResourceURL`); one that ends in `/*` what is below alone.
fn is_path(pattern: &str, path: &str) -> bool {
    let below = pattern.strip_suffix(ALL).unwrap_or(pattern);
    let is_below = || {
        let rest = path.strip_prefix(below);
        rest.is_some_and(|rest| below.ends_with('/') || rest.starts_with('/'))
    };
    is(pattern, path) || is_below()
}
