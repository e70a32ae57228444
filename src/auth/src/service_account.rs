//! Tokens of service accounts: signed claims, which are checked against the objects that they name at every use.
//!
//! Stricter than kube-apiserver: a token must say when it ends and whom it is for, its subject must be its service
//! account, and the algorithm must be the one of the key. Tokens that Secrets keep (see `kept`) end with their Secret
//! instead.

use std::{sync::Arc, time::SystemTime};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Validation,
    errors::{Error as JwtError, ErrorKind},
};
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_machinery::ApiError;
use trireme_registry::{
    DirectorHandle, OwnObjects, RegistryHandle,
    item::{Item, parse},
    request::{Freshness, GetRequest, Target, UserInfo, own_user},
};

use crate::{
    authenticator::BoxFuture,
    token::{TokenAuthenticator, TokenError, TokenHolder, common_audiences},
    token_notes::TokenNotes,
};

mod kept;
mod keys;
mod metrics;
mod proven;

pub(crate) use keys::PublicKey;
pub use keys::{TokenKeyError, TokenSigner, public_keys};
use metrics::TokenMetrics;
use proven::Proven;

/// Clocks of replicas may differ by this much, in seconds.
const LEEWAY_SECONDS: u64 = 60;
/// The field manager of what the server notes.
const SERVER: &str = "kube-apiserver";
/// The facts about a token's binding that authorizers and audit logs see.
const FACTS: &str = "authentication.kubernetes.io/";
/// The error for a token whose object is gone.
const INVALIDATED: &str = "service account token has been invalidated";
/// In the words of the library of kube-apiserver.
const BAD_SIGNATURE: &str = "go-jose/go-jose: error in cryptographic primitive";
/// The error for a token with malformed claims.
const INVALID_CLAIMS: &str = "service account token claims could not be validated";

/// Knows service accounts by their tokens.
pub struct ServiceAccountTokens {
    keys: Vec<PublicKey>,
    issuers: Vec<String>,
    /// For whom a token is that does not say it.
    audiences: Vec<String>,
    objects: Arc<dyn Objects>,
    clock: Clock,
    proven: Proven,
    metrics: TokenMetrics,
}

/// The source of the objects that tokens name.
pub trait Objects: Send + Sync + 'static {
    /// An object of the core group. `latest` is set if it is not enough to have seen it once.
    ///
    /// # Errors
    /// As any GET of it.
    fn find<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
        name: &'a str,
        latest: bool,
    ) -> BoxFuture<'a, Result<Value, ApiError>>;

    /// As much of an object of the core group as every use of a token asks for. May cost less than to read it.
    ///
    /// # Errors
    /// As any GET of it.
    fn identify<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
        name: &'a str,
        latest: bool,
    ) -> BoxFuture<'a, Result<ObjectIdentity, ApiError>> {
        Box::pin(async move {
            let object = self.find(resource, namespace, name, latest).await?;
            Ok(ObjectIdentity::of(&object))
        })
    }

    /// Labels the Secret of a token with the date of its use.
    ///
    /// # Errors
    /// As any PATCH of it.
    fn note_use<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        uid: &'a str,
        date: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>>;
}

/// The part of an object that the claims of a token are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectIdentity {
    /// `metadata.uid`
    pub uid: Box<str>,
    /// `metadata.deletionTimestamp` in seconds since 1970; 0 if it cannot be read.
    pub leaves: Option<u64>,
}

impl ObjectIdentity {
    fn of(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let seconds = |at| {
            let at = trireme_machinery::time::Time::parse(at).ok()?;
            u64::try_from(at.unix_seconds()).ok()
        };
        Self {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            leaves: metadata["deletionTimestamp"]
                .as_str()
                .map(|at| seconds(at).unwrap_or_default()),
        }
    }
}

