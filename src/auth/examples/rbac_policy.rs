//! The time of an authorization by roles and bindings, and of a change to one binding of many.
//!
//! `cargo run --release -p trireme-auth --features testing --example rbac_policy`

use std::{hint::black_box, time::Duration};

use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_auth::{Attributes, AuthorizationRequest, Decision, RequestSelectors, testing::PolicyBuilder};
use trireme_registry::request::UserInfo;

const BINDINGS: usize = 10_000;
const NAMESPACES: usize = 200;
const GROUPS: usize = 500;
const GROUPS_OF_USER: usize = 20;
const ROUNDS: u32 = 20_000;

fn rules(resource: &str) -> Value {
    json!({"rules": [
        {"verbs": ["get", "list", "watch"], "apiGroups": ["", "apps"], "resources": [resource, "events"]},
        {"verbs": ["create", "update", "patch"], "apiGroups": [""], "resources": ["configmaps", "secrets"]},
    ]})
}

fn binding(role: &str, group: usize) -> Value {
    json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [
            {"kind": "Group", "name": format!("group-{group}")},
            {"kind": "User", "name": format!("user-{group}")},
        ],
    })
}

/// Half of the bindings are of the cluster, half of namespaces.
fn policy() -> PolicyBuilder {
    let mut policy = PolicyBuilder::default();
    for (name, resource) in [("reader", "pods"), ("other", "deployments"), ("last", "nodes")] {
        policy.put("clusterroles", name, &rules(resource));
    }
    for number in 0..BINDINGS {
        let (role, group) = (["reader", "other"][number % 2], number % GROUPS);
        if number < BINDINGS / 2 {
            policy.put(
                "clusterrolebindings",
                &format!("binding-{number}"),
                &binding("other", group),
            );
        } else {
            let key = format!("namespace-{}/binding-{number}", number % NAMESPACES);
            policy.put("rolebindings", &key, &binding(role, group));
        }
    }
    policy.put("clusterrolebindings", "last", &binding("last", GROUPS_OF_USER - 1));
    policy
}

fn asked<'a>(user: &'a UserInfo, resource: &'a str) -> Attributes<'a> {
    Attributes {
        user,
        verb: "get",
        wanted: AuthorizationRequest::Resource {
            group: "",
            version: "v1",
            resource,
            subresource: "",
            namespace: "namespace-7",
            name: "a",
        },
        selectors: RequestSelectors::default(),
    }
}

fn measure(name: &str, clock: &Clock, rounds: u32, mut run: impl FnMut(u32)) {
    let mut took: Vec<Duration> = (0..rounds)
        .map(|round| {
            let begun = clock.now();
            run(round);
            clock.now() - begun
        })
        .collect();
    took.sort();
    let at = |share: usize| took.get((took.len() - 1) * share / 100).copied().unwrap_or_default();
    println!("{name}: p50 {:?}, p99 {:?}, max {:?}", at(50), at(99), at(100));
}

fn main() {
    let clock = Clock::system();
    let mut policy = policy();
    let published = policy.publish();
    let user = UserInfo {
        name: "alice".to_owned(),
        groups: (0..GROUPS_OF_USER).map(|group| format!("group-{group}")).collect(),
        ..UserInfo::default()
    };
    println!("{BINDINGS} bindings, a user in {GROUPS_OF_USER} groups with 10 ClusterRoleBindings each");
    for (name, resource, allowed) in [
        ("allowed by the first binding", "deployments", true),
        ("allowed by the last binding", "nodes", true),
        ("refused", "persistentvolumes", false),
    ] {
        let attributes = asked(&user, resource);
        assert_eq!(
            matches!(published.decide(&attributes), Decision::Allow(_)),
            allowed,
            "{name}"
        );
        measure(name, &clock, ROUNDS, |_| {
            drop(black_box(published.decide(black_box(&attributes))))
        });
    }
    measure("one binding changes, and is published", &clock, 1_000, |round| {
        let group = usize::try_from(round).unwrap_or_default() % GROUPS;
        policy.put("clusterrolebindings", "binding-7", &binding("reader", group));
        black_box(policy.publish());
    });
}
