//! The keys that service-account tokens are signed with and believed by.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use trireme_actors::Clock;
use trireme_auth::{IssuerDocuments, KEYS_PATH, ServiceAccountTokens, TokenSigner};
use trireme_kinds::TokenIssuer;
use trireme_registry::DirectorHandle;
use zeroize::Zeroizing;

use crate::build_error::{BuildError, read_file};
use crate::pki::Pki;
use crate::settings::Settings;
use crate::token_key;

/// The keys, read and found to be in order.
pub(crate) struct TokenKeys {
    signer: Arc<TokenSigner>,
    /// Public keys, PEM, and where they were found.
    believed: Vec<(PathBuf, Vec<u8>)>,
    issuer: String,
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
        let issuer = settings.service_account_issuer.clone();
        let own = &pki.service_account_key;
        let signing = settings.service_account_signing_key_file.as_ref().unwrap_or(own);
        let wrap = |path: &PathBuf, source| BuildError::TokenKey {
            path: path.clone(),
            source,
        };
        let content = Zeroizing::new(read_file(signing)?);
        let (signer, public) = token_key::signer(&content, &issuer).map_err(|error| wrap(signing, error))?;
        let mut believed = vec![(signing.clone(), public)];
        for path in settings.service_account_key_files.iter().chain([own]) {
            let content = Zeroizing::new(read_file(path)?);
            let key = token_key::believed(&content).map_err(|error| wrap(path, error))?;
            believed.push((path.clone(), key));
        }
        let audiences = match settings.api_audiences.as_slice() {
            [] => vec![issuer.clone()],
            given => given.to_vec(),
        };
        Ok(Self {
            signer: Arc::new(signer),
            believed,
            issuer,
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
        IssuerDocuments::new(&self.issuer, &url, keys).map_err(|source| BuildError::TokenKey {
            path: self.believed.first().map(|(path, _)| path.clone()).unwrap_or_default(),
            source,
        })
    }

    /// The authenticator of service accounts' tokens.
    pub(crate) fn authenticator(
        &self,
        director: &DirectorHandle,
        clock: Clock,
    ) -> Result<ServiceAccountTokens, BuildError> {
        let mut tokens =
            ServiceAccountTokens::new(&self.issuer, self.audiences.clone(), Arc::new(director.clone()), clock);
        for (path, key) in &self.believed {
            tokens.believe(key).map_err(|source| BuildError::TokenKey {
                path: path.clone(),
                source,
            })?;
        }
        Ok(tokens)
    }
}
