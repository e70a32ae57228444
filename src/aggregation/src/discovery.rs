//! Discovery of another server, as this one shows it (`kube-aggregator/pkg/apiserver/handler_discovery.go`).
//!
//! Its documents are decoded by their types, as a Go client decodes them: what is not of its type makes the version stale,
//! and nothing of it is shown.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};
use trireme_machinery::{
    GroupVersion, Object, json,
    schema::{self, TypeTable},
};

use crate::{
    fetch::{DISCOVERER, MASTER, fetch, own_request},
    remote::RemoteBackend,
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
/// The time that a document may take: probes wait for the first of each server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The type of a document, and the kind and the versions that it may name.
struct DocumentForm {
    type_name: &'static str,
    kind: &'static str,
    api_versions: &'static [&'static str],
}

const GROUP_DISCOVERY_LIST: DocumentForm = DocumentForm {
    type_name: "io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList",
    kind: "APIGroupDiscoveryList",
    api_versions: &["apidiscovery.k8s.io/v2", "apidiscovery.k8s.io/v2beta1"],
};

const RESOURCE_LIST: DocumentForm = DocumentForm {
    type_name: "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList",
    kind: "APIResourceList",
    api_versions: &["v1"],
};

/// The entry of a version whose server does not say what it serves.
pub(crate) fn stale(version: &str) -> String {
    json!({ "version": version, "freshness": "Stale" }).to_string()
}

/// The entry of a version in aggregated discovery. A server that has no such document is asked for its list of resources.
///
/// # Errors
/// If it does not answer with either.
pub(crate) async fn entry(
    backend: &RemoteBackend,
    types: &TypeTable,
    version: &GroupVersion,
) -> Result<String, String> {
    let request = own_request(MASTER, "/apis", Some(AGGREGATED))?;
    let answer = fetch(backend, request, TIMEOUT).await?;
    let found = match answer.code {
        200 if is_aggregated(&answer.content_type) => {
            of_aggregated(&decoded(types, &answer.body, &GROUP_DISCOVERY_LIST)?, version)
        }
        503 => return Err("it is not available".to_owned()),
        _ => {
            let path = format!("/apis/{version}");
            let request = own_request(DISCOVERER, &path, Some("application/json"))?;
            let answer = fetch(backend, request, TIMEOUT).await?;
            if answer.code != 200 {
                return Err(format!("{path} is answered with {}", answer.code));
            }
            let resources = of_resource_list(&decoded(types, &answer.body, &RESOURCE_LIST)?)?;
            Some(Object::from_iter([("resources".to_owned(), resources.into())]))
        }
    };
    let mut entry = found.unwrap_or_default();
    entry.insert("version".to_owned(), (&*version.version).into());
    entry.insert("freshness".to_owned(), "Current".into());
    Ok(Value::Object(entry).to_string())
}

/// Reports whether a media type is that of aggregated discovery in JSON.
fn is_aggregated(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let is_json = parts
        .next()
        .is_some_and(|base| base.eq_ignore_ascii_case("application/json"));
    let parameters: HashMap<String, &str> = parts
        .filter_map(|part| part.split_once('='))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"')))
        .collect();
    let is = |name: &str, values: &[&str]| parameters.get(name).is_some_and(|value| values.contains(value));
    is_json && is("g", &["apidiscovery.k8s.io"]) && is("v", &["v2", "v2beta1"]) && is("as", &["APIGroupDiscoveryList"])
}

/// A document in the form that Go gives it: fields that its type does not have are left out.
///
/// # Errors
/// If it is another one, or a part of it is of another type.
fn decoded(types: &TypeTable, body: &[u8], form: &DocumentForm) -> Result<Value, String> {
    let document = json::decode(body).map_err(|error| error.to_string())?.value;
    let is_named = |field: &str, names: &[&str]| match document.get(field) {
        None | Some(Value::Null) => true,
        Some(name) => name
            .as_str()
            .is_some_and(|name| name.is_empty() || names.contains(&name)),
    };
    if !is_named("kind", &[form.kind]) || !is_named("apiVersion", form.api_versions) {
        return Err(format!("it is no {}", form.kind));
    }
    let unknown = || format!("the type {} is not known", form.type_name);
    let id = types.find(form.type_name).ok_or_else(unknown)?;
    let decoded = schema::decode(types, id, document).map_err(|error| error.to_string())?;
    Ok(decoded.value)
}

