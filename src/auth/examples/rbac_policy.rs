//! The time of an authorization by roles and bindings, and of a change to one binding of many.
//!
//! `cargo run --release -p trireme-auth --features testing --example rbac_policy`

use std::{hint::black_box, time::Duration};

use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_auth::{
    Attributes, AuthorizationRequest, Decision, RequestSelectors,
    testing::{PolicyBuilder, PublishedPolicy},
};
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

/// The roles of the bindings.
#[derive(Clone, Copy)]
enum Roles {
    /// Two for all of them.
    Shared,
    /// One for each of them.
    Own,
}

/// Half of the bindings are of the cluster, half of namespaces.
fn policy(roles: Roles) -> PolicyBuilder {
    let mut policy = PolicyBuilder::default();
    for (name, resource) in [("reader", "pods"), ("other", "deployments"), ("last", "nodes")] {
        policy.put("clusterroles", name, &rules(resource));
    }
    for number in 0..BINDINGS {
        let shared = match number < BINDINGS / 2 {
            true => "other",
            false => ["reader", "other"][number % 2],
        };
        let role = match roles {
            Roles::Shared => shared.to_owned(),
            Roles::Own => format!("role-{number}"),
        };
        if matches!(roles, Roles::Own) {
            policy.put("clusterroles", &role, &rules("deployments"));
        }
        let group = number % GROUPS;
        if number < BINDINGS / 2 {
            let key = format!("binding-{number}");
            policy.put("clusterrolebindings", &key, &binding(&role, group));
        } else {
            let key = format!("namespace-{}/binding-{number}", number % NAMESPACES);
            policy.put("rolebindings", &key, &binding(&role, group));
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
    let user = UserInfo {
        name: "alice".to_owned(),
        groups: (0..GROUPS_OF_USER).map(|group| format!("group-{group}")).collect(),
        ..UserInfo::default()
    };
    println!("{BINDINGS} bindings, a user in {GROUPS_OF_USER} groups with 10 ClusterRoleBindings each");
    for (name, roles) in [
        ("two roles for all bindings", Roles::Shared),
        ("a role for each", Roles::Own),
    ] {
        println!("{name}");
        decide(&clock, &user, &policy(roles).publish());
    }
    // Requests are answered by the snapshot before, as in a server.
    let mut of_many = policy(Roles::Shared);
    let mut published = of_many.publish();
    measure("one binding changes, and is published", &clock, 1_000, |round| {
        let group = usize::try_from(round).unwrap_or_default() % GROUPS;
        of_many.put("clusterrolebindings", "binding-7", &binding("reader", group));
        published = black_box(of_many.publish());
    });
    let mut of_one = PolicyBuilder::default();
    for number in 0..BINDINGS {
        of_one.put(
            "clusterrolebindings",
            &format!("binding-{number}"),
            &binding("reader", 0),
        );
    }
    published = of_one.publish();
    measure("the same, if all are of one group", &clock, 1_000, |round| {
        of_one.put(
            "clusterrolebindings",
            &format!("binding-{round}"),
            &binding("reader", 0),
        );
        published = black_box(of_one.publish());
    });
    drop(published);
}

fn decide(clock: &Clock, user: &UserInfo, published: &PublishedPolicy) {
    for (name, resource, allowed) in [
        ("allowed by the first binding", "deployments", true),
        ("allowed by the last ClusterRoleBinding", "nodes", true),
        ("refused", "persistentvolumes", false),
        ("refused, though roles have the resource", "pods", false),
    ] {
        let mut attributes = asked(user, resource);
        if name.contains("though") {
            attributes.verb = "deletecollection";
        }
        let decision = published.decide(&attributes);
        assert_eq!(matches!(decision, Decision::Allow(_)), allowed, "{name}");
        measure(name, clock, ROUNDS, |_| {
            drop(black_box(published.decide(black_box(&attributes))))
        });
    }
}
