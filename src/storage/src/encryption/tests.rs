//! Values in the formats of kube-apiserver, over the embedded store.

use std::{sync::Arc, time::SystemTime};

use aws_lc_rs::cipher;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tempfile::TempDir;
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::{
    CurrentProviders, EncryptedResources, EncryptedStore, EncryptionConfig, EncryptionError, EncryptionProviders,
    KeyResources, KmsOptions, NamedKey, Provider, ReadableSignal, ResourceName, ShownKeyIds, UNDECRYPTED_PREFIX,
    aes::AesCbc,
};
use crate::{Compare, EmbeddedOptions, EmbeddedStore, Event, PutOptions, RangeRequest, Storage, WriteOutcome};

const SECRET: &str = "/registry/secrets/default/s";

fn key(name: &str, byte: u8, length: usize) -> NamedKey {
    NamedKey {
        name: name.to_owned(),
        secret: Zeroizing::new(vec![byte; length]),
    }
}

fn rule(resources: &[&str], providers: Vec<Provider>) -> EncryptedResources {
    EncryptedResources {
        resources: resources.iter().map(|name| ResourceName::parse(name)).collect(),
        providers,
    }
}

fn providers(rules: Vec<EncryptedResources>) -> EncryptionProviders {
    let kms = KmsOptions {
        server: "apiserver".to_owned(),
        wall: Arc::new(|| SystemTime::UNIX_EPOCH),
        readable: ReadableSignal::default(),
        key_ids: ShownKeyIds::default(),
    };
    EncryptionProviders::new(&EncryptionConfig { resources: rules }, &kms).expect("the configuration is sound")
}

fn resources() -> KeyResources {
    let names = [
        ("secrets", "secrets"),
        ("configmaps", "configmaps"),
        ("services/specs", "services"),
        ("deployments", "deployments.apps"),
        ("controllerrevisions", "controllerrevisions.apps"),
    ];
    KeyResources::new(
        "/registry",
        names.map(|(prefix, name)| (prefix.to_owned(), ResourceName::parse(name))),
    )
}

/// A store with encryption before it.
struct Bench {
    _dir: TempDir,
    raw: Arc<dyn Storage>,
    current: Arc<CurrentProviders>,
    store: EncryptedStore,
}

impl Bench {
    fn new(rules: Vec<EncryptedResources>) -> Self {
        let dir = TempDir::new().expect("a directory");
        let options = EmbeddedOptions {
            fsync: false,
            ..EmbeddedOptions::default()
        };
        let raw: Arc<dyn Storage> = Arc::new(EmbeddedStore::open(dir.path(), options).expect("an empty store opens"));
        let current = CurrentProviders::new(providers(rules), ReadableSignal::default());
        let store = EncryptedStore::new(Arc::clone(&raw), Arc::clone(&current), resources());
        Self {
            _dir: dir,
            raw,
            current,
            store,
        }
    }

    fn exchange(&self, rules: Vec<EncryptedResources>) {
        self.current.replace(providers(rules));
    }

    async fn put(&self, key: &str, value: &str) {
        put(&self.store, key, value.as_bytes()).await;
    }

    async fn raw_value(&self, key: &str) -> Vec<u8> {
        value(&*self.raw, key).await
    }

    async fn value(&self, key: &str) -> String {
        String::from_utf8(value(&self.store, key).await).expect("text")
    }
}

async fn put(store: &dyn Storage, key: &str, value: &[u8]) {
    let (found, _) = store.get(key, None).await.expect("an answer");
    let compare = found.map_or(Compare::Absent, |entry| Compare::ModRevision(entry.mod_revision));
    let put = store.put(key, Bytes::copy_from_slice(value), compare, PutOptions::default());
    assert!(matches!(put.await, Ok(WriteOutcome::Committed(_))));
}

async fn value(store: &dyn Storage, key: &str) -> Vec<u8> {
    let (entry, _) = store.get(key, None).await.expect("an answer");
    entry.expect("there is an entry").value.to_vec()
}

