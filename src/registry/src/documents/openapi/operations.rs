//! Operations by path: the part of the documents that both OpenAPI versions share.

use super::parameters::{self, Parameter};
use crate::{
    definition::{ResourceDefinition, ServedVersion, SubresourceDefinition, SubresourceKind},
    documents::VersionedResource,
    verb::{Verb, Verbs},
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A path with its operations.
pub(super) struct DocumentPath {
    pub(super) path: String,
    pub(super) parameters: Vec<Parameter>,
    pub(super) operations: Vec<OpenApiOperation>,
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
    /// The type of the answer; `None` for plain text.
    pub(super) answer: Option<String>,
    /// The codes of success.
    pub(super) codes: &'static [&'static str],
}

/// The paths of all resources of a version.
pub(super) fn paths(resources: &[&VersionedResource], group: &str, version: &str) -> Vec<DocumentPath> {
    let mut paths = vec![discovery_path(group, version)];
    for resource in resources {
        let served = resource.version();
        if *served.group_version.group == *group && *served.group_version.version == *version {
            let operations = Operations {
                resource: &resource.definition,
                version: served,
            };
            operations.add_paths(&mut paths);
        }
    }
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    paths
}

/// A path that answers GET only and is not of a resource, such as `/apis/apps/`.
pub(super) fn plain_path(path: &str, id: &str, tag: &str, description: &str, answer: Option<String>) -> DocumentPath {
    DocumentPath {
        path: path.to_owned(),
        parameters: Vec::new(),
        operations: vec![OpenApiOperation {
            method: "get",
            action: "",
            id: id.to_owned(),
            description: description.to_owned(),
            tag: tag.to_owned(),
            kind: None,
            parameters: Vec::new(),
            body: None,
            body_required: false,
            answer,
            codes: &["200"],
        }],
    }
}

/// `rbacAuthorization` of `rbac.authorization.k8s.io`.
pub(super) fn tag_of_group(group: &str) -> String {
    let mut parts = group.trim_end_matches(".k8s.io").split('.');
    let first = parts
        .next()
        .filter(|part| !part.is_empty())
        .unwrap_or("core")
        .to_owned();
    parts.fold(first, |tag, part| tag + &capital(part))
}

pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_ascii_uppercase().to_string() + letters.as_str()
    })
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{version}/")
    } else {
        format!("/apis/{group}/{version}/")
    }
}

fn tag(group: &str, version: &str) -> String {
    format!("{}_{version}", tag_of_group(group))
}

fn discovery_path(group: &str, version: &str) -> DocumentPath {
    let id = format!("get{}{}APIResources", capital(&tag_of_group(group)), capital(version));
    let answer = Some(format!("{META}.APIResourceList"));
    plain_path(
        &root(group, version),
        &id,
        &tag(group, version),
        "get available resources",
        answer,
    )
}

/// The operations of a resource in a version.
struct Operations<'r> {
    resource: &'r ResourceDefinition,
    version: &'r ServedVersion,
}

