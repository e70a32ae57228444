//! Authorization of every route: requests without a grant are refused in the words of kube-apiserver, whatever route
//! and verb it is, and those with one are admitted.
//!
//! The routes are those of discovery and of the server's table of routes, so that none is served without being held against
//! this.

#[path = "authorization/claims.rs"]
mod claims;

#[path = "authorization/implied.rs"]
mod implied;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::{Value, json};
use trireme_tests::http::{Client, Request};
use trireme_tests::server::USER_TOKEN;
use trireme_tests::{Server, StoreChoice, folder};

/// Requests under way at a time.
const SIDE_BY_SIDE: usize = 4;
/// A watch cache hears of a write within milliseconds; a hang takes forever.
const PATIENCE: Duration = Duration::from_secs(10);
/// Fewer would mean that discovery was read wrongly.
const LEAST_ROUTES: usize = 600;
/// Paths that all authenticated users may read, with those below them.
const OPEN_PATHS: [&str; 3] = ["/api", "/apis", "/openapi"];

/// Paths that all may read, also those who say nothing of who they are.
const PUBLIC_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// A verb on a resource.
#[derive(Debug, Clone)]
struct ResourceRoute {
    group: String,
    version: String,
    /// With its subresource.
    resource: String,
    namespaced: bool,
    verb: String,
}

fn get(client: &Client, path: &str) -> Value {
    let answer = client.get(path).expect("an answer");
    assert_eq!(answer.code, 200, "{path}: {}", answer.text());
    serde_json::from_str(&answer.text()).expect("JSON")
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn resource_routes(admin: &Client) -> Vec<ResourceRoute> {
    let mut roots = vec![("".to_owned(), "v1".to_owned(), "/api/v1".to_owned())];
    for group in get(admin, "/apis")["groups"].as_array().expect("groups") {
        let name = group["name"].as_str().expect("a name");
        for version in group["versions"].as_array().expect("versions") {
            let version = version["version"].as_str().expect("a version");
            roots.push((name.to_owned(), version.to_owned(), format!("/apis/{name}/{version}")));
        }
    }
    let mut routes = Vec::new();
    for (group, version, root) in roots {
        for resource in get(admin, &root)["resources"].as_array().expect("resources") {
            routes.extend(texts(&resource["verbs"]).into_iter().map(|verb| ResourceRoute {
                group: group.clone(),
                version: version.clone(),
                resource: resource["name"].as_str().expect("a name").to_owned(),
                namespaced: resource["namespaced"] == true,
                verb,
            }));
        }
    }
    routes
}

impl ResourceRoute {
    fn is_collection(&self) -> bool {
        let is_collection_verb = matches!(self.verb.as_str(), "list" | "watch" | "deletecollection" | "create");
        is_collection_verb && !self.resource.contains('/')
    }

    fn method(&self) -> &'static str {
        match self.verb.as_str() {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => "GET",
        }
    }

    /// Asks for an object that there is not, and changes nothing.
    fn path(&self) -> String {
        let root = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        let namespace = if self.namespaced { "/namespaces/default" } else { "" };
        let (resource, part) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let name = if self.is_collection() { "" } else { "/absent" };
        let part = if part.is_empty() {
            String::new()
        } else {
            format!("/{part}")
        };
        let query = match self.verb.as_str() {
            "watch" => "?watch=1&timeoutSeconds=1",
            "create" | "update" | "patch" | "delete" | "deletecollection" => "?dryRun=All",
            _ => "",
        };
        format!("{root}{namespace}/{resource}{name}{part}{query}")
    }

    /// The verb, group and resource that RBAC grants it by.
    fn right(&self) -> (&str, &str, &str) {
        (&self.verb, &self.group, &self.resource)
    }

    fn refusal(&self, user: &str) -> String {
        let is_namespace = self.resource.starts_with("namespaces") && !self.is_collection();
        let place = match (self.namespaced, is_namespace) {
            // A namespace is in itself.
            (_, true) => r#"in the namespace "absent""#,
            (true, _) => r#"in the namespace "default""#,
            _ => "at the cluster scope",
        };
        let (resource, _) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let qualified = match self.group.as_str() {
            "" => resource.to_owned(),
            group => format!("{resource}.{group}"),
        };
        let name = if self.is_collection() { "" } else { r#" "absent""# };
        format!(
            r#"{qualified}{name} is forbidden: User "{user}" cannot {} resource "{}" in API group "{}" {place}"#,
            self.verb, self.resource, self.group
        )
    }

    /// True for requests that all authenticated users may make.
    fn is_open(&self) -> bool {
        self.resource.starts_with("selfsubject")
    }

    fn send(&self, client: &Client, headers: &[(String, String)]) -> (u16, String) {
        let sends = matches!(self.verb.as_str(), "create" | "update" | "patch");
        let answer = client.send(&Request {
            method: self.method(),
            path: &self.path(),
            body: sends.then(|| b"{}".to_vec()),
            content_type: match self.verb.as_str() {
                "patch" => Some("application/merge-patch+json"),
                _ => sends.then_some("application/json"),
            },
            headers,
            ..Request::default()
        });
        let answer = answer.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let body: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
        (answer.code, body["message"].as_str().unwrap_or_default().to_owned())
    }
}

/// Checks all, some at a time; the errors.
fn check<T: Sync>(routes: &[T], judge: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(route) = routes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(error) = judge(route) {
                        errors.lock().expect("no judge panics").push(error);
                    }
                }
            });
        }
    });
    errors.into_inner().expect("no judge panics")
}

