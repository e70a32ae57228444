//! Tokens of service accounts: who asks for one gets in with it, for as long as what it is bound to is there.

use std::fs;
use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::EncodingKey;
use serde_json::{Value, json};
use tempfile::TempDir;
use trireme_tests::group::until;
use trireme_tests::server::{ADMIN_TOKEN, USER_TOKEN};
use trireme_tests::{Server, StoreChoice};

const NAMESPACE: &str = "/api/v1/namespaces/factory";
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes an object; what the server made of it.
fn make(server: &Server, collection: &str, object: Value) -> Value {
    let answer = server
        .client()
        .json("POST", &format!("{NAMESPACE}/{collection}"), &object)
        .expect("an answer");
    assert_eq!(answer.code, 201, "{}", answer.text());
    serde_json::from_str(&answer.text()).expect("an object")
}

fn remove(server: &Server, path: &str) {
    let now = json!({ "gracePeriodSeconds": 0 });
    let answer = server
        .client()
        .json("DELETE", &format!("{NAMESPACE}/{path}"), &now)
        .expect("an answer");
    assert_eq!(answer.code, 200, "{}", answer.text());
}

fn start(store: StoreChoice) -> Server {
    start_with(store, &[])
}

fn start_with(store: StoreChoice, flags: &[&str]) -> Server {
    let server = Server::try_start(store, flags).unwrap_or_else(|error| panic!("{error}"));
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "factory" } });
    let answer = server
        .client()
        .json("POST", "/api/v1/namespaces", &namespace)
        .expect("an answer");
    assert_eq!(answer.code, 201, "{}", answer.text());
    server
}

fn account(server: &Server, name: &str) {
    let object = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
    make(server, "serviceaccounts", object);
}

fn token(server: &Server, account: &str, spec: Value) -> String {
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
    let made = make(server, &format!("serviceaccounts/{account}/token"), request);
    made["status"]["token"].as_str().expect("a token").to_owned()
}

/// The user that the server takes the holder of a token for; the code if it takes him for none.
fn holder(server: &Server, token: &str) -> Result<Value, u16> {
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = server
        .client()
        .with_token(token)
        .json("POST", path, &review)
        .expect("an answer");
    if answer.code != 201 {
        return Err(answer.code);
    }
    let mut review: Value = serde_json::from_str(&answer.text()).expect("a review");
    Ok(review["status"]["userInfo"].take())
}

/// Waits until a token has ended. Tokens are held against the caches, which see a write a moment after its answer.
fn until_refused(server: &Server, token: &str) {
    until("the token is refused", PATIENCE, || holder(server, token) == Err(401));
}

fn part(token: &str, number: usize) -> Value {
    let text = token.split('.').nth(number).expect("three parts");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).expect("base64")).expect("JSON")
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// A token that the server's own key has signed, as any other holder of the key may.
fn signed(server: &Server, account: &str, claims: &Value) -> String {
    let issued = token(server, account, json!({}));
    let key = std::fs::read(server.data_dir().join("pki/sa.key")).expect("the server's key");
    let header = jsonwebtoken::decode_header(&issued).expect("a header");
    let key = EncodingKey::from_ec_pem(&key).expect("a key");
    jsonwebtoken::encode(&header, claims, &key).expect("signed")
}

#[test]
fn who_holds_a_token_is_the_service_account() {
    let server = start(StoreChoice::Embedded);
    account(&server, "robot");
    let token = token(&server, "robot", json!({}));
    let user = holder(&server, &token).expect("known");
    assert_eq!(user["username"], "system:serviceaccount:factory:robot");
    assert_eq!(
        user["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:factory",
            "system:authenticated"
        ])
    );
    let id = part(&token, 1)["jti"].as_str().expect("an id").to_owned();
    let shown = &user["extra"]["authentication.kubernetes.io/credential-id"];
    assert_eq!(*shown, json!([format!("JTI={id}")]));
    // It may do no more than any other user.
    let refused = server
        .client()
        .with_token(&token)
        .get(&format!("{NAMESPACE}/pods"))
        .expect("an answer");
    assert_eq!(refused.code, 403);
    assert!(
        refused.text().contains("system:serviceaccount:factory:robot"),
        "{}",
        refused.text()
    );
}

