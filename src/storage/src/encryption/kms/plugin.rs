//! One plugin: its health, the seed that values are written with, and the seeds that are read
//! (`kmsv2PluginProbe` in `k8s.io/apiserver/pkg/server/options/encryptionconfig`, and `envelopeTransformer`).

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

use super::{
    api::{EncryptRequest, StatusResponse},
    cache::{DekCache, KnownDek},
    dek::Dek,
    envelope::{CacheKey, DekSource, validate_key_id},
    metrics::{self, Labels, ShownKeyIds},
    reads::{FailedReads, ReadableSignal},
    service::{KeyService, UnixKeyService},
};
use crate::encryption::{config::KmsProvider, transform::EncryptionError};

/// Between two looks at a plugin that is well, and at one that is not.
const POSITIVE_INTERVAL: Duration = Duration::from_secs(60);
const NEGATIVE_INTERVAL: Duration = Duration::from_secs(10);
/// An answer is good for so long, also if a health check would look earlier.
const POSITIVE_TTL: Duration = Duration::from_secs(20);
const NEGATIVE_TTL: Duration = Duration::from_secs(3);
/// For so long after the last good answer values are written.
const WRITE_TTL: Duration = Duration::from_secs(3 * 60);
/// Both mean the same.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// The surroundings of plugins.
#[derive(Clone)]
pub struct KmsOptions {
    /// The identity of this server, whose hash stands in metrics.
    pub server: String,
    /// The time of the day, for metrics and messages.
    pub wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// Raised when values can be decrypted that could not be before.
    pub readable: ReadableSignal,
    /// The key ids in metrics, of all plugins.
    pub key_ids: ShownKeyIds,
}

/// The seed that values are written with.
#[derive(Clone)]
struct WriteState {
    known: Arc<KnownDek>,
    source: DekSource,
    cache_key: CacheKey,
    expires: Instant,
    expires_at: SystemTime,
}

/// The last answer of the plugin.
struct LastProbe {
    result: Result<(), String>,
    at: Option<Instant>,
    /// The version of the first answer, which must not change.
    version: String,
}

/// A plugin in use.
pub(in crate::encryption) struct KmsPlugin {
    name: String,
    service: Box<dyn KeyService>,
    labels: Labels,
    options: KmsOptions,
    state: ArcSwapOption<WriteState>,
    deks: DekCache,
    reads: FailedReads,
    last: Mutex<LastProbe>,
    /// One look at a time.
    probing: tokio::sync::Mutex<()>,
    /// One seed is decrypted at a time, and each once.
    decrypting: tokio::sync::Mutex<()>,
    wake: Arc<Notify>,
    /// True if the plugin has answered well since reads were tried again.
    may_read_again: AtomicBool,
}

impl KmsPlugin {
    /// The plugin of a provider; nothing is asked of it yet.
    pub(in crate::encryption) fn new(provider: &KmsProvider, options: &KmsOptions) -> Arc<Self> {
        Self::with_service(&provider.name, Box::new(UnixKeyService::new(provider)), options)
    }

