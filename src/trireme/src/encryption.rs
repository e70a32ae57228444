//! Puts encryption at rest before the store, as the file of `--encryption-provider-config` says.

use std::sync::Arc;

use arc_swap::ArcSwap;
use trireme_actors::ActorSystem;
use trireme_storage::{
    Storage,
    encryption::{EncryptedStore, EncryptionProviders, KeyResources, ResourceName},
};

use crate::{
    build_error::{BuildError, read_file},
    reload::Reloader,
    settings::{self, Encryption, Settings},
};

const NAME: &str = "encryption-provider-config";

/// The store that encrypts what the settings say, if they say so.
///
/// # Errors
/// If the file cannot be used.
pub(crate) fn before(
    store: Arc<dyn Storage>,
    settings: &Settings,
    system: &ActorSystem,
) -> Result<Arc<dyn Storage>, BuildError> {
    let Some(Encryption { file, reload }) = &settings.encryption else {
        return Ok(store);
    };
    let providers = if *reload {
        let mut reloader = Reloader::default();
        let providers = reloader.load(NAME, vec![file.clone()], |contents| {
            providers(contents.first().map(Vec::as_slice).unwrap_or_default())
        })?;
        reloader.start(system);
        providers
    } else {
        Arc::new(ArcSwap::from_pointee(providers(&read_file(file)?)?))
    };
    let prefixes = trireme_kinds::storage_prefixes();
    let prefixes = prefixes.map(|(prefix, resource)| {
        let resource = ResourceName {
            resource: resource.resource.to_string(),
            group: resource.group.to_string(),
        };
        (prefix, resource)
    });
    let resources = KeyResources::new(&settings.store.prefix, prefixes);
    Ok(Arc::new(EncryptedStore::new(store, providers, resources)))
}

fn providers(content: &[u8]) -> Result<EncryptionProviders, BuildError> {
    let config = settings::parse_encryption(content);
    let config = config.map_err(|errors| BuildError::Encryption(errors.join("; ")))?;
    EncryptionProviders::new(&config).map_err(|error| BuildError::Encryption(error.to_string()))
}
