use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, UNIX_EPOCH};

use super::certificates::{names_of, with_certificate};
use super::*;

/// 2026-01-01T00:00:00Z
const START: Duration = Duration::from_secs(1_767_225_600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn wanted(data_dir: &Path) -> PkiRequest<'_> {
    PkiRequest {
        data_dir,
        bind_address: "192.0.2.7".parse().expect("an address"),
        port: 6443,
        service_addresses: vec!["10.96.0.1".parse().expect("an address")],
        hostname: Some("ship".to_owned()),
        serving: &ServingFiles::Made,
        now: UNIX_EPOCH + START,
    }
}

fn text(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join("pki").join(name)).expect("the file is there")
}

fn names(dir: &Path) -> Vec<String> {
    with_certificate(&text(dir, "apiserver.crt"), names_of)
        .expect("a certificate")
        .into_iter()
        .collect()
}

fn issued_by_ca(dir: &Path, name: &str) -> bool {
    with_certificate(&text(dir, "ca.crt"), |ca| {
        with_certificate(&text(dir, name), |leaf| {
            leaf.verify_signature(Some(ca.public_key())).is_ok()
        })
        .expect("a certificate")
    })
    .expect("a certificate")
}

#[test]
fn a_fresh_directory_gets_everything() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let pki = ensure(&wanted(&data)).expect("made");
    let expected = [
        "10.96.0.1",
        "127.0.0.1",
        "192.0.2.7",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
        "ship",
    ];
    assert_eq!(names(&data), expected);
    assert!(issued_by_ca(&data, "apiserver.crt") && issued_by_ca(&data, "admin.crt"));
    let subject = with_certificate(&text(&data, "admin.crt"), |admin| admin.subject().to_string()).expect("read");
    assert!(
        subject.contains("CN=kubernetes-admin") && subject.contains("O=system:masters"),
        "{subject}"
    );
    let is_ca = with_certificate(&text(&data, "ca.crt"), |ca| ca.is_ca()).expect("read");
    assert!(is_ca);
    assert!(text(&data, "sa.key").starts_with("-----BEGIN PRIVATE KEY-----"));
    assert!(text(&data, "sa.pub").starts_with("-----BEGIN PUBLIC KEY-----"));
    let kubeconfig = fs::read_to_string(pki.kubeconfig).expect("read");
    assert!(kubeconfig.contains("server: https://127.0.0.1:6443\n"));
}

#[test]
fn only_the_owner_reads_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    ensure(&wanted(&data)).expect("made");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&data), mode(&data.join("pki"))), (0o700, 0o700));
    for name in ["ca.key", "apiserver.key", "sa.key", "admin.key"] {
        assert_eq!(mode(&data.join("pki").join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&data.join("admin.kubeconfig")), 0o600);
    assert!(!data.join("pki/ca.key.new").exists());
}

#[test]
fn a_second_start_keeps_all_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let files = [
        "ca.crt",
        "ca.key",
        "apiserver.crt",
        "apiserver.key",
        "sa.key",
        "sa.pub",
        "admin.crt",
        "admin.key",
    ];
    ensure(&wanted(dir.path())).expect("made");
    let first = files.map(|name| text(dir.path(), name));
    ensure(&PkiRequest {
        port: 7443,
        now: UNIX_EPOCH + START + DAY,
        ..wanted(dir.path())
    })
    .expect("kept");
    assert_eq!(files.map(|name| text(dir.path(), name)), first);
    let kubeconfig = fs::read_to_string(dir.path().join("admin.kubeconfig")).expect("read");
    assert!(
        kubeconfig.contains("https://127.0.0.1:7443"),
        "the kubeconfig follows the port"
    );
}

