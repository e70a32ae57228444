//! An issuer as it is reached: its discovery document, and the keys that it signs with.
//!
//! ```text
//! start ─► discovery every 10 s until it succeeds ─► jwks_uri
//! token ─► keys that are known ─► else fetched, once for all who wait, at most once a second ─► verified
//! ```
//! Promise: an issuer that does not answer delays only the requests that carry its tokens.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use futures_util::lock::Mutex;
use jsonwebtoken::{
    DecodingKey, crypto,
    jwk::{AlgorithmParameters, Jwk, PublicKeyUse},
};
use serde_json::Value;
use trireme_actors::{Clock, Tasks};
use trireme_http::client::{
    Client, ClientTls, Endpoint, HeaderValue, IncomingBody, OutboundCall, RemoteAnswer, Request, Response, TlsOptions,
    TlsOptionsError, Trust, Uri, header,
};
use trireme_machinery::go_text::quote;

use super::{id_token::ParsedToken, metrics};

const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// Between two attempts to find an issuer.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);
/// Keys that do not verify a token are fetched anew, but not more often than this.
const FETCH_INTERVAL: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_BYTES: u64 = 1024 * 1024;
const MAX_REDIRECTS: usize = 10;
const UNVERIFIED: &str = "failed to verify id token signature";

/// The parts that reaching issuers takes.
#[derive(Clone)]
pub struct OidcParts {
    /// The client.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// The tasks that discovery runs on.
    pub tasks: Tasks,
}

/// The address of an issuer, and the trust in its certificate. Issuers that are reached in the same way share what is known of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ProviderAddress {
    pub(super) issuer: String,
    pub(super) discovery_url: String,
    /// PEM; the machine's CAs if empty.
    pub(super) certificate_authority: String,
}

/// One issuer.
pub(super) struct IssuerProvider {
    address: ProviderAddress,
    tls: Arc<ClientTls>,
    client: Client,
    clock: Clock,
    jwks_url: ArcSwapOption<String>,
    keys: ArcSwap<Vec<VerificationKey>>,
    /// The time of the last fetch of the keys, successful or not. Held while they are fetched.
    fetched: Mutex<Option<Instant>>,
}

struct VerificationKey {
    id: Option<String>,
    key: DecodingKey,
}

impl IssuerProvider {
    /// Begins to look for an issuer.
    pub(super) fn start(address: ProviderAddress, parts: &OidcParts) -> Result<Arc<Self>, TlsOptionsError> {
        let trust = match address.certificate_authority.as_str() {
            "" => Trust::System,
            ca => Trust::Ca(ca.to_owned().into_bytes()),
        };
        let options = TlsOptions {
            trust,
            ..TlsOptions::default()
        };
        let provider = Arc::new(Self {
            address,
            tls: ClientTls::new(&options)?,
            client: parts.client.clone(),
            clock: parts.clock.clone(),
            jwks_url: ArcSwapOption::empty(),
            keys: ArcSwap::default(),
            fetched: Mutex::new(None),
        });
        let looked_for = look_for(Arc::downgrade(&provider), parts.clock.clone());
        parts.tasks.spawn_named("oidc-discovery", looked_for);
        Ok(provider)
    }

    /// Returns true if the issuer was found.
    pub(super) fn is_ready(&self) -> bool {
        self.jwks_url.load().is_some()
    }

    /// Holds a token against the keys of the issuer.
    pub(super) async fn verify(&self, token: &ParsedToken<'_>) -> Result<(), String> {
        let known = self.keys.load_full();
        if verifies(&known, token) {
            return Ok(());
        }
        let mut fetched = self.fetched.lock().await;
        let now = self.clock.now();
        // Another request has fetched them meanwhile, or there are no other ones.
        let is_recent = fetched.is_some_and(|at| now.saturating_duration_since(at) < FETCH_INTERVAL);
        if Arc::ptr_eq(&known, &self.keys.load()) && !is_recent {
            *fetched = Some(now);
            let keys = self.fetch_keys().await;
            metrics::record_jwks_fetch(&self.address.issuer, &self.clock, keys.is_ok());
            self.keys
                .store(Arc::new(keys.map_err(|why| format!("fetching keys {why}"))?));
        }
        drop(fetched);
        if verifies(&self.keys.load(), token) {
            Ok(())
        } else {
            Err(UNVERIFIED.to_owned())
        }
    }

    async fn fetch_keys(&self) -> Result<Vec<VerificationKey>, String> {
        let url = self.jwks_url.load_full().ok_or("oidc: authenticator not initialized")?;
        let body = self.get(&url).await?;
        let set: Value = serde_json::from_slice(&body).map_err(|_| "oidc: failed to decode keys")?;
        let keys = set["keys"].as_array().ok_or("oidc: failed to decode keys")?;
        Ok(keys.iter().filter_map(VerificationKey::read).collect())
    }

