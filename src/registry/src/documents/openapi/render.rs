//! Puts paths and schemas together into documents of OpenAPI 2 and 3.

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_machinery::Object;

use super::{
    operations::{self, DocumentPath, OpenApiOperation, capital, tag_of_group},
    other_paths::OtherPath,
    parameters::Parameter,
    schemas, shared_parameters,
};
use crate::{documents::VersionedResource, openapi_fragment::SchemaSource};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The subject of a document.
#[derive(Clone, Copy)]
pub(super) enum DocumentSubject<'s> {
    /// A group and version with its resources.
    Version(&'s str, &'s str),
    /// A group, of which only the versions can be asked.
    Group(&'s str),
    /// A path outside of the groups.
    Path(&'static OtherPath),
}

impl DocumentSubject<'_> {
    fn paths(&self, resources: &[&VersionedResource]) -> Vec<DocumentPath> {
        match self {
            DocumentSubject::Version(group, version) => operations::paths(resources, group, version),
            DocumentSubject::Group(group) => {
                let tag = tag_of_group(group);
                let id = format!("get{}APIGroup", capital(&tag));
                let answer = Some(format!("{META}.APIGroup"));
                vec![operations::plain_path(
                    &format!("/apis/{group}/"),
                    &id,
                    &tag,
                    "get information of a group",
                    answer,
                )]
            }
            DocumentSubject::Path(path) => vec![path.document_path()],
        }
    }
}

/// The sources of schemas, the first one wins.
pub(super) struct Sources(pub(super) Vec<Arc<dyn SchemaSource>>);

impl Sources {
    fn component(&self, name: &str) -> Option<Arc<Value>> {
        self.0.iter().find_map(|source| source.component(name))
    }

    fn component_v2(&self, name: &str) -> Option<Arc<Value>> {
        self.0.iter().find_map(|source| source.component_v2(name))
    }
}

/// The OpenAPI 3 document of a subject. `resources` are those that it is about, and others that it names.
pub(super) fn v3(resources: &[&VersionedResource], sources: &Sources, subject: &DocumentSubject<'_>) -> Value {
    let is_custom = resources.iter().any(|resource| resource.definition.is_custom);
    let paths = subject.paths(resources);
    let mut kinds = schemas::kinds(resources);
    let mut roots = used_types(&paths);
    match subject {
        _ if is_custom => {
            kinds.extend(schemas::of_client_scheme());
            roots.push(format!("{META}.ObjectMeta"));
        }
        DocumentSubject::Version(group, version) => kinds.extend(schemas::of_group_version(group, version)),
        DocumentSubject::Group(_) | DocumentSubject::Path(_) => {}
    }
    let types: Object = schemas::reachable(|name| sources.component(name), roots)
        .into_iter()
        .map(|(name, schema)| {
            let schema = schemas::v3(&name, Arc::unwrap_or_clone(schema), &kinds);
            (name, schema)
        })
        .collect();
    let mut components = Object::new();
    if !is_custom {
        components.insert("securitySchemes".to_owned(), security());
    }
    if !types.is_empty() {
        components.insert("schemas".to_owned(), types.into());
    }
    json!({
        "openapi": "3.0.0",
        "info": if is_custom { custom_info() } else { info() },
        "paths": paths.iter().map(|path| (path.path.clone(), v3_path(path))).collect::<Object>(),
        "components": components,
    })
}

/// The OpenAPI 2 document of all subjects.
pub(super) fn v2(resources: &[&VersionedResource], sources: &Sources, subjects: &[DocumentSubject<'_>]) -> Value {
    let paths: Vec<DocumentPath> = subjects.iter().flat_map(|subject| subject.paths(resources)).collect();
    let kinds = schemas::kinds(resources);
    let types: Object = schemas::reachable(|name| sources.component_v2(name), used_types(&paths))
        .into_iter()
        .map(|(name, schema)| {
            let schema = schemas::v2(&name, Arc::unwrap_or_clone(schema), &kinds);
            (name, schema)
        })
        .collect();
    let mut paths: Object = paths.iter().map(|path| (path.path.clone(), v2_path(path))).collect();
    let parameters = shared_parameters::take(&mut paths);
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths,
        "parameters": parameters,
        "definitions": types,
        "securityDefinitions": security(),
        "security": [{"BearerToken": []}],
    })
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "1.36"})
}

/// The title of the documents of custom resources.
fn custom_info() -> Value {
    json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
}

fn security() -> Value {
    json!({"BearerToken": {
        "description": "Bearer Token authentication",
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
    }})
}

fn used_types(paths: &[DocumentPath]) -> Vec<String> {
    let operations = paths.iter().flat_map(|path| &path.operations);
    operations
        .flat_map(|operation| [&operation.body, &operation.answer])
        .flatten()
        .cloned()
        .collect()
}