fn items<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn structs_mut<'v>(object: &'v mut Object, field: &str) -> impl Iterator<Item = &'v mut Object> {
    let items = object.get_mut(field).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The entry of a version in a document about all groups. Of several the last counts.
fn of_aggregated(document: &Value, version: &GroupVersion) -> Option<Object> {
    let groups = items(document, "items");
    let of_name = groups.filter(|group| group.pointer("/metadata/name") == Some(&Value::from(&*version.group)));
    let versions = of_name.flat_map(|group| items(group, "versions"));
    let found = versions.filter(|entry| entry["version"] == *version.version).last()?;
    let mut entry = found.as_object()?.clone();
    for resource in structs_mut(&mut entry, "resources") {
        name_kind(resource);
        structs_mut(resource, "subresources").for_each(name_kind);
    }
    Some(entry)
}

/// Some clients cannot do without a kind, however empty.
fn name_kind(resource: &mut Object) {
    resource.entry("responseKind").or_insert_with(no_kind);
}

fn no_kind() -> Value {
    json!({ "group": "", "version": "", "kind": "" })
}

/// The same facts in the form of aggregated discovery: resources first, then those of which there are only subresources.
///
/// # Errors
/// If a resource and a subresource are not of the same scope.
fn of_resource_list(list: &Value) -> Result<Vec<Value>, String> {
    let mut resources: Vec<Object> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let named = || items(list, "resources").map(|row| (row["name"].as_str().unwrap_or_default(), row));
    for (name, row) in named().filter(|(name, _)| !name.contains('/')) {
        places.insert(name, resources.len());
        resources.push(described(name, row));
    }
    for (name, row) in named() {
        let Some((resource, part)) = name.split_once('/') else {
            continue;
        };
        let place = *places.entry(resource).or_insert_with(|| {
            resources.push(parent(resource, row));
            resources.len().saturating_sub(1)
        });
        let Some(parent) = resources.get_mut(place) else {
            continue;
        };
        if parent.get("scope") != Some(&scope(row).into()) {
            return Err(format!("the scope of {resource} is not that of its subresource {part}"));
        }
        let parts = parent.entry("subresources").or_insert_with(|| json!([]));
        if let Some(parts) = parts.as_array_mut() {
            parts.push(json!({ "subresource": part, "responseKind": kind_of_part(row), "verbs": row["verbs"] }));
        }
    }
    Ok(resources.into_iter().map(Value::Object).collect())
}

fn described(name: &str, row: &Value) -> Object {
    let mut entry = Object::from_iter([
        ("resource".to_owned(), name.into()),
        ("responseKind".to_owned(), kind(row)),
        ("scope".to_owned(), scope(row).into()),
        ("singularResource".to_owned(), row["singularName"].clone()),
        ("verbs".to_owned(), row["verbs"].clone()),
    ]);
    for field in ["shortNames", "categories"] {
        if let Some(names) = row.get(field) {
            entry.insert(field.to_owned(), names.clone());
        }
    }
    entry
}

/// A resource that is not listed itself.
fn parent(name: &str, part: &Value) -> Object {
    Object::from_iter([
        ("resource".to_owned(), name.into()),
        ("responseKind".to_owned(), no_kind()),
        ("scope".to_owned(), scope(part).into()),
        ("singularResource".to_owned(), "".into()),
        ("verbs".to_owned(), Value::Null),
    ])
}

fn kind(row: &Value) -> Value {
    let text = |field: &str| row[field].as_str().unwrap_or_default();
    json!({ "group": text("group"), "version": text("version"), "kind": text("kind") })
}

/// The kind of a subresource: one without a name has no group and version either.
fn kind_of_part(row: &Value) -> Value {
    match row["kind"] == "" {
        true => no_kind(),
        false => kind(row),
    }
}

fn scope(row: &Value) -> &'static str {
    if row["namespaced"] == true {
        "Namespaced"
    } else {
        "Cluster"
    }
}

#[cfg(test)]
mod tests;