fn all_providers() -> [(Provider, &'static str); 7] {
    let aes = |length| vec![key("k1", 7, length)];
    [
        (Provider::AesCbc(aes(16)), "k8s:enc:aescbc:v1:k1:"),
        (Provider::AesCbc(aes(24)), "k8s:enc:aescbc:v1:k1:"),
        (Provider::AesCbc(aes(32)), "k8s:enc:aescbc:v1:k1:"),
        (Provider::AesGcm(aes(16)), "k8s:enc:aesgcm:v1:k1:"),
        (Provider::AesGcm(aes(24)), "k8s:enc:aesgcm:v1:k1:"),
        (Provider::AesGcm(aes(32)), "k8s:enc:aesgcm:v1:k1:"),
        (Provider::Secretbox(aes(32)), "k8s:enc:secretbox:v1:k1:"),
    ]
}

#[test]
fn keys_are_overwritten_when_they_are_given_up() {
    fn overwritten<T: ZeroizeOnDrop>(_: &T) {}
    overwritten(&key("k", 1, 32).secret);
}

#[tokio::test]
async fn what_is_stored_is_encrypted_and_what_is_read_is_plain() {
    for (provider, prefix) in all_providers() {
        let bench = Bench::new(vec![rule(&["secrets"], vec![provider])]);
        for text in [
            "",
            "a",
            "sixteen bytes...",
            "a longer text that takes three blocks of AES",
        ] {
            bench.put(SECRET, text).await;
            let raw = bench.raw_value(SECRET).await;
            assert!(raw.starts_with(prefix.as_bytes()), "{prefix}");
            assert!(
                text.is_empty() || !raw.windows(text.len()).any(|window| window == text.as_bytes()) || text.len() < 4
            );
            assert_eq!(bench.value(SECRET).await, text, "{prefix}");
        }
        let page = bench.store.range(RangeRequest {
            prefix: "/registry/".to_owned(),
            ..RangeRequest::default()
        });
        assert!(page.await.expect("a page").entries[0].value.starts_with(b"a longer"));
        bench.put("/registry/configmaps/default/c", "plain").await;
        assert_eq!(bench.raw_value("/registry/configmaps/default/c").await, b"plain");
        assert!(!bench.store.is_stale(SECRET).await.expect("an answer"));
    }
}

/// Values that kube-apiserver 1.36.2 has stored: their providers, their keys in the store, and the bytes.
fn recorded() -> [(Provider, &'static str, &'static str); 3] {
    [
        (
            Provider::AesCbc(vec![key("k1", 1, 32)]),
            "/registry/secrets/pb-6b88d9/min-secret",
            "azhzOmVuYzphZXNjYmM6djE6azE6UweCYK/AU6/cN4Sm38sPuzKlWcofFVsjJtc5/wurvc5IvZjH7tvgh1UK3h/Zf3y9sJlNseLjF9YU7fJSWaC6\
             +vt+IdnS7RTGI70mHLSDFLgpZxOwCHGaOexW2WOsVB+1fOTV2Ba7/97Zre7p4KIv46aJt+SfUOt4ttIxTmcm4Pt6TlIbyln49fPnTAhxrY5MdmOY\
             7GujDCCLB5PFSyZzy5p2OtuQpYbU9NrleAEkLNLUxtO/mVM7lfYrgo27tk6AjpPMMm+UkRcnt0DG2OG3yA==",
        ),
        (
            Provider::AesGcm(vec![key("g16", 0, 16)]),
            "/registry/configmaps/pb-6b88d9/min-cm",
            "azhzOmVuYzphZXNnY206djE6ZzE2OsBK5KggZCO5ebOAXfDllbDo19XuEGV/y/0g7A5zQEmM1lh1POH7aAkx1mHVCyQG5s/XPEiDDEyevAJ+mX//\
             1NmYj+DKTcosYeoiv8evrbZvlmaWnGAuaxTjaxAzNgMOnqe2M758W4zYSlszxkqn8WFkVtdagdwOjvQ2/0dPCVdr7QvrtA==",
        ),
        (
            Provider::Secretbox(vec![key("box", 1, 32)]),
            "/registry/controllerrevisions/pb-6b88d9/min-cr",
            "azhzOmVuYzpzZWNyZXRib3g6djE6Ym94OhnrMtk7Utxz7OA7I/rvvMxHpQFMMfnZXjHuuq/MFq2KMhfHW7ouIZvDzj7kxgDa/14AQ/rdhDmWHj+n\
             r37ZyEsb3kMMp01eTR7/XQSGuoCyV2fXgcycmOKJ65Nd+tu4EqfNE8ns7CGsQ4uuGKb1WCSDLvWzX1WApdbcsbY/RFio8HfpP9IOU0115LhIThBz\
             V9Ftgh2K1PyQ+hfySVeizZ9fRDGGeLBytfWMIhMme7CEtFsoncIsUqE/8y7AcSY5bxQu1zSOWtVjAm8gjbqZlhlrj3OujFpRPwzD6teHaIv0iptb\
             2cEMtFwVTEPbPpN0TnLC",
        ),
    ]
}

#[tokio::test]
async fn what_kube_apiserver_has_encrypted_is_read() {
    for (provider, place, bytes) in recorded() {
        let bench = Bench::new(vec![rule(&["*.*"], vec![provider])]);
        put(&*bench.raw, place, &STANDARD.decode(bytes).expect("base64")).await;
        let plain = value(&bench.store, place).await;
        assert!(
            plain.starts_with(b"k8s\0"),
            "{place}: {}",
            String::from_utf8_lossy(&plain)
        );
        let name = place.rsplit('/').next().expect("there is a name");
        assert!(
            plain.windows(name.len()).any(|window| window == name.as_bytes()),
            "{place}"
        );
    }
}

#[tokio::test]
async fn events_and_conflicts_are_plain_too() {
    let bench = Bench::new(vec![rule(
        &["secrets"],
        vec![Provider::Secretbox(vec![key("k", 1, 32)])],
    )]);
    let mut watch = bench.store.watch("/registry/", 0).await.expect("a watch");
    bench.put(SECRET, "one").await;
    bench.put(SECRET, "two").await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let batch = watch.next().await.expect("a batch").expect("no error");
        seen.extend(batch.events);
    }
    let Event::Put { entry, previous } = &seen[1] else {
        panic!("it was put");
    };
    assert_eq!(&*entry.value, b"two");
    assert_eq!(previous.as_ref().map(|previous| &*previous.value), Some(&b"one"[..]));
    let refused = bench
        .store
        .put(SECRET, Bytes::from_static(b"x"), Compare::Absent, PutOptions::default());
    let Ok(WriteOutcome::Conflict(Some(found))) = refused.await else {
        panic!("it is there");
    };
    assert_eq!(&*found.value, b"two");
}

