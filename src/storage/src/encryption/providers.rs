//! The providers of each resource, and the trial of one after the other (`storage/value.prefixTransformers`).

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    config::{EncryptionConfig, Provider, ResourceName},
    kms::{KmsOptions, KmsPlugin, KmsProbe, ReadableSignal, ShownKeyIds},
    transform::{EncryptionError, PlainValue, Transformer},
};

const ANY: &str = "*";

/// All that is configured, ready to work.
pub struct EncryptionProviders {
    by_resource: HashMap<ResourceName, Arc<ProviderChain>>,
    /// In their order in the configuration.
    plugins: Vec<Arc<KmsPlugin>>,
    close_grace: Duration,
}

impl std::fmt::Debug for EncryptionProviders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncryptionProviders").finish_non_exhaustive()
    }
}

impl EncryptionProviders {
    /// Says what is wrong with a configuration.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn check(config: &EncryptionConfig) -> Result<(), EncryptionError> {
        let options = KmsOptions {
            server: String::new(),
            wall: Arc::new(|| SystemTime::UNIX_EPOCH),
            readable: ReadableSignal::default(),
            key_ids: ShownKeyIds::default(),
        };
        Self::new(config, &options).map(drop)
    }

    /// Makes the ciphers of a configuration. Plugins are not asked for anything before [`Self::check_plugins`].
    ///
    /// # Errors
    /// If a key has no length of its cipher, or a rule can have no effect because of an earlier one.
    pub fn new(config: &EncryptionConfig, kms: &KmsOptions) -> Result<Self, EncryptionError> {
        let mut by_resource: HashMap<ResourceName, Vec<Arc<Transformer>>> = HashMap::new();
        let mut plugins = Vec::new();
        for rule in &config.resources {
            let providers = rule.providers.iter();
            let transformers = providers.map(|provider| Transformer::new(provider, kms).map(Arc::new));
            let transformers = transformers.collect::<Result<Vec<_>, _>>()?;
            plugins.extend(
                transformers
                    .iter()
                    .filter_map(|transformer| transformer.plugin().cloned()),
            );
            for resource in &rule.resources {
                for earlier in [name(ANY, &resource.group), name(ANY, ANY)] {
                    if by_resource.contains_key(&earlier) {
                        return Err(EncryptionError::Masked(resource.to_string(), earlier.to_string()));
                    }
                }
                let chain = by_resource.entry(resource.clone()).or_default();
                chain.extend(transformers.iter().cloned());
            }
        }
        let chains = by_resource
            .into_iter()
            .map(|(resource, chain)| (resource, Arc::new(ProviderChain(chain))));
        Ok(Self {
            by_resource: chains.collect(),
            plugins,
            close_grace: close_grace(config),
        })
    }

    /// Reports whether there are plugins.
    pub fn have_plugins(&self) -> bool {
        !self.plugins.is_empty()
    }

    /// Looks at the plugins now, those that have not just answered.
    pub async fn check_plugins(&self) {
        join_all(self.plugins.iter().map(|plugin| plugin.check())).await;
    }

    /// Asks the plugins whose last answers are too old for [`Self::plugins_health`].
    pub async fn renew_plugins_health(&self) {
        join_all(self.plugins.iter().map(|plugin| plugin.renew_health())).await;
    }

    /// The background work of the plugins, to be run beside.
    pub fn background(&self) -> impl Iterator<Item = KmsProbe> {
        self.plugins.iter().map(|plugin| plugin.background())
    }

    /// The health check `kms-providers`: the last answer of each plugin.
    ///
    /// # Errors
    /// With all that is wrong.
    pub fn plugins_health(&self) -> Result<(), String> {
        let answers = self.plugins.iter().map(|plugin| plugin.health()).enumerate();
        let failed = answers.filter_map(|(number, answer)| Some(format!("kms-provider-{number}: {}", answer.err()?)));
        let mut errors: Vec<String> = failed.collect();
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(format!("[{}]", errors.join(", "))),
        }
    }

    /// The time that a plugin may take until it is well, when it comes into use while the server runs: twice the timeouts of
    /// all.
    pub fn close_grace(&self) -> Duration {
        self.close_grace
    }

    /// The providers of a resource; `None` if its values are not encrypted.
    pub(super) fn of(&self, resource: &ResourceName) -> Option<&Arc<ProviderChain>> {
        let exact = self.by_resource.get(resource);
        let of_group = || self.by_resource.get(&name(ANY, &resource.group));
        exact
            .or_else(of_group)
            .or_else(|| self.by_resource.get(&name(ANY, ANY)))
    }
}