    /// Finds out where the keys are.
    async fn discover(&self) -> Result<(), String> {
        let issuer = &self.address.issuer;
        let url = match self.address.discovery_url.as_str() {
            "" => format!("{}{WELL_KNOWN}", issuer.strip_suffix('/').unwrap_or(issuer)),
            elsewhere => elsewhere.to_owned(),
        };
        let body = self.get(&url).await?;
        let document: Value =
            serde_json::from_slice(&body).map_err(|_| "oidc: failed to decode provider discovery object")?;
        let text = |name: &str| document[name].as_str().unwrap_or_default();
        let returned = text("issuer");
        if returned != issuer {
            let (issuer, returned) = (quote(issuer), quote(returned));
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {issuer} got {returned}"
            ));
        }
        let jwks_url = text("jwks_uri");
        if jwks_url.is_empty() {
            return Err("provider did not return JWKS URL".to_owned());
        }
        self.jwks_url.store(Some(Arc::new(jwks_url.to_owned())));
        Ok(())
    }

    /// The body of what is found at a URL.
    async fn get(&self, url: &str) -> Result<Bytes, String> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let failed = |why: String| format!("Get {}: {why}", quote(&url));
            let (endpoint, path) = parts_of(&url).ok_or_else(|| failed("unsupported protocol scheme".to_owned()))?;
            let mut request = Request::new(trireme_http::client::OutboundBody::empty());
            *request.uri_mut() = path.parse().map_err(|_| failed("invalid URL".to_owned()))?;
            let headers = request.headers_mut();
            headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
            headers.insert(header::USER_AGENT, HeaderValue::from_static("kube-apiserver"));
            let call = OutboundCall {
                tls: Some(Arc::clone(&self.tls)),
                timeout: Some(TIMEOUT),
                max_body_bytes: Some(MAX_BYTES),
                ..OutboundCall::new(endpoint.clone(), request)
            };
            let response = self
                .client
                .send(call)
                .await
                .map_err(|error| failed(error.as_net_http(&endpoint)))?;
            if let Some(location) = redirection(&response) {
                url = if location.starts_with('/') {
                    format!("{endpoint}{location}")
                } else {
                    location
                };
                continue;
            }
            let answer = RemoteAnswer::read(response)
                .await
                .map_err(|error| failed(error.as_net_http(&endpoint)))?;
            return match answer.code {
                200 => Ok(answer.body),
                code => Err(failed(format!("status code {code}"))),
            };
        }
        Err(format!("Get {}: stopped after 10 redirects", quote(&url)))
    }
}

impl VerificationKey {
    /// A key of a set; none if it is of a kind that signs no tokens.
    fn read(value: &Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
        let signs = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
        let is_public = matches!(
            jwk.algorithm,
            AlgorithmParameters::RSA(_) | AlgorithmParameters::EllipticCurve(_)
        );
        (signs && is_public).then_some(())?;
        Some(Self {
            key: DecodingKey::from_jwk(&jwk).ok()?,
            id: jwk.common.key_id,
        })
    }
}

/// Reports whether tokens are verified with a key of an issuer's set.
#[cfg(feature = "testing")]
pub(super) fn is_verification_key(key: &Value) -> bool {
    VerificationKey::read(key).is_some()
}

/// Looks for an issuer until it is found, or is no longer configured.
async fn look_for(provider: Weak<IssuerProvider>, clock: Clock) {
    loop {
        let Some(wanted) = provider.upgrade() else { return };
        match wanted.discover().await {
            Ok(()) => return,
            Err(why) => tracing::error!(issuer = %wanted.address.issuer, %why, "the issuer of tokens is not found"),
        }
        drop(wanted);
        clock.sleep(DISCOVERY_INTERVAL).await;
    }
}

fn verifies(keys: &[VerificationKey], token: &ParsedToken<'_>) -> bool {
    let mut candidates = keys
        .iter()
        .filter(|key| token.key_id.is_none() || key.id == token.key_id);
    candidates.any(|key| {
        let verified = crypto::verify(token.signature, token.signed.as_bytes(), &key.key, token.algorithm);
        verified.unwrap_or(false)
    })
}

/// The server of an HTTPS URL and the path with its query.
fn parts_of(url: &str) -> Option<(Endpoint, String)> {
    let uri: Uri = url.parse().ok()?;
    let authority = uri.authority()?;
    let endpoint = Endpoint::parse(&format!("{}://{authority}", uri.scheme_str()?)).ok()?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    endpoint.is_secure().then(|| (endpoint, path.to_owned()))
}

fn redirection(response: &Response<IncomingBody>) -> Option<String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    Some(location.to_owned())
}
