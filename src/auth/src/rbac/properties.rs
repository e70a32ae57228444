//! The index against a walk over all bindings, by random policies and requests.

use std::collections::{BTreeMap, BTreeSet};

use proptest::{prelude::*, sample::subsequence};
use serde_json::{Value, json};
use trireme_machinery::policy_rule::PolicyRule;
use trireme_registry::{Fold as _, request::UserInfo};

use super::{
    RbacAuthorizer,
    policy::{PolicyFold, RbacPolicy, SOURCES},
    roles::allows,
};
use crate::authorizer::{Attributes, AuthorizationRequest, Decision, RequestSelectors};

const NAMESPACES: [&str; 2] = ["n", "m"];
const USERS: [&str; 4] = [
    "alice",
    "bob",
    "system:serviceaccount:n:app",
    "system:serviceaccount:m:app",
];
const GROUPS: [&str; 4] = ["dev", "ops", "system:authenticated", "alice"];

/// The objects by source and key: what the index was made of.
type PolicyObjects = BTreeMap<(usize, String), Value>;

/// An object is written, or deleted if there is none.
type Change = ((usize, String), Option<Value>);

/// The results of a walk over all objects, as kube-apiserver walks: in an order that is not defined.
#[derive(Debug, Default)]
struct PolicyWalk {
    /// The reasons for which one of the ClusterRoleBindings, or else one of the RoleBindings, allows the request.
    reasons: [BTreeSet<String>; 2],
    missing: BTreeSet<String>,
    rules: Vec<PolicyRule>,
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A subject as reasons show it, if the user is that.
fn shown_if_it_is(subject: &Value, user: &UserInfo, namespace: &str) -> Option<String> {
    let name = text(subject, "/name");
    let of = match text(subject, "/namespace") {
        "" => namespace,
        of => of,
    };
    let account = format!("system:serviceaccount:{of}:{name}");
    match text(subject, "/kind") {
        "User" => (user.name == name).then(|| format!("User {name:?}")),
        "Group" => user
            .groups
            .iter()
            .any(|group| group == name)
            .then(|| format!("Group {name:?}")),
        _ => (!of.is_empty() && user.name == account).then(|| format!("ServiceAccount \"{name}/{of}\"")),
    }
}

fn walk(objects: &PolicyObjects, attributes: &Attributes<'_>, namespace: &str) -> PolicyWalk {
    let mut found = PolicyWalk::default();
    for ((source, key), binding) in objects {
        let (of, name) = key.split_once('/').unwrap_or(("", key));
        let kind = match SOURCES[*source] {
            "clusterrolebindings" => 0,
            "rolebindings" if of == namespace => 1,
            _ => continue,
        };
        let mut subjects = binding["subjects"].as_array().into_iter().flatten();
        let Some(subject) = subjects.find_map(|subject| shown_if_it_is(subject, attributes.user, of)) else {
            continue;
        };
        let (role_kind, role) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let of_role = match role_kind {
            "ClusterRole" => (source_of("clusterroles"), role.to_owned()),
            _ => (source_of("roles"), format!("{of}/{role}")),
        };
        let Some(of_role) = objects.get(&of_role) else {
            let kind = role_kind.to_lowercase();
            found
                .missing
                .insert(format!("{kind}.rbac.authorization.k8s.io {role:?} not found"));
            continue;
        };
        let rules = PolicyRule::all_of(of_role);
        if rules.iter().any(|rule| allows(rule, attributes)) {
            let name = [format!("{name:?}"), format!("\"{name}/{of}\"")]
                .into_iter()
                .nth(kind)
                .unwrap_or_default();
            let binding = ["ClusterRoleBinding", "RoleBinding"][kind];
            found.reasons[kind].insert(format!(
                "RBAC: allowed by {binding} {name} of {role_kind} {role:?} to {subject}"
            ));
        }
        found.rules.extend(rules);
    }
    found
}

fn source_of(plural: &str) -> usize {
    SOURCES
        .iter()
        .position(|source| *source == plural)
        .expect("one of the four")
}

fn errors_of(text: &str) -> BTreeSet<String> {
    let inner = text
        .trim_start_matches("RBAC: ")
        .trim_start_matches('[')
        .trim_end_matches(']');
    inner
        .split(", ")
        .filter(|error| !error.is_empty())
        .map(str::to_owned)
        .collect()
}

fn sorted(mut rules: Vec<PolicyRule>) -> Vec<String> {
    rules.sort_by_cached_key(|rule| format!("{rule:?}"));
    rules.iter().map(|rule| format!("{rule:?}")).collect()
}

fn compare(policy: &RbacPolicy, objects: &PolicyObjects, attributes: &Attributes<'_>, namespace: &str) {
    let walked = walk(objects, attributes, namespace);
    let [of_cluster, of_namespace] = &walked.reasons;
    match RbacAuthorizer::decide_by(policy, attributes) {
        Decision::Allow(reason) => {
            let reasons = if of_cluster.is_empty() {
                of_namespace
            } else {
                of_cluster
            };
            assert!(reasons.contains(&reason), "{reason} is none of {reasons:?}");
        }
        Decision::NoOpinion(reason) => {
            assert!(
                of_cluster.is_empty() && of_namespace.is_empty(),
                "refused, but {:?}",
                walked.reasons
            );
            assert_eq!(errors_of(&reason), walked.missing);
        }
        other => panic!("{other:?}"),
    }
    let (rules, error) = policy.rules_of(attributes.user, namespace);
    assert_eq!(sorted(rules), sorted(walked.rules));
    assert_eq!(errors_of(&error.unwrap_or_default()), walked.missing);
}

/// Compares all that can be asked.
fn compare_all(policy: &RbacPolicy, objects: &PolicyObjects, groups: &[&str]) {
    const RESOURCES: [(&str, &str, &str); 5] = [
        ("", "pods", ""),
        ("", "pods", "log"),
        ("apps", "deployments", ""),
        ("apps", "pods", ""),
        ("", "nodes", "log"),
    ];
    for name in USERS {
        let user = UserInfo {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..UserInfo::default()
        };
        for (verb, namespace) in [("get", "n"), ("get", ""), ("list", "m"), ("delete", "n")] {
            let of = |wanted| Attributes {
                user: &user,
                verb,
                wanted,
                selectors: RequestSelectors::default(),
            };
            for ((group, resource, subresource), name) in RESOURCES.into_iter().zip(["a", "b", "", "a", "a"]) {
                let wanted = AuthorizationRequest::Resource {
                    group,
                    version: "v1",
                    resource,
                    subresource,
                    namespace,
                    name,
                };
                compare(policy, objects, &of(wanted), namespace);
            }
            for path in ["/metrics", "/api/v1", "/api"] {
                compare(policy, objects, &of(AuthorizationRequest::Path(path)), "");
            }
        }
    }
}

fn some_of(texts: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(texts, 0..=texts.len().min(3))
}

fn rule() -> impl Strategy<Value = Value> {
    let verbs = some_of(&["get", "list", "delete", "*"]);
    let of_resources = (
        some_of(&["", "apps", "*"]),
        some_of(&["pods", "pods/log", "*/log", "deployments", "*"]),
        some_of(&["a", "b"]),
    );
    let of_paths = some_of(&["/metrics", "/api/*", "*"]);
    (verbs, prop_oneof![of_resources.prop_map(Ok), of_paths.prop_map(Err)]).prop_map(|(verbs, of)| match of {
        Ok((groups, resources, names)) => {
            json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
        }
        Err(paths) => json!({"verbs": verbs, "nonResourceURLs": paths}),
    })
}

fn subject() -> impl Strategy<Value = Value> {
    let account = (
        prop::sample::select(&["app", "b"]),
        prop::sample::select(&["", "n", "m"]),
    );
    prop_oneof![
        prop::sample::select(&USERS).prop_map(|name| json!({"kind": "User", "name": name})),
        prop::sample::select(&GROUPS).prop_map(|name| json!({"kind": "Group", "name": name})),
        account.prop_map(|(name, of)| json!({"kind": "ServiceAccount", "name": name, "namespace": of})),
    ]
}

/// More roles than a request remembers to have checked, so that their numbers meet in one class.
const ROLES: usize = 40;

fn change() -> impl Strategy<Value = Change> {
    let namespace = prop::sample::select(&NAMESPACES);
    let role = (any::<bool>(), 0..ROLES, prop::collection::vec(rule(), 0..3));
    let role = (role, namespace.clone()).prop_map(|((is_cluster, name, rules), of)| {
        let (plural, key) = match is_cluster {
            true => ("clusterroles", format!("r{name}")),
            false => ("roles", format!("{of}/r{name}")),
        };
        ((source_of(plural), key), json!({ "rules": rules }))
    });
    let binding = (
        any::<bool>(),
        0..12_usize,
        any::<bool>(),
        0..ROLES,
        prop::collection::vec(subject(), 0..4),
    );
    let binding = (binding, namespace).prop_map(|((is_cluster, name, of_cluster_role, role, subjects), of)| {
        let (plural, key) = match is_cluster {
            true => ("clusterrolebindings", format!("b{name}")),
            false => ("rolebindings", format!("{of}/b{name}")),
        };
        let kind = if of_cluster_role || is_cluster {
            "ClusterRole"
        } else {
            "Role"
        };
        let role = json!({"kind": kind, "name": format!("r{role}")});
        ((source_of(plural), key), json!({"roleRef": role, "subjects": subjects}))
    });
    (prop_oneof![2 => role, 3 => binding], prop::bool::weighted(0.8))
        .prop_map(|((key, object), is_written)| (key, is_written.then_some(object)))
}

fn apply(fold: &mut PolicyFold, objects: &mut PolicyObjects, (at, object): Change) {
    let (source, key) = (at.0, at.1.as_str().into());
    match object {
        Some(object) => {
            fold.put_object(source, &key, &object);
            objects.insert(at, object);
        }
        None => {
            fold.remove(source, &key);
            objects.remove(&at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_index_answers_as_a_walk_over_all_bindings(
        changes in prop::collection::vec(change(), 1..120),
        later in prop::collection::vec(change(), 0..40),
        groups in subsequence(&GROUPS, 0..=GROUPS.len()),
    ) {
        let (mut fold, mut objects) = (PolicyFold::default(), PolicyObjects::new());
        for change in changes {
            apply(&mut fold, &mut objects, change);
        }
        let before = (fold.value(), objects.clone());
        for change in later {
            apply(&mut fold, &mut objects, change);
        }
        compare_all(&fold.value(), &objects, &groups);
        // A snapshot stays as it is.
        compare_all(&before.0, &before.1, &groups);
    }

    #[test]
    fn nothing_is_kept_of_what_is_gone(changes in prop::collection::vec(change(), 1..120)) {
        let (mut fold, mut objects) = (PolicyFold::default(), PolicyObjects::new());
        for change in changes {
            apply(&mut fold, &mut objects, change);
        }
        for at in objects.clone().into_keys() {
            apply(&mut fold, &mut objects, (at, None));
        }
        prop_assert!(fold.value().has_no_bindings());
        prop_assert!(fold.numbers_in_use() == 0);
    }
}