impl Objects for DirectorHandle {
    fn find<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
        name: &'a str,
        latest: bool,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move { parse(&*named(self, resource, namespace, name, latest).await?) })
    }

    fn identify<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
        name: &'a str,
        latest: bool,
    ) -> BoxFuture<'a, Result<ObjectIdentity, ApiError>> {
        Box::pin(async move {
            let item = named(self, resource, namespace, name, latest).await?;
            if item.is_terminating {
                return Ok(ObjectIdentity::of(&parse(&item)?));
            }
            Ok(ObjectIdentity {
                uid: item.uid.clone(),
                leaves: None,
            })
        })
    }

    fn note_use<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        uid: &'a str,
        date: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let secrets = OwnObjects::new(registry(self, "secrets")?, SERVER);
            let patch = json!({ "metadata": { "uid": uid, "labels": { kept::LAST_USED: date } } });
            secrets.merge(namespace, name, &patch).await
        })
    }
}

fn registry(director: &DirectorHandle, resource: &str) -> Result<RegistryHandle, ApiError> {
    let route = director.surface().find("", "v1", resource);
    let route = route.ok_or_else(|| ApiError::internal("the resource is not served"))?;
    Ok(route.registry)
}

async fn named(
    director: &DirectorHandle,
    resource: &str,
    namespace: &str,
    name: &str,
    latest: bool,
) -> Result<Arc<Item>, ApiError> {
    let target = Target {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        user: own_user(),
        ..Target::default()
    };
    let freshness = if latest { Freshness::Latest } else { Freshness::Any };
    registry(director, resource)?
        .get(GetRequest { target, freshness })
        .await
}

impl ServiceAccountTokens {
    /// For what is signed in the name of one of `issuers`, as long as the objects are there. A token that does not say whom
    /// it is for is for `audiences`. Believes no key yet.
    pub fn new(issuers: Vec<String>, audiences: Vec<String>, objects: Arc<dyn Objects>, clock: Clock) -> Self {
        Self {
            keys: Vec::new(),
            issuers,
            audiences,
            objects,
            clock,
            proven: Proven::default(),
            metrics: TokenMetrics::new(),
        }
    }

    /// Believes what this public key, PEM, has signed.
    ///
    /// # Errors
    /// If it is of no known kind.
    pub fn believe(&mut self, public_pem: &[u8]) -> Result<(), TokenKeyError> {
        self.keys.push(PublicKey::read(public_pem)?);
        Ok(())
    }

    /// The claims of a token that one of our keys has signed in a name that we know. Whether they are good now is to be
    /// asked each time; the signature stays what it is.
    fn claims(&self, token: &str) -> Result<Arc<Value>, TokenError> {
        self.proven.claims(token, || self.prove(token))
    }

