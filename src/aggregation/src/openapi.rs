//! OpenAPI documents of another server, as far as they are about one version
//! (`kube-aggregator/pkg/controllers/openapi`, `…/openapiv3`).

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use trireme_http::client::RemoteAnswer;
use trireme_machinery::{GroupVersion, Object, json};
use trireme_registry::{ProxiedOpenApi, documents::Document};

use crate::{
    fetch::{OPENAPI_READER, fetch, own_request},
    remote::RemoteBackend,
};

const JSON: Option<&str> = Some("application/json");
const REFERENCE: &str = "#/definitions/";
/// The time that a document may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The documents of a server after it has been asked.
pub(crate) struct OpenApiAnswer {
    pub(crate) documents: Arc<ProxiedOpenApi>,
    /// The reason that one of them is as it was before.
    pub(crate) failure: Option<String>,
}

/// The documents of a version; those of before, if they are the same. A document that does not come, or is none, stays as it
/// was. What a server does not have is left out.
pub(crate) async fn documents(
    backend: &RemoteBackend,
    version: &GroupVersion,
    before: &Arc<ProxiedOpenApi>,
) -> OpenApiAnswer {
    let index = asked(backend, "/openapi/v3", paths_in).await;
    let whole = asked(backend, "/openapi/v2", |document| part_of(document, version)).await;
    let failure = index.as_ref().err().or(whole.as_ref().err()).cloned();
    let v3_hashes = index.map_or_else(|_| before.v3_hashes.clone(), Option::unwrap_or_default);
    let v2 = match whole {
        Ok(part) => part.map(|part| (Document::of(&part).hash, part)),
        Err(_) => before.v2.clone(),
    };
    let hash = |v2: &Option<(String, Value)>| v2.as_ref().map(|(hash, _)| hash.clone());
    let is_same = before.v3_hashes == v3_hashes && hash(&before.v2) == hash(&v2);
    let documents = match is_same {
        true => Arc::clone(before),
        false => Arc::new(ProxiedOpenApi { v3_hashes, v2 }),
    };
    OpenApiAnswer { documents, failure }
}

/// Reads a document of a server; `None` if the server has none.
async fn asked<T>(
    backend: &RemoteBackend,
    path: &str,
    read: impl FnOnce(&Value) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let answer = fetch(backend, own_request(OPENAPI_READER, path, JSON)?, TIMEOUT).await?;
    document(path, &answer)?.map(|document| read(&document)).transpose()
}

fn document(path: &str, answer: &RemoteAnswer) -> Result<Option<Value>, String> {
    match answer.code {
        200 => json::decode(&answer.body)
            .map(|decoded| Some(decoded.value))
            .map_err(|error| format!("{path}: {error}")),
        404 => Ok(None),
        code => Err(format!("{path} is answered with {code}")),
    }
}

/// The documents that an index of OpenAPI 3 names, with their hashes.
///
/// # Errors
/// If it is no index.
fn paths_in(index: &Value) -> Result<BTreeMap<String, String>, String> {
    let paths = struct_in(index, "paths")?;
    let hash = |(path, entry): (&String, &Value)| {
        let url = match entry {
            Value::Null => "",
            Value::Object(entry) => match entry.get("serverRelativeURL") {
                None | Some(Value::Null) => "",
                Some(url) => url.as_str().ok_or_else(|| format!("the URL of {path} is no text"))?,
            },
            _ => return Err(format!("the entry of {path} is no object")),
        };
        let (_, query) = url.split_once('?').unwrap_or((url, ""));
        let hash = query.split('&').find_map(|pair| pair.strip_prefix("hash="));
        Ok((path.clone(), hash.unwrap_or_default().to_owned()))
    };
    paths.into_iter().flatten().map(hash).collect()
}