#[test]
fn a_token_ends_with_what_it_is_bound_to() {
    let server = start(StoreChoice::Embedded);
    account(&server, "robot");
    make(
        &server,
        "secrets",
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } }),
    );
    make(
        &server,
        "pods",
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
            "spec": { "serviceAccountName": "robot", "containers": [{ "name": "c", "image": "i" }] },
        }),
    );
    let bound = |kind: &str, name: &str| {
        let reference = json!({ "apiVersion": "v1", "kind": kind, "name": name });
        token(&server, "robot", json!({ "boundObjectRef": reference }))
    };
    let (free, of_secret, of_pod) = (
        token(&server, "robot", json!({})),
        bound("Secret", "s"),
        bound("Pod", "p"),
    );
    let user = holder(&server, &of_pod).expect("known");
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    holder(&server, &of_secret).expect("known");
    remove(&server, "secrets/s");
    remove(&server, "pods/p");
    // One of the same name is another.
    make(
        &server,
        "secrets",
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } }),
    );
    until_refused(&server, &of_secret);
    until_refused(&server, &of_pod);
    holder(&server, &free).expect("bound to nothing but its account");
    remove(&server, "serviceaccounts/robot");
    account(&server, "robot");
    until_refused(&server, &free);
}

/// Makes a service account and a Secret with a token of it; the token and the account. It is what kube-controller-manager does, with
/// the key that it shares with the server.
fn token_in_secret(server: &Server, name: &str) -> (String, Value) {
    account(server, name);
    let path = format!("{NAMESPACE}/serviceaccounts/{name}");
    let account = server.client().get(&path).expect("an answer").text();
    let account: Value = serde_json::from_str(&account).expect("JSON");
    let own = "kubernetes.io/serviceaccount";
    let claims = json!({
        "iss": "kubernetes/serviceaccount", "sub": format!("system:serviceaccount:factory:{name}"),
        format!("{own}/namespace"): "factory", format!("{own}/secret.name"): format!("{name}-token"),
        format!("{own}/service-account.name"): name, format!("{own}/service-account.uid"): account["metadata"]["uid"],
    });
    let token = signed(server, name, &claims);
    assert_eq!(holder(server, &token), Err(401));
    let metadata = json!({
        "name": format!("{name}-token"), "annotations": { "kubernetes.io/service-account.name": name },
    });
    let kind = "kubernetes.io/service-account-token";
    make(
        server,
        "secrets",
        json!({ "metadata": metadata, "type": kind, "stringData": { "token": token } }),
    );
    (token, account)
}

#[test]
fn a_token_in_a_secret_is_good_as_long_as_its_secret_is_there() {
    let server = start(StoreChoice::Embedded);
    let (token, account) = token_in_secret(&server, "robot");
    let user = holder(&server, &token).expect("known");
    assert_eq!(user["username"], "system:serviceaccount:factory:robot");
    assert_eq!(
        (&user["uid"], &user["extra"]),
        (&account["metadata"]["uid"], &Value::Null)
    );
    remove(&server, "secrets/robot-token");
    until_refused(&server, &token);
}

