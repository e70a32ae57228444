//! Puts encryption at rest before the store, as the file of `--encryption-provider-config` says, and looks after KMS plugins.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use trireme_actors::{ActorSystem, Clock};
use trireme_edge::{Health, Probes};
use trireme_storage::Storage;
use trireme_storage::encryption::{
    CurrentProviders, EncryptedStore, EncryptionProviders, KeyResources, KmsOptions, ReadableSignal, ResourceName,
    ShownKeyIds,
};
use zeroize::Zeroizing;

use crate::build_error::{BuildError, read_file};
use crate::config_controller::{ConfigController, FollowedFile};
use crate::reload::Reloader;
use crate::settings::{Encryption, Settings};

const NAME: &str = "encryption-provider-config";
const CONTROLLER: &str = "apiserver_encryption_config_controller";
/// The plugins of a changed file get at least this long to be well, and between two looks at them.
const HEALTH_PATIENCE: Duration = Duration::from_secs(10);
const HEALTH_POLL: Duration = Duration::from_millis(100);

/// The store that encrypts, and the health of what it needs for that.
pub(crate) struct EncryptionAtRest {
    /// The store.
    pub(crate) store: Arc<dyn Storage>,
    /// The health of KMS plugins, if there may be any.
    pub(crate) plugins: Option<PluginsHealth>,
}

/// Makes providers of the content of the file.
struct ProvidersFactory {
    encryption: Encryption,
    kms: KmsOptions,
    system: ActorSystem,
}

impl EncryptionAtRest {
    /// Encrypts what the settings say, if they say so. The plugins are looked at once before anything is read.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub(crate) async fn before(
        store: Arc<dyn Storage>,
        settings: &Settings,
        system: &ActorSystem,
        identity: &str,
    ) -> Result<Self, BuildError> {
        let Some(encryption) = &settings.encryption else {
            return Ok(Self { store, plugins: None });
        };
        let wall = system.clock().clone();
        let readable = ReadableSignal::default();
        let kms = KmsOptions {
            server: identity.to_owned(),
            wall: Arc::new(move || wall.wall()),
            readable: readable.clone(),
            key_ids: ShownKeyIds::default(),
        };
        let factory = ProvidersFactory {
            encryption: encryption.clone(),
            kms,
            system: system.clone(),
        };
        let content = Zeroizing::new(read_file(&encryption.file)?);
        let providers = factory.make(&content)?;
        providers.check_plugins().await;
        factory.start(&providers);
        let plugins = (encryption.reload || providers.have_plugins()).then_some(encryption.reload);
        let current = CurrentProviders::new(providers, readable);
        let controller = ConfigController::new(CONTROLLER, identity);
        let in_use = FollowedFile::new(encryption.file.clone(), &content);
        if encryption.reload {
            follow(factory, &current, in_use, controller);
        } else {
            controller.apply(&in_use.hash);
        }
        let resources = KeyResources::new(&settings.store.prefix, storage_prefixes());
        Ok(Self {
            plugins: plugins.map(|reload| PluginsHealth {
                current: Arc::clone(&current),
                reload,
            }),
            store: Arc::new(EncryptedStore::new(store, current, resources)),
        })
    }
}

fn storage_prefixes() -> impl Iterator<Item = (String, ResourceName)> {
    trireme_kinds::storage_prefixes().map(|(prefix, resource)| {
        let resource = ResourceName {
            resource: resource.resource.to_string(),
            group: resource.group.to_string(),
        };
        (prefix, resource)
    })
}

/// Puts the providers of a changed file in the place of those in use, once its plugins are well.
fn follow(
    factory: ProvidersFactory,
    current: &Arc<CurrentProviders>,
    in_use: FollowedFile,
    controller: ConfigController,
) {
    let mut reloader = Reloader::default();
    let system = factory.system.clone();
    let current = Arc::clone(current);
    reloader.follow_configuration(NAME, in_use, controller, move |content| {
        let providers = factory.make(content)?;
        let clock = factory.system.clock();
        // Files are looked at on a thread that may block.
        Handle::current().block_on(until_well(&providers, clock))?;
        factory.start(&providers);
        current.replace(providers);
        Ok(())
    });
    reloader.start(&system);
}

/// Looks at the plugins until all are well, for as long as kube-apiserver does.
async fn until_well(providers: &EncryptionProviders, clock: &Clock) -> Result<(), BuildError> {
    let end = clock.now() + providers.close_grace().max(HEALTH_PATIENCE);
    loop {
        providers.check_plugins().await;
        match providers.plugins_health() {
            Ok(()) => return Ok(()),
            Err(error) if clock.now() >= end => return Err(BuildError::KmsPlugins(error)),
            Err(_) => clock.sleep(HEALTH_POLL).await,
        }
    }
}

impl ProvidersFactory {
    fn make(&self, content: &[u8]) -> Result<EncryptionProviders, BuildError> {
        let config = self.encryption.parse(content);
        let config = config.map_err(|errors| BuildError::Encryption(errors.join("; ")))?;
        let providers = EncryptionProviders::new(&config, &self.kms);
        providers.map_err(|error| BuildError::Encryption(error.to_string()))
    }

    /// Goes on looking at the plugins for as long as the providers are in use.
    fn start(&self, providers: &EncryptionProviders) {
        for probe in providers.background() {
            let _ = self.system.tasks().spawn_named("kms provider", probe.run());
        }
    }
}

/// The plugins that are in use.
pub(crate) struct PluginsHealth {
    current: Arc<CurrentProviders>,
    /// True if others may take their place.
    reload: bool,
}

impl PluginsHealth {
    /// Adds the check of the plugins. Those whose last answers are too old are asked before, as kube-apiserver does.
    pub(crate) fn add_check(&self, health: Health) -> Health {
        let [current, asked] = [(); 2].map(|()| Arc::clone(&self.current));
        let health = health.check("kms-providers", Probes::HealthAndReady, move || {
            current.load().plugins_health()
        });
        health.renewed_by(move || {
            let providers = asked.load();
            Box::pin(async move { providers.renew_plugins_health().await })
        })
    }

    /// Adds the hook that starts to follow the file, which was done before.
    pub(crate) fn add_hook(&self, health: Health) -> Health {
        if !self.reload {
            return health;
        }
        let hook = "poststarthook/start-encryption-provider-config-automatic-reload";
        health.check(hook, Probes::All, || Ok(()))
    }
}