#[tokio::test]
async fn keys_are_rotated_by_writing_again() {
    let (old, new) = (key("old", 1, 32), key("new", 2, 32));
    let gcm = |keys: Vec<NamedKey>| vec![rule(&["secrets"], vec![Provider::AesGcm(keys), Provider::Identity])];
    let bench = Bench::new(vec![rule(&["secrets"], vec![Provider::Identity])]);
    bench.put(SECRET, "text").await;
    bench.exchange(gcm(vec![old.clone()]));
    assert_eq!(bench.value(SECRET).await, "text");
    assert!(bench.store.is_stale(SECRET).await.expect("an answer"), "it is plain");
    bench.put(SECRET, "text").await;
    assert!(!bench.store.is_stale(SECRET).await.expect("an answer"));
    bench.exchange(gcm(vec![new.clone(), old]));
    assert_eq!(bench.value(SECRET).await, "text");
    assert!(
        bench.store.is_stale(SECRET).await.expect("an answer"),
        "it is under the old key"
    );
    bench.put(SECRET, "text").await;
    bench.exchange(gcm(vec![new.clone()]));
    assert_eq!(bench.value(SECRET).await, "text");
    // The way back: plain text is written, the provider is still there to read.
    bench.exchange(vec![rule(
        &["secrets"],
        vec![Provider::Identity, Provider::AesGcm(vec![new])],
    )]);
    assert_eq!(bench.value(SECRET).await, "text");
    assert!(bench.store.is_stale(SECRET).await.expect("an answer"));
    bench.put(SECRET, "text").await;
    assert_eq!(bench.raw_value(SECRET).await, b"text");
}