#[test]
fn the_serving_certificate_is_renewed_for_new_names_and_before_expiry_by_the_same_ca() {
    let dir = tempfile::tempdir().expect("a directory");
    ensure(&wanted(dir.path())).expect("made");
    let (ca, first) = (text(dir.path(), "ca.crt"), text(dir.path(), "apiserver.crt"));
    ensure(&PkiRequest {
        hostname: Some("other".to_owned()),
        ..wanted(dir.path())
    })
    .expect("renewed");
    let second = text(dir.path(), "apiserver.crt");
    assert_ne!(first, second);
    assert!(names(dir.path()).contains(&"other".to_owned()));
    let late = UNIX_EPOCH + START + DAY * 340;
    ensure(&PkiRequest {
        hostname: Some("other".to_owned()),
        now: late,
        ..wanted(dir.path())
    })
    .expect("renewed");
    assert_ne!(second, text(dir.path(), "apiserver.crt"), "340 days old: renewed");
    assert_eq!(ca, text(dir.path(), "ca.crt"));
    assert!(issued_by_ca(dir.path(), "apiserver.crt") && issued_by_ca(dir.path(), "admin.crt"));
}

#[test]
fn irreparable_files_are_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    ensure(&wanted(dir.path())).expect("made");
    let expired = ensure(&PkiRequest {
        now: UNIX_EPOCH + START + DAY * 3651,
        ..wanted(dir.path())
    });
    assert!(matches!(expired, Err(PkiError::Expired(_))));
    fs::write(dir.path().join("pki/ca.key"), text(dir.path(), "sa.key")).expect("written");
    let error = ensure(&wanted(dir.path())).expect_err("the key is another's");
    assert!(
        matches!(
            error,
            PkiError::Certificate {
                source: CertificateFileError::OtherKey,
                ..
            }
        ),
        "{error:?}"
    );
    fs::remove_file(dir.path().join("pki/ca.key")).expect("removed");
    assert!(matches!(ensure(&wanted(dir.path())), Err(PkiError::NoKey(_))));
    let other = tempfile::tempdir().expect("a directory");
    ensure(&wanted(other.path())).expect("made");
    fs::write(other.path().join("pki/sa.key"), "nonsense").expect("written");
    let error = ensure(&wanted(other.path())).expect_err("the key is none");
    assert!(error.to_string().contains("sa.key"), "{error}");
    let third = tempfile::tempdir().expect("a directory");
    ensure(&wanted(third.path())).expect("made");
    fs::write(third.path().join("pki/apiserver.key"), "of others").expect("written");
    let error = ensure(&wanted(third.path())).expect_err("the key is none");
    assert!(error.to_string().contains("apiserver.key"), "{error}");
    assert_eq!(text(third.path(), "apiserver.key"), "of others", "it is kept");
}

#[test]
fn a_directory_for_the_serving_certificate_gets_it_with_its_ca_and_one_of_others_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, certs) = (dir.path().join("data"), dir.path().join("certs"));
    let serving = ServingFiles::InDir(certs.clone());
    let after = |days: u32| {
        let wanted = PkiRequest {
            serving: &serving,
            now: UNIX_EPOCH + START + DAY * days,
            ..wanted(&data)
        };
        let pki = ensure(&wanted).expect("made");
        let certificate = fs::read_to_string(certs.join("apiserver.crt")).expect("it is there");
        (certificate, pki.serving_authority)
    };
    let (first, trusted) = after(0);
    let ca = text(&data, "ca.crt");
    assert_eq!(trusted, data.join("pki/ca.crt"));
    assert!(first.ends_with(&ca) && first.len() > ca.len());
    assert_eq!(after(1).0, first);
    let (renewed, _) = after(340);
    assert!(renewed != first && renewed.ends_with(&ca));
    let key = fs::read(certs.join("apiserver.key")).expect("it is there");
    fs::remove_file(certs.join("apiserver.crt")).expect("removed");
    let (renewed, _) = after(340);
    assert_eq!(
        fs::read(certs.join("apiserver.key")).expect("it is there"),
        key,
        "a key whose certificate was not written gets one"
    );
    fs::remove_dir_all(data.join("pki")).expect("removed");
    let (kept, trusted) = after(341);
    assert_eq!(
        (kept, trusted),
        (renewed, certs.join("apiserver.crt")),
        "it is another CA's now"
    );
}
