//! Tokens that are signed claims (JWTs). An input is three lines: a header or a whole token, claims in JSON, and the object that
//! every look-up of the claims finds.
//!
//! Invariants: nobody gets in by a token that was not signed here, or was changed after that; who gets in is the service account
//! of the claims, whose object has the UID of the claims, for audiences that were asked for, before the token ends; an ID token
//! counts for its issuer only, and before its end.

use std::{
    sync::{Arc, LazyLock},
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use rcgen::KeyPair;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_auth::{Objects, ServiceAccountTokens, TokenAuthenticator as _, TokenHolder, TokenSigner, testing};
use trireme_machinery::{ApiError, GroupResource};

use crate::input::first_line;

const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "api";
/// The moment at which ID tokens are looked at: in 2026.
const NOW: Duration = Duration::from_secs(1_767_225_600);

/// A key of this run: what others make is not signed by it.
static KEY: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate().expect("a key can be made"));
static SIGNER: LazyLock<TokenSigner> = LazyLock::new(|| {
    let signer = TokenSigner::new(KEY.serialize_pem().as_bytes(), ISSUER);
    signer.map(|(signer, _)| signer).expect("the key signs")
});

/// Checks the input.
pub fn check(data: &[u8]) {
    let (header, rest) = first_line(data);
    let (claims, object) = first_line(rest);
    let object: Value = serde_json::from_slice(object).unwrap_or_default();
    if let Ok(token) = std::str::from_utf8(header) {
        assert!(holder(token, &object).is_none(), "it was not signed here");
        let _ = id_token(token);
    }
    let id = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    if let Ok(read) = id_token(&format!("{id}.c2ln")) {
        assert_eq!(read["iss"], ISSUER);
        assert!(
            read["exp"].as_f64().is_some_and(|end| end >= NOW.as_secs_f64()),
            "{read}"
        );
    }
    if let Ok(claims) = serde_json::from_slice::<Value>(claims) {
        let _ = testing::is_verification_key(&claims);
        if claims.is_object() {
            signed(claims, &object);
        }
    }
}

/// The claims of an ID token whose signature is taken for good.
fn id_token(token: &str) -> Result<Value, String> {
    testing::id_token_claims(token, ISSUER, &[AUDIENCE.to_owned()], SystemTime::UNIX_EPOCH + NOW)
}

fn signed(claims: Value, object: &Value) {
    let token = SIGNER.sign(claims.clone()).expect("claims can be signed");
    let (unsigned, signature) = token.rsplit_once('.').expect("a token has a signature");
    let (head, _) = unsigned.split_once('.').expect("a token has claims");
    let mut others = claims.clone();
    others["iss"] = json!(ISSUER);
    others["sub"] = json!("system:serviceaccount:kube-system:admin");
    let forged = format!("{head}.{}.{signature}", URL_SAFE_NO_PAD.encode(others.to_string()));
    assert!(
        forged == token || holder(&forged, object).is_none(),
        "its claims were changed"
    );
    let Some(holder) = holder(&token, object) else { return };
    assert!(holder.user.name.starts_with("system:serviceaccount:") && claims["sub"] == holder.user.name);
    assert_eq!(
        claims["kubernetes.io"]["serviceaccount"]["uid"],
        object["metadata"]["uid"]
    );
    assert_eq!(holder.audiences, [AUDIENCE]);
    assert!(claims["exp"].as_u64().is_some(), "a token ends");
}

/// The holder of a token, with this object wherever one is looked up.
fn holder(token: &str, object: &Value) -> Option<TokenHolder> {
    let objects = Arc::new(OneObject(object.clone()));
    let mut tokens = ServiceAccountTokens::new(
        vec![ISSUER.to_owned()],
        vec![AUDIENCE.to_owned()],
        objects,
        Clock::system(),
    );
    tokens
        .believe(KEY.public_key_pem().as_bytes())
        .expect("the key is known");
    let wanted = [AUDIENCE.to_owned(), "more".to_owned()];
    let known = tokens.holder(token, &wanted).now_or_never();
    known.expect("its objects are there at once").ok()
}

struct OneObject(Value);

impl Objects for OneObject {
    fn note_use<'a>(
        &'a self,
        _namespace: &'a str,
        _name: &'a str,
        _uid: &'a str,
        _date: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn find<'a>(
        &'a self,
        resource: &'a str,
        _: &'a str,
        name: &'a str,
        _: bool,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        let resource = GroupResource {
            group: "".into(),
            resource: resource.into(),
        };
        Box::pin(ready(match &self.0 {
            Value::Null => Err(ApiError::not_found(&resource, name)),
            object => Ok(object.clone()),
        }))
    }
}