/// A server that serves all that it can: every version, and a custom resource with its subresources.
fn server_of_everything() -> Server {
    let server = Server::try_start(StoreChoice::Embedded, &["--runtime-config=api/all=true"]);
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    });
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "widgets", "kind": "Widget"},
        },
    });
    let admin = server.client();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = admin.json("POST", path, &definition).expect("an answer");
    assert_eq!(made.code, 201, "{}", made.text());
    let started = Instant::now();
    while admin.get("/apis/example.com/v1").expect("an answer").code != 200 {
        assert!(started.elapsed() < PATIENCE, "the custom resource is not served");
    }
    server
}

/// Gives each rule to a user of its own and to no other; the users' names.
fn grant_each(admin: &Client, rules: &[Value]) -> Vec<String> {
    let group = "rbac.authorization.k8s.io";
    let users: Vec<(String, &Value)> = (0..).zip(rules).map(|(n, rule)| (format!("only-{n}"), rule)).collect();
    let errors = check(&users, |(user, rule)| {
        let role = json!({"metadata": {"name": user}, "rules": [rule]});
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        });
        let objects = [("clusterroles", role), ("clusterrolebindings", binding)];
        let made = objects.map(|(plural, object)| {
            let path = format!("/apis/{group}/v1/{plural}");
            admin.json("POST", &path, &object).expect("an answer")
        });
        let refused = made.iter().find(|made| made.code != 201);
        refused.map(|refused| refused.text())
    });
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    users.into_iter().map(|(user, _)| user).collect()
}

/// The header that makes an administrator's request one of this user.
fn as_user(user: &str) -> [(String, String); 1] {
    [("Impersonate-User".to_owned(), user.to_owned())]
}

