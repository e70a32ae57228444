//! The compiled policy by itself: what it allows, and why.

use serde_json::{Value, json};
use trireme_registry::{Fold as _, request::UserInfo};

use super::{
    RbacAuthorizer,
    policy::{PolicyFold, SOURCES},
};
use crate::authorizer::{Attributes, AuthorizationRequest, Decision, RequestSelectors};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A fold that objects are put into by plural.
#[derive(Default)]
struct Policy(PolicyFold);

impl Policy {
    fn put(&mut self, plural: &str, object: Value) {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
        let name = text("name").unwrap_or_default();
        let key = text("namespace").map_or(name.clone(), |namespace| format!("{namespace}/{name}"));
        self.0.put_object(source(plural), &key.into(), &object);
    }

    fn remove(&mut self, plural: &str, key: &str) {
        self.0.remove(source(plural), &key.into());
    }

    fn decide(&self, user: &UserInfo, verb: &str, wanted: AuthorizationRequest<'_>) -> Decision {
        let selectors = RequestSelectors::default();
        RbacAuthorizer::decide_by(
            &self.0.value(),
            &Attributes {
                user,
                verb,
                wanted,
                selectors,
            },
        )
    }
}

fn source(plural: &str) -> usize {
    let found = SOURCES.iter().position(|source| *source == plural);
    found.expect("one of the four")
}

fn role(namespace: &str, name: &str, rules: Value) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "namespace": namespace, "name": name }, "rules": rules })
}

fn cluster_role(name: &str, rules: Value) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name }, "rules": rules })
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subjects: Value) -> Value {
    let mut metadata = json!({ "name": name });
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    let (kind, role) = role;
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Binding", "metadata": metadata,
        "roleRef": { "apiGroup": GROUP, "kind": kind, "name": role }, "subjects": subjects })
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    UserInfo {
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..UserInfo::default()
    }
}

fn pods(namespace: &str) -> AuthorizationRequest<'_> {
    AuthorizationRequest::Resource {
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        namespace,
        name: "",
    }
}

fn reads_pods() -> Value {
    json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])
}

fn allowed(why: &str) -> Decision {
    Decision::Allow(format!("RBAC: allowed by {why}"))
}

fn no_opinion(why: &str) -> Decision {
    Decision::NoOpinion(why.to_owned())
}

#[test]
fn bindings_grant_their_role_where_they_are() {
    let mut policy = Policy::default();
    policy.put("roles", role("n", "r", reads_pods()));
    policy.put("clusterroles", cluster_role("c", reads_pods()));
    let to = |kind: &str, name: &str| json!([{"kind": "User", "name": "other"}, {"kind": kind, "name": name}]);
    policy.put("rolebindings", binding("n", "b", ("Role", "r"), to("User", "alice")));
    policy.put(
        "rolebindings",
        binding("n", "sa", ("ClusterRole", "c"), to("ServiceAccount", "app")),
    );
    policy.put(
        "clusterrolebindings",
        binding("", "all", ("ClusterRole", "c"), to("Group", "ops")),
    );
    let check = |user: UserInfo, namespace: &str, expected: Decision| {
        assert_eq!(
            policy.decide(&user, "get", pods(namespace)),
            expected,
            "{user:?} {namespace}"
        );
    };
    let why = r#"RoleBinding "b/n" of Role "r" to User "alice""#;
    check(user("alice", &[]), "n", allowed(why));
    check(user("alice", &[]), "m", no_opinion(""));
    check(user("alice", &[]), "", no_opinion(""));
    check(user("mallory", &["alice"]), "n", no_opinion(""));
    let why = r#"ClusterRoleBinding "all" of ClusterRole "c" to Group "ops""#;
    check(user("bob", &["dev", "ops"]), "n", allowed(why));
    check(user("bob", &["dev", "ops"]), "", allowed(why));
    let why = r#"RoleBinding "sa/n" of ClusterRole "c" to ServiceAccount "app/n""#;
    check(user("system:serviceaccount:n:app", &[]), "n", allowed(why));
    check(user("system:serviceaccount:m:app", &[]), "n", no_opinion(""));
    check(user("app", &[]), "n", no_opinion(""));
}

