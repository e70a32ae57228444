//! The content of files that flags name.

use super::*;

/// Every error of a command line, with names of files in the place of their paths.
fn errors(dir: &Path, line: &str) -> String {
    let line = format!("trireme serve {line}").replace("DIR", &dir.display().to_string());
    let errors = read_line(&line, &[]).expect_err("the settings are bad").to_string();
    errors.replace(&dir.display().to_string(), "DIR")
}

#[test]
fn a_bad_file_is_refused_by_the_flag_that_names_it_and_shows_nothing_of_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    fs::write(dir.join("junk"), "s3cret").expect("written");
    fs::write(dir.join("tokens.csv"), "s3cret,user\n").expect("written");
    fs::write(
        dir.join("other.key"),
        KeyPair::generate().expect("a key").serialize_pem(),
    )
    .expect("written");
    pem_file(dir);
    let text = errors(
        dir,
        "--client-ca-file=DIR/junk --root-ca-file=DIR/junk --requestheader-client-ca-file=DIR/junk \
         --token-auth-file=DIR/tokens.csv --basic-auth-file=DIR/tokens.csv \
         --service-account-signing-key-file=DIR/junk --service-account-key-file=DIR/some.pem,DIR/junk \
         --tls-cert-file=DIR/some.pem --tls-private-key-file=DIR/other.key \
         --proxy-client-cert-file=DIR/other.key --proxy-client-key-file=DIR/other.key \
         --etcd-servers=https://a:1 --etcd-cafile=DIR/junk --etcd-certfile=DIR/some.pem --etcd-keyfile=DIR/junk",
    );
    expect![[r#"
        11 errors in the settings
          --etcd-cafile: "DIR/junk": give a file of certificates of CAs, PEM
          --etcd-keyfile: "DIR/junk": give a file with a private key, PEM
          --tls-private-key-file: "DIR/other.key": does not fit the certificate of --tls-cert-file (keys may not be consistent: KeyMismatch)
          --client-ca-file: "DIR/junk": give a file of certificates of CAs, PEM
          --requestheader-client-ca-file: "DIR/junk": give a file of certificates of CAs, PEM
          --proxy-client-cert-file: "DIR/other.key": give a file that begins with a certificate, PEM
          --token-auth-file: "DIR/tokens.csv": line 1: there must be at least a token or password, a user name and a uid
          --basic-auth-file: "DIR/tokens.csv": line 1: there must be at least a token or password, a user name and a uid
          --service-account-key-file: "DIR/some.pem,DIR/junk": DIR/junk: this is no PEM of RSA keys, or of ECDSA keys on P-256 or P-384
          --service-account-signing-key-file: "DIR/junk": this is no PEM of RSA keys, or of ECDSA keys on P-256 or P-384
          --root-ca-file: "DIR/junk": give a file of certificates of CAs, PEM"#]].assert_eq(&text);
    assert!(!text.contains("s3cret"));
}

#[test]
fn good_files_are_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let pem = pem_file(dir.path());
    let (key, tokens) = (dir.path().join("sa.key"), dir.path().join("tokens.csv"));
    fs::write(&key, KeyPair::generate().expect("a key").serialize_pem()).expect("written");
    fs::write(&tokens, "token,user,uid\n").expect("written");
    let line = format!(
        "trireme serve --client-ca-file={0} --root-ca-file={0} --tls-cert-file={0} --tls-private-key-file={0} \
         --token-auth-file={1} --service-account-signing-key-file={2} --service-account-key-file={2}",
        pem.display(),
        tokens.display(),
        key.display(),
    );
    let settings = serve(&line, &[]);
    assert_eq!(settings.client_ca_file.as_ref(), Some(&pem));
    assert_eq!(given_key(&settings), Some(pem));
    assert_eq!(settings.service_account_key_files, [key]);
}

#[test]
fn limits_in_flight_must_add_up_to_something_where_priority_levels_divide_them() {
    let both = "trireme serve --max-requests-inflight=0 --max-mutating-requests-inflight=0";
    check_errors(
        both,
        &[],
        expect![[r#"
            1 error in the settings
              --max-requests-inflight: "0": invalid configuration: --max-requests-inflight and --max-mutating-requests-inflight must add up to something positive, unless --enable-priority-and-fairness=false is given"#]],
    );
    let limits = serve(&format!("{both} --enable-priority-and-fairness=false"), &[]).limits;
    assert_eq!(
        (limits.requests_inflight, limits.mutating_requests_inflight),
        (None, None)
    );
    let one = serve("trireme serve --max-requests-inflight=0", &[]).limits;
    assert_eq!(
        (one.requests_inflight, one.mutating_requests_inflight),
        (None, Some(200))
    );
}

#[test]
fn events_without_a_time_to_live_are_kept() {
    assert_eq!(serve("trireme serve --event-ttl=0s", &[]).event_ttl, None);
    assert!(read_line("trireme serve --event-ttl=10ms", &[]).is_err());
}

#[test]
fn the_serving_certificate_is_that_of_cert_dir_if_there_is_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let pem = fs::read(pem_file(dir.path())).expect("read");
    let line = format!(
        "kube-apiserver --etcd-servers=http://a:1 --cert-dir={}",
        dir.path().display()
    );
    let in_dir = ServingFiles::InDir(dir.path().to_owned());
    assert_eq!(serve(&line, &[]).serving, in_dir, "there is no certificate yet");
    fs::write(dir.path().join("apiserver.crt"), &pem).expect("written");
    assert_eq!(
        errors(dir.path(), "--cert-dir=DIR"),
        "1 error in the settings\n  --cert-dir: \"DIR\": apiserver.crt and apiserver.key in it are no certificate and its key: \
         the private key cannot be read"
    );
    fs::write(dir.path().join("apiserver.key"), &pem).expect("written");
    assert_eq!(serve(&line, &[]).serving, in_dir);
    fs::remove_file(dir.path().join("apiserver.crt")).expect("removed");
    assert_eq!(serve(&line, &[]).serving, in_dir, "the key alone gets its certificate");
    let named = serve(
        &format!(
            "{line} --tls-cert-file={0} --tls-private-key-file={0}",
            dir.path().join("some.pem").display()
        ),
        &[],
    );
    assert_eq!(given_key(&named), Some(dir.path().join("some.pem")));
}

#[test]
fn a_replica_alone_beside_etcd_writes_into_cert_dir_if_nothing_else_is_said() {
    let data_dir = |line: &str| serve(&format!("trireme serve --cert-dir=certs {line}"), &[]).data_dir;
    assert_eq!(data_dir("--etcd-servers=http://a:1"), Path::new("certs"));
    assert_eq!(data_dir("--etcd-servers=http://a:1 --data-dir=data"), Path::new("data"));
    assert_eq!(
        data_dir(""),
        Path::new(".trireme"),
        "objects would go where certificates can be made again"
    );
}

/// The key of the pair that `--tls-cert-file` and its key name.
fn given_key(settings: &Settings) -> Option<PathBuf> {
    match &settings.serving {
        ServingFiles::Given(pair) => Some(pair.key.clone()),
        _ => None,
    }
}
