//! Certificates, CAs and tokens are exchanged while a server runs.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use trireme_tests::certificates::{Ca, Issued, with_certificate};
use trireme_tests::http::Client;
use trireme_tests::review_hook::ReviewHook;
use trireme_tests::server::USER_TOKEN;
use trireme_tests::{Server, StoreChoice};

/// Files are looked at every 400 ms.
const PATIENCE: Duration = Duration::from_secs(30);

/// The certificate that a new connection is shown.
fn shown(server: &Server) -> CertificateDer<'static> {
    let ca = CertificateDer::from_pem_file(server.ca_file()).expect("a CA");
    let mut roots = RootCertStore::empty();
    roots.add(ca).expect("a CA");
    let config = builder().with_root_certificates(roots).with_no_client_auth();
    let connection = shake_hands(server.port(), config).expect("the handshake");
    connection.peer_certificates().expect("shown")[0].clone().into_owned()
}

/// Open to anyone known, whatever rules are in force.
const OPEN_PATH: &str = "/livez";

/// Returns true if a client certificate is believed.
fn is_believed(server: &Server, issued: &Issued) -> bool {
    match with_certificate(server, issued).get(OPEN_PATH).expect("an answer").code {
        200 => true,
        401 => false,
        code => panic!("{code}"),
    }
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the defaults fit")
}

fn shake_hands(port: u16, config: ClientConfig) -> std::io::Result<ClientConnection> {
    let name = ServerName::try_from("127.0.0.1").map_err(std::io::Error::other)?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    Ok(connection)
}

fn until(server: &mut Server, what: &str, mut condition: impl FnMut(&Server) -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !condition(server) {
        assert!(std::time::Instant::now() < end, "no {what} within {PATIENCE:?}");
        assert_eq!(server.process().ended(), None);
        std::thread::yield_now();
    }
}

fn metric(client: &Client, series: &str) -> String {
    let metrics = client.get("/metrics").expect("an answer").text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn a_new_serving_certificate_is_shown_and_a_broken_one_is_not() {
    let mut server = Server::start(StoreChoice::Embedded);
    let before = shown(&server);
    let certificate_file = server.data_dir().join("pki/apiserver.crt");
    let key_file = server.data_dir().join("pki/apiserver.key");
    let (certificate, key) = Ca::of(&server).issue("replica");

    fs::write(&certificate_file, &certificate.pem()[..100]).expect("written");
    until(&mut server, "word of the broken file", |server| {
        metric(
            &server.client(),
            r#"trireme_file_reloads_total{file="tls",status="failure"}"#,
        ) == "1"
    });
    assert_eq!(shown(&server), before);
    // Certificate and key are two files: for a while they do not fit.
    fs::write(&certificate_file, certificate.pem()).expect("written");
    fs::write(&key_file, key.serialize_pem()).expect("written");
    until(&mut server, "new certificate", |server| shown(server) != before);
    assert_eq!(shown(&server), *certificate.der());
    let log = server.log();
    assert_eq!(
        log.matches("cannot be used; what was loaded before stays in use")
            .count(),
        1,
        "{log}"
    );
    assert!(!log.contains("PRIVATE KEY"));
    let series = r#"trireme_file_last_reload_timestamp_seconds{file="tls",status="success"}"#;
    until(&mut server, "time of the reload", |server| {
        metric(&server.client(), series)
            .parse::<f64>()
            .is_ok_and(|last| last > 1.7e9)
    });
}

#[test]
fn client_certificates_of_a_new_ca_are_taken_and_those_of_an_old_one_no_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("clients.crt");
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    fs::write(&file, &old.pem).expect("written");
    let flag = format!("--client-ca-file={}", file.display());
    let mut server = Server::try_start(StoreChoice::Embedded, &[&flag]).unwrap_or_else(|error| panic!("{error}"));
    let own = Ca::of(&server);
    let [by_old, by_new, by_own] = [&old, &new, &own].map(|ca| ca.issue("alice"));
    assert!(is_believed(&server, &by_old));
    assert!(!is_believed(&server, &by_new));
    let mut open = with_certificate(&server, &by_old).open().expect("a connection");
    let mut ask = move || {
        let request = format!("GET {OPEN_PATH} HTTP/1.1\r\nHost: x\r\n\r\n");
        let answer = open.send_raw(request.as_bytes(), "GET");
        answer.expect("an answer").code
    };
    assert_eq!(ask(), 200);

    replace(&file, &[old.pem.as_str(), &new.pem].concat());
    until(&mut server, "trust in the new CA", |server| {
        is_believed(server, &by_new)
    });
    assert!(is_believed(&server, &by_old), "both are there");
    replace(&file, &new.pem);
    until(&mut server, "distrust of the old CA", |server| {
        !is_believed(server, &by_old)
    });
    assert_eq!(ask(), 401, "nor on a connection that was there before");
    assert!(is_believed(&server, &by_new));
    assert!(is_believed(&server, &by_own), "its own is not in that file");
}

