//! Users by the ID tokens of other issuers: `--oidc-…` and `--authentication-config`
//! (`plugin/pkg/authenticator/token/oidc`).
//!
//! ```text
//! file ─ configuration + strict ─► what is written ─ validation + expressions ─► AuthenticationConfiguration
//! token ─ id_token ─► issuer ─ provider ─► signature ─ id_token ─► claims ─ mapping ─► user
//! ```
//! Promise: a configuration is taken as a whole or not at all; a token of an issuer that is not configured is left to the
//! other authenticators; errors never show a token. Distributed claims are not followed.

mod claims;
mod configuration;
mod expressions;
mod flags;
mod id_token;
mod mapping;
mod metrics;
mod provider;
mod strict;
#[cfg(feature = "testing")]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod validation;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use jsonwebtoken::Algorithm;
use trireme_http::client::TlsOptionsError;
use trireme_machinery::{field::ErrorList, go_text::aggregate_errors};

use crate::{
    authenticator::BoxFuture,
    token::{TokenAuthenticator, TokenError, TokenHolder, common_audiences},
};

use self::{
    configuration::ConfigurationFile,
    id_token::{ParsedToken, untrusted_issuer},
    mapping::UserMapping,
    provider::{IssuerProvider, ProviderAddress},
    validation::validate_authentication_configuration,
};

pub use self::{
    configuration::AnonymousAuth,
    flags::{OidcFlags, SUPPORTED_ALGORITHMS},
    provider::OidcParts,
};

/// The reason that a configuration is not taken: all errors, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthenticationConfigurationError(pub String);

/// A configuration that was found to be in order, with its expressions compiled.
#[derive(Debug)]
pub struct AuthenticationConfiguration {
    issuers: Vec<CompiledIssuer>,
    anonymous: Option<AnonymousAuth>,
    algorithms: Vec<Algorithm>,
}

#[derive(Debug)]
struct CompiledIssuer {
    address: ProviderAddress,
    audiences: Vec<String>,
    mapping: Arc<UserMapping>,
}

impl AuthenticationConfiguration {
    /// Reads and judges the content of a file. Issuers of service-account tokens are none of its.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(data: &[u8], service_account_issuers: &[String]) -> Result<Self, AuthenticationConfigurationError> {
        let file = ConfigurationFile::parse(data).map_err(AuthenticationConfigurationError)?;
        let algorithms = SUPPORTED_ALGORITHMS
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect();
        Self::judge(file, service_account_issuers, algorithms)
    }

    fn judge(
        file: ConfigurationFile,
        disallowed_issuers: &[String],
        algorithms: Vec<Algorithm>,
    ) -> Result<Self, AuthenticationConfigurationError> {
        let mut errors = ErrorList::new();
        let compiled = validate_authentication_configuration(&file, disallowed_issuers, &mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        if let Some(text) = aggregate_errors(&texts) {
            let text = format!("invalid authentication configuration: {text}");
            return Err(AuthenticationConfigurationError(text));
        }
        let issuers = file
            .jwt
            .into_iter()
            .zip(compiled)
            .map(|(jwt, compiled)| CompiledIssuer {
                address: ProviderAddress {
                    issuer: jwt.issuer.url.clone(),
                    discovery_url: jwt.issuer.discovery_url.clone(),
                    certificate_authority: jwt.issuer.certificate_authority.clone(),
                },
                audiences: jwt.issuer.audiences.clone(),
                mapping: Arc::new(UserMapping::new(jwt, compiled)),
            });
        Ok(Self {
            issuers: issuers.collect(),
            anonymous: file.anonymous,
            algorithms,
        })
    }

    /// The configuration of anonymous authentication, if it has one.
    pub fn anonymous(&self) -> Option<&AnonymousAuth> {
        self.anonymous.as_ref()
    }
}