/// `TestLegacyServiceAccountTokenTracking` and `TestLegacyServiceAccountTokenCleanUp` of Kubernetes, without controllers.
#[test]
fn the_use_of_a_token_in_a_secret_is_noted_and_warned_of() {
    let dir = TempDir::new().expect("a directory");
    let (policy, log) = (dir.path().join("policy.yaml"), dir.path().join("audit.log"));
    let text = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
    fs::write(&policy, text).expect("written");
    let flags =
        [("policy-file", &policy), ("log-path", &log)].map(|(flag, path)| format!("--audit-{flag}={}", path.display()));
    let server = start_with(StoreChoice::Embedded, &flags.each_ref().map(String::as_str));
    let client = server.client();
    let read = |path: &str| -> Value {
        let answer = client.get(path).expect("an answer");
        serde_json::from_str(&answer.text()).expect("JSON")
    };
    let path = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
    until("the ConfigMap is there", PATIENCE, || {
        client.get(path).is_ok_and(|answer| answer.code == 200)
    });
    let is_date = |value: &Value| {
        let form = value.as_str().unwrap_or_default().bytes();
        let form: String = form
            .map(|byte| if byte.is_ascii_digit() { '0' } else { byte.into() })
            .collect();
        form == "0000-00-00"
    };
    assert!(is_date(&read(path)["data"]["since"]), "{}", read(path));

    let (token, account) = token_in_secret(&server, "robot");
    let secret = format!("{NAMESPACE}/secrets/robot-token");
    let version = client.with_token(&token).get("/version").expect("an answer");
    assert_eq!(version.code, 200);
    assert_eq!(version.header("warning").next(), None, "a Secret that a user made");
    let labels = &read(&secret)["metadata"]["labels"];
    assert!(is_date(&labels["kubernetes.io/legacy-token-last-used"]), "{labels}");

    let mut referring = account.clone();
    referring["secrets"] = json!([{ "name": "robot-token" }]);
    let account_path = format!("{NAMESPACE}/serviceaccounts/robot");
    assert_eq!(
        client.json("PUT", &account_path, &referring).expect("an answer").code,
        200
    );
    let warning = "299 - \"Use tokens from the TokenRequest API or manually created secret-based tokens instead of \
                   auto-generated secret-based tokens.\"";
    // Tokens are held against the caches, which see a write a moment after its answer.
    until("the client is warned", PATIENCE, || {
        let version = client.with_token(&token).get("/version").expect("an answer");
        version.header("warning").eq([warning])
    });

    let mut marked = read(&secret);
    marked["metadata"]["labels"]["kubernetes.io/legacy-token-invalid-since"] = json!("2026-01-01");
    assert_eq!(client.json("PUT", &secret, &marked).expect("an answer").code, 200);
    until_refused(&server, &token);
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token },
    });
    let review = client
        .json("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .expect("an answer");
    assert!(review.text().contains("has been marked invalid"), "{}", review.text());
    let log = fs::read_to_string(&log).expect("a log");
    for annotation in [
        r#""authentication.k8s.io/legacy-token":"system:serviceaccount:factory:robot""#,
        r#""authentication.k8s.io/legacy-token-manual-secret":"robot-token""#,
        r#""authentication.k8s.io/legacy-token-autogenerated-secret":"robot-token""#,
        r#""authentication.k8s.io/legacy-token-invalidated":"robot-token/factory""#,
    ] {
        assert!(log.contains(annotation), "{annotation} in\n{log}");
    }
}

#[test]
fn tokens_that_are_not_ours_or_not_for_us_are_refused() {
    let server = start(StoreChoice::Embedded);
    account(&server, "robot");
    let good = token(&server, "robot", json!({}));
    let parts: Vec<&str> = good.split('.').collect();
    let (head, claims) = (part(&good, 0), part(&good, 1));
    let with = |head: &Value, claims: &Value| format!("{}.{}.{}", encoded(head), encoded(claims), parts[2]);
    let mut other = claims.clone();
    other["sub"] = "system:serviceaccount:kube-system:robot".into();
    let mut unknown_key = head.clone();
    unknown_key["kid"] = "../../etc/passwd".into();
    let none = json!({ "alg": "none" });
    for (what, bad) in [
        ("another subject", with(&head, &other)),
        ("another key", with(&unknown_key, &claims)),
        ("no signature", format!("{}.{}.", encoded(&none), parts[1])),
        ("no signature, the same head", format!("{}.{}.", parts[0], parts[1])),
        ("a cut token", good[..good.len() - 2].to_owned()),
        (
            "other audiences",
            token(&server, "robot", json!({ "audiences": ["https://vault.example"] })),
        ),
    ] {
        assert_eq!(holder(&server, &bad), Err(401), "{what}");
    }
    holder(&server, &good).expect("the good one is still good");
    // Signed as it should be, by a key that is not believed here.
    let stranger = start(StoreChoice::Embedded);
    assert_eq!(holder(&stranger, &good), Err(401));
}

