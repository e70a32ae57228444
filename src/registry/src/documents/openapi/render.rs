//! Puts paths and schemas together into documents of OpenAPI 2 and 3.

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_machinery::{Object, schema::TypeTable};

use super::{
    operations::{self, DocumentPath, OpenApiOperation, capital, tag_of_group},
    parameters::Parameter,
    schemas,
};
use crate::{documents::VersionedResource, openapi_fragment::SchemaSource};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON_STREAM: &str = "application/json;stream=watch";
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// The subject of a document.
#[derive(Clone, Copy)]
pub(super) enum DocumentSubject<'s> {
    /// A group and version with its resources.
    Version(&'s str, &'s str),
    /// A group, of which only the versions can be asked.
    Group(&'s str),
    /// A path outside of the groups; what it does, and the type of its answer.
    Path(&'s str, &'s str, Option<&'s str>),
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
            DocumentSubject::Path(path, description, answer) => {
                let words = path.split(['/', '-', '.']).filter(|word| !word.is_empty());
                let id = words.fold("get".to_owned(), |id, word| id + &capital(word));
                vec![operations::plain_path(
                    path,
                    &id,
                    "server",
                    description,
                    answer.map(str::to_owned),
                )]
            }
        }
    }
}

/// The sources of schemas, the first one wins, and the types that say which of their fields are always written.
pub(super) struct Sources {
    pub(super) schemas: Vec<Arc<dyn SchemaSource>>,
    pub(super) types: Vec<Arc<TypeTable>>,
}

impl Sources {
    fn component(&self, name: &str) -> Option<Arc<Value>> {
        self.schemas.iter().find_map(|source| source.component(name))
    }

    fn component_v2(&self, name: &str) -> Option<Arc<Value>> {
        self.schemas.iter().find_map(|source| source.component_v2(name))
    }
}

/// The OpenAPI 3 document of a subject. `resources` are those that it is about, and others that it names.
pub(super) fn v3(resources: &[&VersionedResource], sources: &Sources, subject: &DocumentSubject<'_>) -> Value {
    let paths = subject.paths(resources);
    let kinds = schemas::kinds(resources);
    let components: Object = schemas::reachable(|name| sources.component(name), used_types(&paths))
        .into_iter()
        .map(|(name, schema)| {
            let schema = schemas::v3(&name, Arc::unwrap_or_clone(schema), &kinds, &sources.types);
            (name, schema)
        })
        .collect();
    let mut document = json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths.iter().map(|path| (path.path.clone(), v3_path(path))).collect::<Object>(),
        "components": {"securitySchemes": security()},
    });
    if !components.is_empty() {
        document["components"]["schemas"] = components.into();
    }
    document
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
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths.iter().map(|path| (path.path.clone(), v2_path(path))).collect::<Object>(),
        "definitions": types,
        "securityDefinitions": security(),
        "security": [{"BearerToken": []}],
    })
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.36.2"})
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

fn produced(operation: &OpenApiOperation) -> Vec<&'static str> {
    match &operation.answer {
        None => vec!["*/*"],
        Some(_) if operation.action == "list" => vec![JSON, JSON_STREAM, PROTOBUF, PROTOBUF_STREAM, YAML],
        Some(_) => vec![JSON, PROTOBUF, YAML],
    }
}

fn consumed(operation: &OpenApiOperation) -> Vec<&'static str> {
    if operation.method == "patch" {
        PATCHES.to_vec()
    } else {
        vec!["*/*"]
    }
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
            let content = content(operation.answer.as_ref(), &produced(operation));
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
        entry["requestBody"] = json!({"content": content(Some(body), &consumed(operation))});
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
        "consumes": consumed(operation),
        "produces": produced(operation),
        "schemes": ["https"],
        "responses": responses,
    });
    if !parameters.is_empty() {
        entry["parameters"] = parameters.into();
    }
    add_common(&mut entry, operation);
    entry
}
