//! Brings up what serves the built-in resources: kinds, admission, registries.

use std::sync::Arc;

use trireme_actors::ActorSystem;
use trireme_admission::{Chain, DeviceAdminAccess, NamespaceLifecycle, Namespaces};
use trireme_aggregation::{LocalService, LocalServices};
use trireme_kinds::{Settings as KindSettings, TokenIssuer};
use trireme_machinery::ApiError;
use trireme_registry::{
    DirectorError, DirectorHandle, PublishedRoutes, Registries, RegistryHandle, ResourceInfo, ServedResource,
    StoreWatcherOptions,
    allocate::{AddressAllocator, AddressRange, PortAllocator, PortRange},
};
use trireme_storage::Storage;

use crate::settings::Settings;

/// How often the registration of what is served is tried again until the store takes it.
const REGISTRATION_RETRY: std::time::Duration = std::time::Duration::from_millis(200);

/// Why the resources could not be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResourcesError {
    /// A registry or the director could not be started.
    #[error("the registries could not be started")]
    Director(#[from] DirectorError),
    /// There is no registry of something that the server itself needs.
    #[error("{0} are not served")]
    NotServed(&'static str),
    /// The settings passed validation but make no sense to an allocator.
    #[error("the service address or port range is unusable: {0}")]
    Range(String),
}

/// What has been started.
pub(crate) struct Served {
    /// The resources.
    pub(crate) director: DirectorHandle,
    /// Who gives out cluster IPs.
    pub(crate) addresses: AddressAllocator,
    /// Who gives out node ports.
    pub(crate) ports: PortAllocator,
}

/// Starts the registries of all built-in resources. Their caches load in the background.
pub(crate) async fn start(
    system: &ActorSystem,
    store: &Arc<dyn Storage>,
    settings: &Settings,
    tokens: TokenIssuer,
) -> Result<Served, ResourcesError> {
    let routes = PublishedRoutes::default();
    let namespaces = Namespaces::new(routes.resource("", "v1", "namespaces"), system.clock().clone());
    let lifecycle = NamespaceLifecycle::new(namespaces.clone());
    let admission = Chain::new(vec![Arc::new(lifecycle), Arc::new(DeviceAdminAccess::new(namespaces))]);
    let endpoints = routes.resource("", "v1", "endpoints");
    let kind_settings = kind_settings(system, store, settings, tokens, endpoints)?;
    let resources = trireme_kinds::resources(&kind_settings);
    let director = Registries {
        system: system.clone(),
        store: Arc::clone(store),
        store_watcher: StoreWatcherOptions {
            objects_prefix: format!("{}/", settings.store.prefix),
            ..StoreWatcherOptions::default()
        },
        admission: Arc::new(admission),
        routes,
        known_kinds: Arc::new(trireme_kinds::known_kinds()),
    }
    .start(resources.into_iter().map(Arc::<ResourceInfo>::new).collect())
    .await?;
    register_local_services(system, &director);
    Ok(Served {
        director,
        addresses: kind_settings.addresses,
        ports: kind_settings.ports,
    })
}

/// The registry of something that the server itself needs.
pub(crate) fn registry(
    director: &DirectorHandle,
    group: &str,
    resource: &'static str,
) -> Result<RegistryHandle, ResourcesError> {
    director
        .routes()
        .find(group, "v1", resource)
        .map(|route| route.registry)
        .ok_or(ResourcesError::NotServed(resource))
}

fn kind_settings(
    system: &ActorSystem,
    store: &Arc<dyn Storage>,
    settings: &Settings,
    tokens: TokenIssuer,
    endpoints: ServedResource,
) -> Result<KindSettings, ResourcesError> {
    let range = settings.service_cluster_ip_range.to_string();
    let addresses = range
        .parse::<AddressRange>()
        .map_err(|_| ResourcesError::Range(range))?;
    let ports = format!(
        "{}-{}",
        settings.service_node_ports.start(),
        settings.service_node_ports.end()
    );
    let ports = ports.parse::<PortRange>().map_err(|_| ResourcesError::Range(ports))?;
    let root = &settings.store.prefix;
    Ok(KindSettings {
        storage_root: root.clone(),
        event_ttl: settings.event_ttl,
        allow_privileged: settings.allow_privileged,
        endpoints,
        tokens,
        addresses: AddressAllocator::new(
            Arc::clone(store),
            system.clock().clone(),
            &format!("{root}/ipaddresses"),
            addresses,
        ),
        ports: PortAllocator::new(Arc::clone(store), &format!("{root}/ranges/servicenodeports"), ports),
    })
}

/// Registers what this server serves itself as APIServices.
fn register_local_services(system: &ActorSystem, director: &DirectorHandle) {
    let Some(route) = director.routes().find("apiregistration.k8s.io", "v1", "apiservices") else {
        return;
    };
    let mut services: Vec<LocalService> = Vec::new();
    for row in trireme_kinds::data::resources() {
        for version in &row.versions {
            let service = LocalService {
                group: row.group.clone(),
                version: version.name.clone(),
                group_priority_minimum: row.group_priority,
                version_priority: version.priority,
            };
            if !services.contains(&service) {
                services.push(service);
            }
        }
    }
    let (local, clock) = (LocalServices::new(route.registry, services), system.clock().clone());
    let run = async move {
        while let Err(error) = local.run().await {
            log_retry(&error);
            clock.sleep(REGISTRATION_RETRY).await;
        }
    };
    let _ = system.tasks().spawn_named("local-apiservices", run);
}

fn log_retry(error: &ApiError) {
    tracing::debug!(%error, "the store does not take the server's own objects yet");
}
