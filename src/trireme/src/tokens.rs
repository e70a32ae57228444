//! The keys that service-account tokens are signed with and believed by.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use trireme_actors::Clock;
use trireme_auth::{IssuerDocuments, KEYS_PATH, ServiceAccountTokens, TokenSigner, public_keys};
use trireme_kinds::TokenIssuer;
use trireme_registry::DirectorHandle;
use zeroize::Zeroizing;

use crate::build_error::{BuildError, read_file};
use crate::pki::Pki;
use crate::settings::Settings;

/// The keys, read and found to be in order.
pub(crate) struct TokenKeys {
    signer: Arc<TokenSigner>,
    /// Public keys, PEM, and where they were found.
    believed: Vec<(PathBuf, Vec<u8>)>,
    /// In whose names tokens are believed; the first signs.
    issuers: Vec<String>,
    audiences: Vec<String>,
    /// True if those that kubelets ask for last longer.
    extend: bool,
    /// The longest lifetime, in seconds.
    max_seconds: Option<i64>,
}

impl TokenKeys {
    /// Reads the keys that the settings name, and our own. A token that our own key signed stays good when the settings
    /// name another.
    pub(crate) fn read(settings: &Settings, pki: &Pki) -> Result<Self, BuildError> {
        let issuers = settings.service_account_issuers.clone();
        let own = &pki.service_account_key;
        let signing = settings.service_account_signing_key_file.as_ref().unwrap_or(own);
        let wrap = |path: &PathBuf, source| BuildError::TokenKey {
            path: path.clone(),
            source,
        };
        let content = Zeroizing::new(read_file(signing)?);
        let issuer = issuers.first().map_or("", String::as_str);
        let (signer, public) = TokenSigner::new(&content, issuer).map_err(|error| wrap(signing, error))?;
        let mut believed = vec![(signing.clone(), public)];
        for path in settings.service_account_key_files.iter().chain([own]) {
            let content = Zeroizing::new(read_file(path)?);
            let keys = public_keys(&content).map_err(|error| wrap(path, error))?;
            believed.extend(keys.into_iter().map(|key| (path.clone(), key)));
        }
        let audiences = match settings.api_audiences.as_slice() {
            [] => issuers.clone(),
            given => given.to_vec(),
        };
        Ok(Self {
            signer: Arc::new(signer),
            believed,
            issuers,
            audiences,
            extend: settings.service_account_extend_token_expiration,
            max_seconds: settings.service_account_max_token_seconds,
        })
    }

    /// This server's names: whom a token is for that is good here.
    pub(crate) fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The signer of tokens.
    pub(crate) fn issuer(&self) -> TokenIssuer {
        let signer = Arc::clone(&self.signer);
        TokenIssuer {
            extend: self.extend,
            max_seconds: self.max_seconds,
            audiences: self.audiences.clone(),
            sign: Arc::new(move |claims| signer.sign(claims)),
        }
    }

    /// The discovery documents of the token issuer. The keys are found at `address`, unless the settings name another
    /// place.
    pub(crate) fn documents(
        &self,
        settings: &Settings,
        address: SocketAddr,
    ) -> Result<Option<IssuerDocuments>, BuildError> {
        let url = match &settings.service_account_jwks_uri {
            Some(url) => url.clone(),
            None => format!("https://{address}{KEYS_PATH}"),
        };
        let keys = self.believed.iter().map(|(_, key)| key.as_slice());
        IssuerDocuments::new(self.issuers.first().map_or("", String::as_str), &url, keys).map_err(|source| {
            BuildError::TokenKey {
                path: self.believed.first().map(|(path, _)| path.clone()).unwrap_or_default(),
                source,
            }
        })
    }

    /// The authenticator of service accounts' tokens.
    pub(crate) fn authenticator(
        &self,
        director: &DirectorHandle,
        clock: Clock,
    ) -> Result<ServiceAccountTokens, BuildError> {
        let (issuers, audiences) = (self.issuers.clone(), self.audiences.clone());
        let mut tokens = ServiceAccountTokens::new(issuers, audiences, Arc::new(director.clone()), clock);
        for (path, key) in &self.believed {
            tokens.believe(key).map_err(|source| BuildError::TokenKey {
                path: path.clone(),
                source,
            })?;
        }
        Ok(tokens)
    }
}
