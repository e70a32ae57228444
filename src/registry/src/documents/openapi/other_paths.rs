//! Paths outside of the groups that have a document of their own.

use super::{
    media_types,
    operations::{self, DocumentPath},
};

/// A path that answers GET.
pub(super) struct OtherPath {
    path: &'static str,
    id: &'static str,
    tag: &'static str,
    description: &'static str,
    /// The type of the answer; `None` for one that has no schema.
    answer: Option<&'static str>,
    consumes: &'static [&'static str],
    produces: &'static [&'static str],
}

pub(super) static OTHER_PATHS: [OtherPath; 5] = [
    OtherPath {
        path: "/.well-known/openid-configuration/",
        id: "getServiceAccountIssuerOpenIDConfiguration",
        tag: "WellKnown",
        description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        answer: None,
        consumes: &[],
        produces: media_types::JSON_ONLY,
    },
    OtherPath {
        path: "/api/",
        id: "getCoreAPIVersions",
        tag: "core",
        description: "get available API versions",
        answer: Some("io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions"),
        consumes: media_types::OBJECTS,
        produces: media_types::OBJECTS,
    },
    OtherPath {
        path: "/apis/",
        id: "getAPIVersions",
        tag: "apis",
        description: "get available API versions",
        answer: Some("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList"),
        consumes: media_types::OBJECTS,
        produces: media_types::OBJECTS,
    },
    OtherPath {
        path: "/openid/v1/jwks/",
        id: "getServiceAccountIssuerOpenIDKeyset",
        tag: "openid",
        description: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        answer: None,
        consumes: &[],
        produces: media_types::JWK_SET,
    },
    OtherPath {
        path: "/version/",
        id: "getCodeVersion",
        tag: "version",
        description: "get the version information for this server",
        answer: Some("io.k8s.apimachinery.pkg.version.Info"),
        consumes: media_types::JSON_ONLY,
        produces: media_types::JSON_ONLY,
    },
];

impl OtherPath {
    /// The path of the document below `/openapi/v3/`: `openid/v1/jwks`.
    pub(super) fn document(&self) -> &'static str {
        self.path.trim_matches('/')
    }

    /// The path with its operation.
    pub(super) fn document_path(&self) -> DocumentPath {
        let answer = self.answer.map(str::to_owned);
        let mut path = operations::plain_path(self.path, self.id, self.tag, self.description, answer);
        for operation in &mut path.operations {
            operation.consumes = self.consumes;
            operation.produces = self.produces;
        }
        path
    }
}