#[test]
fn every_route_and_verb_is_refused_until_it_is_granted() {
    let server = server_of_everything();
    let admin = server.client().keeping_connections();
    let (alice, anonymous) = (admin.with_token(USER_TOKEN), admin.anonymous());
    let routes = resource_routes(&admin);
    assert!(routes.len() >= LEAST_ROUTES, "{} routes", routes.len());
    for custom in ["widgets", "widgets/status", "widgets/scale"] {
        assert!(routes.iter().any(|route| route.resource == custom), "{custom}");
    }
    let errors = check(&routes, |route| {
        let got = route.send(&anonymous, &[]);
        let expected = (403, route.refusal("system:anonymous"));
        (got != expected).then(|| format!("{} {}: {got:?}", route.method(), route.path()))
    });
    assert!(errors.is_empty(), "not refused without a user:\n{}", errors.join("\n"));
    let routes: Vec<ResourceRoute> = routes.into_iter().filter(|route| !route.is_open()).collect();
    let errors = check(&routes, |route| {
        let got = route.send(&alice, &[]);
        let expected = (403, route.refusal("alice"));
        (got != expected).then(|| format!("{} {}: {got:?}", route.method(), route.path()))
    });
    assert!(errors.is_empty(), "not refused without a right:\n{}", errors.join("\n"));
    let rules: BTreeSet<(&str, &str, &str)> = routes.iter().map(ResourceRoute::right).collect();
    let rules: Vec<_> = rules.into_iter().collect();
    let granted: Vec<Value> = rules
        .iter()
        .map(|(verb, group, resource)| json!({"verbs": [verb], "apiGroups": [group], "resources": [resource]}))
        .collect();
    let users = grant_each(&admin, &granted);
    let errors = check(&routes, |route| {
        let place = rules.binary_search(&route.right()).expect("it was granted");
        let (code, message) = route.send(&admin, &as_user(&users[place]));
        let is_refused = matches!(code, 401 | 403) && message.contains("cannot");
        is_refused.then(|| format!("{} {}: {message}", route.method(), route.path()))
    });
    assert!(errors.is_empty(), "refused although granted:\n{}", errors.join("\n"));
}

/// The paths that are no resources: those of the index, and those of the table of routes, with something in the place of what
/// varies.
fn other_paths(admin: &Client) -> BTreeSet<String> {
    let table = folder().join("../src/edge/src/routes/mod.rs");
    let table = fs::read_to_string(table).expect("the table of routes");
    let literals = table.split('"').skip(1).step_by(2);
    let varying = Regex::new(r"\{[^}]*\}").expect("a pattern");
    let routed = literals
        .filter(|text| text.starts_with('/') && !text.contains(' '))
        .map(|path| varying.replace_all(path, "absent").into_owned());
    let routed: BTreeSet<String> = routed.collect();
    assert!(routed.contains("/debug/api_priority_and_fairness/absent"), "{routed:?}");
    let index = texts(&get(admin, "/")["paths"]);
    assert!(index.iter().any(|path| path == "/metrics"), "{index:?}");
    routed.into_iter().chain(index).collect()
}