    fn prove(&self, token: &str) -> Result<Value, TokenError> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Unknown)?;
        // What others have issued is for others to judge.
        let is_ours = |issuer: &String| issuer == kept::ISSUER || self.issuers.contains(issuer);
        let issuer = unproven_issuer(token).filter(is_ours).ok_or(TokenError::Unknown)?;
        // A token that does not name its key may be signed by any.
        let named = header.kid.as_deref().filter(|id| !id.is_empty());
        let may_be = |key: &&PublicKey| key.algorithm == header.alg && named.is_none_or(|id| id == key.key_id);
        let mut outcome = Err(TokenError::Bad("invalid signature, no keys found"));
        for key in self.keys.iter().filter(may_be) {
            outcome = signed_claims(token, key, &issuer);
            if !matches!(outcome, Err(TokenError::Bad(BAD_SIGNATURE))) {
                break;
            }
        }
        outcome
    }

    /// Returns true if claims are good now.
    fn judge_time(&self, claims: &Value) -> Result<(), TokenError> {
        let now = self.now_seconds();
        let time = |name: &str| {
            claims
                .get(name)
                .map(|time| time.as_u64().ok_or(TokenError::Bad(INVALID_CLAIMS)))
        };
        let end = time("exp").unwrap_or(Err(TokenError::Bad(INVALID_CLAIMS)))?;
        if end.saturating_add(LEEWAY_SECONDS) <= now {
            return Err(TokenError::Bad("service account token has expired"));
        }
        let begin = time("nbf").transpose()?;
        if begin.is_some_and(|begin| begin > now.saturating_add(LEEWAY_SECONDS)) {
            return Err(TokenError::Bad("service account token is not valid yet"));
        }
        Ok(())
    }

    fn now_seconds(&self) -> u64 {
        let now = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap_or_default().as_secs()
    }

    async fn find_holder(&self, token: &str, wanted: &[String]) -> Result<TokenHolder, TokenError> {
        let mut notes = TokenNotes::default();
        match self.judge(token, wanted, &mut notes).await {
            Ok((user, audiences)) => Ok(TokenHolder { user, audiences, notes }),
            Err(error) if notes == TokenNotes::default() => Err(error),
            Err(error) => Err(TokenError::Noted {
                error: Box::new(error),
                notes,
            }),
        }
    }

    async fn judge(
        &self,
        token: &str,
        wanted: &[String],
        notes: &mut TokenNotes,
    ) -> Result<(UserInfo, Vec<String>), TokenError> {
        let claims = self.claims(token)?;
        let is_kept = kept::is_kept(&claims);
        let given = if is_kept {
            self.metrics.kept.increment(1);
            let subject = claims["sub"].as_str().unwrap_or_default();
            let annotation = "authentication.k8s.io/legacy-token";
            notes.annotations.push((annotation, subject.to_owned()));
            self.audiences.clone()
        } else {
            self.judge_time(&claims)?;
            audiences(&claims)
        };
        let audiences = common_audiences(&given, wanted);
        if audiences.is_empty() {
            let wanted = wanted.to_vec();
            return Err(TokenError::Audiences { given, wanted });
        }
        if is_kept {
            return Ok((self.user_of_kept(token, &claims, notes).await?, audiences));
        }
        let user = self.user(&claims).await?;
        self.note_age(&claims, notes);
        Ok((user, audiences))
    }

    /// A token whose end was put off is for clients that do not read theirs anew; it says what end was asked for.
    fn note_age(&self, claims: &Value, notes: &mut TokenNotes) {
        let Some(wanted_end) = claims["kubernetes.io"]["warnafter"].as_u64().filter(|end| *end != 0) else {
            return;
        };
        let now = self.now_seconds();
        if now <= wanted_end {
            self.metrics.valid.increment(1);
            return;
        }
        self.metrics.stale.increment(1);
        let subject = claims["sub"].as_str().unwrap_or_default();
        let age = now.saturating_sub(wanted_end);
        let what = format!("subject: {subject}, seconds after warning threshold: {age}");
        notes.annotations.push(("authentication.k8s.io/stale-token", what));
    }

    async fn user(&self, claims: &Value) -> Result<UserInfo, TokenError> {
        let own = &claims["kubernetes.io"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, account) = (text(&own["namespace"]), &own["serviceaccount"]);
        let name = format!("system:serviceaccount:{namespace}:{}", text(&account["name"]));
        if claims["sub"] != json!(name) {
            return Err(TokenError::Bad("the subject is not the service account"));
        }
        self.check("serviceaccounts", &namespace, account).await?;
        let mut user = account_user(name, text(&account["uid"]), &namespace);
        let mut add = |fact: &str, value: String| {
            if !value.is_empty() {
                user.extra.insert(format!("{FACTS}{fact}"), vec![value]);
            }
        };
        if let Some(id) = claims["jti"].as_str() {
            add("credential-id", format!("JTI={id}"));
        }
        for (claim, resource, place) in [
            ("secret", "secrets", namespace.as_str()),
            ("pod", "pods", namespace.as_str()),
            ("node", "nodes", ""),
        ] {
            let Some(bound) = own.get(claim) else { continue };
            // A pod's node is only named; the token ends with the pod alone.
            if claim != "node" || own.get("pod").is_none() {
                self.check(resource, place, bound).await?;
            }
            if claim != "secret" {
                add(&format!("{claim}-name"), text(&bound["name"]));
                add(&format!("{claim}-uid"), text(&bound["uid"]));
            }
        }
        Ok(user)
    }

    /// Returns true if an object that a token names is still there.
    async fn check(&self, resource: &str, namespace: &str, named: &Value) -> Result<(), TokenError> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, claimed) = (text(&named["name"]), text(&named["uid"]));
        let is_account = resource == "serviceaccounts";
        let judge = |found: Result<ObjectIdentity, ApiError>| match found {
            Ok(object) if self.is_meant(&object, &claimed) => Ok(()),
            Ok(object) if *object.uid != *claimed => {
                Err(TokenError::Object(of_another(resource, &object.uid, &claimed)))
            }
            Ok(_) if is_account => {
                let why = format!("service account {namespace}/{name} has been deleted");
                Err(TokenError::Object(why))
            }
            Err(error) if is_account => Err(TokenError::Object(error.message)),
            Ok(_) | Err(_) => Err(TokenError::Bad(INVALIDATED)),
        };
        seen_or_latest(
            |latest| self.objects.identify(resource, namespace, &name, latest),
            judge,
        )
        .await
    }

    fn is_meant(&self, object: &ObjectIdentity, uid: &str) -> bool {
        let now = self.now_seconds();
        let is_gone = object.leaves.is_some_and(|at| at.saturating_add(LEEWAY_SECONDS) < now);
        !is_gone && !uid.is_empty() && *object.uid == *uid
    }
}