impl Operations<'_> {
    fn group(&self) -> &str {
        &self.version.group_version.group
    }

    fn version_name(&self) -> &str {
        &self.version.group_version.version
    }

    fn type_name(&self) -> String {
        self.version.type_name.to_string()
    }

    fn add_paths(&self, paths: &mut Vec<DocumentPath>) {
        let resource = self.resource;
        let root = root(self.group(), self.version_name());
        let scope = if resource.namespaced {
            "namespaces/{namespace}/"
        } else {
            ""
        };
        let collection = format!("{root}{scope}{}", resource.resource.resource);
        if resource.namespaced && resource.verbs.contains(Verb::List) {
            let id = self.id("list", &format!("{}ForAllNamespaces", resource.kind));
            paths.push(self.path(
                &format!("{root}{}", resource.resource.resource),
                false,
                false,
                vec![self.list(id)],
            ));
        }
        paths.push(self.path(&collection, resource.namespaced, false, self.of_collection()));
        let item = format!("{collection}/{{name}}");
        let operations = self.of_item();
        if !operations.is_empty() {
            paths.push(self.path(&item, resource.namespaced, true, operations));
        }
        for subresource in &resource.subresources {
            self.add_subresource(&item, subresource, paths);
        }
    }

    fn path(&self, path: &str, namespaced: bool, named: bool, operations: Vec<OpenApiOperation>) -> DocumentPath {
        let mut parameters = Vec::new();
        parameters.extend(named.then_some(parameters::NAME));
        parameters.extend(namespaced.then_some(parameters::NAMESPACE));
        parameters.push(parameters::PRETTY);
        DocumentPath {
            path: path.to_owned(),
            parameters,
            operations,
        }
    }

    fn of_collection(&self) -> Vec<OpenApiOperation> {
        let (resource, own) = (self.resource, self.type_name());
        let mut operations = Vec::new();
        if resource.verbs.contains(Verb::List) {
            operations.push(self.list(self.id("list", &self.scoped(""))));
        }
        if resource.verbs.contains(Verb::Create) {
            let mut create = self.operation(
                "post",
                "create",
                &format!("create {}", article(&resource.kind)),
                own.clone(),
            );
            create.parameters = parameters::WRITE.to_vec();
            create.body = Some(own);
            create.body_required = true;
            create.codes = &["200", "201", "202"];
            operations.push(create);
        }
        if resource.verbs.contains(Verb::DeleteCollection) {
            let text = format!("delete collection of {}", resource.kind);
            let mut delete = self.operation("delete", "deletecollection", &text, format!("{META}.Status"));
            delete.id = self.id("delete", &format!("Collection{}", self.scoped("")));
            delete.parameters = parameters::DELETE_COLLECTION.to_vec();
            delete.body = Some(format!("{META}.DeleteOptions"));
            operations.push(delete);
        }
        operations
    }

    fn list(&self, id: String) -> OpenApiOperation {
        let text = format!("list or watch objects of kind {}", self.resource.kind);
        let mut list = self.operation("get", "list", &text, format!("{}List", self.version.type_name));
        list.id = id;
        list.parameters = parameters::LIST.to_vec();
        list
    }

    fn of_item(&self) -> Vec<OpenApiOperation> {
        let resource = self.resource;
        let mut operations = self.reads_and_writes(resource.verbs, "", &resource.kind, self.type_name());
        if resource.verbs.contains(Verb::Delete) {
            let text = format!("delete {}", article(&resource.kind));
            let mut delete = self.operation("delete", "delete", &text, format!("{META}.Status"));
            delete.parameters = parameters::DELETE.to_vec();
            delete.body = Some(format!("{META}.DeleteOptions"));
            delete.codes = &["200", "202"];
            operations.push(delete);
        }
        operations
    }

    /// GET, PUT and PATCH of the object or of one of its subresources.
    fn reads_and_writes(&self, verbs: Verbs, suffix: &str, kind: &str, ty: String) -> Vec<OpenApiOperation> {
        let has = |verb| verbs.contains(verb);
        let part = if suffix.is_empty() {
            String::new()
        } else {
            format!("{} of ", suffix.to_ascii_lowercase())
        };
        let mut operations = Vec::new();
        let mut add = |method, action, id: &str, word: &str, parameters: &[Parameter], body: Option<String>, codes| {
            let subject = if part.is_empty() {
                article(kind)
            } else {
                format!("the specified {}", self.resource.kind)
            };
            let text = format!("{word} {part}{subject}");
            let mut operation = self.operation(method, action, &text, ty.clone());
            operation.id = self.id(id, &self.scoped(suffix));
            operation.parameters = parameters.to_vec();
            operation.body_required = body.is_some();
            operation.body = body;
            operation.codes = codes;
            operations.push(operation);
        };
        let written: &[&str] = &["200", "201"];
        if has(Verb::Get) {
            add("get", "get", "read", "read", &[], None, &["200"]);
        }
        if has(Verb::Update) {
            add(
                "put",
                "put",
                "replace",
                "replace",
                parameters::WRITE,
                Some(ty.clone()),
                written,
            );
        }
        if has(Verb::Patch) {
            let body = Some(format!("{META}.Patch"));
            add(
                "patch",
                "patch",
                "patch",
                "partially update",
                parameters::PATCH,
                body,
                written,
            );
        }
        operations
    }

    fn add_subresource(&self, item: &str, subresource: &SubresourceDefinition, paths: &mut Vec<DocumentPath>) {
        let path = format!("{item}/{}", subresource.name);
        let namespaced = self.resource.namespaced;
        let kind = self.kind_of(subresource);
        let ty = subresource
            .type_name
            .as_ref()
            .map_or_else(|| self.type_name(), ToString::to_string);
        let suffix = capital(&subresource.name);
        let connects = subresource.role == SubresourceKind::Connect && &*subresource.name != "log";
        let mut operations = if connects {
            self.connections(subresource, &suffix)
        } else if &*subresource.name == "log" {
            let mut log = self.operation("get", "get", "read log of the specified Pod", String::new());
            log.id = self.id("read", &self.scoped("Log"));
            log.answer = None;
            log.parameters = parameters::of_connection("log").to_vec();
            vec![log]
        } else {
            let mut operations = self.reads_and_writes(subresource.verbs, &suffix, &subresource.kind, ty.clone());
            if subresource.verbs.contains(Verb::Create) {
                operations.push(self.create_of(&suffix, ty));
            }
            operations
        };
        for operation in &mut operations {
            operation.kind = Some(kind.clone());
        }
        let entry = self.path(&path, namespaced, true, operations);
        if connects && &*subresource.name == "proxy" {
            let mut operations = self.connections(subresource, "ProxyWithPath");
            operations
                .iter_mut()
                .for_each(|operation| operation.kind = Some(kind.clone()));
            let mut below = self.path(&format!("{path}/{{path}}"), namespaced, true, operations);
            below.parameters.push(parameters::REST);
            paths.push(below);
        }
        paths.push(entry);
    }

    fn create_of(&self, suffix: &str, ty: String) -> OpenApiOperation {
        let text = format!(
            "create {} of {}",
            suffix.to_ascii_lowercase(),
            article(&self.resource.kind)
        );
        let mut create = self.operation("post", "post", &text, ty.clone());
        create.id = self.id("create", &self.scoped(suffix));
        create.parameters = parameters::WRITE.to_vec();
        create.body = Some(ty);
        create.body_required = true;
        create.codes = &["200", "201", "202"];
        create
    }

    fn connections(&self, subresource: &SubresourceDefinition, suffix: &str) -> Vec<OpenApiOperation> {
        let methods: &[&'static str] = match &*subresource.name {
            "proxy" => &["get", "put", "post", "delete", "options", "head", "patch"],
            _ => &["get", "post"],
        };
        let connect = |method: &&'static str| {
            let verb = method.to_ascii_uppercase();
            let text = format!(
                "connect {verb} requests to {} of {}",
                subresource.name, self.resource.kind
            );
            let mut operation = self.operation(method, "connect", &text, String::new());
            operation.answer = None;
            operation.id = self.id("connect", &format!("{}{}", capital(method), self.scoped(suffix)));
            operation.parameters = parameters::of_connection(&subresource.name).to_vec();
            operation
        };
        methods.iter().map(connect).collect()
    }

    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        description: &str,
        answer: String,
    ) -> OpenApiOperation {
        let resource = self.resource;
        OpenApiOperation {
            method,
            action: if action == "create" { "post" } else { action },
            id: self.id(action, &self.scoped("")),
            description: description.to_owned(),
            tag: tag(self.group(), self.version_name()),
            kind: Some([self.group(), self.version_name(), &*resource.kind].map(str::to_owned)),
            parameters: Vec::new(),
            body: None,
            body_required: false,
            answer: Some(answer),
            codes: &["200"],
        }
    }

    /// `NamespacedPodStatus`.
    fn scoped(&self, suffix: &str) -> String {
        let scope = if self.resource.namespaced { "Namespaced" } else { "" };
        format!("{scope}{}{suffix}", self.resource.kind)
    }

    /// `readCoreV1NamespacedPodStatus`.
    fn id(&self, verb: &str, rest: &str) -> String {
        let group = capital(&tag_of_group(self.group()));
        format!("{verb}{group}{}{rest}", capital(self.version_name()))
    }

    fn kind_of(&self, subresource: &SubresourceDefinition) -> [String; 3] {
        let version = subresource
            .group_version
            .as_ref()
            .unwrap_or(&self.version.group_version);
        [&*version.group, &*version.version, &*subresource.kind].map(str::to_owned)
    }
}

fn article(kind: &str) -> String {
    let vowel = kind.starts_with(['A', 'E', 'I', 'O', 'U']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}
