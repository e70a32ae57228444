//! Tests of the checks of tokens, with objects and a clock that the test moves.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    task::{Context, Poll, Waker},
    time::Duration,
};

use jsonwebtoken::Header;
use rcgen::KeyPair;
use trireme_actors::ManualClock;

use super::*;

const ISSUER: &str = "https://issuer.example";
const EARLIER_ISSUER: &str = "https://earlier.example";

fn issuers() -> Vec<String> {
    [ISSUER, EARLIER_ISSUER].map(str::to_owned).to_vec()
}

/// Objects by resource, namespace and name; some are only seen when asked for the latest.
#[derive(Default)]
struct Shelf(Mutex<BTreeMap<String, (Value, bool)>>);

impl Shelf {
    fn put(&self, path: &str, metadata: Value, seen: bool) {
        self.put_object(path, json!({ "metadata": metadata }), seen);
    }

    fn put_object(&self, path: &str, object: Value, seen: bool) {
        self.0
            .lock()
            .expect("no test panics with it")
            .insert(path.to_owned(), (object, seen));
    }
}

impl Objects for Shelf {
    fn find<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
        name: &'a str,
        latest: bool,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        let shelf = self.0.lock().expect("no test panics with it");
        let found = shelf.get(&format!("{resource}/{namespace}/{name}"));
        let found = found
            .filter(|(_, seen)| *seen || latest)
            .map(|(object, _)| object.clone());
        Box::pin(std::future::ready(found.ok_or_else(|| ApiError::internal("not there"))))
    }

    fn note_use<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        uid: &'a str,
        date: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let mut shelf = self.0.lock().expect("no test panics with it");
        let (secret, _) = shelf
            .get_mut(&format!("secrets/{namespace}/{name}"))
            .expect("it is there");
        assert_eq!(secret["metadata"]["uid"], uid);
        secret["metadata"]["labels"][kept::LAST_USED] = json!(date);
        Box::pin(std::future::ready(Ok(())))
    }
}

struct Fixture {
    signer: TokenSigner,
    tokens: ServiceAccountTokens,
    shelf: Arc<Shelf>,
    clock: ManualClock,
}

impl Fixture {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let (signer, public) = TokenSigner::new(key.serialize_pem().as_bytes(), ISSUER).expect("a key");
        let (shelf, clock) = (Arc::new(Shelf::default()), ManualClock::new());
        shelf.put("serviceaccounts/n/robot", json!({ "uid": "u1" }), true);
        let objects = Arc::clone(&shelf) as Arc<dyn Objects>;
        let mut tokens = ServiceAccountTokens::new(issuers(), vec!["us".to_owned()], objects, clock.clone().into());
        tokens.believe(&public).expect("a public key");
        Self {
            signer,
            tokens,
            shelf,
            clock,
        }
    }

    fn now(&self) -> u64 {
        let now = Clock::from(self.clock.clone())
            .wall()
            .duration_since(SystemTime::UNIX_EPOCH);
        now.expect("after 1970").as_secs()
    }

    /// Good claims, with these in place of some; `null` takes one away.
    fn claims(&self, changes: Value) -> Value {
        let now = self.now();
        let mut claims = json!({
            "sub": "system:serviceaccount:n:robot", "aud": ["us"], "iat": now, "nbf": now, "exp": now + 600,
            "kubernetes.io": { "namespace": "n", "serviceaccount": { "name": "robot", "uid": "u1" } },
        });
        for (name, value) in changes.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        if let Some(claims) = claims.as_object_mut() {
            claims.retain(|_, value| !value.is_null());
        }
        claims
    }

    fn knows(&self, token: &str) -> Result<UserInfo, String> {
        let ours = ["us".to_owned(), "them".to_owned()];
        self.holder(token, &ours).map(|holder| holder.user)
    }

    fn holder(&self, token: &str, audiences: &[String]) -> Result<TokenHolder, String> {
        let mut answer = self.tokens.holder(token, audiences);
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.map_err(|why| why.to_string()),
            Poll::Pending => panic!("these objects are at hand"),
        }
    }

    fn accepts(&self, changes: Value) -> Result<UserInfo, String> {
        self.knows(&self.signer.sign(self.claims(changes)).expect("signed"))
    }
}

