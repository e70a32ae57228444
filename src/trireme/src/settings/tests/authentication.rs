//! The settings of authenticators.

use super::*;

#[test]
fn front_proxies_are_believed_by_cas_of_their_own_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let ca = pem_file(dir.path());
    let headers = "--requestheader-username-headers=X-Remote-User,X-Other --requestheader-uid-headers=x-remote-uid \
        --requestheader-group-headers=X-Remote-Group --requestheader-extra-headers-prefix=X-Remote-Extra-";
    let line = format!("trireme serve {headers} --requestheader-allowed-names=proxy");
    assert_eq!(serve(&line, &[]).request_header, None);
    let read = serve(&format!("{line} --requestheader-client-ca-file={}", ca.display()), &[]).request_header;
    let read = read.expect("there is a CA");
    assert_eq!((read.ca_file, read.allowed_names), (ca, vec!["proxy".to_owned()]));
    assert_eq!(read.headers.username, ["X-Remote-User", "X-Other"]);
    check_errors(
        "trireme serve --requestheader-group-headers=a,,b --requestheader-uid-headers=X-Uid",
        &[],
        expect![[r#"
            2 errors in the settings
              --requestheader-group-headers: "a,,b": give names, separated by commas, none of them empty
              --requestheader-uid-headers: "X-Uid": does not have the standard X-Remote-Uid header: API aggregation will not work"#]],
    );
}

#[test]
fn the_keys_of_tokens_may_be_found_elsewhere() {
    let given = |line: &str| serve(line, &[]).service_account_jwks_uri;
    assert_eq!(given("trireme serve"), None);
    let line = "trireme serve --service-account-jwks-uri=https://keys.example/jwks";
    assert_eq!(given(line).as_deref(), Some("https://keys.example/jwks"));
    assert!(read_line("trireme serve --service-account-jwks-uri=http://a", &[]).is_err());
}

#[test]
fn a_webhook_for_tokens_is_a_kubeconfig() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("webhook.kubeconfig");
    let cluster = "clusters: [{name: c, cluster: {server: 'http://a:1/b'}}]";
    let rest = "users: [{name: u, user: {token: hush}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]";
    fs::write(&file, format!("{cluster}\n{rest}\ncurrent-context: x\n")).expect("written");
    let line = format!(
        "trireme serve --authentication-token-webhook-config-file={}",
        file.display()
    );
    let read = serve(&format!("{line} --authentication-token-webhook-cache-ttl=3s"), &[]).token_webhook;
    let read = read.expect("there is one");
    assert_eq!(read.settings.cache_ttl, Duration::from_secs(3));
    assert_eq!(format!("{:?}", read.server), "RemoteServer(http://a:1/b)");
    assert!(serve("trireme serve", &[]).token_webhook.is_none());
    fs::write(&file, "clusters: []").expect("written");
    let errors = read_line(&format!("{line} --authentication-token-webhook-version=v2"), &[]);
    let errors = errors.expect_err("the settings are bad").to_string();
    expect![[r#"
        2 errors in the settings
          --authentication-token-webhook-version: "v2": give v1 or v1beta1
          --authentication-token-webhook-config-file: "FILE": give a kubeconfig of a webhook: FILE is no kubeconfig: it has no context """#]]
    .assert_eq(&errors.replace(file.to_str().expect("UTF-8"), "FILE"));
}

#[test]
fn issuers_are_those_of_a_file_or_of_flags() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("authn.yaml");
    let write = |text: &str| {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
        fs::write(&file, format!("{head}{text}")).expect("written");
    };
    let line = format!("trireme serve --authentication-config={}", file.display());
    write("anonymous: {enabled: true, conditions: [{path: /livez}]}\n");
    let settings = serve(&line, &[]);
    assert!(settings.anonymous_auth.admits("/livez") && !settings.anonymous_auth.admits("/api"));
    let in_use = settings.jwt.and_then(|jwt| jwt.file);
    assert_eq!(in_use.map(|in_use| in_use.path), Some(file.clone()));
    let oidc = "trireme serve --oidc-issuer-url=https://a --oidc-client-id=x --oidc-required-claim=a=b --oidc-required-claim=c=d";
    assert!(serve(oidc, &[]).jwt.is_some_and(|jwt| jwt.file.is_none()));
    assert!(serve("trireme serve", &[]).jwt.is_none());
    let show = |line: &str| {
        let errors = read_line(line, &[]).expect_err("the settings are bad").to_string();
        errors.replace(file.to_str().expect("UTF-8"), "FILE")
    };
    expect![[r#"
        1 error in the settings
          --anonymous-auth: "true": anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication configuration file"#]]
    .assert_eq(&show(&format!("{line} --anonymous-auth=true")));
    expect![[r#"
        1 error in the settings
          --authentication-config: "FILE": authentication-config file and oidc-* flags are mutually exclusive"#]]
    .assert_eq(&show(&format!("{line} --oidc-client-id=x")));
    expect![[r#"
        1 error in the settings
          --oidc-client-id: "x": oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"#]]
    .assert_eq(&show("trireme serve --oidc-client-id=x"));
    expect![[r#"
        1 error in the settings
          --oidc-issuer-url: "https://a": oidc: unsupported signing alg: "HS256""#]]
    .assert_eq(&show(
        "trireme serve --oidc-issuer-url=https://a --oidc-client-id=x --oidc-signing-algs=HS256",
    ));
    write(
        "jwt: [{issuer: {url: 'https://kubernetes.default.svc', audiences: [a]}, claimMappings: {username: {claim: a, prefix: ''}}}]\n",
    );
    expect![[r#"
        1 error in the settings
          --authentication-config: "FILE": invalid authentication configuration: jwt[0].issuer.url: Invalid value: "https://kubernetes.default.svc": URL must not overlap with disallowed issuers: [https://kubernetes.default.svc]"#]]
    .assert_eq(&show(&line));
}

#[test]
fn nobody_comes_without_credentials_where_everything_is_allowed() {
    let admits = |line: &str| {
        let settings = serve(line, &[]);
        let warned: Vec<_> = settings.without_effect.iter().map(|it| it.flag).collect();
        (settings.anonymous_auth.enabled, warned)
    };
    assert_eq!(admits("trireme serve"), (true, vec![]));
    for mode in ["AlwaysAllow", "RBAC,AlwaysAllow"] {
        let line = format!("trireme serve --anonymous-auth=true --authorization-mode={mode}");
        assert_eq!(admits(&line), (false, vec!["anonymous-auth"]), "{mode}");
    }
}

#[test]
fn tokens_may_be_believed_in_several_names() {
    let names = |line: &str| serve(line, &[]).service_account_issuers;
    assert_eq!(names("trireme serve"), ["https://kubernetes.default.svc"]);
    let line =
        "trireme serve --service-account-issuer=https://new.example --service-account-issuer=https://old.example";
    assert_eq!(names(line), ["https://new.example", "https://old.example"]);
}