fn refusal_of_path(user: &str, verb: &str, path: &str) -> String {
    format!(r#"forbidden: User \"{user}\" cannot {verb} path \"{path}\""#)
}

#[test]
fn every_other_path_is_refused_until_it_is_granted() {
    let server = server_of_everything();
    let admin = server.client().keeping_connections();
    let (alice, anonymous) = (admin.with_token(USER_TOKEN), admin.anonymous());
    let is_open = |path: &str, roots: &[&str]| {
        let below = |root: &&str| path == *root || path.starts_with(&format!("{root}/"));
        PUBLIC_PATHS.contains(&path) || roots.iter().any(below)
    };
    let is_resource = |path: &str| path.starts_with("/api") && path.contains("absent");
    let paths: Vec<String> = other_paths(&admin)
        .into_iter()
        .filter(|path| !is_resource(path))
        .collect();
    let ask = |client: &Client, method, path: &str, headers: &[(String, String)]| {
        let path = match path.ends_with("/profile") {
            true => format!("{path}?seconds=1"),
            false => path.to_owned(),
        };
        let request = Request {
            method,
            path: &path,
            headers,
            ..Request::default()
        };
        let answer = client.send(&request).expect("an answer");
        (answer.code, answer.text())
    };
    let methods = [("GET", "get"), ("POST", "post"), ("DELETE", "delete")];
    for path in &paths {
        for (method, verb) in methods {
            for (client, user, open) in [
                (&anonymous, "system:anonymous", &[][..]),
                (&alice, "alice", &OPEN_PATHS[..]),
            ] {
                let (code, text) = ask(client, method, path, &[]);
                match verb == "get" && is_open(path, open) {
                    true => assert!(!matches!(code, 401 | 403), "{user} {method} {path}: {code} {text}"),
                    false => {
                        assert_eq!(code, 403, "{user} {method} {path}: {text}");
                        let expected = refusal_of_path(user, verb, path);
                        assert!(text.contains(&expected), "{user} {method} {path}: {text}");
                    }
                }
            }
        }
    }
    let rights: Vec<((&str, &str), &str)> = paths
        .iter()
        .flat_map(|path| methods.map(|method| (method, path.as_str())))
        .collect();
    let rules: Vec<Value> = rights
        .iter()
        .map(|((_, verb), path)| json!({"verbs": [verb], "nonResourceURLs": [path]}))
        .collect();
    let users = grant_each(&admin, &rules);
    for (((method, verb), path), user) in rights.into_iter().zip(users) {
        let (code, text) = ask(&admin, method, path, &as_user(&user));
        let is_refused = matches!(code, 401 | 403) && text.contains("cannot");
        assert!(!is_refused, "{verb} {path}: {text}");
    }
}

#[test]
fn a_change_of_the_rules_is_obeyed_by_the_next_request() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    let root = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({
        "metadata": {"name": "reader"},
        "rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}],
    });
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "name": "alice"}],
    });
    let send = |method: &str, path: &str, body: &Value| {
        let answer = admin.json(method, &format!("{root}/{path}"), body).expect("an answer");
        assert!(answer.code < 300, "{}", answer.text());
    };
    let may = || {
        alice
            .get("/api/v1/namespaces/default/configmaps")
            .expect("an answer")
            .code
    };
    for _ in 0..20 {
        send("POST", "roles", &role);
        send("POST", "rolebindings", &binding);
        assert_eq!(may(), 200);
        send("DELETE", "rolebindings/reader", &json!({}));
        assert_eq!(may(), 403);
        send("POST", "rolebindings", &binding);
        send("DELETE", "roles/reader", &json!({}));
        assert_eq!(may(), 403);
        send("DELETE", "rolebindings/reader", &json!({}));
    }
}

#[test]
fn a_new_node_is_known_by_its_bootstrap_token_until_the_secret_is_gone() {
    let server = Server::try_start(StoreChoice::Embedded, &["--enable-bootstrap-token-auth"]);
    let admin = server.as_ref().map(Server::client).expect("it starts");
    let node = admin.with_token("aaa001.0123456789abcdef");
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let secret = json!({
        "metadata": {"name": "bootstrap-token-aaa001"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "aaa001",
            "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    });
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let ask = || node.json("POST", review, &json!({})).expect("an answer");
    let answered = |code: u16| {
        let started = Instant::now();
        while ask().code != code {
            assert!(started.elapsed() < PATIENCE, "the answer is not {code}");
        }
    };
    assert_eq!(ask().code, 401);
    assert_eq!(admin.json("POST", secrets, &secret).expect("an answer").code, 201);
    answered(201);
    let user: Value = serde_json::from_str(&ask().text()).expect("JSON");
    let user = &user["status"]["userInfo"];
    assert_eq!(user["username"], "system:bootstrap:aaa001");
    let groups = json!([
        "system:bootstrappers",
        "system:bootstrappers:kubeadm:default-node-token",
        "system:authenticated"
    ]);
    assert_eq!(user["groups"], groups);
    let path = format!("{secrets}/bootstrap-token-aaa001");
    assert_eq!(admin.json("DELETE", &path, &json!({})).expect("an answer").code, 200);
    answered(401);
}