#[test]
fn a_token_must_make_all_claims() {
    let fixture = Fixture::new();
    let user = fixture.accepts(json!({})).expect("a good one");
    assert_eq!(
        (user.name.as_str(), user.uid.as_str()),
        ("system:serviceaccount:n:robot", "u1")
    );
    fixture
        .accepts(json!({ "aud": "them" }))
        .expect("one audience may stand alone");
    fixture
        .accepts(json!({ "nbf": null, "iat": null }))
        .expect("it says when it ends");
    let own = |name: &str, uid: &str| json!({ "namespace": "n", "serviceaccount": { "name": name, "uid": uid } });
    for bad in [
        json!({ "exp": null }),
        json!({ "exp": "tomorrow" }),
        json!({ "aud": null }),
        json!({ "aud": [] }),
        json!({ "aud": ["others"] }),
        json!({ "sub": null }),
        json!({ "sub": "system:serviceaccount:n:other" }),
        json!({ "nbf": "tomorrow" }),
        json!({ "kubernetes.io": null }),
        json!({ "kubernetes.io": own("robot", "u2") }),
        json!({ "kubernetes.io": own("robot", "") }),
        json!({ "kubernetes.io": own("other", "u1"), "sub": "system:serviceaccount:n:other" }),
    ] {
        assert!(fixture.accepts(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn tokens_are_good_for_their_time_only() {
    let fixture = Fixture::new();
    let now = fixture.now();
    assert_eq!(
        fixture.accepts(json!({ "nbf": now + 61 })),
        Err("service account token is not valid yet".to_owned())
    );
    fixture.accepts(json!({ "nbf": now + 60 })).expect("clocks differ");
    let token = fixture.signer.sign(fixture.claims(json!({}))).expect("signed");
    fixture.clock.advance(Duration::from_secs(659));
    fixture.knows(&token).expect("clocks differ");
    fixture.clock.advance(Duration::from_secs(1));
    let expired = "service account token has expired".to_owned();
    assert_eq!(fixture.knows(&token), Err(expired));
}

#[test]
fn only_believed_keys_and_our_issuer_count() {
    let (ours, theirs) = (Fixture::new(), Fixture::new());
    let token = theirs.signer.sign(theirs.claims(json!({}))).expect("signed");
    theirs.knows(&token).expect("good there");
    let unsigned = "invalid signature, no keys found".to_owned();
    assert_eq!(ours.knows(&token), Err(unsigned));
    let own = ours.signer.sign(ours.claims(json!({}))).expect("signed");
    let broken = "go-jose/go-jose: error in cryptographic primitive".to_owned();
    assert_eq!(ours.knows(&format!("{own}x")), Err(broken));
    assert_eq!(ours.knows(&format!("{own}!")), Err("invalid bearer token".to_owned()));
    let key = KeyPair::generate().expect("a key");
    let private = key.serialize_pem();
    let (other, public) = TokenSigner::new(private.as_bytes(), "https://other.example").expect("a key");
    let mut fixture = ours;
    fixture.tokens.believe(&public).expect("a public key");
    let token = other.sign(fixture.claims(json!({}))).expect("signed");
    assert_eq!(fixture.knows(&token), Err("invalid bearer token".to_owned()));
    let (earlier, _) = TokenSigner::new(private.as_bytes(), EARLIER_ISSUER).expect("a key");
    let token = earlier.sign(fixture.claims(json!({}))).expect("signed");
    fixture.knows(&token).expect("a name that the server had before");
    for nonsense in ["", ".", "..", "a.b.c", "e30.e30.", "eyJhbGciOiJub25lIn0.e30."] {
        assert_eq!(
            fixture.knows(nonsense),
            Err("invalid bearer token".to_owned()),
            "{nonsense:?}"
        );
    }
}

#[test]
fn a_token_without_a_key_id_may_be_signed_by_any_key() {
    let mut fixture = Fixture::new();
    let key = KeyPair::generate().expect("a key");
    let (second, public) = TokenSigner::new(key.serialize_pem().as_bytes(), ISSUER).expect("a key");
    fixture.tokens.believe(&public).expect("a public key");
    let stranger = Fixture::new().signer;
    let mut claims = fixture.claims(json!({}));
    claims["iss"] = json!(ISSUER);
    let token = |signer: &TokenSigner, key_id: Option<&str>| {
        let header = Header {
            kid: key_id.map(str::to_owned),
            ..Header::new(signer.algorithm)
        };
        jsonwebtoken::encode(&header, &claims, &signer.key).expect("signed")
    };
    for signer in [&fixture.signer, &second] {
        for key_id in [None, Some("")] {
            fixture.knows(&token(signer, key_id)).expect("one of the keys fits");
        }
    }
    let broken = "go-jose/go-jose: error in cryptographic primitive".to_owned();
    assert_eq!(fixture.knows(&token(&stranger, None)), Err(broken));
    let unsigned = "invalid signature, no keys found".to_owned();
    assert_eq!(fixture.knows(&token(&second, Some("other"))), Err(unsigned));
}

#[test]
fn a_token_is_good_for_its_audiences_only() {
    let fixture = Fixture::new();
    let token = fixture.claims(json!({ "aud": ["them", "us", "more"] }));
    let token = fixture.signer.sign(token).expect("signed");
    let wanted = |audiences: &[&str]| audiences.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let holder = fixture
        .holder(&token, &wanted(&["us", "others", "them"]))
        .expect("for two of these");
    assert_eq!(holder.audiences, ["us", "them"]);
    let why = r#"token audiences ["them" "us" "more"] is invalid for the target audiences ["others"]"#;
    assert_eq!(fixture.holder(&token, &wanted(&["others"])), Err(why.to_owned()));
}

#[test]
fn what_a_token_is_bound_to_must_be_there() {
    let fixture = Fixture::new();
    let bound = |claim: &str| {
        let mut own = json!({ "namespace": "n", "serviceaccount": { "name": "robot", "uid": "u1" } });
        own[claim] = json!({ "name": "x", "uid": "u9" });
        json!({ "kubernetes.io": own })
    };
    for (claim, path) in [("pod", "pods/n/x"), ("secret", "secrets/n/x"), ("node", "nodes//x")] {
        let gone = Err("service account token has been invalidated".to_owned());
        assert_eq!(fixture.accepts(bound(claim)), gone, "{claim}");
        fixture.shelf.put(path, json!({ "uid": "u8" }), true);
        let another = format!("{claim} UID (u8) does not match service account {claim} ref claim (u9)");
        assert_eq!(fixture.accepts(bound(claim)), Err(another));
        fixture.shelf.put(path, json!({ "uid": "u9" }), false);
        fixture
            .accepts(bound(claim))
            .expect("there, though this replica has not seen it");
        fixture.shelf.put(
            path,
            json!({ "uid": "u9", "deletionTimestamp": "2001-01-01T00:00:00Z" }),
            true,
        );
        assert_eq!(fixture.accepts(bound(claim)), gone, "{claim} is being deleted");
    }
}

/// A token as kube-controller-manager makes it for a Secret, with these claims in place of some; `null` takes one away.
fn kept(fixture: &Fixture, changes: Value) -> String {
    let mut claims = json!({
        "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:n:robot",
        "kubernetes.io/serviceaccount/namespace": "n",
        "kubernetes.io/serviceaccount/secret.name": "robot-token",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": "u1",
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    if let Some(claims) = claims.as_object_mut() {
        claims.retain(|_, value| !value.is_null());
    }
    let header = Header {
        kid: Some(fixture.signer.key_id.clone()),
        ..Header::new(fixture.signer.algorithm)
    };
    jsonwebtoken::encode(&header, &claims, &fixture.signer.key).expect("signed")
}

/// Returns true if a token gets in that the Secret holds.
fn accepts_kept(fixture: &Fixture, token: &str, metadata: Value) -> Result<UserInfo, String> {
    let data = json!({ "token": base64::engine::general_purpose::STANDARD.encode(token) });
    let mut secret = json!({ "metadata": metadata, "data": data });
    secret["metadata"]["uid"] = json!("u9");
    fixture.shelf.put_object("secrets/n/robot-token", secret, true);
    fixture.knows(token)
}

#[test]
fn a_token_that_a_secret_keeps_is_good_as_long_as_it_is_in_there() {
    let fixture = Fixture::new();
    let gone = Err("Token has been invalidated".to_owned());
    let token = kept(&fixture, json!({}));
    assert_eq!(fixture.knows(&token), gone, "no such Secret");
    let user = accepts_kept(&fixture, &token, json!({})).expect("a good one");
    assert_eq!(
        (user.name.as_str(), user.uid.as_str()),
        ("system:serviceaccount:n:robot", "u1")
    );
    assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:n"]);
    assert!(user.extra.is_empty(), "{:?}", user.extra);
    let vault = ["vault".to_owned()];
    let why = r#"token audiences ["us"] is invalid for the target audiences ["vault"]"#;
    assert_eq!(
        fixture.holder(&token, &vault),
        Err(why.to_owned()),
        "it is for this server"
    );
    let leaves = json!({ "deletionTimestamp": "2999-01-01T00:00:00Z" });
    assert_eq!(accepts_kept(&fixture, &token, leaves.clone()), gone);
    accepts_kept(&fixture, &kept(&fixture, json!({ "n": 1 })), json!({})).expect("the Secret has another now");
    let other = Err("Token does not match server's copy".to_owned());
    assert_eq!(fixture.knows(&token), other, "the Secret holds another token");
    let deleted = json!({ "uid": "u1", "deletionTimestamp": leaves["deletionTimestamp"] });
    for (account, why) in [
        (deleted, "ServiceAccount n/robot has been deleted"),
        (
            json!({ "uid": "u2" }),
            "ServiceAccount UID (u2) does not match claim (u1)",
        ),
    ] {
        fixture.shelf.put("serviceaccounts/n/robot", account.clone(), true);
        assert_eq!(
            accepts_kept(&fixture, &token, json!({})),
            Err(why.to_owned()),
            "{account}"
        );
    }
}

#[test]
fn the_last_use_of_a_token_that_a_secret_keeps_is_noted_once_a_day() {
    let fixture = Fixture::new();
    let noted = |fixture: &Fixture| {
        let secret = fixture.shelf.0.lock().expect("no test panics with it")["secrets/n/robot-token"].clone();
        secret.0["metadata"]["labels"][kept::LAST_USED].clone()
    };
    let day = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(days * 24 * 60 * 60 + 60);
    let token = kept(&fixture, json!({}));
    fixture.clock.set_wall(day(20_000));
    accepts_kept(&fixture, &token, json!({})).expect("a good one");
    assert_eq!(noted(&fixture), "2024-10-04");
    fixture.clock.set_wall(day(19_999));
    fixture.knows(&token).expect("a good one");
    assert_eq!(noted(&fixture), "2024-10-04", "by a replica whose clock is ahead");
    fixture.clock.set_wall(day(20_001));
    fixture.knows(&token).expect("a good one");
    assert_eq!(noted(&fixture), "2024-10-05");
}

#[test]
fn a_token_that_a_secret_keeps_is_refused_where_the_secret_is_marked() {
    let fixture = Fixture::new();
    let token = kept(&fixture, json!({}));
    let marked = json!({ "labels": { "kubernetes.io/legacy-token-invalid-since": "2026-01-01" } });
    let error = accepts_kept(&fixture, &token, marked).expect_err("it is marked");
    assert_eq!(
        error,
        "the token in secret n/robot-token for service account n/robot has been marked invalid. Use tokens from the \
         TokenRequest API or manually created secret-based tokens, or remove the \
         'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token"
    );
    accepts_kept(&fixture, &token, json!({})).expect("the mark was taken away");
}

#[test]
fn what_is_known_of_a_token_is_noted_for_the_client_and_the_audit_log() {
    let fixture = Fixture::new();
    let notes = |token: &str| {
        let holder = fixture.holder(token, &["us".to_owned()]).expect("a good one");
        let annotations = holder.notes.annotations.into_iter();
        let short = |(key, value): (&str, String)| (key.replace("authentication.k8s.io/", ""), value);
        (holder.notes.warnings.len(), annotations.map(short).collect::<Vec<_>>())
    };
    let note = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let subject = "system:serviceaccount:n:robot";
    let token = kept(&fixture, json!({}));
    accepts_kept(&fixture, &token, json!({})).expect("a good one");
    let manual = [
        note("legacy-token", subject),
        note("legacy-token-manual-secret", "robot-token"),
    ];
    assert_eq!(notes(&token), (0, manual.to_vec()));
    let account = json!({ "metadata": { "uid": "u1" }, "secrets": [{ "name": "robot-token" }] });
    fixture.shelf.put_object("serviceaccounts/n/robot", account, true);
    let automatic = [
        note("legacy-token", subject),
        note("legacy-token-autogenerated-secret", "robot-token"),
    ];
    assert_eq!(notes(&token), (1, automatic.to_vec()));

    let mut own = fixture.claims(json!({}))["kubernetes.io"].clone();
    own["warnafter"] = json!(fixture.now() + 10);
    let extended = fixture
        .signer
        .sign(fixture.claims(json!({ "kubernetes.io": own })))
        .expect("signed");
    assert_eq!(notes(&extended), (0, Vec::new()));
    fixture.clock.advance(Duration::from_secs(12));
    let stale = format!("subject: {subject}, seconds after warning threshold: 2");
    assert_eq!(notes(&extended), (0, vec![note("stale-token", &stale)]));
}

#[test]
fn a_token_that_a_secret_keeps_must_say_whose_it_is_and_be_signed() {
    let fixture = Fixture::new();
    let own = "kubernetes.io/serviceaccount";
    for (claim, bad) in [
        ("sub".to_owned(), json!("system:serviceaccount:n:other")),
        (format!("{own}/namespace"), json!(null)),
        (format!("{own}/secret.name"), json!("")),
        (format!("{own}/service-account.name"), json!(null)),
        (format!("{own}/service-account.uid"), json!(null)),
    ] {
        let mut changes = json!({});
        changes[&claim] = bad;
        let token = kept(&fixture, changes);
        assert!(accepts_kept(&fixture, &token, json!({})).is_err(), "{claim}");
    }
    let stranger = kept(&Fixture::new(), json!({}));
    assert_eq!(
        accepts_kept(&fixture, &stranger, json!({})),
        Err("invalid signature, no keys found".to_owned())
    );
    let token = kept(&fixture, json!({}));
    let mut parts: Vec<&str> = token.split('.').collect();
    parts[2] = "AAAA";
    assert!(accepts_kept(&fixture, &parts.join("."), json!({})).is_err());
}

#[test]
fn an_account_that_is_gone_is_named() {
    let fixture = Fixture::new();
    let deleted = json!({ "uid": "u1", "deletionTimestamp": "2001-01-01T00:00:00Z" });
    fixture.shelf.put("serviceaccounts/n/robot", deleted, true);
    let why = "service account n/robot has been deleted".to_owned();
    assert_eq!(fixture.accepts(json!({})), Err(why));
    fixture
        .shelf
        .put("serviceaccounts/n/robot", json!({ "uid": "u2" }), true);
    let why = "service account UID (u2) does not match claim (u1)".to_owned();
    assert_eq!(fixture.accepts(json!({})), Err(why));
}