    pub(super) fn with_service(name: &str, service: Box<dyn KeyService>, options: &KmsOptions) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            service,
            labels: Labels {
                provider: name.to_owned(),
                server: metrics::hash(&options.server),
                shown: options.key_ids.clone(),
            },
            options: options.clone(),
            state: ArcSwapOption::empty(),
            deks: DekCache::default(),
            reads: FailedReads::default(),
            last: Mutex::new(LastProbe {
                result: Err("the plugin has not answered yet".to_owned()),
                at: None,
                version: String::new(),
            }),
            probing: tokio::sync::Mutex::default(),
            decrypting: tokio::sync::Mutex::default(),
            wake: Arc::default(),
            may_read_again: AtomicBool::default(),
        })
    }

    fn last<T>(&self, look: impl FnOnce(&mut LastProbe) -> T) -> T {
        look(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if there is no need to look again: an answer is good for a while.
    fn is_fresh(&self) -> bool {
        let is_due = self.reads.are_due();
        self.last(|last| {
            let ttl = match last.result {
                Ok(()) if !is_due => POSITIVE_TTL,
                _ => NEGATIVE_TTL,
            };
            last.at.is_some_and(|at| at.elapsed() < ttl)
        })
    }

    /// The time until the next look.
    fn interval(&self) -> Duration {
        let is_due = self.reads.are_due();
        let is_well = self.last(|last| last.result.is_ok());
        if is_well && !is_due {
            POSITIVE_INTERVAL
        } else {
            NEGATIVE_INTERVAL
        }
    }

    /// The last answer.
    pub(in crate::encryption) fn health(&self) -> Result<(), String> {
        self.last(|last| last.result.clone())
    }

    /// Asks the plugin if its last answer is too old for a health check. Reads that failed are tried in the background.
    pub(in crate::encryption) async fn renew_health(&self) {
        if self.ask_status().await {
            self.wake.notify_one();
        }
    }

    /// Looks at the plugin, if that was not just done: its status, its key id, and the reads that failed.
    pub(in crate::encryption) async fn check(&self) {
        self.ask_status().await;
        if self.may_read_again.swap(false, Ordering::Relaxed) {
            self.read_again().await;
        }
    }

    /// Asks for the status, unless the last answer is still good; true if it has answered well.
    async fn ask_status(&self) -> bool {
        let _turn = self.probing.lock().await;
        if self.is_fresh() {
            return false;
        }
        let result = self.probe().await;
        if let Err(error) = &result {
            tracing::warn!(provider = self.name, error, "kms plugin failed health check probe");
        }
        let is_well = result.is_ok();
        let was_well = self.last(|last| {
            last.at = Some(Instant::now());
            std::mem::replace(&mut last.result, result).is_ok()
        });
        if is_well && !was_well {
            self.reads.begin_anew();
        }
        self.may_read_again.store(is_well, Ordering::Relaxed);
        is_well
    }

    async fn probe(&self) -> Result<(), String> {
        let status = self.service.status().await.map_err(|error| {
            let name = &self.name;
            format!("failed to perform status section of the healthz check for KMS Provider {name}, error: {error}")
        })?;
        let mut errors = self.status_errors(&status);
        let hash = metrics::hash(&status.key_id);
        match validate_key_id(&status.key_id) {
            Err(error) => {
                self.labels.invalid_key_id(error.code());
                errors.push(format!("got invalid KMSv2 KeyID hash {hash:?}: {error}"));
            }
            Ok(()) => {
                self.labels.key_from_status(&hash, (self.options.wall)());
                errors.extend(self.rotate_dek_on_key_id_change(&status.key_id).await.err());
            }
        }
        let text = match errors.len() {
            0 => return Ok(()),
            1 => errors.concat(),
            _ => format!("[{}]", errors.join(", ")),
        };
        Err(format!("kmsv2 Provider {} is not healthy, error: {text}", self.name))
    }

    fn status_errors(&self, status: &StatusResponse) -> Vec<String> {
        let StatusResponse { version, healthz, .. } = status;
        let mut errors = Vec::new();
        if healthz != "ok" {
            errors.push(format!("got unexpected healthz status: {healthz}"));
        }
        if !VERSIONS.contains(&version.as_str()) {
            errors.push(format!("expected KMSv2 API version v2, got {version}"));
            return errors;
        }
        let first = self.last(|last| {
            if last.version.is_empty() {
                last.version.clone_from(version);
            }
            last.version.clone()
        });
        if first != *version {
            errors.push(format!(
                "KMSv2 API version should not change after the initial status response version {first}, got {version}"
            ));
        }
        errors
    }

    /// Goes on with the seed for three more minutes, or makes another if it is under another key id. Whatever fails, the
    /// seed that is there stays in use until its time has passed.
    async fn rotate_dek_on_key_id_change(&self, status_key_id: &str) -> Result<(), String> {
        let state = self.state.load_full();
        // From before the call: this is the longest.
        let (expires, expires_at) = (Instant::now() + WRITE_TTL, (self.options.wall)() + WRITE_TTL);
        if let Some(state) = state.as_deref().filter(|state| state.source.key_id == status_key_id) {
            let extended = WriteState {
                expires,
                expires_at,
                ..state.clone()
            };
            self.state.store(Some(Arc::new(extended)));
            return Ok(());
        }
        let uid = Uuid::new_v4().to_string();
        let (encrypt_key_id, error) = match self.generate(&uid).await {
            Ok((dek, source)) if source.key_id == status_key_id => {
                let cache_key = source.cache_key();
                let known = self.remember(cache_key, dek, &source.key_id);
                self.state.store(Some(Arc::new(WriteState {
                    known,
                    source,
                    cache_key,
                    expires,
                    expires_at,
                })));
                self.reads.begin_anew();
                tracing::debug!(provider = self.name, uid, "successfully rotated DEK");
                return Ok(());
            }
            Ok((_, source)) => (source.key_id, "<nil>".to_owned()),
            Err(error) => (String::new(), error.to_string()),
        };
        let (state_error, state_key_id, expiration) = match state.as_deref() {
            Some(state) => ("<nil>", &*state.source.key_id, rfc3339(state.expires_at)),
            None => ("got unexpected nil transformer", "", "0001-01-01T00:00:00Z".to_owned()),
        };
        let [status, encrypt, own] = [status_key_id, &encrypt_key_id, state_key_id].map(metrics::hash);
        Err(format!(
            "failed to rotate DEK uid={uid:?}, useSeed=true, errState={state_error}, errGen={error}, \
             statusKeyIDHash={status:?}, encryptKeyIDHash={encrypt:?}, stateKeyIDHash={own:?}, \
             expirationTimestamp={expiration}"
        ))
    }

    /// Makes a seed and has the plugin encrypt it.
    async fn generate(&self, uid: &str) -> Result<(Dek, DekSource), EncryptionError> {
        let begun = Instant::now();
        let generated = Dek::generate();
        metrics::key_generated(begun.elapsed(), generated.is_ok());
        let (dek, mut bytes) = generated?;
        let request = EncryptRequest {
            plaintext: std::mem::take(&mut *bytes),
            uid: uid.to_owned(),
        };
        let response = self.service.encrypt(request).await;
        let response = response.map_err(EncryptionError::EncryptDek)?;
        Ok((dek, DekSource::of_seed(response)?))
    }

    fn remember(&self, key: CacheKey, dek: Dek, key_id: &str) -> Arc<KnownDek> {
        let key_id_hash = metrics::hash(key_id);
        let known = Arc::new(KnownDek { dek, key_id_hash });
        self.labels.cache_size(self.deks.set(key, known.clone()));
        known
    }

    /// Encrypts a value by the seed of now. Nothing is asked of the plugin.
    pub(in crate::encryption) fn encrypt(&self, data: &[u8], place: &str) -> Result<Vec<u8>, EncryptionError> {
        let state = self.state.load_full().ok_or(EncryptionError::NotPrimed)?;
        if Instant::now() > state.expires {
            return Err(EncryptionError::DekExpired {
                key_id_hash: state.known.key_id_hash.clone(),
                expired: rfc3339(state.expires_at),
                now: rfc3339((self.options.wall)()),
            });
        }
        self.labels
            .cache_size(self.deks.set(state.cache_key, state.known.clone()));
        let encrypted = state.known.dek.encrypt(data, place)?;
        let now = (self.options.wall)();
        self.labels.key_used("to_storage", &state.known.key_id_hash, now);
        Ok(state.source.seal(encrypted))
    }

    /// Decrypts a value; true if it would be encrypted otherwise now.
    pub(in crate::encryption) async fn decrypt(
        &self,
        data: &[u8],
        place: &str,
    ) -> Result<(Vec<u8>, bool), EncryptionError> {
        let (source, data) = DekSource::open(data)?;
        let key = source.cache_key();
        let Some(state) = self.state.load_full() else {
            return Err(self.failed(key, source, EncryptionError::NotPrimed));
        };
        let is_stale = source.key_id != state.source.key_id || source.kind != state.source.kind;
        let known = match self.deks.get(&key) {
            Some(known) => known,
            None => self.decrypted(key, source).await?,
        };
        let now = (self.options.wall)();
        self.labels.key_used("from_storage", &known.key_id_hash, now);
        Ok((known.dek.decrypt(&data, place)?, is_stale))
    }

    /// Has a seed decrypted that is not known.
    async fn decrypted(&self, key: CacheKey, source: DekSource) -> Result<Arc<KnownDek>, EncryptionError> {
        let _turn = self.decrypting.lock().await;
        if let Some(known) = self.deks.get(&key) {
            return Ok(known);
        }
        if let Some(error) = self.reads.known(&key) {
            return Err(self.failed(key, source, error));
        }
        match self.ask(key, &source).await {
            Ok(known) => Ok(known),
            Err(error) => Err(self.failed(key, source, error)),
        }
    }

    async fn ask(&self, key: CacheKey, source: &DekSource) -> Result<Arc<KnownDek>, EncryptionError> {
        metrics::cache_miss();
        let uid = Uuid::new_v4().to_string();
        let bytes = self.service.decrypt(source.decrypt_request(uid)).await;
        let bytes = bytes.map_err(EncryptionError::DecryptDek)?;
        let dek = Dek::new(source.kind, &bytes)?;
        Ok(self.remember(key, dek, &source.key_id))
    }

    fn failed(&self, key: CacheKey, source: DekSource, error: EncryptionError) -> EncryptionError {
        if self.reads.note(key, source, &error) {
            self.wake.notify_one();
        }
        error
    }

    /// Tries the seeds again that could not be decrypted, and says so if one can now.
    async fn read_again(&self) {
        let Some(round) = self.reads.begin_round() else { return };
        let mut is_more_readable = round.more;
        let mut is_whole = true;
        for (key, source) in round.seeds {
            match self.ask(key, &source).await {
                Ok(_) => {
                    self.reads.forget(&key);
                    is_more_readable = true;
                }
                Err(error) => {
                    let is_unreachable = error.is_unreachable();
                    self.reads.note(key, source, &error);
                    if is_unreachable {
                        is_whole = false;
                        break;
                    }
                }
            }
        }
        if is_whole {
            self.reads.end_round();
        }
        if is_more_readable {
            tracing::info!(
                provider = self.name,
                "values that could not be decrypted are read again"
            );
            self.options.readable.raise();
        }
    }

    /// The work in the background.
    pub(in crate::encryption) fn background(self: &Arc<Self>) -> KmsProbe {
        KmsProbe {
            plugin: Arc::downgrade(self),
            wake: self.wake.clone(),
        }
    }
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

/// Looks at a plugin again and again.
pub struct KmsProbe {
    plugin: Weak<KmsPlugin>,
    wake: Arc<Notify>,
}

impl KmsProbe {
    /// Goes on for as long as the plugin is in use.
    pub async fn run(self) {
        while let Some(interval) = self.plugin.upgrade().map(|plugin| plugin.interval()) {
            // Early if a health check has asked, or a read has failed.
            let _ = tokio::time::timeout(interval, self.wake.notified()).await;
            match self.plugin.upgrade() {
                Some(plugin) => plugin.check().await,
                None => return,
            }
        }
    }
}

/// To the second, as Go's `time.RFC3339`.
fn rfc3339(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
