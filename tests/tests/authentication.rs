//! Authentication: front proxies, passwords, issuers of tokens; and the time until a revoked credential is refused.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trireme_tests::canary::PLANTED;
use trireme_tests::certificates::{Ca, with_certificate};
use trireme_tests::http::{Client, Request};
use trireme_tests::identity_peer::IdentityPeer;
use trireme_tests::{Server, StoreChoice, folder};

/// A revoked credential is refused within this time.
const REVOKED_WITHIN: Duration = Duration::from_secs(1);
/// A busy machine may take longer now and then, but never so long.
const PATIENCE: Duration = Duration::from_secs(30);
const ATTEMPTS: usize = 5;

fn start(flags: &[&str]) -> Server {
    Server::try_start(StoreChoice::Embedded, flags).unwrap_or_else(|error| panic!("{error}"))
}

/// The user whom a server takes a client for, or the code of its refusal. The headers come beside its credentials.
fn user(client: &Client, headers: &[(&str, &str)]) -> Result<Value, u16> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let headers: Vec<(String, String)> = headers.iter().map(own).collect();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request {
        method: "POST",
        path: "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        body: Some(review.to_string().into_bytes()),
        content_type: Some("application/json"),
        headers: &headers,
        ..Request::default()
    };
    let answer = client.send(&request).expect("an answer");
    let body: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
    match answer.code {
        201 => Ok(body["status"]["userInfo"].clone()),
        code => Err(code),
    }
}

fn name(client: &Client, headers: &[(&str, &str)]) -> Result<String, u16> {
    user(client, headers).map(|user| user["username"].as_str().unwrap_or_default().to_owned())
}

/// Waits until a condition holds; says how long that took.
fn until(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "no {what} within {PATIENCE:?}");
        std::thread::yield_now();
    }
    begun.elapsed()
}

/// Measures the time until a user is refused whom `grant` makes known and `revoke` removes again.
fn check_revocation(what: &str, mut grant: impl FnMut(), mut revoke: impl FnMut(), mut is_known: impl FnMut() -> bool) {
    let mut quickest = PATIENCE;
    for _ in 0..ATTEMPTS {
        grant();
        until(&format!("grant of {what}"), &mut is_known);
        revoke();
        let took = until(&format!("revocation of {what}"), || !is_known());
        println!("{what}: refused {} ms after it was revoked", took.as_millis());
        quickest = quickest.min(took);
        if quickest <= REVOKED_WITHIN {
            return;
        }
    }
    panic!("{what} is refused after {quickest:?}, {REVOKED_WITHIN:?} at most are allowed");
}

/// Puts a new file in the place of an old one, as those do that are careful.
fn replace(file: &Path, content: &str) {
    let scratch = file.with_extension("new");
    fs::write(&scratch, content).expect("written");
    fs::rename(scratch, file).expect("renamed");
}

const REQUEST_HEADERS: &str = "--requestheader-username-headers=X-Remote-User --requestheader-uid-headers=X-Remote-Uid \
    --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --requestheader-allowed-names=front-proxy";

#[test]
fn only_a_front_proxy_names_the_user() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("proxies.crt");
    let proxies = Ca::new("proxies");
    fs::write(&file, &proxies.pem).expect("written");
    let ca = format!("--requestheader-client-ca-file={}", file.display());
    let flags: Vec<&str> = REQUEST_HEADERS.split_whitespace().chain([ca.as_str()]).collect();
    let server = start(&flags);
    let headers = [
        ("X-Remote-User", "ann"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "dev"),
        ("x-remote-group", "ops"),
        ("X-Remote-Extra-Acme.com%2fTeam", "red"),
    ];
    let proxy = with_certificate(&server, &proxies.issue("front-proxy"));
    let expected = json!({
        "username": "ann", "uid": "7", "groups": ["dev", "ops", "system:authenticated"], "extra": {"acme.com/team": ["red"]},
    });
    assert_eq!(user(&proxy, &headers), Ok(expected));
    assert_eq!(name(&proxy, &[]), Err(401), "its certificate is no client's");
    let other = with_certificate(&server, &proxies.issue("other"));
    assert_eq!(name(&other, &headers), Err(401), "of a name that is not allowed");
    let client = with_certificate(&server, &Ca::of(&server).issue("bob"));
    assert_eq!(name(&client, &headers), Ok("bob".to_owned()), "a client is who it is");
    assert_eq!(
        name(&server.client(), &headers),
        Ok("admin".to_owned()),
        "so is a token"
    );
    // Another CA is believed as soon as the file says so.
    let next = Ca::new("next");
    check_revocation(
        "a CA of front proxies",
        || replace(&file, &proxies.pem),
        || replace(&file, &next.pem),
        || name(&proxy, &headers).is_ok(),
    );
}

