//! The operations of a resource in one of its versions.

use super::{
    media_types,
    operations::{DocumentPath, OpenApiOperation, capital, root, tag, tag_of_group, valid_id},
    parameters::{self, Parameter},
};
use crate::{
    definition::{ResourceDefinition, ServedVersion, SubresourceDefinition, SubresourceKind},
    verb::{Verb, Verbs},
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Adds the paths of a resource in a version.
pub(super) fn add_paths(resource: &ResourceDefinition, version: &ServedVersion, paths: &mut Vec<DocumentPath>) {
    Operations { resource, version }.add_paths(paths);
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
        let plural = &resource.resource.resource;
        let everywhere = resource.namespaced && resource.verbs.contains(Verb::List);
        if everywhere {
            let id = self.id("list", &format!("{}ForAllNamespaces", resource.kind));
            paths.push(DocumentPath::new(format!("{root}{plural}"), vec![self.list(id, &[])]));
        }
        let collection = format!("{root}{scope}{plural}");
        let item = format!("{collection}/{{name}}");
        paths.push(DocumentPath::new(collection, self.of_collection()));
        paths.push(DocumentPath::new(item.clone(), self.of_item()));
        for subresource in resource.subresources_in(self.version) {
            self.add_subresource(&item, subresource, paths);
        }
        if resource.verbs.contains(Verb::Watch) && !resource.is_custom {
            self.add_watches(&root, &format!("{scope}{plural}"), paths);
        }
        paths.retain(|path| !path.operations.is_empty());
    }

    /// The paths below `watch/`, which are deprecated. Custom resources have none.
    fn add_watches(&self, root: &str, collection: &str, paths: &mut Vec<DocumentPath>) {
        let resource = self.resource;
        let mut add = |path: String, action, id: &str, of_path: &[Parameter]| {
            let (kind, instead) = (
                &resource.kind,
                "deprecated: use the 'watch' parameter with a list operation instead",
            );
            let text = match action {
                "watch" => format!(
                    "watch changes to an object of kind {kind}. {instead}, filtered to a single item with the 'fieldSelector' \
                     parameter."
                ),
                _ => format!("watch individual changes to a list of {kind}. {instead}."),
            };
            let mut watch = self.list(self.id("watch", id), of_path);
            watch.action = action;
            watch.description = text;
            watch.answer = Some(format!("{META}.WatchEvent"));
            paths.push(DocumentPath::new(path, vec![watch]));
        };
        if resource.namespaced {
            let id = format!("{}ListForAllNamespaces", resource.kind);
            add(
                format!("{root}watch/{}", resource.resource.resource),
                "watchlist",
                &id,
                &[],
            );
        }
        let of_collection = self.path_parameters(false);
        add(
            format!("{root}watch/{collection}"),
            "watchlist",
            &self.scoped("List"),
            &of_collection,
        );
        let of_item = self.path_parameters(true);
        add(
            format!("{root}watch/{collection}/{{name}}"),
            "watch",
            &self.scoped(""),
            &of_item,
        );
    }

    /// The parameters that stand in the path of the collection, or of an object.
    fn path_parameters(&self, named: bool) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        parameters.extend(named.then_some(parameters::NAME));
        parameters.extend(self.resource.namespaced.then_some(parameters::NAMESPACE));
        parameters
    }

    fn of_collection(&self) -> Vec<OpenApiOperation> {
        let resource = self.resource;
        let of_path = self.path_parameters(false);
        let mut operations = Vec::new();
        if resource.verbs.contains(Verb::List) {
            operations.push(self.list(self.id("list", &self.scoped("")), &of_path));
        }
        if resource.verbs.contains(Verb::Create) {
            operations.push(self.create("", &self.type_name(), &of_path));
        }
        if resource.verbs.contains(Verb::DeleteCollection) {
            let text = format!("delete collection of {}", resource.kind);
            let mut delete = self.operation("delete", "deletecollection", &text, format!("{META}.Status"));
            delete.id = self.id("delete", &format!("Collection{}", self.scoped("")));
            // That of custom resources shows the options of the list alone.
            let own = if resource.is_custom {
                parameters::LIST
            } else {
                parameters::DELETE_COLLECTION
            };
            delete.parameters = [own, &of_path, &[parameters::PRETTY]].concat();
            delete.body = (!resource.is_custom).then(|| format!("{META}.DeleteOptions"));
            operations.push(delete);
        }
        operations
    }

    fn list(&self, id: String, of_path: &[Parameter]) -> OpenApiOperation {
        let resource = self.resource;
        let verbs = match resource.verbs.contains(Verb::Watch) && !resource.is_custom {
            true => "list or watch",
            false => "list",
        };
        let text = format!("{verbs} objects of kind {}", resource.kind);
        let mut list = self.operation("get", "list", &text, resource.list_type_name(self.version));
        list.id = id;
        list.parameters = [parameters::LIST, of_path, &[parameters::PRETTY]].concat();
        list.produces = match resource.is_custom {
            true => media_types::CUSTOM_STREAMS,
            false => media_types::STREAMS,
        };
        list
    }

    /// POST to the collection, or to a subresource.
    fn create(&self, suffix: &str, ty: &str, of_path: &[Parameter]) -> OpenApiOperation {
        let subject = article(&self.resource.kind);
        let text = match suffix {
            "" => format!("create {subject}"),
            _ => format!("create {} of {subject}", suffix.to_ascii_lowercase()),
        };
        let mut create = self.operation("post", "post", &text, ty.to_owned());
        create.id = self.id("create", &self.scoped(suffix));
        create.parameters = [parameters::WRITE, of_path, &[parameters::PRETTY]].concat();
        create.body = Some(ty.to_owned());
        create.body_required = true;
        create.codes = &["200", "201", "202"];
        create
    }

    fn of_item(&self) -> Vec<OpenApiOperation> {
        let resource = self.resource;
        let mut operations = self.reads_and_writes(resource.verbs, "", &self.type_name());
        if resource.verbs.contains(Verb::Delete) {
            let text = format!("delete {}", article(&resource.kind));
            let answer = match resource.strategy.documents_deleted_object() {
                true => self.type_name(),
                false => format!("{META}.Status"),
            };
            let mut delete = self.operation("delete", "delete", &text, answer);
            delete.parameters = [parameters::DELETE, &self.path_parameters(true), &[parameters::PRETTY]].concat();
            delete.body = Some(format!("{META}.DeleteOptions"));
            delete.codes = &["200", "202"];
            operations.push(delete);
        }
        operations
    }

    /// GET, PUT and PATCH of the object or of one of its subresources.
    fn reads_and_writes(&self, verbs: Verbs, suffix: &str, ty: &str) -> Vec<OpenApiOperation> {
        let subject = match suffix {
            "" => format!("the specified {}", self.resource.kind),
            _ => format!(
                "{} of the specified {}",
                suffix.to_ascii_lowercase(),
                self.resource.kind
            ),
        };
        let operation = |method, verb: &str, text: &str, parameters: &[Parameter]| {
            let mut operation = self.operation(method, method, &format!("{text} {subject}"), ty.to_owned());
            operation.id = self.id(verb, &self.scoped(suffix));
            operation.parameters = [parameters, &self.path_parameters(true), &[parameters::PRETTY]].concat();
            operation
        };
        let written = |mut operation: OpenApiOperation, body: String| {
            operation.body_required = true;
            operation.body = Some(body);
            operation.codes = &["200", "201"];
            operation
        };
        let mut operations = Vec::new();
        if verbs.contains(Verb::Get) {
            let own = if self.resource.is_custom {
                parameters::CUSTOM_GET
            } else {
                &[]
            };
            operations.push(operation("get", "read", "read", own));
        }
        if verbs.contains(Verb::Update) {
            let replace = operation("put", "replace", "replace", parameters::WRITE);
            operations.push(written(replace, ty.to_owned()));
        }
        if verbs.contains(Verb::Patch) {
            let patch = operation("patch", "patch", "partially update", parameters::PATCH);
            let mut patch = written(patch, format!("{META}.Patch"));
            patch.consumes = media_types::PATCHES;
            if self.resource.is_custom {
                // That an apply creates an object is not documented of those.
                (patch.consumes, patch.codes) = (media_types::CUSTOM_PATCHES, &["200"]);
            }
            operations.push(patch);
        }
        operations
    }

    fn add_subresource(&self, item: &str, subresource: &SubresourceDefinition, paths: &mut Vec<DocumentPath>) {
        let path = format!("{item}/{}", subresource.name);
        let ty = subresource
            .type_name
            .as_ref()
            .map_or_else(|| self.type_name(), ToString::to_string);
        let suffix = capital(&subresource.name);
        let connects = subresource.role == SubresourceKind::Connect && &*subresource.name != "log";
        let mut operations = if connects {
            self.connections(subresource, &suffix)
        } else if &*subresource.name == "log" {
            vec![self.log()]
        } else {
            let mut operations = self.reads_and_writes(subresource.verbs, &suffix, &ty);
            if subresource.verbs.contains(Verb::Create) {
                operations.push(self.create(&suffix, &ty, &self.path_parameters(true)));
            }
            operations
        };
        let kind = self.kind_of(subresource);
        let is_of_kind = |operation: &mut OpenApiOperation| operation.kind = Some(kind.clone());
        operations.iter_mut().for_each(is_of_kind);
        if connects && &*subresource.name == "proxy" {
            let mut below = self.connections(subresource, "ProxyWithPath");
            below.iter_mut().for_each(is_of_kind);
            for operation in &mut below {
                operation.parameters.push(parameters::REST);
            }
            paths.push(DocumentPath::new(format!("{path}/{{path}}"), below));
        }
        paths.push(DocumentPath::new(path, operations));
    }

    fn log(&self) -> OpenApiOperation {
        let mut log = self.operation("get", "get", "read log of the specified Pod", String::new());
        log.id = self.id("read", &self.scoped("Log"));
        log.answer = None;
        log.parameters = [parameters::LOG, &self.path_parameters(true), &[parameters::PRETTY]].concat();
        log.produces = media_types::LOG;
        log
    }

    fn connections(&self, subresource: &SubresourceDefinition, suffix: &str) -> Vec<OpenApiOperation> {
        let methods: &[&'static str] = match &*subresource.name {
            "proxy" => &["get", "put", "post", "delete", "options", "head", "patch"],
            _ => &["get", "post"],
        };
        let own = parameters::of_connection(&self.resource.kind, &subresource.name);
        let connect = |method: &&'static str| {
            let verb = method.to_ascii_uppercase();
            let text = format!(
                "connect {verb} requests to {} of {}",
                subresource.name, self.resource.kind
            );
            let mut operation = self.operation(method, "connect", &text, String::new());
            operation.answer = None;
            operation.consumes = media_types::ANY;
            operation.produces = media_types::ANY;
            operation.id = self.id("connect", &format!("{}{}", capital(method), self.scoped(suffix)));
            operation.parameters = [own, &self.path_parameters(true)].concat();
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
            action,
            id: self.id(action, &self.scoped("")),
            description: description.to_owned(),
            tag: tag(self.group(), self.version_name()),
            kind: Some([self.group(), self.version_name(), &*resource.kind].map(str::to_owned)),
            parameters: Vec::new(),
            body: None,
            body_required: false,
            consumes: match resource.is_custom {
                true => media_types::CUSTOM_OBJECTS,
                false => media_types::ANY,
            },
            answer: Some(answer),
            produces: match resource.is_custom {
                true => media_types::CUSTOM_OBJECTS,
                false => media_types::OBJECTS,
            },
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
        let version = capital(&valid_id(self.version_name()));
        format!("{verb}{group}{version}{}", capital(&valid_id(rest)))
    }

    /// The kind that the operations of a subresource are of: those of custom resources are all of the resource's own.
    fn kind_of(&self, subresource: &SubresourceDefinition) -> [String; 3] {
        let own = &self.version.group_version;
        let (version, kind) = match &subresource.group_version {
            _ if self.resource.is_custom => (own, &self.resource.kind),
            other => (other.as_ref().unwrap_or(own), &subresource.kind),
        };
        [&*version.group, &*version.version, &**kind].map(str::to_owned)
    }
}

/// The kind with its article; one that is a plural has none.
fn article(kind: &str) -> String {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return kind.to_owned();
    }
    let vowel = kind.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}