/// Judges the object of a token. An object that was seen once is looked for again before a token is refused: this
/// replica may not have seen the object yet.
async fn seen_or_latest<'a, T, R>(
    find: impl Fn(bool) -> BoxFuture<'a, Result<T, ApiError>>,
    judge: impl Fn(Result<T, ApiError>) -> Result<R, TokenError>,
) -> Result<R, TokenError> {
    match judge(find(false).await) {
        Ok(judged) => Ok(judged),
        Err(_) => judge(find(true).await),
    }
}

/// The user that a service account is.
fn account_user(name: String, uid: String, namespace: &str) -> UserInfo {
    UserInfo {
        name,
        uid,
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ],
        ..UserInfo::default()
    }
}

/// The claims of a token of an issuer, if a key has signed it.
fn signed_claims(token: &str, key: &PublicKey, issuer: &str) -> Result<Value, TokenError> {
    let mut rules = Validation::new(key.algorithm);
    rules.set_required_spec_claims(&["iss", "sub"]);
    rules.set_issuer(&[issuer]);
    // Times and audiences are judged at every use, and the library would ask another clock.
    rules.validate_aud = false;
    rules.validate_exp = false;
    let decoded = jsonwebtoken::decode::<Value>(token, &key.key, &rules);
    let bad = |error: JwtError| match error.kind() {
        ErrorKind::InvalidSignature => TokenError::Bad(BAD_SIGNATURE),
        // Header and claims were read by the caller.
        ErrorKind::Base64(_) => undecodable_signature(token),
        _ => TokenError::Bad(INVALID_CLAIMS),
    };
    Ok(decoded.map_err(bad)?.claims)
}

/// The error for a signature in base64 that is not decoded here. Go decodes it if it is only longer than its bytes, as by a
/// letter that was added, and finds it wrong.
fn undecodable_signature(token: &str) -> TokenError {
    let signature = token.rsplit('.').next().unwrap_or_default();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match signature.bytes().all(is_letter) && signature.len() % 4 != 1 {
        true => TokenError::Bad(BAD_SIGNATURE),
        false => TokenError::Unknown,
    }
}

/// The issuer that a token names.
fn unproven_issuer(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims["iss"].as_str().map(str::to_owned)
}

/// The audiences of a token; one may stand alone.
fn audiences(claims: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match &claims["aud"] {
        Value::Array(several) => several.iter().filter_map(text).collect(),
        one => text(one).into_iter().collect(),
    }
}

/// The error for a token of an object whose name another has now.
fn of_another(resource: &str, uid: &str, claimed: &str) -> String {
    let (what, claim) = match resource {
        "serviceaccounts" => ("service account", "claim"),
        "secrets" => ("secret", "service account secret ref claim"),
        "pods" => ("pod", "service account pod ref claim"),
        _ => ("node", "service account node ref claim"),
    };
    format!("{what} UID ({uid}) does not match {claim} ({claimed})")
}

impl TokenAuthenticator for ServiceAccountTokens {
    fn holder<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, Result<TokenHolder, TokenError>> {
        Box::pin(self.find_holder(token, audiences))
    }
}

#[cfg(test)]
mod tests;