#[tokio::test]
async fn a_key_that_was_exchanged_under_its_name_is_found_behind_the_new_one() {
    let (old, new) = (key("k", 1, 32), key("k", 2, 32));
    let bench = Bench::new(vec![rule(&["secrets"], vec![Provider::AesGcm(vec![old.clone()])])]);
    bench.put(SECRET, "text").await;
    let both = vec![Provider::AesGcm(vec![new.clone()]), Provider::AesGcm(vec![old])];
    bench.exchange(vec![rule(&["secrets"], both)]);
    assert_eq!(bench.value(SECRET).await, "text");
    bench.exchange(vec![rule(&["secrets"], vec![Provider::AesGcm(vec![new])])]);
    let reason = value(&bench.store, SECRET).await;
    assert_eq!(
        reason,
        [UNDECRYPTED_PREFIX, b"cipher: message authentication failed"].concat()
    );
}

#[tokio::test]
async fn values_no_provider_can_read_are_reported_with_the_reason() {
    let gcm = |byte| Provider::AesGcm(vec![key("k", byte, 32)]);
    let bench = Bench::new(vec![rule(&["secrets"], vec![gcm(1)])]);
    bench.put(SECRET, "text").await;
    let raw = bench.raw_value(SECRET).await;
    let reason = async |place: &str, stored: &[u8]| {
        put(&*bench.raw, place, stored).await;
        let stored = value(&bench.store, place).await;
        let reason = stored.strip_prefix(UNDECRYPTED_PREFIX).expect("it cannot be read");
        String::from_utf8(reason.to_vec()).expect("text")
    };
    let moved = reason("/registry/secrets/default/other", &raw).await;
    assert_eq!(
        moved, "cipher: message authentication failed",
        "a value is bound to its key"
    );
    let mut flipped = raw.clone();
    *flipped.last_mut().expect("it is not empty") ^= 1;
    assert_eq!(reason(SECRET, &flipped).await, "cipher: message authentication failed");
    assert_eq!(
        reason(SECRET, b"{}").await,
        "no matching prefix found",
        "plain text is not allowed"
    );
    assert_eq!(reason(SECRET, b"k8s:enc:kms:v2:p:x").await, "no matching prefix found");
    let other_key = "no matching key was found for the provided AES transformer";
    assert_eq!(reason(SECRET, b"k8s:enc:aesgcm:v1:other:x").await, other_key);
    let short = "the stored data was shorter than the required size";
    assert_eq!(reason(SECRET, b"k8s:enc:aesgcm:v1:k:x").await, short);
}

#[tokio::test]
async fn errors_of_several_keys_are_one_in_kube_apiservers_words() {
    let cbc = |name: &str, byte| Provider::AesCbc(vec![key(name, byte, 32)]);
    let gcm = |name: &str, byte| Provider::AesGcm(vec![key(name, byte, 32)]);
    let boxed = |byte| Provider::Secretbox(vec![key("k", byte, 32)]);
    let unauthentic = "cipher: message authentication failed";
    let unknown = "no matching key was found for the provided AES transformer";
    for (writers, readers, expected) in [
        // One provider to rotate to, the other to rotate away from, and the value is of neither.
        (cbc("old", 1), vec![cbc("1", 1), cbc("2", 2)], unknown.to_owned()),
        (gcm("k", 1), vec![gcm("k", 2), gcm("k", 3)], unauthentic.to_owned()),
        (
            gcm("k", 1),
            vec![gcm("k", 2), gcm("other", 3), gcm("k", 4)],
            format!("[{unauthentic}, {unknown}]"),
        ),
        (
            boxed(1),
            vec![boxed(2)],
            "output array was not large enough for encryption".to_owned(),
        ),
    ] {
        let bench = Bench::new(vec![rule(&["secrets"], vec![writers])]);
        bench.put(SECRET, "text").await;
        bench.exchange(vec![rule(&["secrets"], readers)]);
        let stored = value(&bench.store, SECRET).await;
        let reason = stored.strip_prefix(UNDECRYPTED_PREFIX).expect("it cannot be read");
        assert_eq!(String::from_utf8_lossy(reason), expected);
    }
}

