//! The providers of each resource, and the trial of one after the other (`storage/value.prefixTransformers`).

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    config::{EncryptionConfig, ResourceName},
    transform::{EncryptionError, PlainValue, Transformer},
};

const ANY: &str = "*";

/// All that is configured, ready to work.
pub struct EncryptionProviders {
    by_resource: HashMap<ResourceName, Arc<ProviderChain>>,
}

impl std::fmt::Debug for EncryptionProviders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EncryptionProviders").finish_non_exhaustive()
    }
}

impl EncryptionProviders {
    /// Makes the ciphers of a configuration.
    ///
    /// # Errors
    /// If a key has no length of its cipher, or a rule can have no effect because of an earlier one.
    pub fn new(config: &EncryptionConfig) -> Result<Self, EncryptionError> {
        let mut by_resource: HashMap<ResourceName, Vec<Arc<Transformer>>> = HashMap::new();
        for rule in &config.resources {
            let transformers = rule
                .providers
                .iter()
                .map(|provider| Transformer::new(provider).map(Arc::new));
            let transformers = transformers.collect::<Result<Vec<_>, _>>()?;
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
        })
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
    pub(super) fn decrypt<'v>(
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
            match transformer.decrypt(rest, place) {
                Ok(plain) => {
                    note(
                        if transformer.is_identity() {
                            "identity"
                        } else {
                            transformer.prefix
                        },
                        None,
                    );
                    let stale = plain.stale || at != 0;
                    return Ok(PlainValue { stale, ..plain });
                }
                // Another provider may be right: to go back to plain text, it stands before the one to get away from.
                Err(_) if transformer.is_identity() => {}
                Err(error) => {
                    note(transformer.prefix, Some(&error));
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
            transformer.prefix,
            begun.elapsed(),
            encrypted.as_ref().err(),
        );
        encrypted
    }
}

fn record(resource: &ResourceName, kind: &'static str, prefix: &str, took: Duration, error: Option<&EncryptionError>) {
    let status = if error.is_some() { "unknown-non-grpc" } else { "OK" };
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
