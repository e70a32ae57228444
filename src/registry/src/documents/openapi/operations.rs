//! Operations by path: the part of the documents that both OpenAPI versions share.

use super::{media_types, parameters::Parameter, resource_operations};
use crate::documents::VersionedResource;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A path with its operations.
pub(super) struct DocumentPath {
    pub(super) path: String,
    /// The parameters that all operations have; the operations have the others.
    pub(super) parameters: Vec<Parameter>,
    pub(super) operations: Vec<OpenApiOperation>,
}

impl DocumentPath {
    /// A path of these operations, which come with all of their parameters in any order.
    pub(super) fn new(path: String, mut operations: Vec<OpenApiOperation>) -> Self {
        let mut parameters = operations
            .first()
            .map_or_else(Vec::new, |first| first.parameters.clone());
        parameters.retain(|parameter| operations.iter().all(|other| other.parameters.contains(parameter)));
        parameters.sort_by_key(Parameter::place);
        for operation in &mut operations {
            operation.parameters.retain(|parameter| !parameters.contains(parameter));
            operation.parameters.sort_by_key(Parameter::place);
        }
        Self {
            path,
            parameters,
            operations,
        }
    }
}

/// An operation at a path.
pub(super) struct OpenApiOperation {
    /// The HTTP method in lower case.
    pub(super) method: &'static str,
    /// `x-kubernetes-action`.
    pub(super) action: &'static str,
    pub(super) id: String,
    pub(super) description: String,
    pub(super) tag: String,
    /// Group, version and kind, where there is one.
    pub(super) kind: Option<[String; 3]>,
    pub(super) parameters: Vec<Parameter>,
    /// The type of the body, if there is one.
    pub(super) body: Option<String>,
    pub(super) body_required: bool,
    /// The media types of the body, also where there is none.
    pub(super) consumes: &'static [&'static str],
    /// The type of the answer; `None` for plain text.
    pub(super) answer: Option<String>,
    /// The media types of the answer.
    pub(super) produces: &'static [&'static str],
    /// The codes of success.
    pub(super) codes: &'static [&'static str],
}

/// The paths of all resources of a version. What custom resources there are is not documented as an operation.
pub(super) fn paths(resources: &[&VersionedResource], group: &str, version: &str) -> Vec<DocumentPath> {
    let is_own = |resource: &&&VersionedResource| {
        let served = &resource.version().group_version;
        *served.group == *group && *served.version == *version
    };
    let own: Vec<&&VersionedResource> = resources.iter().filter(is_own).collect();
    let mut paths = Vec::new();
    if !own.iter().any(|resource| resource.definition.is_custom) {
        paths.push(discovery_path(group, version));
    }
    for resource in own {
        resource_operations::add_paths(&resource.definition, resource.version(), &mut paths);
    }
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    paths
}

/// A path that answers GET only and is not of a resource, such as `/apis/apps/`. Answers of the API machinery have a type.
pub(super) fn plain_path(path: &str, id: &str, tag: &str, description: &str, answer: Option<String>) -> DocumentPath {
    let operation = OpenApiOperation {
        method: "get",
        action: "",
        id: id.to_owned(),
        description: description.to_owned(),
        tag: tag.to_owned(),
        kind: None,
        parameters: Vec::new(),
        body: None,
        body_required: false,
        consumes: media_types::OBJECTS,
        answer,
        produces: media_types::OBJECTS,
        codes: &["200"],
    };
    DocumentPath::new(path.to_owned(), vec![operation])
}

/// `rbacAuthorization` of `rbac.authorization.k8s.io`.
pub(super) fn tag_of_group(group: &str) -> String {
    match group {
        "" => "core".to_owned(),
        _ => valid_id(group.strip_suffix(".k8s.io").unwrap_or(group)),
    }
}

/// A text without what cannot be part of the ID of an operation (`ToValidOperationID`): what comes after such a character has a
/// capital letter.
pub(super) fn valid_id(text: &str) -> String {
    let mut id = String::new();
    let mut capitalize = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if !letter.is_alphabetic() && letter != '_' && (at == 0 || !letter.is_numeric()) => capitalize = true,
            _ if std::mem::take(&mut capitalize) => id.extend(letter.to_uppercase()),
            _ => id.push(letter),
        }
    }
    id
}

pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_ascii_uppercase().to_string() + letters.as_str()
    })
}

pub(super) fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{version}/")
    } else {
        format!("/apis/{group}/{version}/")
    }
}

pub(super) fn tag(group: &str, version: &str) -> String {
    format!("{}_{}", tag_of_group(group), valid_id(version))
}

fn discovery_path(group: &str, version: &str) -> DocumentPath {
    let of = capital(&tag_of_group(group)) + &capital(&valid_id(version));
    let id = format!("get{of}APIResources");
    let answer = Some(format!("{META}.APIResourceList"));
    plain_path(
        &root(group, version),
        &id,
        &tag(group, version),
        "get available resources",
        answer,
    )
}