#[test]
fn replicas_with_one_key_know_each_others_tokens() {
    let first = start(StoreChoice::Etcd);
    account(&first, "robot");
    let key = first.data_dir().join("pki/sa.key");
    let flag = format!("--service-account-signing-key-file={}", key.display());
    let second = first.start_beside(&[&flag]).expect("starts");
    let issued = token(&second, "robot", json!({}));
    let names = [&first, &second].map(|server| holder(server, &issued).expect("known")["username"].clone());
    assert_eq!(names, [(); 2].map(|()| json!("system:serviceaccount:factory:robot")));
}

/// A document of the issuer, its media type, and how long it may be kept.
fn document(server: &Server, path: &str, token: &str) -> (Value, String, String) {
    let answer = server.client().with_token(token).get(path).expect("an answer");
    assert_eq!(answer.code, 200, "{path}: {}", answer.text());
    let header = |name| answer.header(name).collect::<String>();
    let value = serde_json::from_str(&answer.text()).expect("JSON");
    (value, header("content-type"), header("cache-control"))
}

#[test]
fn others_find_out_how_to_check_a_token() {
    let server = Server::try_start(StoreChoice::Embedded, &["--advertise-address=10.1.2.3"]);
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let namespace = json!({ "metadata": { "name": "factory" } });
    server
        .client()
        .json("POST", "/api/v1/namespaces", &namespace)
        .expect("an answer");
    account(&server, "robot");
    let token = token(&server, "robot", json!({}));
    let (configuration_path, keys_path) = ("/.well-known/openid-configuration", "/openid/v1/jwks");
    let kept = "public, max-age=3600";
    let (configuration, media_type, cached) = document(&server, configuration_path, &token);
    assert_eq!((media_type.as_str(), cached.as_str()), ("application/json", kept));
    assert_eq!(configuration["issuer"], part(&token, 1)["iss"]);
    let url = format!("https://10.1.2.3:{}{keys_path}", server.port());
    assert_eq!(configuration["jwks_uri"], json!(url));
    let (keys, media_type, cached) = document(&server, keys_path, &token);
    assert_eq!(
        (media_type.as_str(), cached.as_str()),
        ("application/jwk-set+json", kept)
    );
    let signer = part(&token, 0);
    let keys = keys["keys"].as_array().expect("keys");
    assert!(
        keys.iter()
            .any(|key| key["kid"] == signer["kid"] && key["alg"] == signer["alg"]),
        "{keys:?}"
    );
    for path in [configuration_path, keys_path] {
        document(&server, &format!("{path}/"), ADMIN_TOKEN);
        for client in [server.client().with_token(USER_TOKEN), server.client().anonymous()] {
            assert_eq!(client.get(path).expect("an answer").code, 403, "{path}");
        }
        let written = server.client().json("POST", path, &json!({})).expect("an answer");
        assert_eq!(written.code, 405, "{path}");
    }
}

#[test]
fn an_issuer_that_is_no_url_publishes_nothing() {
    let server = Server::try_start(
        StoreChoice::Embedded,
        &["--service-account-issuer=kubernetes/serviceaccount"],
    );
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    for path in ["/.well-known/openid-configuration", "/openid/v1/jwks"] {
        assert_eq!(server.client().get(path).expect("an answer").code, 404, "{path}");
    }
}