/// A field that is an object, if it is there.
fn struct_in<'v>(value: &'v Value, field: &str) -> Result<Option<&'v Object>, String> {
    let Value::Object(fields) = value else {
        return Err("the document is no object".to_owned());
    };
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(found)) => Ok(Some(found)),
        Some(_) => Err(format!("{field} is no object")),
    }
}

/// The paths of a version in a document of OpenAPI 2, and the definitions that they lead to.
///
/// # Errors
/// If one of them is no object.
fn part_of(document: &Value, version: &GroupVersion) -> Result<Value, String> {
    let prefix = format!("/apis/{version}/");
    let all = struct_in(document, "definitions")?;
    let defined = |name: &str| all.and_then(|all| all.get(name));
    let own = struct_in(document, "paths")?.into_iter().flatten();
    let paths: Object = own
        .filter(|(path, _)| path.starts_with(&prefix))
        .map(|(path, operations)| (path.clone(), operations.clone()))
        .collect();
    let paths = Value::Object(paths);
    let mut definitions = Object::new();
    let mut named = BTreeSet::new();
    let mut unread = references(&paths);
    while let Some(name) = unread.pop() {
        if let Some(definition) = defined(&name).filter(|_| named.insert(name.clone())) {
            unread.extend(references(definition));
            definitions.insert(name, definition.clone());
        }
    }
    let entries = paths.as_object().into_iter().chain([&definitions]).flatten();
    match entries.into_iter().find(|(_, entry)| !entry.is_object()) {
        Some((name, _)) => Err(format!("{name} is no object")),
        None => Ok(json!({ "paths": paths, "definitions": definitions })),
    }
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
            Ok(json!({
                "paths": { "/apis/g/v1/things": { "get": { "schema": reference("a") } } },
                "definitions": { "a": { "items": [reference("b"), reference("a")] }, "b": { "type": "string" } },
            }))
        );
    }

    #[test]
    fn a_part_of_another_type_is_an_error() {
        let version = GroupVersion::new("g", "v1");
        let reference = json!({ "$ref": "#/definitions/a" });
        for document in [
            json!([]),
            json!({ "paths": [] }),
            json!({ "paths": { "/apis/g/v1/things": "get" } }),
            json!({ "definitions": [] }),
            json!({ "paths": { "/apis/g/v1/things": reference }, "definitions": { "a": 5 } }),
        ] {
            assert!(part_of(&document, &version).is_err(), "{document}");
        }
        for index in [
            json!("text"),
            json!({ "paths": [] }),
            json!({ "paths": { "apis/g": 1 } }),
            json!({ "paths": { "apis/g": { "serverRelativeURL": 1 } } }),
        ] {
            assert!(paths_in(&index).is_err(), "{index}");
        }
    }

    #[test]
    fn the_hashes_are_in_the_index() {
        let index = json!({ "paths": {
            "apis/g": { "serverRelativeURL": "/openapi/v3/apis/g" },
            "apis/g/v1": { "serverRelativeURL": "/openapi/v3/apis/g/v1?hash=AB" },
            "version": {},
        } });
        let hashes = [("apis/g", ""), ("apis/g/v1", "AB"), ("version", "")];
        let hashes = hashes.map(|(path, hash)| (path.to_owned(), hash.to_owned()));
        assert_eq!(paths_in(&index), Ok(hashes.into()));
        assert_eq!(paths_in(&json!({})), Ok(BTreeMap::new()));
    }

    #[test]
    fn a_document_that_does_not_come_is_not_one_that_is_not_there() {
        let answer = |code: u16, body: &'static str| RemoteAnswer {
            code,
            content_type: String::new(),
            says_retry_after: false,
            body: body.into(),
        };
        assert_eq!(document("/x", &answer(200, "{}")), Ok(Some(json!({}))));
        assert_eq!(document("/x", &answer(404, "")), Ok(None));
        assert!(document("/x", &answer(200, "{")).is_err());
        assert_eq!(
            document("/x", &answer(503, "")),
            Err("/x is answered with 503".to_owned())
        );
    }
}