/// The issuers that are known, so that a new configuration goes on with what is known of those that stay.
#[derive(Clone)]
pub struct OidcProviders {
    parts: OidcParts,
    known: Arc<Mutex<HashMap<ProviderAddress, Weak<IssuerProvider>>>>,
}

impl OidcProviders {
    /// None yet.
    pub fn new(parts: OidcParts) -> Self {
        Self {
            parts,
            known: Arc::default(),
        }
    }

    fn provider(&self, address: &ProviderAddress) -> Result<Arc<IssuerProvider>, TlsOptionsError> {
        // The map is whole at any time.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(provider) = known.get(address).and_then(Weak::upgrade) {
            return Ok(provider);
        }
        known.retain(|_, provider| provider.strong_count() > 0);
        let provider = IssuerProvider::start(address.clone(), &self.parts)?;
        known.insert(address.clone(), Arc::downgrade(&provider));
        Ok(provider)
    }
}

/// Knows the users of tokens of the issuers of a configuration.
pub struct JwtTokens {
    issuers: HashMap<String, JwtIssuer>,
    algorithms: Vec<Algorithm>,
    /// This server's names: a good token is for them.
    audiences: Vec<String>,
    parts: OidcParts,
}

struct JwtIssuer {
    provider: Arc<IssuerProvider>,
    audiences: Vec<String>,
    mapping: Arc<UserMapping>,
}

impl JwtTokens {
    /// By a configuration; `audiences` are this server's names.
    ///
    /// # Errors
    /// If the CAs of an issuer cannot be used.
    pub fn new(
        configuration: &AuthenticationConfiguration,
        providers: &OidcProviders,
        audiences: Vec<String>,
    ) -> Result<Self, AuthenticationConfigurationError> {
        let issuer = |compiled: &CompiledIssuer| {
            let provider = providers.provider(&compiled.address);
            let provider = provider.map_err(|error| AuthenticationConfigurationError(error.to_string()))?;
            let issuer = JwtIssuer {
                provider,
                audiences: compiled.audiences.clone(),
                mapping: Arc::clone(&compiled.mapping),
            };
            Ok((compiled.address.issuer.clone(), issuer))
        };
        Ok(Self {
            issuers: configuration.issuers.iter().map(issuer).collect::<Result<_, _>>()?,
            algorithms: configuration.algorithms.clone(),
            audiences,
            parts: providers.parts.clone(),
        })
    }

    async fn judge(
        &self,
        issuer: &str,
        known: &JwtIssuer,
        token: &str,
    ) -> Result<trireme_registry::request::UserInfo, String> {
        if !known.provider.is_ready() {
            return Err("oidc: authenticator not initialized".to_owned());
        }
        let verify = async {
            let parsed = ParsedToken::parse(token, &self.algorithms)?;
            let verified = known.provider.verify(&parsed).await;
            verified.map_err(|why| format!("failed to verify signature: {why}"))?;
            parsed.claims(issuer, &known.audiences, self.parts.clock.wall())
        };
        let claims = verify.await.map_err(|why| format!("oidc: verify token: {why}"))?;
        known.mapping.user(&claims)
    }
}

impl TokenAuthenticator for JwtTokens {
    fn holder<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, Result<TokenHolder, TokenError>> {
        Box::pin(async move {
            let audiences = common_audiences(&self.audiences, audiences);
            let issuer = untrusted_issuer(token).ok_or(TokenError::Unknown)?;
            let known = self.issuers.get(&issuer).ok_or(TokenError::Unknown)?;
            if audiences.is_empty() {
                return Err(TokenError::Unknown);
            }
            let began = self.parts.clock.now();
            let judged = self.judge(&issuer, known, token).await;
            let took = self.parts.clock.now().saturating_duration_since(began);
            metrics::record_latency(&issuer, judged.is_ok(), took);
            let user = judged.map_err(TokenError::Failed)?;
            Ok(TokenHolder::new(user, audiences))
        })
    }
}
