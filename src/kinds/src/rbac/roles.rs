//! Roles and ClusterRoles (`pkg/registry/rbac/role`, `pkg/registry/rbac/clusterrole`).
//!
//! That users grant only permissions that they have is checked where requests are authorized, not here.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names::{self, NameCheck},
    selector::compile_label_selector,
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    checks::{is_invalid_label_selector, validate_tolerated_label_selector},
    kind::Kind,
    values::items,
};

/// Roles: what is allowed in a namespace.
pub(crate) fn role() -> Kind {
    Kind::new("rbac.authorization.k8s.io", "roles", Roles { namespaced: true })
}

/// ClusterRoles: what is allowed everywhere.
pub(crate) fn cluster_role() -> Kind {
    Kind::new("rbac.authorization.k8s.io", "clusterroles", Roles { namespaced: false })
}

struct Roles {
    namespaced: bool,
}

impl Strategy for Roles {
    fn name_check(&self) -> NameCheck {
        names::name_is_path_segment
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        self.validate_role(object, false)
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let before = old.get("aggregationRule").unwrap_or(&Value::Null);
        let mut selectors = items(before, "clusterRoleSelectors").iter();
        self.validate_role(new, selectors.any(|selector| is_invalid_label_selector(Some(selector))))
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

impl Roles {
    /// As upstream's `ValidateRole` and `ValidateClusterRole`.
    fn validate_role(&self, object: &Value, tolerate_values: bool) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("rules");
        for (index, rule) in items(object, "rules").iter().enumerate() {
            validate_policy_rule(rule, self.namespaced, &path.index(index), &mut errors);
        }
        if let Some(aggregation) = object.get("aggregationRule").filter(|_| !self.namespaced) {
            validate_aggregation_rule(aggregation, tolerate_values, &mut errors);
        }
        errors
    }
}

/// As upstream's `ValidatePolicyRule`.
fn validate_policy_rule(rule: &Value, namespaced: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let is_empty = |field: &str| items(rule, field).is_empty();
    let mut require = |field: &str, detail: &str| {
        if is_empty(field) {
            errors.push(Error::required(&path.child(field), detail));
        }
    };
    require("verbs", "verbs must contain at least one value");
    if is_empty("nonResourceURLs") {
        require("apiGroups", "resource rules must supply at least one api group");
        require("resources", "resource rules must supply at least one resource");
        return;
    }
    let shown = items(rule, "nonResourceURLs").to_vec().into();
    let mut refuse = |detail: &str| errors.push(Error::invalid(&path.child("nonResourceURLs"), &shown, detail));
    if namespaced {
        refuse("namespaced rules cannot apply to non-resource URLs");
    }
    if ["apiGroups", "resources", "resourceNames"]
        .iter()
        .any(|field| !is_empty(field))
    {
        refuse("rules cannot apply to both regular resources and non-resource URLs");
    }
}

fn validate_aggregation_rule(aggregation: &Value, tolerate_values: bool, errors: &mut ErrorList) {
    let path = Path::new("aggregationRule.clusterRoleSelectors");
    let selectors = items(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(Error::required(&path, detail));
    }
    for (index, selector) in selectors.iter().enumerate() {
        let at = path.index(index);
        validate_tolerated_label_selector(Some(selector), tolerate_values, &at, errors);
        if compile_label_selector(selector.as_object()).is_err() {
            errors.push(Error::invalid(&at, &Value::Null, "invalid label selector."));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn rules_are_of_resources_or_of_urls() {
        let body = |rule: Value| json!({ "metadata": {}, "rules": [rule] });
        let url = json!({ "verbs": ["get"], "nonResourceURLs": ["/x"] });
        let role = Trial::new("rbac.authorization.k8s.io", "roles", role());
        role.expect_errors(&[
            (body(json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] })), &[]),
            (body(json!({ "verbs": [], "apiGroups": [""] })), &[
                "rules[0].verbs: Required value: verbs must contain at least one value",
                "rules[0].resources: Required value: resource rules must supply at least one resource",
            ]),
            (body(url.clone()), &[
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
            ]),
        ]);
        Trial::new("rbac.authorization.k8s.io", "clusterroles", cluster_role()).expect_errors(&[
            (body(url), &[]),
            (json!({ "metadata": {}, "aggregationRule": {} }), &[
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            ]),
        ]);
    }

    #[test]
    fn values_of_a_stored_selector_are_not_told_again() {
        let trial = Trial::new("rbac.authorization.k8s.io", "clusterroles", cluster_role());
        let expression = json!({ "key": "a", "operator": "In", "values": ["a b"] });
        let aggregation = json!({ "clusterRoleSelectors": [{ "matchExpressions": [expression] }] });
        let role = json!({ "metadata": {}, "aggregationRule": aggregation });
        assert_eq!(trial.errors(role.clone()).len(), 2);
        let error = "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.";
        let old = trial.decode(role.clone());
        assert_eq!(
            trial.update(&old, role),
            Err(vec![error.to_owned()]),
            "that it is none is"
        );
    }
}