#[test]
fn an_untrusted_client_certificate_is_refused_and_a_token_beside_it_counts() {
    let server = Server::start(StoreChoice::Embedded);
    let own = Ca::of(&server);
    let expired = own.issue_until("alice", 2020);
    for worthless in [&Ca::new("foreign").issue("alice"), &expired] {
        let client = with_certificate(&server, worthless);
        let answer = client.get("/readyz").expect("an answer");
        assert_eq!(answer.code, 401, "bad credentials are not the same as none");
        let status: serde_json::Value = serde_json::from_str(&answer.text()).expect("a Status");
        assert_eq!([&status["kind"], &status["reason"]], ["Status", "Unauthorized"]);
        assert_eq!(
            client
                .with_token("admin-token")
                .get("/api/v1/namespaces")
                .expect("an answer")
                .code,
            200
        );
        assert_eq!(
            client
                .with_token("no-such")
                .get("/api/v1/namespaces")
                .expect("an answer")
                .code,
            401
        );
    }
    assert!(is_believed(&server, &own.issue("alice")));
}

/// kube-apiserver takes them: Go reads every version.
#[test]
fn client_certificates_of_version_1_are_believed_if_a_ca_has_signed_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("clients.crt");
    let given = Ca::new("given");
    fs::write(&file, &given.pem).expect("written");
    let flag = format!("--client-ca-file={}", file.display());
    let server = Server::try_start(StoreChoice::Embedded, &[&flag]).unwrap_or_else(|error| panic!("{error}"));
    let ask = |(certificate, key): (CertificateDer<'static>, KeyPair)| {
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let client = server.client().anonymous().with_certificate(certificate, key);
        client.expect("an identity").get(OPEN_PATH).map(|answer| answer.code)
    };
    let code = |issued| ask(issued).expect("an answer");
    assert_eq!(code(given.issue_version_1("alice", 2999)), 200);
    assert_eq!(code(Ca::of(&server).issue_version_1("alice", 2999)), 200, "its own CA");
    assert_eq!(code(given.issue_version_1("alice", 2020)), 401, "its time is over");
    assert_eq!(
        code(Ca::new("given").issue_version_1("alice", 2999)),
        401,
        "another CA of that name"
    );
    assert_eq!(code(Ca::new("other").issue_version_1("alice", 2999)), 401);

    let (certificate, key) = given.issue_version_1("alice", 2999);
    let stolen = || (certificate.clone(), KeyPair::generate().expect("a key"));
    ask(stolen()).expect_err("who does not hold the key is not heard");
    // In TLS 1.2 the key is proved in another way, and within the handshake.
    let shake_hands_of_1_2 = |(certificate, key): (CertificateDer<'static>, KeyPair)| {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(server.ca_file()).expect("a CA");
        roots.add(ca).expect("a CA");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let key = provider.key_provider.load_private_key(key).expect("a key");
        let identity = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS12])
            .expect("the version fits")
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(identity));
        shake_hands(server.port(), config)
    };
    shake_hands_of_1_2(stolen()).expect_err("nor here");
    shake_hands_of_1_2((certificate.clone(), key)).expect("the handshake");
}