#[test]
fn wrong_padding_has_kube_apiservers_words() {
    let cipher = AesCbc::new(&[7; 16]).expect("a key");
    let encrypting =
        cipher::EncryptingKey::cbc(cipher::UnboundCipherKey::new(&cipher::AES_128, &[7; 16]).expect("a key"));
    let encrypting = encrypting.expect("a cipher");
    let decrypted = |text: &[u8]| {
        let mut blocks = text.to_vec();
        let context = cipher::EncryptionContext::Iv128([9; 16].into());
        encrypting.less_safe_encrypt(&mut blocks, context).expect("encrypted");
        cipher.decrypt(&[&[9; 16], blocks.as_slice()].concat())
    };
    let value = |text| Err(EncryptionError::Value(text));
    let unpadded = "invalid PKCS7 data (empty or not padded)";
    assert_eq!(decrypted(b"thirteen byte\x03\x03\x03"), Ok(b"thirteen byte".to_vec()));
    assert_eq!(
        decrypted(b"thirteen byte\x03\x02\x03"),
        value("invalid padding on input")
    );
    assert_eq!(decrypted(b"thirteen byte\x03\x03\x00"), value(unpadded));
    assert_eq!(decrypted(b"thirteen byte\x03\x03\x11"), value(unpadded));
    assert_eq!(decrypted(b""), value(unpadded));
    assert_eq!(decrypted(&[16; 16]), Ok(Vec::new()));
}

#[tokio::test]
async fn rules_are_for_resources_groups_or_all() {
    let box_of = |name: &str| vec![Provider::Secretbox(vec![key(name, 1, 32)])];
    let bench = Bench::new(vec![
        rule(&["secrets", "pandas.example.com"], box_of("own")),
        rule(&["*.apps"], box_of("group")),
        rule(&["*."], vec![Provider::Identity]),
        rule(&["*.*"], box_of("all")),
    ]);
    for (place, prefix) in [
        (SECRET, "k8s:enc:secretbox:v1:own:"),
        ("/registry/example.com/pandas/ns/p", "k8s:enc:secretbox:v1:own:"),
        ("/registry/deployments/ns/d", "k8s:enc:secretbox:v1:group:"),
        ("/registry/services/specs/ns/s", "text"),
        ("/registry/example.com/bears/b", "k8s:enc:secretbox:v1:all:"),
        ("/registry/ranges/servicenodeports", "text"),
        ("/registry/masterleases/10.0.0.1", "text"),
        ("/trireme/fence/registry/duty", "text"),
    ] {
        bench.put(place, "text").await;
        let raw = bench.raw_value(place).await;
        assert!(
            raw.starts_with(prefix.as_bytes()),
            "{place}: {}",
            String::from_utf8_lossy(&raw)
        );
        assert_eq!(bench.value(place).await, "text", "{place}");
    }
}

#[test]
fn a_rule_without_effect_is_refused() {
    let build = |rules| EncryptionProviders::check(&EncryptionConfig { resources: rules });
    let plain = || vec![Provider::Identity];
    let masked = |one: &str, other: &str| Err(EncryptionError::Masked(one.to_owned(), other.to_owned()));
    assert_eq!(
        build(vec![rule(&["*."], plain()), rule(&["secrets"], plain())]),
        masked("secrets", "*.")
    );
    assert_eq!(
        build(vec![rule(&["*.*"], plain()), rule(&["*.apps"], plain())]),
        masked("*.apps", "*.*")
    );
    assert_eq!(
        build(vec![rule(&["secrets"], plain()), rule(&["*.*"], plain())]),
        Ok(())
    );
}

#[test]
fn what_is_printed_shows_no_key() {
    let config = EncryptionConfig {
        resources: vec![rule(&["secrets"], vec![Provider::AesCbc(vec![key("k", b'K', 32)])])],
    };
    let printed = format!("{config:?}");
    assert!(
        printed.contains("[REDACTED]") && !printed.contains("KKK") && !printed.contains("75, 75"),
        "{printed}"
    );
}