/// test/integration/auth/svcaccttoken_test.go
#[test]
fn what_a_kubelet_puts_into_a_pod_outlives_what_it_says() {
    let server = start(StoreChoice::Embedded);
    account(&server, "robot");
    let containers = json!([{ "name": "c", "image": "i" }]);
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "serviceAccountName": "robot", "containers": containers } });
    make(&server, "pods", pod);
    let bound = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p" });
    // The claims of a token: for how long it is good, and after how long it should no longer be used.
    let lasts = |spec: Value| {
        let claims = part(&token(&server, "robot", spec), 1);
        let issued = claims["iat"].as_i64().expect("a time");
        let warns = claims["kubernetes.io"]["warnafter"].as_i64().map(|at| at - issued);
        (claims["exp"].as_i64().expect("a time") - issued, warns)
    };
    let asked = json!({ "expirationSeconds": 3607, "boundObjectRef": bound });
    assert_eq!(lasts(asked), (365 * 24 * 3600, Some(3607)));
    for spec in [
        json!({ "expirationSeconds": 3607 }),
        json!({ "expirationSeconds": 3600, "boundObjectRef": bound }),
        json!({ "expirationSeconds": 3607, "boundObjectRef": bound, "audiences": ["elsewhere"] }),
    ] {
        let (seconds, warns) = lasts(spec.clone());
        assert_eq!(
            (Some(seconds), warns),
            (spec["expirationSeconds"].as_i64(), None),
            "{spec}"
        );
    }
}

#[test]
fn a_lifetime_beyond_the_bound_is_shortened_and_said() {
    let server = start_with(StoreChoice::Embedded, &["--service-account-max-token-expiration=1h"]);
    account(&server, "robot");
    let request = |seconds: i64| {
        let path = format!("{NAMESPACE}/serviceaccounts/robot/token");
        let request = json!({ "spec": { "expirationSeconds": seconds } });
        server.client().json("POST", &path, &request).expect("an answer")
    };
    assert_eq!(request(3600).header("warning").count(), 0);
    let shortened = request(7200);
    assert_eq!(
        shortened.header("warning").collect::<Vec<_>>(),
        ["299 - \"requested expiration of 7200 seconds shortened to 3600 seconds\""]
    );
    let made: Value = serde_json::from_str(&shortened.text()).expect("an object");
    assert_eq!(made["spec"]["expirationSeconds"], 3600);
    let claims = part(made["status"]["token"].as_str().expect("a token"), 1);
    let times = ["exp", "iat"].map(|name| claims[name].as_i64().expect("a time"));
    assert_eq!(times[0] - times[1], 3600);
}

/// The metadata of a request names the account that it is meant for, if it says anything.
#[test]
fn a_request_that_was_made_for_another_account_is_refused() {
    let server = start(StoreChoice::Embedded);
    account(&server, "robot");
    let path = format!("{NAMESPACE}/serviceaccounts/robot");
    let answer = server.client().get(&path).expect("an answer");
    let robot: Value = serde_json::from_str(&answer.text()).expect("an object");
    let uid = robot["metadata"]["uid"].as_str().expect("a UID");
    let request = |metadata: Value| {
        let request = json!({ "metadata": metadata, "spec": {} });
        let answer = server.client().json("POST", &format!("{path}/token"), &request);
        let answer = answer.expect("an answer");
        let body: Value = serde_json::from_str(&answer.text()).expect("an object");
        (answer.code, body)
    };
    let (code, made) = request(json!({ "name": "robot", "namespace": "factory", "uid": uid }));
    assert_eq!((code, made["metadata"]["uid"].as_str()), (201, Some(uid)));
    assert_eq!(request(json!({})).1["metadata"]["uid"].as_str(), Some(uid));
    for (metadata, code, message) in [
        (
            json!({ "uid": "another" }),
            409,
            format!(
                "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"robot\": the UID in the token request \
                 (another) does not match the UID of the service account ({uid})"
            ),
        ),
        (
            json!({ "name": "other" }),
            422,
            "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"other\": must match the \
             service account name if specified"
                .to_owned(),
        ),
    ] {
        let (got, status) = request(metadata);
        assert_eq!((got, status["message"].as_str()), (code, Some(message.as_str())));
    }
}
