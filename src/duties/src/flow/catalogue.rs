//! The FlowSchemas and priority levels that a cluster starts with (`k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap`).

use serde_json::{Value, json};

/// The annotation that says whether the server keeps an object's spec as it is here.
pub(super) const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// The level and the schema that nothing waits at.
pub(super) const EXEMPT: &str = "exempt";
/// The level and the schema for what no other schema matches.
pub(super) const CATCH_ALL: &str = "catch-all";

const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
const LEADER_ELECTION: [&str; 3] = ["get", "create", "update"];
const EVERYBODY: [&str; 2] = ["system:unauthenticated", "system:authenticated"];

/// The attribute that tells flows apart.
#[derive(Clone, Copy)]
enum Flow {
    One,
    ByUser,
    ByNamespace,
}

/// The way in which the requests of a level wait: queues, hand size, length of a queue.
struct Queues(i64, i64, i64);

/// Levels that must be as they are.
pub(super) fn mandatory_levels() -> Vec<Value> {
    let exempt = json!({ "type": "Exempt", "exempt": { "nominalConcurrencyShares": 0, "lendablePercent": 0 } });
    vec![
        object("PriorityLevelConfiguration", EXEMPT, exempt),
        limited(CATCH_ALL, 5, 0, None),
    ]
}

/// Levels that administrators may change.
pub(super) fn suggested_levels() -> Vec<Value> {
    vec![
        limited("system", 30, 33, Some(Queues(64, 6, 50))),
        limited("node-high", 40, 25, Some(Queues(64, 6, 50))),
        limited("leader-election", 10, 0, Some(Queues(16, 4, 50))),
        limited("workload-high", 40, 50, Some(Queues(128, 6, 50))),
        limited("workload-low", 100, 90, Some(Queues(128, 6, 50))),
        limited("global-default", 20, 50, Some(Queues(128, 6, 50))),
    ]
}

/// Schemas that must be as they are.
pub(super) fn mandatory_schemas() -> Vec<Value> {
    vec![
        schema(EXEMPT, EXEMPT, 1, Flow::One, everything(&groups(&["system:masters"]))),
        schema(
            CATCH_ALL,
            CATCH_ALL,
            10_000,
            Flow::ByUser,
            everything(&groups(&EVERYBODY)),
        ),
    ]
}

/// Schemas that administrators may change.
pub(super) fn suggested_schemas() -> Vec<Value> {
    let nodes = groups(&["system:nodes"]);
    let managers = users(&["system:kube-controller-manager"]);
    let schedulers = users(&["system:kube-scheduler"]);
    let accounts = system_accounts(&["*"]);
    let leaders = [managers.clone(), schedulers.clone(), accounts.clone()].concat();
    let endpoints = [
        managers.clone(),
        system_accounts(&["endpoint-controller", "endpointslicemirroring-controller"]),
    ]
    .concat();
    let all_accounts = groups(&["system:serviceaccounts"]);
    let leases = || resources(&LEADER_ELECTION, "coordination.k8s.io", &["leases"], false);
    let locks = resources(&LEADER_ELECTION, "", &["endpoints", "configmaps"], false);
    let node_rules = vec![
        resources(&["*"], "", &["nodes", "nodes/status"], true),
        resources(&["*"], "coordination.k8s.io", &["leases"], false),
    ];
    let endpoint_rules = vec![resources(&LEADER_ELECTION, "", &["endpoints"], false)];
    let of = |name, level, precedence, flow, subjects: &[Value], rules: Vec<Value>| {
        schema(
            name,
            level,
            precedence,
            flow,
            json!({ "subjects": subjects, "resourceRules": rules }),
        )
    };
    let all =
        |name, level, precedence, flow, subjects: &[Value]| schema(name, level, precedence, flow, everything(subjects));
    use Flow::{ByNamespace, ByUser};
    vec![
        all("system-nodes", "system", 500, ByUser, &nodes),
        of("system-node-high", "node-high", 400, ByUser, &nodes, node_rules),
        schema("probes", EXEMPT, 2, Flow::One, probes()),
        of(
            "system-leader-election",
            "leader-election",
            100,
            ByUser,
            &leaders,
            vec![leases()],
        ),
        of(
            "endpoint-controller",
            "workload-high",
            150,
            ByUser,
            &endpoints,
            endpoint_rules,
        ),
        of(
            "workload-leader-election",
            "leader-election",
            200,
            ByUser,
            &accounts,
            vec![locks, leases()],
        ),
        all("kube-controller-manager", "workload-high", 800, ByNamespace, &managers),
        all("kube-scheduler", "workload-high", 800, ByNamespace, &schedulers),
        all(
            "kube-system-service-accounts",
            "workload-high",
            900,
            ByNamespace,
            &accounts,
        ),
        all("service-accounts", "workload-low", 9_000, ByUser, &all_accounts),
        all("global-default", "global-default", 9_900, ByUser, &groups(&EVERYBODY)),
    ]
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": { "name": name, "annotations": { AUTO_UPDATE: "true" } },
        "spec": spec,
    })
}

/// A level with a share of the server; without queues it refuses what it has no seats for.
fn limited(name: &str, shares: i64, lendable_percent: i64, queues: Option<Queues>) -> Value {
    let response = match queues {
        None => json!({ "type": "Reject" }),
        Some(Queues(queues, hand, length)) => json!({
            "type": "Queue",
            "queuing": { "queues": queues, "handSize": hand, "queueLengthLimit": length },
        }),
    };
    let limited = json!({
        "nominalConcurrencyShares": shares,
        "lendablePercent": lendable_percent,
        "limitResponse": response,
    });
    object(
        "PriorityLevelConfiguration",
        name,
        json!({ "type": "Limited", "limited": limited }),
    )
}

fn schema(name: &str, level: &str, precedence: i64, flow: Flow, rule: Value) -> Value {
    let mut spec = json!({
        "priorityLevelConfiguration": { "name": level },
        "matchingPrecedence": precedence,
        "rules": [rule],
    });
    match flow {
        Flow::One => {}
        Flow::ByUser => spec["distinguisherMethod"] = json!({ "type": "ByUser" }),
        Flow::ByNamespace => spec["distinguisherMethod"] = json!({ "type": "ByNamespace" }),
    }
    object("FlowSchema", name, spec)
}

fn everything(subjects: &[Value]) -> Value {
    let mut all = resources(&["*"], "*", &["*"], true);
    all["namespaces"] = json!(["*"]);
    json!({
        "subjects": subjects,
        "resourceRules": [all],
        "nonResourceRules": [{ "verbs": ["*"], "nonResourceURLs": ["*"] }],
    })
}

fn probes() -> Value {
    json!({
        "subjects": groups(&EVERYBODY),
        "nonResourceRules": [{ "verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"] }],
    })
}

fn resources(verbs: &[&str], group: &str, resources: &[&str], cluster_scope: bool) -> Value {
    let mut rule = json!({ "verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"] });
    if cluster_scope {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn groups(names: &[&str]) -> Vec<Value> {
    let group = |name: &&str| json!({ "kind": "Group", "group": { "name": name } });
    names.iter().map(group).collect()
}

fn users(names: &[&str]) -> Vec<Value> {
    let user = |name: &&str| json!({ "kind": "User", "user": { "name": name } });
    names.iter().map(user).collect()
}

fn system_accounts(names: &[&str]) -> Vec<Value> {
    let account = |name: &&str| json!({ "kind": "ServiceAccount", "serviceAccount": { "namespace": "kube-system", "name": name } });
    names.iter().map(account).collect()
}
