//! A plugin that a script answers for, on virtual time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use prost::Message as _;
use tonic::Code;
use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::{
    api::{DecryptRequest, EncryptRequest, EncryptResponse, EncryptedObject, StatusResponse},
    dek::{Dek, DekSourceType},
    metrics::ShownKeyIds,
    plugin::{KmsOptions, KmsPlugin},
    reads::ReadableSignal,
    service::{KeyService, KmsCallError},
};
use crate::encryption::transform::EncryptionError;

const PLACE: &str = "/registry/secrets/default/s";

/// The answers of the plugin.
#[derive(Clone)]
struct Script {
    status: StatusResponse,
    /// The key id of `Encrypt`, if it is another one.
    encrypts_with: Option<String>,
    /// The code of all errors, if the plugin is down.
    down: Option<Code>,
    /// True if `Decrypt` alone fails.
    decrypts_nothing: bool,
    annotations: Vec<(String, Vec<u8>)>,
}

#[derive(Clone)]
struct Scripted {
    script: Arc<Mutex<Script>>,
    decrypted: Arc<AtomicUsize>,
    encrypted: Arc<AtomicUsize>,
}

impl Scripted {
    fn new() -> Self {
        let status = StatusResponse {
            version: "v2".to_owned(),
            healthz: "ok".to_owned(),
            key_id: "1".to_owned(),
        };
        Self {
            script: Arc::new(Mutex::new(Script {
                status,
                encrypts_with: None,
                down: None,
                decrypts_nothing: false,
                annotations: vec![("version.encryption.example.com".to_owned(), b"1".to_vec())],
            })),
            decrypted: Arc::default(),
            encrypted: Arc::default(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().expect("no panic"));
    }

    fn script(&self) -> Result<Script, KmsCallError> {
        let script = self.script.lock().expect("no panic").clone();
        match script.down {
            Some(code) => Err(KmsCallError {
                code,
                message: "it is down".to_owned(),
            }),
            None => Ok(script),
        }
    }

    fn plugin(&self) -> (Arc<KmsPlugin>, ReadableSignal) {
        let readable = ReadableSignal::default();
        let options = KmsOptions {
            server: "apiserver".to_owned(),
            wall: Arc::new(|| SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            readable: readable.clone(),
            key_ids: ShownKeyIds::default(),
        };
        (KmsPlugin::with_service("p", Box::new(self.clone()), &options), readable)
    }
}

/// Its own inverse.
fn mask(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0x5a).collect()
}

impl KeyService for Scripted {
    fn status(&self) -> BoxFuture<'_, Result<StatusResponse, KmsCallError>> {
        Box::pin(async { Ok(self.script()?.status) })
    }

    fn encrypt(&self, request: EncryptRequest) -> BoxFuture<'_, Result<EncryptResponse, KmsCallError>> {
        Box::pin(async move {
            let script = self.script()?;
            self.encrypted.fetch_add(1, Ordering::Relaxed);
            Ok(EncryptResponse {
                ciphertext: mask(&request.plaintext),
                key_id: script.encrypts_with.unwrap_or(script.status.key_id),
                annotations: script.annotations.into_iter().collect(),
            })
        })
    }

    fn decrypt(&self, request: DecryptRequest) -> BoxFuture<'_, Result<Zeroizing<Vec<u8>>, KmsCallError>> {
        Box::pin(async move {
            let script = self.script()?;
            self.decrypted.fetch_add(1, Ordering::Relaxed);
            if script.decrypts_nothing {
                let message = "the key is gone".to_owned();
                return Err(KmsCallError {
                    code: Code::FailedPrecondition,
                    message,
                });
            }
            Ok(Zeroizing::new(mask(&request.ciphertext)))
        })
    }
}

