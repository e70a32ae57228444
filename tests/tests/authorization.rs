//! Authorization of every route: requests without a grant are refused in the words of kube-apiserver, whatever route
//! and verb it is, and those with one are admitted.
//!
//! The routes are those of discovery, so that none is served without being held against this.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trireme_tests::http::{Client, Request};
use trireme_tests::server::USER_TOKEN;
use trireme_tests::{Server, StoreChoice};

/// Requests under way at a time.
const SIDE_BY_SIDE: usize = 4;
/// A watch cache hears of a write within milliseconds; a hang takes forever.
const PATIENCE: Duration = Duration::from_secs(10);
/// Fewer would mean that discovery was read wrongly.
const LEAST_ROUTES: usize = 600;
/// Paths that all authenticated users may read.
const OPEN_PATHS: [&str; 7] = ["/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version"];

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

    fn refusal(&self) -> String {
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
            r#"{qualified}{name} is forbidden: User "alice" cannot {} resource "{}" in API group "{}" {place}"#,
            self.verb, self.resource, self.group
        )
    }

    /// True for requests that all authenticated users may make.
    fn is_open(&self) -> bool {
        self.resource.starts_with("selfsubject")
    }

    fn send(&self, client: &Client) -> (u16, String) {
        let sends = matches!(self.verb.as_str(), "create" | "update" | "patch");
        let answer = client.send(&Request {
            method: self.method(),
            path: &self.path(),
            body: sends.then(|| b"{}".to_vec()),
            content_type: match self.verb.as_str() {
                "patch" => Some("application/merge-patch+json"),
                _ => sends.then_some("application/json"),
            },
            ..Request::default()
        });
        let answer = answer.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let body: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
        (answer.code, body["message"].as_str().unwrap_or_default().to_owned())
    }
}

/// Checks all routes; the errors.
fn check(routes: &[ResourceRoute], judge: impl Fn(&ResourceRoute) -> Option<String> + Sync) -> Vec<String> {
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

/// Grants each verb on each resource by its name: no `*`.
fn grant_all(admin: &Client, routes: &[ResourceRoute]) {
    let rules: Vec<Value> = routes
        .iter()
        .map(|route| json!({"verbs": [route.verb], "apiGroups": [route.group], "resources": [route.resource]}))
        .collect();
    let group = "rbac.authorization.k8s.io";
    let role = json!({"metadata": {"name": "each-by-name"}, "rules": rules});
    let binding = json!({
        "metadata": {"name": "each-by-name"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "each-by-name"},
        "subjects": [{"kind": "User", "name": "alice"}],
    });
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let made = admin
            .json("POST", &format!("/apis/{group}/v1/{plural}"), &object)
            .expect("an answer");
        assert_eq!(made.code, 201, "{}", made.text());
    }
}

#[test]
fn every_route_and_verb_is_refused_until_it_is_granted() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    let routes: Vec<ResourceRoute> = resource_routes(&admin)
        .into_iter()
        .filter(|route| !route.is_open())
        .collect();
    assert!(routes.len() >= LEAST_ROUTES, "{} routes", routes.len());
    let errors = check(&routes, |route| {
        let got = route.send(&alice);
        (got != (403, route.refusal())).then(|| format!("{} {}: {got:?}", route.method(), route.path()))
    });
    assert!(
        errors.is_empty(),
        "not refused as they should be:\n{}",
        errors.join("\n")
    );
    grant_all(&admin, &routes);
    let errors = check(&routes, |route| {
        let (code, message) = route.send(&alice);
        let is_refused = matches!(code, 401 | 403) && message.contains("cannot");
        is_refused.then(|| format!("{} {}: {message}", route.method(), route.path()))
    });
    assert!(errors.is_empty(), "refused although granted:\n{}", errors.join("\n"));
}

#[test]
fn every_path_of_the_index_is_refused_until_it_is_granted() {
    let server = Server::start(StoreChoice::Embedded);
    let admin = server.client();
    let alice = admin.with_token(USER_TOKEN);
    let below = |path: &str, root: &str| path == root || path.starts_with(&format!("{root}/"));
    let is_open = |path: &String| match path.as_str() {
        // Single checks are for those who monitor.
        path if path.matches('/').count() > 1 => ["/api", "/apis", "/openapi"].iter().any(|root| below(path, root)),
        path => OPEN_PATHS.iter().any(|root| below(path, root)),
    };
    let paths = texts(&get(&admin, "/")["paths"]);
    let closed: Vec<String> = paths
        .into_iter()
        .filter(|path| !is_open(path))
        .chain(["/".to_owned()])
        .collect();
    assert!(closed.iter().any(|path| path == "/metrics"), "{closed:?}");
    for path in &closed {
        for (method, verb) in [("GET", "get"), ("POST", "post"), ("DELETE", "delete")] {
            let answer = alice
                .send(&Request {
                    method,
                    path,
                    ..Request::default()
                })
                .expect("an answer");
            let expected = format!(r#"forbidden: User \"alice\" cannot {verb} path \"{path}\""#);
            assert_eq!(answer.code, 403, "{method} {path}");
            assert!(answer.text().contains(&expected), "{method} {path}: {}", answer.text());
        }
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
