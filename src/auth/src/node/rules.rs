//! The rights of every node on what is no node's own (`bootstrappolicy.NodeRules`, without the resources that the authorizer looks at
//! one by one).

struct NodeRule {
    verbs: &'static [&'static str],
    groups: &'static [&'static str],
    resources: &'static [&'static str],
}

const READ: &[&str] = &["get", "list", "watch"];

const RULES: [NodeRule; 8] = [
    NodeRule {
        verbs: &["create"],
        groups: &["authentication.k8s.io"],
        resources: &["tokenreviews"],
    },
    NodeRule {
        verbs: &["create"],
        groups: &["authorization.k8s.io"],
        resources: &["subjectaccessreviews", "localsubjectaccessreviews"],
    },
    NodeRule {
        verbs: READ,
        groups: &[""],
        resources: &["services"],
    },
    NodeRule {
        verbs: &["create", "update", "patch"],
        groups: &["", "events.k8s.io"],
        resources: &["events"],
    },
    NodeRule {
        verbs: &["get"],
        groups: &[""],
        resources: &["endpoints"],
    },
    NodeRule {
        verbs: &["create", "get", "list", "watch"],
        groups: &["certificates.k8s.io"],
        resources: &["certificatesigningrequests"],
    },
    NodeRule {
        verbs: READ,
        groups: &["storage.k8s.io"],
        resources: &["csidrivers"],
    },
    NodeRule {
        verbs: READ,
        groups: &["node.k8s.io"],
        resources: &["runtimeclasses"],
    },
];

/// Reports whether every node may do this. No rule is for subresources.
pub(super) fn allow(verb: &str, group: &str, resource: &str, subresource: &str) -> bool {
    subresource.is_empty()
        && RULES.iter().any(|rule| {
            rule.verbs.contains(&verb) && rule.groups.contains(&group) && rule.resources.contains(&resource)
        })
}
