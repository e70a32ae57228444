//! A metric that kube-apiserver has too has its name, its type and its labels; those that are not there are listed with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};
use trireme_tests::http::{Client, Request};
use trireme_tests::server::{ALL_PLUGINS, USER_TOKEN};
use trireme_tests::{Server, StoreChoice, folder};

use super::recorded;

/// Labels of a metric's series beside its own, and those that the recorded server's distribution adds.
const NOT_OF_THE_METRIC: [&str; 4] = ["le", "quantile", "ocp_namespace", "system_client"];

/// A metric as a page shows it.
#[derive(Debug, Default)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

/// The metrics of a page, by name.
fn metrics(page: &str) -> BTreeMap<String, Metric> {
    static LABEL: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(\w+)="(?:[^"\\]|\\.)*""#).expect("a valid pattern"));
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    for line in page.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            kind.clone_into(&mut metrics.entry(name.to_owned()).or_default().kind);
        } else if let Some((series, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let suffixes = ["", "_bucket", "_sum", "_count"];
            let mut names = suffixes.iter().filter_map(|suffix| series.strip_suffix(suffix));
            if let Some(name) = names.find(|name| metrics.contains_key(*name)) {
                let labels = LABEL.captures_iter(labels).map(|label| label[1].to_owned());
                let labels = labels.filter(|label| !NOT_OF_THE_METRIC.contains(&label.as_str()));
                metrics.entry(name.to_owned()).or_default().labels.extend(labels);
            }
        }
    }
    metrics
}

/// A short session like the recorded one: reads, writes, a watch and errors.
fn session(client: &Client) {
    let configmaps = "/api/v1/namespaces/default/configmaps";
    let send = |method: &str, path: &str, body: Value, content_type: &str| {
        let request = Request {
            method,
            path,
            body: (!body.is_null()).then(|| body.to_string().into_bytes()),
            content_type: Some(content_type),
            ..Request::default()
        };
        client.send(&request).expect("an answer");
    };
    let named = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "type": "NodePort"}});
    let account = json!({"metadata": {"name": "default"}});
    let json = "application/json";
    send("POST", "/api/v1/namespaces/default/serviceaccounts", account, json);
    send("POST", configmaps, named.clone(), json);
    send("POST", configmaps, named.clone(), json);
    send("POST", "/api/v1/namespaces/default/pods", pod, json);
    send("POST", "/api/v1/namespaces/default/services", service, json);
    send(
        "PATCH",
        &format!("{configmaps}/a"),
        json!({"data": {"k": "w"}}),
        "application/merge-patch+json",
    );
    let apply = format!("{configmaps}/b?fieldManager=m");
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    send("PATCH", &apply, applied, "application/apply-patch+yaml");
    for path in [configmaps, "/api/v1/namespaces/default/configmaps/a", "/apis/nope/v1/x"] {
        send("GET", path, Value::Null, json);
    }
    let watch = Request {
        method: "GET",
        path: &format!("{configmaps}?watch=1"),
        lines: Some((1, Duration::from_secs(10))),
        ..Request::default()
    };
    client.send(&watch).expect("an answer");
    let with_state = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let watch_list = Request {
        method: "GET",
        path: &format!("{configmaps}?{with_state}&fieldSelector=metadata.name%3Db"),
        // The object and the bookmark behind it.
        lines: Some((2, Duration::from_secs(10))),
        ..Request::default()
    };
    client.send(&watch_list).expect("an answer");
    client.with_token(USER_TOKEN).get(configmaps).expect("an answer");
    let as_another = Request {
        method: "GET",
        path: configmaps,
        headers: &[("Impersonate-User".to_owned(), "jane".to_owned())],
        ..Request::default()
    };
    client.send(&as_another).expect("an answer");
    send("DELETE", &format!("{configmaps}/a"), Value::Null, json);
}

/// The metrics that are not there, or not as in kube-apiserver, with the reasons.
fn listed() -> BTreeMap<String, String> {
    let path = folder().join("reference/metrics/absent.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.map(|line| {
        let (name, reason) = line
            .split_once(" | ")
            .unwrap_or_else(|| panic!("not `name | reason`: {line}"));
        (name.to_owned(), reason.to_owned())
    });
    lines.collect()
}

/// The error of a metric, if it has one.
fn judge(name: &str, ours: Option<&Metric>, theirs: &Value, reason: Option<&str>) -> Option<String> {
    let has = |prefix: &str| reason.is_some_and(|reason| reason.starts_with(prefix));
    let Some(ours) = ours else {
        let is_listed = reason.is_some() && !has("labels: ");
        return (!is_listed).then(|| format!("{name} is absent and not listed so"));
    };
    match difference(name, ours, theirs) {
        difference if reason.is_none() || has("later: ") => difference,
        Some(_) if has("labels: ") => None,
        _ => Some(format!(
            "{name} is there as in kube-apiserver; take it out of absent.txt"
        )),
    }
}

#[test]
fn metrics_have_the_names_and_labels_of_kube_apiserver() {
    let server = Server::try_start(StoreChoice::Etcd, &[ALL_PLUGINS]).unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    session(&client);
    let page = client.get("/metrics").expect("an answer").text();
    let ours = metrics(&page);
    let recorded = recorded("metrics/names.json");
    let recorded = recorded.as_object().expect("an object of metrics");
    let listed = listed();
    let strange = listed.keys().filter(|name| !recorded.contains_key(*name));
    let mut errors: Vec<String> = strange
        .map(|name| format!("{name} is listed and none of kube-apiserver's"))
        .collect();
    errors.extend(recorded.iter().filter_map(|(name, theirs)| {
        let reason = listed.get(name).map(String::as_str);
        judge(name, ours.get(name), theirs, reason)
    }));
    let version = client.get("/version").expect("an answer").text();
    let version: Value = serde_json::from_str(&version).expect("JSON");
    errors.extend(build_errors(&page, &version));
    // Its log says less than the list, and would hide it.
    drop(server);
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
}

/// The labels of `kubernetes_build_info` that say something else than `/version`.
fn build_errors(page: &str, version: &Value) -> Vec<String> {
    let build = page.lines().find(|line| line.starts_with("kubernetes_build_info{"));
    let build = build.unwrap_or_default();
    let labels = [
        ("major", "major"),
        ("minor", "minor"),
        ("git_version", "gitVersion"),
        ("git_commit", "gitCommit"),
        ("git_tree_state", "gitTreeState"),
        ("build_date", "buildDate"),
        ("go_version", "goVersion"),
        ("compiler", "compiler"),
        ("platform", "platform"),
    ];
    let labels = labels.map(|(label, field)| format!("{label}={}", version[field]));
    let wrong = labels.into_iter().filter(|label| !build.contains(label));
    wrong
        .map(|label| format!("{label} of /version is not in {build}"))
        .collect()
}

/// The difference of a metric from the recorded one.
fn difference(name: &str, ours: &Metric, theirs: &Value) -> Option<String> {
    let labels = theirs["labels"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let labels: BTreeSet<String> = labels
        .filter(|label| !NOT_OF_THE_METRIC.contains(label))
        .map(str::to_owned)
        .collect();
    let has_kind = theirs["type"].as_str().is_none_or(|kind| kind == ours.kind);
    // Without series there are no labels to be seen.
    let has_labels = ours.labels.is_empty() || !theirs["labels"].is_array() || ours.labels == labels;
    (!has_kind || !has_labels).then(|| format!("{name}: {ours:?}, recorded {theirs}"))
}
