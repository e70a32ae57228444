//! Documents that are rendered on first request and then kept under the hash of what they are made of.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use serde_json::json;
use sha2::{Digest as _, Sha512};
use trireme_machinery::{GroupVersion, Object, json};

use super::{
    merged,
    other_paths::{OTHER_PATHS, OtherPath},
    protobuf,
    render::{self, DocumentSubject},
};
use crate::{
    definition::ResourceDefinition,
    documents::{Document, Documents, VersionEntry, VersionedResource, document::hex},
    openapi_fragment::SchemaSource,
    proxied::ProxiedVersion,
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The OpenAPI documents of a set of resources.
pub(in crate::documents) struct RenderedOpenApi {
    schemas: Arc<dyn SchemaSource>,
    /// Shared by all sets that follow each other.
    kept: Arc<Mutex<Kept>>,
    /// Of this server's documents below `/openapi/v3/`.
    hashes: OnceLock<BTreeMap<String, String>>,
}

/// Rendered documents by hash.
#[derive(Default)]
struct Kept {
    v3: HashMap<String, Document>,
    /// By the hashes of their JSON forms, as with kube-apiserver.
    v3_protobuf: HashMap<String, Document>,
    v2: Option<V2>,
}

/// OpenAPI 2 in both of its forms.
#[derive(Clone)]
struct V2 {
    hash: String,
    json: Document,
    protobuf: Document,
}

impl RenderedOpenApi {
    pub(in crate::documents) fn new(schemas: Arc<dyn SchemaSource>) -> Self {
        Self {
            schemas,
            kept: Arc::default(),
            hashes: OnceLock::new(),
        }
    }

    /// Goes on with what has been rendered for other resources.
    pub(in crate::documents) fn after_change(&self) -> Self {
        Self {
            schemas: self.schemas.clone(),
            kept: self.kept.clone(),
            hashes: OnceLock::new(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Documents {
    /// The index `/openapi/v3`.
    pub fn openapi_index(&self) -> Document {
        let mut hashes: BTreeMap<&String, &String> = BTreeMap::new();
        for proxied in self.proxied.iter() {
            hashes.extend(&proxied.openapi.v3_hashes);
        }
        hashes.extend(self.openapi_hashes());
        // A version's own server is the one to ask, whatever others name.
        for proxied in self.proxied.iter() {
            let path = format!("apis/{}", proxied.group_version);
            match proxied.openapi.v3_hashes.get_key_value(&path) {
                Some((path, hash)) => hashes.insert(path, hash),
                None => hashes.remove(&path),
            };
        }
        let paths: Object = hashes
            .into_iter()
            .map(|(path, hash)| {
                let url = format!("/openapi/v3/{path}?hash={hash}");
                (path.clone(), json!({"serverRelativeURL": url}))
            })
            .collect();
        Document::of(&json!({"paths": paths}))
    }

    /// The version of another server that has the OpenAPI 3 document at a path below `/openapi/v3/`, if this server has none.
    pub fn openapi_v3_server(&self, path: &str) -> Option<&ProxiedVersion> {
        match self.openapi_hashes().contains_key(path) {
            true => None,
            false => self.proxied.find_openapi(path),
        }
    }

    /// The hash of this server's OpenAPI 3 document at a path below `/openapi/v3/`: `api/v1`, `apis/apps/v1`.
    pub fn openapi_v3_hash(&self, path: &str) -> Option<&str> {
        self.openapi_hashes().get(path).map(String::as_str)
    }

    /// This server's OpenAPI 3 document at a path below `/openapi/v3/`. The first time takes long.
    pub fn openapi_v3(&self, path: &str) -> Option<Document> {
        let hash = self.openapi_v3_hash(path)?;
        if let Some(document) = self.openapi.kept().v3.get(hash) {
            return Some(document.clone());
        }
        let subject = self.subject(path)?;
        let body = render::v3(&self.resources_of(&subject), &self.sources_of(&subject), &subject);
        let document = Document {
            body: body.to_string().into_bytes().into(),
            hash: hash.to_owned(),
        };
        let served: HashSet<&String> = self.openapi_hashes().values().collect();
        let mut kept = self.openapi.kept();
        kept.v3.retain(|hash, _| served.contains(hash));
        kept.v3.insert(hash.to_owned(), document.clone());
        Some(document)
    }

    /// The OpenAPI 3 document at a path below `/openapi/v3/` as protobuf, under the hash of its JSON form. The first time takes
    /// long.
    pub fn openapi_v3_protobuf(&self, path: &str) -> Option<Document> {
        let hash = self.openapi_v3_hash(path)?;
        if let Some(document) = self.openapi.kept().v3_protobuf.get(hash) {
            return Some(document.clone());
        }
        let json_form = self.openapi_v3(path)?;
        // What was just rendered is JSON, of whatever depth.
        let value = json::decode(&json_form.body).map(|decoded| decoded.value);
        let document = Document {
            body: protobuf::encode_v3(&value.unwrap_or_default()).into(),
            hash: hash.to_owned(),
        };
        let served: HashSet<&String> = self.openapi_hashes().values().collect();
        let mut kept = self.openapi.kept();
        kept.v3_protobuf.retain(|hash, _| served.contains(hash));
        kept.v3_protobuf.insert(hash.to_owned(), document.clone());
        Some(document)
    }

    /// The OpenAPI 2 document as JSON. The first time takes long.
    pub fn openapi_v2_json(&self) -> Document {
        self.openapi_v2().json
    }

    /// The OpenAPI 2 document as the protobuf that kubectl asks for. The first time takes long.
    pub fn openapi_v2_protobuf(&self) -> Document {
        self.openapi_v2().protobuf
    }

    fn openapi_v2(&self) -> V2 {
        let mut hashes: Vec<&str> = self.openapi_hashes().values().map(String::as_str).collect();
        let proxied = self.proxied.by_priority();
        let proxied = || proxied.iter().filter_map(|proxied| proxied.openapi.v2.as_ref());
        hashes.extend(proxied().map(|(hash, _)| hash.as_str()));
        let hash = hex(&Sha512::digest(hashes.join("")));
        if let Some(v2) = self.openapi.kept().v2.clone().filter(|v2| v2.hash == hash) {
            return v2;
        }
        let subjects: Vec<DocumentSubject<'_>> = self
            .openapi_hashes()
            .keys()
            .filter_map(|path| self.subject(path))
            .collect();
        let resources: Vec<&VersionedResource> = self.versions.values().flat_map(|entry| &entry.resources).collect();
        let sources = self.sources(&resources);
        let mut value = render::v2(&resources, &sources, &subjects);
        for (_, document) in proxied() {
            merged::add(&mut value, document);
        }
        let v2 = V2 {
            hash,
            json: Document::of(&value),
            protobuf: Document::new(protobuf::encode_v2(&value)),
        };
        self.openapi.kept().v2 = Some(v2.clone());
        v2
    }

    /// The subject of a document.
    fn subject<'s>(&self, path: &'s str) -> Option<DocumentSubject<'s>> {
        if let Some(version) = path.strip_prefix("api/") {
            return Some(DocumentSubject::Version("", version));
        }
        if let Some(rest) = path.strip_prefix("apis/") {
            return Some(match rest.split_once('/') {
                Some((group, version)) => DocumentSubject::Version(group, version),
                None => DocumentSubject::Group(rest),
            });
        }
        let mut others = OTHER_PATHS.iter();
        others.find(|other| other.document() == path).map(DocumentSubject::Path)
    }

    /// The resources that the document is about, and those that it names beside them because they have the same source.
    fn resources_of(&self, subject: &DocumentSubject<'_>) -> Vec<&VersionedResource> {
        let DocumentSubject::Version(group, version) = subject else {
            return Vec::new();
        };
        let own = self.version(group, version).map_or(&[][..], |entry| &entry.resources);
        self.related(own)
    }

    fn related<'d>(&'d self, own: &[VersionedResource]) -> Vec<&'d VersionedResource> {
        let sources: HashSet<*const ()> = own.iter().map(|resource| source_of(&resource.definition)).collect();
        let all = self.versions.values().flat_map(|entry| &entry.resources);
        all.filter(|resource| sources.contains(&source_of(&resource.definition)))
            .collect()
    }

    fn sources_of(&self, subject: &DocumentSubject<'_>) -> render::Sources {
        match subject {
            DocumentSubject::Version(group, version) => {
                let own = self.version(group, version);
                let own: Vec<&VersionedResource> = own.iter().flat_map(|entry| &entry.resources).collect();
                self.sources(&own)
            }
            DocumentSubject::Group(_) | DocumentSubject::Path(..) => self.sources(&[]),
        }
    }

    fn sources(&self, resources: &[&VersionedResource]) -> render::Sources {
        let mut seen = HashSet::new();
        let mut schemas = Vec::new();
        for definition in resources.iter().map(|resource| &resource.definition) {
            if seen.insert(source_of(definition)) {
                schemas.push(definition.openapi.schemas().clone());
            }
        }
        schemas.push(self.openapi.schemas.clone());
        render::Sources(schemas)
    }

    fn openapi_hashes(&self) -> &BTreeMap<String, String> {
        self.openapi.hashes.get_or_init(|| {
            let by_source = self.facts_by_source();
            let mut hashes: BTreeMap<String, String> = BTreeMap::new();
            for (GroupVersion { group, version }, entry) in &self.versions {
                let path = if group.is_empty() {
                    format!("api/{version}")
                } else {
                    // A group of custom resources alone has no document.
                    if entry.resources.iter().any(|resource| !resource.definition.is_custom) {
                        hashes.insert(format!("apis/{group}"), self.hash(group, None, &by_source));
                    }
                    format!("apis/{group}/{version}")
                };
                hashes.insert(path.clone(), self.hash(&path, Some(entry), &by_source));
            }
            for proxied in self.proxied.iter() {
                hashes.remove(&format!("apis/{}", proxied.group_version));
            }
            for path in OTHER_PATHS.iter().map(OtherPath::document) {
                hashes.insert(path.to_owned(), self.hash(path, None, &by_source));
            }
            hashes
        })
    }

    /// The facts of resources that a document names because they share a source with one of its own.
    fn facts_by_source(&self) -> HashMap<*const (), Sha512> {
        let mut facts: HashMap<*const (), Sha512> = HashMap::new();
        for resource in self.versions.values().flat_map(|entry| &entry.resources) {
            let of_source = facts.entry(source_of(&resource.definition)).or_default();
            let definition = &resource.definition;
            let names = [&definition.kind, &definition.list_kind];
            of_source.update(format!("{} {names:?}\n", resource.version().group_version));
        }
        facts
    }

    fn hash(&self, path: &str, entry: Option<&Arc<VersionEntry>>, by_source: &HashMap<*const (), Sha512>) -> String {
        let mut hash = Sha512::new();
        hash.update(concat!(env!("CARGO_PKG_VERSION"), "\n"));
        hash.update(format!("{path}\n{META}\n{}\n", self.openapi.schemas.digest()));
        for resource in entry.iter().flat_map(|entry| &entry.resources) {
            let definition = &resource.definition;
            hash.update(facts(definition, resource.version));
            hash.update(definition.openapi.schemas().digest());
            if let Some(of_source) = by_source.get(&source_of(definition)) {
                hash.update(of_source.clone().finalize());
            }
        }
        hex(&hash.finalize())
    }
}

/// Names the source of a definition's schemas.
fn source_of(definition: &ResourceDefinition) -> *const () {
    Arc::as_ptr(definition.openapi.schemas()).cast()
}

/// The facts of a resource that its document shows.
fn facts(definition: &ResourceDefinition, version: usize) -> String {
    let version = definition.versions.get(version).unwrap_or_else(|| definition.stored());
    let type_name = Some(&version.type_name);
    let subresources: Vec<_> = definition
        .subresources_in(version)
        .map(|part| (&part.name, part.verbs, &part.kind, &part.group_version, &part.type_name))
        .collect();
    format!(
        "{} {} {} {:?} {type_name:?} {subresources:?}\n",
        definition.resource, definition.kind, definition.namespaced, definition.verbs
    )
}