#[test]
fn a_ca_of_clients_is_none_of_front_proxies_without_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("both.crt");
    fs::write(&file, &Ca::new("both").pem).expect("written");
    let file = file.display();
    let flags = [
        format!("--client-ca-file={file}"),
        format!("--requestheader-client-ca-file={file}"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let Err(refused) = Server::try_start(StoreChoice::Embedded, &flags) else {
        panic!("it starts")
    };
    assert!(
        refused.contains("--requestheader-allowed-names must be specified"),
        "{refused}"
    );
}

#[test]
fn passwords_are_taken_where_a_file_has_them_only() {
    let credentials = format!("Basic {}", STANDARD.encode(format!("ann:{PLANTED}")));
    let basic = [("Authorization", credentials.as_str())];
    let without = start(&[]);
    assert_eq!(
        name(&without.client().anonymous(), &basic),
        Err(403),
        "as an anonymous one"
    );
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("passwords.csv");
    let line = format!("{PLANTED},ann,uid-1,\"dev,ops\"\n");
    fs::write(&file, &line).expect("written");
    let server = start(&[&format!("--basic-auth-file={}", file.display())]);
    let client = server.client().anonymous();
    let expected = json!({"username": "ann", "uid": "uid-1", "groups": ["dev", "ops", "system:authenticated"]});
    assert_eq!(user(&client, &basic), Ok(expected));
    assert_eq!(name(&client, &[("Authorization", "Basic YW5uOmd1ZXNz")]), Err(401));
    check_revocation(
        "a password",
        || replace(&file, &line),
        || replace(&file, "other,ann,uid-1\n"),
        || name(&client, &basic).is_ok(),
    );
}

/// A server that believes the issuers of a peer, and the file that says so.
fn with_issuers() -> (IdentityPeer, Server, std::path::PathBuf) {
    let peer = IdentityPeer::start();
    let configuration = fs::read_to_string(folder().join("reference/auth-modes/authn.yaml")).expect("it is there");
    let file = peer.file("authn.yaml", &peer.adapt(&configuration));
    let server = start(&[&format!("--authentication-config={}", file.display())]);
    (peer, server, file)
}

/// A token of the first issuer.
fn token(peer: &IdentityPeer, key: &str) -> String {
    let payload = json!({
        "iss": format!("{}/one", peer.url()), "aud": "app", "hd": "corp", "sub": "kim", "uid": "u0", "exp": "+600",
    });
    peer.sign(
        key,
        &json!({"header": {"alg": "RS256", "kid": "k1"}, "payload": payload}),
    )
}

#[test]
fn issuers_come_and_go_with_their_file() {
    let (peer, server, file) = with_issuers();
    let whole = fs::read_to_string(&file).expect("it is there");
    let client = server.client().anonymous().with_token(&token(&peer, "jwt"));
    until("word of the issuer", || name(&client, &[]).is_ok());
    assert_eq!(name(&client, &[]), Ok("one:kim".to_owned()));
    let (without, _) = whole.split_once("jwt:").expect("it has issuers");
    check_revocation(
        "an issuer",
        || replace(&file, &whole),
        || replace(&file, without),
        || name(&client, &[]).is_ok(),
    );
    replace(&file, &whole);
    until("the issuer again", || name(&client, &[]).is_ok());
    let reloads = |status: &str| {
        let metrics = server.client().get("/metrics").expect("an answer").text();
        let series = "apiserver_authentication_config_controller_automatic_reloads_total{";
        let status = format!("status=\"{status}\"");
        metrics
            .lines()
            .any(|line| line.starts_with(series) && line.contains(&status))
    };
    assert!(reloads("success") && !reloads("failure"));
    // What is not in order changes nothing, nor does who may come without credentials.
    for broken in [
        whole.replace("audiences: [app]", "audiences: []"),
        whole.replace("/livez", "/readyz"),
    ] {
        let failures = server.log().matches("what was loaded before stays in use").count();
        replace(&file, &broken);
        until("word of the broken file", || {
            server.log().matches("what was loaded before stays in use").count() > failures
        });
        assert_eq!(name(&client, &[]), Ok("one:kim".to_owned()));
    }
    until("count of the failure", || reloads("failure"));
    assert!(
        server.log().contains("jwt[1].issuer.audiences: Required value"),
        "{}",
        server.log()
    );
    assert!(
        server
            .log()
            .contains("anonymous: Forbidden: changed from initial configuration file")
    );
}

#[test]
fn keys_of_an_issuer_are_fetched_anew_when_they_change() {
    let (peer, server, _) = with_issuers();
    let old = server.client().anonymous().with_token(&token(&peer, "jwt"));
    until("word of the issuer", || name(&old, &[]).is_ok());
    peer.rotate_key();
    let new = server.client().anonymous().with_token(&token(&peer, "jwt"));
    until("trust in the new key", || name(&new, &[]).is_ok());
    assert_eq!(name(&old, &[]), Err(401), "the old key is gone");
    let stranger = server.client().anonymous().with_token(&token(&peer, "other"));
    assert_eq!(name(&stranger, &[]), Err(401));
    assert_eq!(name(&new, &[]), Ok("one:kim".to_owned()));
}

#[test]
fn what_is_revoked_is_refused_within_a_second() {
    let dir = tempfile::tempdir().expect("a directory");
    let clients = dir.path().join("clients.crt");
    let (ca, other) = (Ca::new("clients"), Ca::new("other"));
    fs::write(&clients, &ca.pem).expect("written");
    let server = start(&[&format!("--client-ca-file={}", clients.display())]);
    let file = server.tokens_file();
    let before = fs::read_to_string(&file).expect("it is there");
    let extra = server.client().anonymous().with_token("extra-token");
    check_revocation(
        "a static token",
        || replace(&file, &format!("{before}extra-token,ann,1\n")),
        || replace(&file, &before),
        || name(&extra, &[]).is_ok(),
    );
    let alice = with_certificate(&server, &ca.issue("alice"));
    check_revocation(
        "a CA of clients",
        || replace(&clients, &ca.pem),
        || replace(&clients, &other.pem),
        || name(&alice, &[]).is_ok(),
    );
    let admin = server.client();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]},
    });
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let made = admin
        .json("POST", "/api/v1/namespaces/default/serviceaccounts", &account)
        .expect("an answer");
    assert_eq!(made.code, 201);
    let bound = std::cell::RefCell::new(admin.anonymous());
    check_revocation(
        "a token bound to a pod",
        || {
            let made = admin.json("POST", pods, &pod).expect("an answer");
            assert_eq!(made.code, 201, "{}", made.text());
            let request = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                "spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"}},
            });
            let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
            let answer = admin.json("POST", path, &request).expect("an answer").text();
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            let token = answer["status"]["token"].as_str().expect("a token").to_owned();
            *bound.borrow_mut() = admin.anonymous().with_token(&token);
        },
        || {
            let path = format!("{pods}/p?gracePeriodSeconds=0");
            let request = Request {
                method: "DELETE",
                path: &path,
                ..Request::default()
            };
            assert_eq!(admin.send(&request).expect("an answer").code, 200);
        },
        || name(&bound.borrow(), &[]).is_ok(),
    );
}