#[test]
fn tokens_come_and_go_with_their_file() {
    let mut server = Server::start(StoreChoice::Embedded);
    let anonymous = server.client().anonymous();
    let code = move |token: &str| {
        let client = anonymous.with_token(token);
        client.get("/api/v1/namespaces").expect("an answer").code
    };
    assert_eq!((code("admin-token"), code("next-token")), (200, 401));
    let next = "next-token,admin,admin-uid,\"system:masters\"\n";
    replace(&server.tokens_file(), next);
    until(&mut server, "new token", |_| code("next-token") == 200);
    assert_eq!(code("admin-token"), 401, "it is in the file no more");

    replace(&server.tokens_file(), &format!("{next}half-a-line"));
    let error = "line 2: there must be at least a token";
    until(&mut server, "word of the broken line", |server| {
        server.log().contains(error)
    });
    assert_eq!(code("next-token"), 200);
    assert!(!server.log().contains("half-a-line"), "a line may hold a token");
}

#[test]
fn authorizers_come_and_go_with_their_configuration() {
    let hook = ReviewHook::start().unwrap_or_else(|error| panic!("{error}"));
    let allowed = serde_json::json!({"/hook": {"status": {"allowed": true}}});
    hook.set(allowed.as_object().cloned().unwrap_or_default());
    let dir = tempfile::tempdir().expect("a directory");
    let (file, kubeconfig) = (dir.path().join("authz.yaml"), dir.path().join("hook.kubeconfig"));
    fs::write(&kubeconfig, hook.kubeconfig("/hook")).expect("written");
    let rbac = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n\
        - {type: RBAC, name: rbac}\n";
    let with_webhook = format!(
        "{rbac}- type: Webhook\n  name: w\n  webhook: {{timeout: 5s, subjectAccessReviewVersion: v1, failurePolicy: Deny, \
         cacheAuthorizedRequests: false, connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}}}\n",
        kubeconfig.display()
    );
    fs::write(&file, &with_webhook).expect("written");
    let flag = format!("--authorization-config={}", file.display());
    let mut server = Server::try_start(StoreChoice::Embedded, &[&flag]).unwrap_or_else(|error| panic!("{error}"));
    let alice = server.client().with_token(USER_TOKEN);
    let code = || alice.get("/api/v1/namespaces").expect("an answer").code;
    assert_eq!(code(), 200, "the webhook allows it");
    let decisions = "apiserver_authorization_decisions_total{type=\"Webhook\",name=\"w\",decision=\"allowed\"}";
    assert_eq!(metric(&server.client(), decisions), "1");

    replace(&file, rbac);
    until(&mut server, "the webhook is asked no more", |_| code() == 403);
    // What cannot be used changes nothing.
    replace(
        &file,
        &with_webhook.replace("type: RBAC, name: rbac", "type: AlwaysAllow, name: alwaysallow"),
    );
    until(&mut server, "word of the missing type", |server| {
        server.log().contains("missing required types: [RBAC]")
    });
    assert_eq!(code(), 403);
    for status in ["success", "failure"] {
        until(&mut server, &format!("count of the reload with {status}"), |server| {
            let text = server.client().get("/metrics").expect("metrics").text();
            text.lines().any(|line| {
                line.starts_with("apiserver_authorization_config_controller_automatic_reloads_total{")
                    && line.contains(&format!("status=\"{status}\""))
                    && line.ends_with(" 1")
            })
        });
    }
}

/// Puts a new file in the place of an old one, as those do that are careful.
fn replace(file: &Path, content: &str) {
    let scratch = file.with_extension("new");
    fs::write(&scratch, content).expect("written");
    fs::rename(scratch, file).expect("renamed");
}
