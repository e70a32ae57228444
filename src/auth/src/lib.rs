//! Authenticators and authorizers: the user of a request and his rights.
//!
//! `edge` hands the credentials of each request to an [`Authenticator`] (usually a [`Union`] of several) and what the
//! request wants to an [`Authorizer`]. Those who want to know beforehand ask a [`RuleResolver`]. Promise: a bad credential is never treated as none, tokens are compared in
//! constant time and no secret is ever printed.

mod abac;
mod authenticator;
mod authorization_configuration;
mod authorizer;
mod bootstrap_token;
mod certificate;
mod front_proxy;
mod impersonation;
mod issuer_documents;
mod modes;
mod node;
mod oidc;
mod password_file;
mod rbac;
mod rules;
mod service_account;
#[cfg(feature = "testing")]
pub mod testing;
mod token;
mod token_file;
mod token_notes;
mod token_webhook;
mod union;
mod user_names;
mod webhook;
mod webhook_authorizer;
mod x509;

pub use abac::{AbacError, AbacPolicies};
pub use authenticator::{Authenticator, BoxFuture, Credentials, Rejected, RequestHeaders};
pub use authorization_configuration::{AuthorizationConfiguration, ConfiguredAuthorizer, ConfiguredWebhook};
pub use authorizer::{Attributes, AuthorizationRequest, Authorizer, Decision, RequestSelectors, forbidden};
pub use bootstrap_token::BootstrapTokens;
pub use certificate::{CertificateError, CertificateIdentity};
pub use front_proxy::{FrontProxyAuthenticator, FrontProxyHeaders};
pub use impersonation::{Impersonated, ImpersonatedRequest, Impersonator};
pub use issuer_documents::{IssuerDocuments, KEYS_PATH};
pub use modes::{AlwaysAllow, AlwaysDeny, AuthorizationMode, AuthorizerChain, AuthorizerType};
pub use node::NodeAuthorizer;
pub use oidc::{
    AnonymousAuth, AuthenticationConfiguration, AuthenticationConfigurationError, JwtTokens, OidcFlags, OidcParts,
    OidcProviders, SUPPORTED_ALGORITHMS,
};
pub use password_file::PasswordFile;
pub use rbac::{EscalationCheck, RbacAuthorizer};
pub use rules::{PathRule, ResourceRule, RuleResolver, Rules};
pub use service_account::{ObjectIdentity, Objects, ServiceAccountTokens, TokenKeyError, TokenSigner, public_keys};
pub use token::{BearerTokens, TokenAuthenticator, TokenError, TokenHolder, TokenUnion, common_audiences};
pub use token_file::{TokenFile, TokenFileError};
pub use token_notes::TokenNotes;
pub use token_webhook::{TokenReviewVersion, TokenWebhookSettings, WebhookTokens};
pub use union::Union;
pub use webhook::{REQUEST_TIMEOUT, ReviewWebhook};
pub use webhook_authorizer::{AccessReviewVersion, WebhookAuthorizer, WebhookAuthorizerSettings};
pub use x509::CertificateAuthenticator;

use trireme_registry::request::UserInfo;

/// The group of all who gave valid credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of all who gave none.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of the user of a request without credentials.
const ANONYMOUS: &str = "system:anonymous";
/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// The user of a request without credentials.
pub fn anonymous() -> UserInfo {
    UserInfo {
        name: ANONYMOUS.to_owned(),
        groups: vec![UNAUTHENTICATED.to_owned()],
        ..UserInfo::default()
    }
}

/// Returns true for that user, and for others of its group.
pub fn is_anonymous(user: &UserInfo) -> bool {
    user.name == ANONYMOUS || user.groups.iter().any(|group| group == UNAUTHENTICATED)
}