fn meaning(code: &str) -> &'static str {
    match code {
        "200" => "OK",
        "201" => "Created",
        "202" => "Accepted",
        _ => "Unauthorized",
    }
}

fn add_common(entry: &mut Value, operation: &OpenApiOperation) {
    if !operation.action.is_empty() {
        entry["x-kubernetes-action"] = json!(operation.action);
    }
    if let Some([group, version, kind]) = &operation.kind {
        entry["x-kubernetes-group-version-kind"] = json!({"group": group, "version": version, "kind": kind});
    }
}

fn v3_path(path: &DocumentPath) -> Value {
    let mut entry = Object::new();
    for operation in &path.operations {
        entry.insert(operation.method.to_owned(), v3_operation(operation));
    }
    if !path.parameters.is_empty() {
        entry.insert(
            "parameters".to_owned(),
            path.parameters.iter().map(v3_parameter).collect(),
        );
    }
    entry.into()
}

fn v3_parameter(parameter: &Parameter) -> Value {
    let mut entry = json!({
        "name": parameter.name,
        "in": if parameter.in_path { "path" } else { "query" },
        "description": parameter.description,
        "schema": {"type": parameter.ty, "uniqueItems": true},
    });
    if parameter.in_path {
        entry["required"] = json!(true);
    }
    entry
}

fn v3_operation(operation: &OpenApiOperation) -> Value {
    let content = |ty: Option<&String>, media_types: &[&str]| -> Object {
        let schema = match ty {
            Some(ty) => json!({"$ref": format!("#/components/schemas/{ty}")}),
            None => json!({"type": "string"}),
        };
        media_types
            .iter()
            .map(|media_type| ((*media_type).to_owned(), json!({"schema": schema})))
            .collect()
    };
    let mut responses: Object = operation
        .codes
        .iter()
        .map(|code| {
            let content = content(operation.answer.as_ref(), operation.produces);
            (
                (*code).to_owned(),
                json!({"description": meaning(code), "content": content}),
            )
        })
        .collect();
    responses.insert("401".to_owned(), json!({"description": meaning("401")}));
    let mut entry = json!({
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "responses": responses,
    });
    if !operation.parameters.is_empty() {
        entry["parameters"] = operation.parameters.iter().map(v3_parameter).collect();
    }
    if let Some(body) = &operation.body {
        entry["requestBody"] = json!({"content": content(Some(body), operation.consumes)});
        if operation.body_required {
            entry["requestBody"]["required"] = json!(true);
        }
    }
    add_common(&mut entry, operation);
    entry
}

fn v2_path(path: &DocumentPath) -> Value {
    let mut entry = Object::new();
    for operation in &path.operations {
        entry.insert(operation.method.to_owned(), v2_operation(operation));
    }
    if !path.parameters.is_empty() {
        entry.insert(
            "parameters".to_owned(),
            path.parameters.iter().map(v2_parameter).collect(),
        );
    }
    entry.into()
}

fn v2_parameter(parameter: &Parameter) -> Value {
    let mut entry = json!({
        "name": parameter.name,
        "in": if parameter.in_path { "path" } else { "query" },
        "description": parameter.description,
        "type": parameter.ty,
        "uniqueItems": true,
    });
    if parameter.in_path {
        entry["required"] = json!(true);
    }
    entry
}

fn v2_operation(operation: &OpenApiOperation) -> Value {
    let reference = |ty: &str| json!({"$ref": format!("#/definitions/{ty}")});
    let schema = operation
        .answer
        .as_deref()
        .map_or_else(|| json!({"type": "string"}), reference);
    let mut responses: Object = operation
        .codes
        .iter()
        .map(|code| {
            (
                (*code).to_owned(),
                json!({"description": meaning(code), "schema": schema}),
            )
        })
        .collect();
    responses.insert("401".to_owned(), json!({"description": meaning("401")}));
    let mut parameters: Vec<Value> = Vec::new();
    if let Some(body) = &operation.body {
        let mut parameter = json!({"name": "body", "in": "body", "schema": reference(body)});
        if operation.body_required {
            parameter["required"] = json!(true);
        }
        parameters.push(parameter);
    }
    parameters.extend(operation.parameters.iter().map(v2_parameter));
    let mut entry = json!({
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
        "produces": operation.produces,
        "schemes": ["https"],
        "responses": responses,
    });
    if !operation.consumes.is_empty() {
        entry["consumes"] = json!(operation.consumes);
    }
    if !parameters.is_empty() {
        entry["parameters"] = parameters.into();
    }
    add_common(&mut entry, operation);
    entry
}