async fn primed(service: &Scripted) -> Arc<KmsPlugin> {
    let (plugin, _) = service.plugin();
    plugin.check().await;
    plugin.health().expect("it is well");
    plugin
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

fn object(value: &[u8]) -> EncryptedObject {
    EncryptedObject::decode(value).expect("it is an object")
}

#[tokio::test(start_paused = true)]
async fn a_value_is_under_a_derived_key_and_is_bound_to_its_place() {
    let service = Scripted::new();
    let plugin = primed(&service).await;
    let value = plugin.encrypt(b"text", PLACE).expect("encrypted");
    let stored = object(&value);
    assert_eq!((&*stored.key_id, stored.encrypted_dek_source_type), ("1", 1));
    assert_eq!(stored.annotations["version.encryption.example.com"], b"1");
    // Random bytes, a nonce and a tag beside the text.
    assert_eq!(stored.encrypted_data.len(), 32 + 12 + 4 + 16);
    assert_eq!(plugin.decrypt(&value, PLACE).await, Ok((b"text".to_vec(), false)));
    assert_eq!(service.decrypted.load(Ordering::Relaxed), 0, "its own seed is known");
    let moved = plugin.decrypt(&value, "/registry/secrets/default/other").await;
    assert_eq!(
        moved,
        Err(EncryptionError::Value("cipher: message authentication failed"))
    );
    let again = plugin.encrypt(b"text", PLACE).expect("encrypted");
    assert_ne!(object(&again).encrypted_data[..32], stored.encrypted_data[..32]);
    assert_eq!(service.encrypted.load(Ordering::Relaxed), 1, "no call for a write");
}

#[tokio::test(start_paused = true)]
async fn another_server_asks_the_plugin_once_for_each_seed() {
    let service = Scripted::new();
    let value = primed(&service).await.encrypt(b"text", PLACE).expect("encrypted");
    let other = primed(&service).await;
    for _ in 0..3 {
        assert_eq!(other.decrypt(&value, PLACE).await, Ok((b"text".to_vec(), false)));
    }
    assert_eq!(service.decrypted.load(Ordering::Relaxed), 1);
}

/// As servers before 1.29 wrote: the plugin has encrypted the key itself.
#[tokio::test(start_paused = true)]
async fn a_value_under_a_plain_key_is_read_and_stale() {
    let service = Scripted::new();
    let plugin = primed(&service).await;
    let key = [7_u8; 32];
    let cipher = Dek::new(DekSourceType::AesGcmKey, &key).expect("a key");
    let stored = EncryptedObject {
        encrypted_data: cipher.encrypt(b"old", PLACE).expect("encrypted"),
        key_id: "1".to_owned(),
        encrypted_dek_source: mask(&key),
        ..EncryptedObject::default()
    };
    let value = stored.encode_to_vec();
    assert_eq!(plugin.decrypt(&value, PLACE).await, Ok((b"old".to_vec(), true)));
}

#[tokio::test(start_paused = true)]
async fn a_new_key_id_brings_a_new_seed_and_makes_old_values_stale() {
    let service = Scripted::new();
    let plugin = primed(&service).await;
    let old = plugin.encrypt(b"text", PLACE).expect("encrypted");
    service.change(|script| script.status.key_id = "2".to_owned());
    plugin.check().await;
    assert_eq!(
        object(&plugin.encrypt(b"text", PLACE).expect("encrypted")).key_id,
        "1",
        "too early to look"
    );
    pass(21).await;
    plugin.check().await;
    let new = plugin.encrypt(b"text", PLACE).expect("encrypted");
    assert_eq!(object(&new).key_id, "2");
    assert_ne!(object(&new).encrypted_dek_source, object(&old).encrypted_dek_source);
    assert_eq!(plugin.decrypt(&old, PLACE).await, Ok((b"text".to_vec(), true)));
    assert_eq!(plugin.decrypt(&new, PLACE).await, Ok((b"text".to_vec(), false)));
}

/// The background looks every minute, and after an error every ten seconds.
#[tokio::test(start_paused = true)]
async fn without_the_plugin_values_are_written_for_three_minutes_and_then_when_it_is_back() {
    let service = Scripted::new();
    let plugin = primed(&service).await;
    let begun = tokio::time::Instant::now();
    let background = plugin.background().run();
    let script = async {
        tokio::time::sleep(Duration::from_secs(61)).await;
        service.change(|script| script.down = Some(Code::Unavailable));
        let value = plugin.encrypt(b"text", PLACE).expect("encrypted");
        tokio::time::sleep(Duration::from_secs(178)).await;
        plugin.encrypt(b"text", PLACE).expect("three minutes are not over");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let refused = plugin.encrypt(b"text", PLACE).expect_err("they are over").to_string();
        assert!(
            refused.starts_with("encryptedDEKSource with keyID hash \"sha256:6b86b273ff34"),
            "{refused}"
        );
        assert!(
            refused.ends_with("expired at 2023-11-14T22:16:20Z (current time is 2023-11-14T22:13:20Z)"),
            "{refused}"
        );
        assert_eq!(
            plugin.decrypt(&value, PLACE).await,
            Ok((b"text".to_vec(), false)),
            "reads go on"
        );
        let health = plugin.health().expect_err("it is down");
        let expected = "failed to perform status section of the healthz check for KMS Provider p, error: rpc error: code = \
                        Unavailable desc = it is down";
        assert_eq!(health, expected);
        service.change(|script| script.down = None);
        tokio::time::sleep(Duration::from_secs(11)).await;
        plugin.encrypt(b"text", PLACE).expect("it is back");
        plugin.health().expect("it is well");
    };
    tokio::select! {
        () = background => panic!("the plugin is in use"),
        () = script => {}
    }
    assert!(begun.elapsed() < Duration::from_secs(260));
}

#[tokio::test(start_paused = true)]
async fn a_seed_that_could_not_be_decrypted_is_tried_again_and_announced() {
    let service = Scripted::new();
    let value = primed(&service).await.encrypt(b"text", PLACE).expect("encrypted");
    let (plugin, readable) = service.plugin();
    let mut announced = readable.subscribe();
    let not_yet = plugin.decrypt(&value, PLACE).await;
    assert_eq!(not_yet, Err(EncryptionError::NotPrimed));
    let background = plugin.background().run();
    let script = async {
        announced.changed().await.expect("it is announced");
        assert_eq!(plugin.decrypt(&value, PLACE).await, Ok((b"text".to_vec(), false)));
        // One seed after another, and then the plugin is away.
        service.change(|script| script.decrypts_nothing = true);
        let other = primed(&service).await.encrypt(b"other", PLACE).expect("encrypted");
        let failed = plugin.decrypt(&other, PLACE).await.expect_err("it is not decrypted");
        let expected = "failed to decrypt DEK, error: rpc error: code = FailedPrecondition desc = the key is gone";
        assert_eq!(failed.to_string(), expected);
        let calls = service.decrypted.load(Ordering::Relaxed);
        assert_eq!(plugin.decrypt(&other, PLACE).await.expect_err("as before"), failed);
        assert_eq!(service.decrypted.load(Ordering::Relaxed), calls, "it is known to fail");
        service.change(|script| script.decrypts_nothing = false);
        tokio::time::timeout(Duration::from_secs(15), announced.changed())
            .await
            .expect("within the interval after an error")
            .expect("it is announced");
        assert_eq!(plugin.decrypt(&other, PLACE).await, Ok((b"other".to_vec(), false)));
    };
    tokio::select! {
        () = background => panic!("the plugin is in use"),
        () = script => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_does_not_answer_is_asked_for_no_second_seed() {
    let service = Scripted::new();
    let one = primed(&service).await.encrypt(b"one", PLACE).expect("encrypted");
    let two = primed(&service).await.encrypt(b"two", PLACE).expect("encrypted");
    let plugin = primed(&service).await;
    service.change(|script| script.down = Some(Code::DeadlineExceeded));
    let failed = plugin.decrypt(&one, PLACE).await.expect_err("it is down");
    service.change(|script| script.down = None);
    assert_eq!(plugin.decrypt(&two, PLACE).await, Err(failed), "until the next look");
    pass(4).await;
    plugin.check().await;
    for (value, text) in [(&one, b"one"), (&two, b"two")] {
        assert_eq!(plugin.decrypt(value, PLACE).await, Ok((text.to_vec(), false)));
    }
}

/// Its values may be gone for good.
#[tokio::test(start_paused = true)]
async fn a_seed_that_is_refused_again_and_again_is_tried_ever_more_seldom() {
    let service = Scripted::new();
    let value = primed(&service).await.encrypt(b"text", PLACE).expect("encrypted");
    let (plugin, readable) = service.plugin();
    let mut announced = readable.subscribe();
    plugin.check().await;
    service.change(|script| script.decrypts_nothing = true);
    plugin.decrypt(&value, PLACE).await.expect_err("it is not decrypted");
    let background = plugin.background().run();
    let script = async {
        tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
        let calls = service.decrypted.load(Ordering::Relaxed);
        assert!((40..70).contains(&calls), "{calls} calls in a day");
        // Soon again when the plugin is back after an outage.
        service.change(|script| script.down = Some(Code::Unavailable));
        tokio::time::sleep(Duration::from_secs(61)).await;
        service.change(|script| (script.down, script.decrypts_nothing) = (None, false));
        tokio::time::timeout(Duration::from_secs(11), announced.changed())
            .await
            .expect("within the interval after an error")
            .expect("it is announced");
        assert_eq!(plugin.decrypt(&value, PLACE).await, Ok((b"text".to_vec(), false)));
    };
    tokio::select! {
        () = background => panic!("the plugin is in use"),
        () = script => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_health_check_asks_when_the_last_answer_is_too_old() {
    let service = Scripted::new();
    let plugin = primed(&service).await;
    service.change(|script| script.down = Some(Code::Unavailable));
    pass(19).await;
    plugin.renew_health().await;
    plugin.health().expect("the last answer is good for 20 s");
    pass(2).await;
    plugin.renew_health().await;
    plugin.health().expect_err("it is down");
    service.change(|script| script.down = None);
    pass(2).await;
    plugin.renew_health().await;
    plugin.health().expect_err("the last answer is good for 3 s");
    pass(2).await;
    plugin.renew_health().await;
    plugin.health().expect("it is well");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_key_ids_have_series_of_their_own() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let service = Scripted::new();
    let plugin = primed(&service).await;
    let own = object(&plugin.encrypt(b"text", PLACE).expect("encrypted"));
    let values = (0..150).map(|key_id: u32| EncryptedObject {
        key_id: key_id.to_string(),
        ..own.clone()
    });
    let values: Vec<Vec<u8>> = values.map(|value| value.encode_to_vec()).collect();
    let _recording = metrics::set_default_local_recorder(&recorder);
    for value in &values {
        plugin.decrypt(value, PLACE).await.expect("decrypted");
    }
    let page = recorder.handle().render();
    let used = |line: &&str| line.starts_with("apiserver_envelope_encryption_key_id_hash_total{");
    let lines: Vec<&str> = page.lines().filter(used).collect();
    // That of the write was before.
    assert_eq!(lines.len(), 99 + 1);
    let others = lines.iter().find(|line| line.contains("key_id_hash=\"other\""));
    assert!(others.is_some_and(|line| line.ends_with(" 51")), "{others:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_status_has_kube_apiservers_words() {
    let health = async |change: &dyn Fn(&mut Script)| {
        let service = Scripted::new();
        service.change(|script| change(script));
        let (plugin, _) = service.plugin();
        plugin.check().await;
        let error = plugin.health().expect_err("it is not well");
        let text = error.strip_prefix("kmsv2 Provider p is not healthy, error: ");
        text.unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    let ill = health(&|script| script.status.healthz = "the HSM is lost".to_owned()).await;
    assert_eq!(ill, "got unexpected healthz status: the HSM is lost");
    let old = health(&|script| script.status.version = "v1".to_owned()).await;
    assert_eq!(old, "expected KMSv2 API version v2, got v1");
    let keyless = health(&|script| script.status.key_id = String::new()).await;
    assert_eq!(keyless, "got invalid KMSv2 KeyID hash \"\": keyID is empty");
    let long = health(&|script| script.status.key_id = "k".repeat(1025)).await;
    assert!(
        long.ends_with(": keyID is 1025 bytes, which exceeds the max size of 1024"),
        "{long}"
    );
    let torn = health(&|script| script.encrypts_with = Some("2".to_owned())).await;
    assert!(torn.starts_with("failed to rotate DEK uid=\""), "{torn}");
    assert!(
        torn.contains(
            "useSeed=true, errState=got unexpected nil transformer, errGen=<nil>, statusKeyIDHash=\"sha256:6b86"
        ),
        "{torn}"
    );
    let annotated = health(&|script| script.annotations = vec![("bare".to_owned(), Vec::new())]).await;
    assert!(
        annotated.contains("errGen=failed to validate annotations: annotations: "),
        "{annotated}"
    );
    let heavy = health(&|script| script.annotations = vec![("a.b".to_owned(), vec![0; 32 * 1024])]).await;
    assert!(
        heavy.contains("total size of annotations is 32771, which exceeds the max size of 32768"),
        "{heavy}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_version_of_a_plugin_does_not_change() {
    let service = Scripted::new();
    service.change(|script| script.status.version = "v2beta1".to_owned());
    let plugin = primed(&service).await;
    service.change(|script| script.status.version = "v2".to_owned());
    pass(21).await;
    plugin.check().await;
    let error = plugin.health().expect_err("it has changed");
    let expected = "kmsv2 Provider p is not healthy, error: KMSv2 API version should not change after the initial status \
                    response version v2beta1, got v2";
    assert_eq!(error, expected);
}

#[tokio::test(start_paused = true)]
async fn malformed_values_are_errors() {
    let service = Scripted::new();
    let plugin = primed(&service).await;
    let good = object(&plugin.encrypt(b"text", PLACE).expect("encrypted"));
    let error = async |change: &dyn Fn(&mut EncryptedObject)| {
        let mut bad = good.clone();
        change(&mut bad);
        let error = plugin.decrypt(&bad.encode_to_vec(), PLACE).await;
        error.expect_err("it is malformed").to_string()
    };
    assert_eq!(
        error(&|bad| bad.encrypted_dek_source_type = 2).await,
        "unknown encryptedDEKSourceType: 2"
    );
    assert_eq!(
        error(&|bad| bad.encrypted_data.clear()).await,
        "encrypted data is empty"
    );
    assert_eq!(
        error(&|bad| bad.encrypted_dek_source.clear()).await,
        "failed to validate encrypted DEK source: encrypted DEK source is empty"
    );
    assert_eq!(
        error(&|bad| bad.key_id.clear()).await,
        "failed to validate key id: keyID is empty"
    );
    let short = "the stored data was shorter than the required size";
    assert_eq!(error(&|bad| bad.encrypted_data.truncate(31)).await, short);
    assert_eq!(error(&|bad| bad.encrypted_data.truncate(40)).await, short);
    // Whatever the plugin says is a seed.
    for length in [0, 31, 65] {
        let text = error(&move |bad| bad.encrypted_dek_source.resize(length.max(1), 9)).await;
        assert_eq!(
            text,
            format!("invalid seed length {} used for key generation", length.max(1))
        );
    }
    let junk = plugin.decrypt(b"\xff\xff\xff", PLACE).await.expect_err("it is junk");
    assert!(junk.to_string().starts_with("proto: "), "{junk}");
}

#[test]
fn a_seed_is_overwritten_when_it_is_given_up() {
    fn overwritten<T: ZeroizeOnDrop>(_: &T) {}
    let (_, seed) = Dek::generate().expect("random bytes");
    overwritten(&seed);
}