#[test]
fn probes_are_open_until_there_are_bindings() {
    let mut policy = Policy::default();
    let anonymous = user("system:anonymous", &["system:unauthenticated"]);
    let probe = AuthorizationRequest::Path("/readyz");
    let open = Decision::Allow("RBAC: probes are open until there are bindings".to_owned());
    assert_eq!(policy.decide(&anonymous, "get", probe), open);
    assert_eq!(policy.decide(&anonymous, "post", probe), no_opinion(""));
    let metrics = AuthorizationRequest::Path("/metrics");
    assert_eq!(policy.decide(&anonymous, "get", metrics), no_opinion(""));
    let alice = json!([{ "kind": "User", "apiGroup": GROUP, "name": "alice" }]);
    policy.put("clusterrolebindings", binding("", "b", ("ClusterRole", "r"), alice));
    assert_eq!(policy.decide(&anonymous, "get", probe), no_opinion(""));
}

#[test]
fn a_missing_role_is_reported_and_takes_effect_when_created() {
    let mut policy = Policy::default();
    let alice = json!([{"kind": "User", "name": "alice"}]);
    policy.put("rolebindings", binding("n", "a", ("Role", "gone"), alice.clone()));
    let ask = |policy: &Policy| policy.decide(&user("alice", &[]), "get", pods("n"));
    let missing = r#"RBAC: role.rbac.authorization.k8s.io "gone" not found"#;
    assert_eq!(ask(&policy), no_opinion(missing));
    policy.put("clusterrolebindings", binding("", "b", ("ClusterRole", "too"), alice));
    let both = concat!(
        r#"RBAC: [clusterrole.rbac.authorization.k8s.io "too" not found, "#,
        r#"role.rbac.authorization.k8s.io "gone" not found]"#
    );
    assert_eq!(ask(&policy), no_opinion(both));
    policy.put("roles", role("n", "gone", reads_pods()));
    assert!(matches!(ask(&policy), Decision::Allow(_)));
    policy.remove("roles", "n/gone");
    assert_eq!(ask(&policy), no_opinion(both));
}

#[test]
fn what_is_changed_or_deleted_counts_no_more() {
    let mut policy = Policy::default();
    policy.put("clusterroles", cluster_role("c", reads_pods()));
    let to = |name: &str| json!([{"kind": "User", "name": name}, {"kind": "Group", "name": name}]);
    for plural in ["rolebindings", "clusterrolebindings"] {
        let namespace = if plural == "rolebindings" { "n" } else { "" };
        let key = if plural == "rolebindings" { "n/b" } else { "b" };
        policy.put(plural, binding(namespace, "b", ("ClusterRole", "c"), to("alice")));
        let may = |policy: &Policy, name: &str| {
            let decision = policy.decide(&user(name, &[name]), "get", pods("n"));
            matches!(decision, Decision::Allow(_))
        };
        assert!(may(&policy, "alice") && !may(&policy, "bob"));
        policy.put(plural, binding(namespace, "b", ("ClusterRole", "c"), to("bob")));
        assert!(!may(&policy, "alice") && may(&policy, "bob"));
        policy.remove(plural, key);
        assert!(!may(&policy, "alice") && !may(&policy, "bob"));
    }
    let value = policy.0.value();
    assert!(
        value.users.is_empty() && value.groups.is_empty(),
        "nothing is kept of what is gone"
    );
}

#[test]
fn rules_are_listed_once_a_binding() {
    let mut policy = Policy::default();
    policy.put("clusterroles", cluster_role("c", reads_pods()));
    let to = json!([{"kind": "User", "name": "a"}, {"kind": "Group", "name": "g"}]);
    policy.put(
        "clusterrolebindings",
        binding("", "b", ("ClusterRole", "c"), to.clone()),
    );
    policy.put("rolebindings", binding("n", "b", ("Role", "none"), to));
    let (rules, error) = policy.0.value().rules_of(&user("a", &["g"]), "n");
    assert_eq!(rules.len(), 1);
    assert_eq!(
        error.as_deref(),
        Some(r#"role.rbac.authorization.k8s.io "none" not found"#)
    );
    let (rules, error) = policy.0.value().rules_of(&user("a", &["g"]), "");
    assert_eq!((rules.len(), error), (1, None));
}