fn close_grace(config: &EncryptionConfig) -> Duration {
    let providers = config.resources.iter().flat_map(|rule| &rule.providers);
    let timeouts = providers.filter_map(|provider| match provider {
        Provider::Kms(kms) => Some(kms.timeout),
        _ => None,
    });
    timeouts
        .fold(Duration::ZERO, Duration::saturating_add)
        .saturating_mul(2)
}

fn name(resource: &str, group: &str) -> ResourceName {
    ResourceName {
        resource: resource.to_owned(),
        group: group.to_owned(),
    }
}

/// The providers of a resource, in their order.
pub(super) struct ProviderChain(Vec<Arc<Transformer>>);

impl ProviderChain {
    /// Decrypts a value by the provider that it is of.
    pub(super) async fn decrypt<'v>(
        &self,
        data: &'v [u8],
        resource: &ResourceName,
        place: &str,
    ) -> Result<PlainValue<'v>, EncryptionError> {
        let begun = Instant::now();
        let note = |prefix: &str, error: Option<&EncryptionError>| {
            record(resource, "from_storage", prefix, begun.elapsed(), error);
        };
        let mut errors = Vec::new();
        for (at, transformer) in self.0.iter().enumerate() {
            let Some(rest) = data.strip_prefix(transformer.prefix.as_bytes()) else {
                continue;
            };
            match transformer.decrypt(rest, place).await {
                Ok(plain) => {
                    note(
                        if transformer.is_identity() {
                            "identity"
                        } else {
                            &transformer.prefix
                        },
                        None,
                    );
                    let stale = plain.stale || at != 0;
                    return Ok(PlainValue { stale, ..plain });
                }
                // Another provider may be right: to go back to plain text, it stands before the one to get away from.
                Err(_) if transformer.is_identity() => {}
                Err(error) => {
                    note(&transformer.prefix, Some(&error));
                    errors.push(error);
                }
            }
        }
        Err(EncryptionError::of_several(errors).unwrap_or_else(|| {
            note("unknown", Some(&EncryptionError::NoProvider));
            EncryptionError::NoProvider
        }))
    }

    /// Encrypts a value by the first provider.
    pub(super) fn encrypt(
        &self,
        data: &[u8],
        resource: &ResourceName,
        place: &str,
    ) -> Result<Vec<u8>, EncryptionError> {
        let Some(transformer) = self.0.first() else {
            return Ok(data.to_vec());
        };
        let begun = Instant::now();
        let encrypted = transformer.encrypt(data, place);
        record(
            resource,
            "to_storage",
            &transformer.prefix,
            begun.elapsed(),
            encrypted.as_ref().err(),
        );
        encrypted
    }
}

fn record(resource: &ResourceName, kind: &'static str, prefix: &str, took: Duration, error: Option<&EncryptionError>) {
    let status = error.map_or_else(|| "OK".to_owned(), EncryptionError::status);
    metrics::counter!(
        "apiserver_storage_transformation_operations_total",
        "resource" => resource.to_string(),
        "transformation_type" => kind,
        "transformer_prefix" => prefix.to_owned(),
        "status" => status,
    )
    .increment(1);
    if error.is_none() {
        metrics::histogram!(
            "apiserver_storage_transformation_duration_seconds",
            "transformation_type" => kind,
            "transformer_prefix" => prefix.to_owned(),
        )
        .record(took.as_secs_f64());
    }
}
