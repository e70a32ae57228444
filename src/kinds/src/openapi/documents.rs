//! Documents that are made once, on first request, and then kept as bytes.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{LazyLock, OnceLock},
};

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};
use trireme_machinery::Object;

use super::{
    protobuf, render,
    render::{Subject, subjects},
};
use crate::data::{self, ResourceData};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A document as it goes over the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The bytes.
    pub body: Bytes,
    /// Upper-case hexadecimal SHA-512 of the bytes: ETag, and `hash` of the index's URLs.
    pub hash: String,
}

/// The documents of a set of resources.
#[derive(Debug)]
pub struct Documents {
    resources: Vec<ResourceData>,
    definitions: Definitions,
    pages: BTreeMap<String, (Page, OnceLock<Document>)>,
    v2: OnceLock<(Document, Document)>,
}

#[derive(Debug)]
enum Definitions {
    BuiltIn,
    Own(Object),
}

#[derive(Debug)]
enum Page {
    Version(String, String),
    Group(String),
    Path(&'static str, &'static str, Option<String>),
}

impl Page {
    fn subject(&self) -> Subject<'_> {
        match self {
            Page::Version(group, version) => Subject::Version(group, version),
            Page::Group(group) => Subject::Group(group),
            Page::Path(path, description, answer) => Subject::Path(path, description, answer.as_deref()),
        }
    }
}

static BUILT_IN: LazyLock<Documents> = LazyLock::new(|| {
    let mut documents = Documents::of(data::resources().to_vec(), Definitions::BuiltIn);
    let meta = |kind: &str| Some(format!("{META}.{kind}"));
    let paths = [
        (
            "/.well-known/openid-configuration/",
            "get service account issuer OpenID configuration",
            None,
        ),
        ("/api/", "get available API versions", meta("APIVersions")),
        ("/apis/", "get available API versions", meta("APIGroupList")),
        (
            "/openid/v1/jwks/",
            "get service account issuer OpenID JSON Web Key Set",
            None,
        ),
        (
            "/version/",
            "get the version information for this server",
            Some("io.k8s.apimachinery.pkg.version.Info".to_owned()),
        ),
    ];
    for (path, description, answer) in paths {
        documents.add(path.trim_matches('/').to_owned(), Page::Path(path, description, answer));
    }
    documents
});

/// The documents of the built-in resources and of the server's other paths.
pub fn builtin() -> &'static Documents {
    &BUILT_IN
}

/// The index `/openapi/v3` over the documents of several sets; of two documents for one path the first counts.
pub fn index<'d>(sets: impl IntoIterator<Item = &'d Documents>) -> Value {
    let mut paths = Object::new();
    for set in sets {
        for path in set.paths() {
            if let Some(document) = set.v3(path) {
                let url = format!("/openapi/v3/{path}?hash={}", document.hash);
                paths.entry(path).or_insert_with(|| json!({"serverRelativeURL": url}));
            }
        }
    }
    json!({"paths": paths})
}

impl Documents {
    /// Documents of resources whose types, with all that these refer to, are in `definitions`.
    pub fn new(resources: Vec<ResourceData>, definitions: Object) -> Self {
        Self::of(resources, Definitions::Own(definitions))
    }

    fn of(resources: Vec<ResourceData>, definitions: Definitions) -> Self {
        let pages: Vec<(String, Page)> = subjects(&resources)
            .into_iter()
            .filter_map(|subject| match subject {
                Subject::Version("", version) => Some((
                    format!("api/{version}"),
                    Page::Version(String::new(), version.to_owned()),
                )),
                Subject::Version(group, version) => Some((
                    format!("apis/{group}/{version}"),
                    Page::Version(group.to_owned(), version.to_owned()),
                )),
                Subject::Group(group) => Some((format!("apis/{group}"), Page::Group(group.to_owned()))),
                Subject::Path(..) => None,
            })
            .collect();
        let mut documents = Self {
            resources,
            definitions,
            pages: BTreeMap::new(),
            v2: OnceLock::new(),
        };
        for (path, page) in pages {
            documents.add(path, page);
        }
        documents
    }

    fn add(&mut self, path: String, page: Page) {
        self.pages.insert(path, (page, OnceLock::new()));
    }

    fn definitions(&self) -> &Object {
        match &self.definitions {
            Definitions::BuiltIn => data::definitions(),
            Definitions::Own(definitions) => definitions,
        }
    }

    /// The paths below `/openapi/v3/` that have a document: `api/v1`, `apis/apps/v1`.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.pages.keys().map(String::as_str)
    }

    /// The OpenAPI 3 document at a path below `/openapi/v3/`.
    pub fn v3(&self, path: &str) -> Option<&Document> {
        let (page, document) = self.pages.get(path)?;
        Some(document.get_or_init(|| {
            let value = render::v3(&self.resources, self.definitions(), &page.subject());
            Document::new(json_bytes(&value))
        }))
    }

    /// The OpenAPI 2 document as JSON.
    pub fn v2_json(&self) -> &Document {
        &self.v2().0
    }

    /// The OpenAPI 2 document as the protobuf that kubectl asks for.
    pub fn v2_protobuf(&self) -> &Document {
        &self.v2().1
    }

    fn v2(&self) -> &(Document, Document) {
        self.v2.get_or_init(|| {
            let value = render::v2_document(&self.resources, self.definitions());
            (
                Document::new(json_bytes(&value)),
                Document::new(protobuf::encode(&value)),
            )
        })
    }
}

impl Document {
    /// Hashes a body.
    pub fn new(body: Vec<u8>) -> Self {
        let mut hash = String::new();
        for byte in Sha512::digest(&body) {
            write!(hash, "{byte:02X}").expect("strings grow");
        }
        Self {
            body: body.into(),
            hash,
        }
    }
}

fn json_bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a JSON value can be written")
}
