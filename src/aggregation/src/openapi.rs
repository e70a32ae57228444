//! OpenAPI documents of another server, as far as they are about one version
//! (`kube-aggregator/pkg/controllers/openapi`, `…/openapiv3`).

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};
use trireme_machinery::{GroupVersion, Object};
use trireme_registry::{ProxiedOpenApi, documents::Document};

use crate::{availability::own_request, fetch::fetch, remote::RemoteBackend};

const JSON: Option<&str> = Some("application/json");
const REFERENCE: &str = "#/definitions/";

/// The documents of a version; those of before, if they are the same. What a server does not have is left out.
///
/// # Errors
/// If it does not answer.
pub(crate) async fn documents(
    backend: &RemoteBackend,
    version: &GroupVersion,
    before: &Arc<ProxiedOpenApi>,
) -> Result<Arc<ProxiedOpenApi>, String> {
    let index = fetch(backend, own_request("/openapi/v3", &[], JSON)?).await?;
    let v3_hash = match index.code {
        200 => hash_in(&serde_json::from_slice(&index.body).unwrap_or_default(), version),
        _ => None,
    };
    let whole = fetch(backend, own_request("/openapi/v2", &[], JSON)?).await?;
    let found = match whole.code {
        200 => serde_json::from_slice::<Value>(&whole.body).ok(),
        _ => None,
    };
    let part = found.map(|document| part_of(&document, version));
    let v2 = part.map(|part| (Document::of(&part).hash, part));
    let hash = |v2: &Option<(String, Value)>| v2.as_ref().map(|(hash, _)| hash.clone());
    let is_same = before.v3_hash == v3_hash && hash(&before.v2) == hash(&v2);
    Ok(match is_same {
        true => Arc::clone(before),
        false => Arc::new(ProxiedOpenApi { v3_hash, v2 }),
    })
}

/// The hash of a version's document by the index of OpenAPI 3.
fn hash_in(index: &Value, version: &GroupVersion) -> Option<String> {
    let url = index["paths"][format!("apis/{version}")]["serverRelativeURL"].as_str()?;
    let (_, query) = url.split_once('?').unwrap_or((url, ""));
    let hash = query.split('&').find_map(|pair| pair.strip_prefix("hash="));
    Some(hash.unwrap_or_default().to_owned())
}

/// The paths of a version in a document of OpenAPI 2, and the definitions that they lead to.
fn part_of(document: &Value, version: &GroupVersion) -> Value {
    let prefix = format!("/apis/{version}/");
    let paths = document["paths"].as_object();
    let own = paths
        .into_iter()
        .flatten()
        .filter(|(path, _)| path.starts_with(&prefix));
    let paths: Object = own
        .map(|(path, operations)| (path.clone(), operations.clone()))
        .collect();
    let mut names = BTreeSet::new();
    let mut unread = references(&Value::Object(paths.clone()));
    while let Some(name) = unread.pop() {
        if let Some(definition) = document["definitions"]
            .get(&name)
            .filter(|_| names.insert(name.clone()))
        {
            unread.extend(references(definition));
        }
    }
    let definition = |name: String| {
        let definition = document["definitions"][&name].clone();
        (name, definition)
    };
    let definitions: Object = names
        .into_iter()
        .filter(|name| document["definitions"].get(name).is_some())
        .map(definition)
        .collect();
    json!({ "paths": paths, "definitions": definitions })
}

/// The definitions that a value names.
fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, field)| match field.as_str().filter(|_| key == "$ref") {
                Some(reference) => reference
                    .strip_prefix(REFERENCE)
                    .map(str::to_owned)
                    .into_iter()
                    .collect(),
                None => references(field),
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_of_the_version_is_taken() {
        let version = GroupVersion::new("g", "v1");
        let reference = |name: &str| json!({ "$ref": format!("#/definitions/{name}") });
        let document = json!({
            "paths": {
                "/apis/g/v1/things": { "get": { "schema": reference("a") } },
                "/apis/g/v10/things": { "get": { "schema": reference("c") } },
                "/version/": {},
            },
            "definitions": { "a": { "items": [reference("b"), reference("a")] }, "b": { "type": "string" }, "c": {} },
        });
        assert_eq!(
            part_of(&document, &version),
            json!({
                "paths": { "/apis/g/v1/things": { "get": { "schema": reference("a") } } },
                "definitions": { "a": { "items": [reference("b"), reference("a")] }, "b": { "type": "string" } },
            })
        );
    }

    #[test]
    fn the_hash_is_in_the_index() {
        let version = GroupVersion::new("g", "v1");
        let index = |url: &str| json!({ "paths": { "apis/g/v1": { "serverRelativeURL": url }, "version": {} } });
        let hash = |url: &str| hash_in(&index(url), &version);
        assert_eq!(hash("/openapi/v3/apis/g/v1?hash=AB").as_deref(), Some("AB"));
        assert_eq!(hash("/openapi/v3/apis/g/v1").as_deref(), Some(""));
        assert_eq!(hash_in(&json!({}), &version), None);
    }
}
