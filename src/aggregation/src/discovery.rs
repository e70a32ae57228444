//! Discovery of another server, as this one shows it (`kube-aggregator/pkg/apiserver/handler_discovery.go`).

use serde_json::{Value, json};
use trireme_http::client::RemoteAnswer;
use trireme_machinery::GroupVersion;

use crate::{availability::own_request, fetch::fetch, remote::RemoteBackend};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
const MASTERS: &str = "system:masters";

/// The entry of a version whose server does not say what it serves.
pub(crate) fn stale(version: &str) -> String {
    json!({ "version": version, "freshness": "Stale" }).to_string()
}

/// The entry of a version in aggregated discovery. A server that has no such document is asked for its list of resources.
///
/// # Errors
/// If it does not answer with either.
pub(crate) async fn entry(backend: &RemoteBackend, version: &GroupVersion) -> Result<String, String> {
    let answer = fetch(backend, own_request("/apis", &[MASTERS], Some(AGGREGATED))?).await?;
    let is_aggregated = answer.content_type.contains("as=APIGroupDiscoveryList");
    let found = match answer.code {
        200 if is_aggregated => of_aggregated(&parsed(&answer)?, version),
        503 => return Err("it is not available".to_owned()),
        _ => {
            let path = format!("/apis/{version}");
            let answer = fetch(backend, own_request(&path, &[], Some("application/json"))?).await?;
            if answer.code != 200 {
                return Err(format!("{path} is answered with {}", answer.code));
            }
            Some(json!({ "resources": of_resource_list(&parsed(&answer)?) }))
        }
    };
    let mut entry = found.unwrap_or_else(|| json!({}));
    entry["version"] = (&*version.version).into();
    entry["freshness"] = "Current".into();
    Ok(entry.to_string())
}

fn parsed(answer: &RemoteAnswer) -> Result<Value, String> {
    serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// The entry of a version in a document about all groups.
fn of_aggregated(document: &Value, version: &GroupVersion) -> Option<Value> {
    let mut groups = items(document, "items");
    let group = groups.find(|group| group.pointer("/metadata/name") == Some(&Value::from(&*version.group)))?;
    let mut versions = items(group, "versions");
    let entry = versions.find(|entry| entry["version"] == *version.version)?;
    let mut entry = entry.clone();
    let resources = entry.get_mut("resources").and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten() {
        name_kind(resource);
        let parts = resource.get_mut("subresources").and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(name_kind);
    }
    Some(entry)
}

/// Some clients cannot do without a kind, however empty.
fn name_kind(resource: &mut Value) {
    if resource.get("responseKind").is_none_or(Value::is_null) {
        resource["responseKind"] = json!({ "group": "", "version": "", "kind": "" });
    }
}

/// The same facts in the form of aggregated discovery.
fn of_resource_list(list: &Value) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for row in items(list, "resources") {
        let name = row["name"].as_str().unwrap_or_default();
        let (resource, part) = name
            .split_once('/')
            .map_or((name, None), |(name, part)| (name, Some(part)));
        let at = resources.iter().position(|known| known["resource"] == *resource);
        let Some(part) = part else {
            let mut entry = described(row);
            entry["resource"] = resource.into();
            // A subresource may have come first.
            match at.and_then(|at| resources.get_mut(at)) {
                Some(known) => {
                    entry["subresources"] = known["subresources"].take();
                    *known = entry;
                }
                None => resources.push(entry),
            }
            continue;
        };
        let at = at.unwrap_or_else(|| {
            let mut parent = json!({ "resource": resource, "scope": scope(row), "verbs": [], "singularResource": "" });
            name_kind(&mut parent);
            resources.push(parent);
            resources.len() - 1
        });
        let entry = json!({ "subresource": part, "responseKind": kind(row), "verbs": row["verbs"] });
        if let Some(parent) = resources.get_mut(at) {
            match parent.get_mut("subresources").and_then(Value::as_array_mut) {
                Some(parts) => parts.push(entry),
                None => parent["subresources"] = json!([entry]),
            }
        }
    }
    resources
}

fn described(row: &Value) -> Value {
    let mut entry = json!({
        "responseKind": kind(row),
        "scope": scope(row),
        "singularResource": row["singularName"].as_str().unwrap_or_default(),
        "verbs": row["verbs"],
    });
    for field in ["shortNames", "categories"] {
        if row[field].as_array().is_some_and(|names| !names.is_empty()) {
            entry[field] = row[field].clone();
        }
    }
    entry
}

fn kind(row: &Value) -> Value {
    let text = |field: &str| row[field].as_str().unwrap_or_default();
    json!({ "group": text("group"), "version": text("version"), "kind": text("kind") })
}

fn scope(row: &Value) -> &'static str {
    if row["namespaced"] == true {
        "Namespaced"
    } else {
        "Cluster"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_resources_says_the_same_as_aggregated_discovery() {
        let list = json!({ "resources": [
            { "name": "things/status", "namespaced": true, "kind": "Thing", "verbs": ["get"] },
            { "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["list"], "shortNames": ["th"] },
            { "name": "nodes/proxy", "namespaced": false, "kind": "Proxy", "group": "g", "version": "v2", "verbs": ["create"] },
        ] });
        let thing = json!({ "group": "", "version": "", "kind": "Thing" });
        assert_eq!(
            Value::from(of_resource_list(&list)),
            json!([
                {
                    "resource": "things", "singularResource": "thing", "scope": "Namespaced", "responseKind": thing,
                    "verbs": ["list"], "shortNames": ["th"],
                    "subresources": [{ "subresource": "status", "responseKind": thing, "verbs": ["get"] }],
                },
                {
                    "resource": "nodes", "singularResource": "", "scope": "Cluster", "verbs": [],
                    "responseKind": { "group": "", "version": "", "kind": "" },
                    "subresources": [{
                        "subresource": "proxy", "verbs": ["create"],
                        "responseKind": { "group": "g", "version": "v2", "kind": "Proxy" },
                    }],
                },
            ])
        );
    }

    #[test]
    fn the_entry_of_a_version_is_taken_as_it_is_with_a_kind() {
        let document = json!({ "items": [
            { "metadata": { "name": "other" }, "versions": [{ "version": "v1" }] },
            { "metadata": { "name": "g" }, "versions": [
                { "version": "v2" },
                { "version": "v1", "resources": [{ "resource": "things", "subresources": [{ "subresource": "x" }] }] },
            ] },
        ] });
        let none = json!({ "group": "", "version": "", "kind": "" });
        assert_eq!(
            of_aggregated(&document, &GroupVersion::new("g", "v1")),
            Some(json!({ "version": "v1", "resources": [{
                "resource": "things", "responseKind": none, "subresources": [{ "subresource": "x", "responseKind": none }],
            }] }))
        );
        assert_eq!(of_aggregated(&document, &GroupVersion::new("g", "v3")), None);
    }
}
