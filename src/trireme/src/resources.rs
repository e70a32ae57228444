//! Brings up what serves the built-in resources: kinds, admission, registries.

use std::sync::Arc;

use tokio::sync::mpsc;
use trireme_actors::ActorSystem;
use trireme_admission::{
    ClaimStatusAccess, DeviceAdminAccess, Namespaces, PluginParts, PodCertificateSigning, PolicyParameterAccess,
};
use trireme_aggregation::{ProxyIdentity, RemoteSettings};
use trireme_duties::RbacRegistries;
use trireme_extensions::{ExtensionSettings, Extensions};
use trireme_http::client::{BreakerSettings, Client, ClientSettings};
use trireme_kinds::{KindSettings, TokenIssuer};
use trireme_machinery::{Features, GroupResource};
use trireme_registry::{
    Admission, AnnouncedDefinitions, DirectorError, DirectorHandle, PublishedSurface, Readiness, Registries,
    RegistryHandle, ResourceDefinition, ResourceToServe, ServiceResolver, StoreWatcherOptions, TimeToLive,
    VirtualResource,
    allocate::{AddressAllocator, AddressRange, PortAllocator, PortRange, ServiceRanges},
};
use trireme_schema::ApiSelection;
use trireme_storage::Storage;

use crate::{aggregation::Aggregation, authorization::Authorization, image_review, settings::Settings};

/// The most changes of breakers that wait to become events; more than there are webhooks in most clusters.
const BREAKER_CHANGES: usize = 256;

/// The reason that the resources could not be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResourcesError {
    /// A registry or the director could not be started.
    #[error("the registries could not be started")]
    Director(#[from] DirectorError),
    /// There is no registry of something that the server itself needs.
    #[error("{0} are not served")]
    NotServed(&'static str),
    /// No handler answers for a resource that is not stored.
    #[error("nothing answers for {0}")]
    NoHandler(GroupResource),
    /// The settings passed validation but make no sense to an allocator.
    #[error("the service address or port range is unusable: {0}")]
    Range(String),
}

/// The components that have been started.
pub(crate) struct Served {
    /// The resources.
    pub(crate) director: DirectorHandle,
    /// The allocator of cluster IPs.
    pub(crate) addresses: AddressAllocator,
    /// The allocator of node ports.
    pub(crate) ports: PortAllocator,
    /// The authorizers.
    pub(crate) authorization: Authorization,
    /// The views of admission plugins, which readiness waits for.
    pub(crate) views: Vec<Arc<dyn Readiness>>,
    /// The clients of webhooks, to be looked at.
    pub(crate) clients: Vec<Client>,
    /// The resources that users define.
    pub(crate) extensions: Extensions,
    /// The resources of other API servers.
    pub(crate) aggregation: Aggregation,
}

/// Starts the registries of all built-in resources. Their caches load in the background.
pub(crate) async fn start(
    system: &ActorSystem,
    store: &Arc<dyn Storage>,
    settings: &Settings,
    tokens: TokenIssuer,
    instance: String,
    proxy_identity: ProxyIdentity,
) -> Result<Served, ResourcesError> {
    let published = PublishedSurface::default();
    let namespaces = Namespaces::new(published.resource("", "v1", "namespaces"), system.clock().clone());
    let services = ServiceResolver::new(&published, settings.aggregation.to_endpoints);
    let authorization = Authorization::start(system, settings, &published);
    let checks: Vec<Arc<dyn Admission>> = vec![
        Arc::new(DeviceAdminAccess::new(namespaces.clone())),
        Arc::new(ClaimStatusAccess::new(
            authorization.permissions(),
            settings.feature_gates.features(),
        )),
        Arc::new(PodCertificateSigning::new(authorization.permissions())),
        Arc::new(PolicyParameterAccess::new(authorization.permissions(), &published)),
        // The last one: it judges what is going to be stored.
        Arc::new(authorization.escalation_check(system)),
    ];
    let (changes, breaker_changes) = mpsc::channel(BREAKER_CHANGES);
    trireme_admission::record_breaker_events(system, &published, instance.clone(), breaker_changes);
    let own = || (system.clock().clone(), system.tasks().clone());
    let client = |label| {
        let (clock, tasks) = own();
        Client::new(label, client_settings(), clock, tasks)
    };
    let (clock, tasks) = own();
    let webhooks = Client::reporting("admission-webhooks", client_settings(), clock, tasks, changes);
    let converters = client("conversion-webhooks");
    let parts = PluginParts {
        surface: &published,
        namespaces: &namespaces,
        system,
        client: &webhooks,
        services: &services,
        permissions: &authorization.permissions(),
        features: settings.feature_gates.features(),
        settings: &settings.admission.plugins,
        webhook_users: &settings.admission.webhook_users,
        image_reviewer: &|policy| {
            let server = settings.admission.image_policy.clone();
            let server = server.expect("the settings are refused that enable the plugin without its server");
            image_review::reviewer(server, policy, client("image-policy-webhook"), system)
        },
    };
    let (admission, mut views) = settings.admission.enabled.chain(&parts, checks);
    let kind_settings = kind_settings(system, store, settings, tokens, &published)?;
    views.extend(kind_settings.addresses.ranges().readiness());
    let resources = defined(trireme_kinds::resources(&kind_settings));
    let mut parts = resources.iter().flat_map(|definition| &definition.subresources);
    let scale = parts.find(|part| &*part.name == "scale").cloned();
    let director = Registries {
        system: system.clone(),
        store: Arc::clone(store),
        store_watcher: StoreWatcherOptions {
            objects_prefix: format!("{}/", settings.store.prefix),
            ..StoreWatcherOptions::default()
        },
        admission: Arc::new(admission),
        published,
        other_kinds: Arc::new(trireme_kinds::other_kinds()),
        schemas: trireme_kinds::schemas(settings.feature_gates.features()),
    }
    .start(resources.into_iter().map(Arc::<ResourceDefinition>::new).collect())
    .await?;
    let announced = AnnouncedDefinitions::new(Arc::clone(store), &settings.store.prefix);
    let extension_settings = ExtensionSettings {
        storage_root: settings.store.prefix.clone(),
        scale: scale.ok_or(ResourcesError::NotServed("scales"))?,
        client: converters.clone(),
        services: services.clone(),
        announcement: settings.may_have_other_replicas().then_some((announced, instance)),
    };
    let definitions = registry(&director, trireme_extensions::GROUP, trireme_extensions::PLURAL)?;
    let extensions = Extensions::start(system, &director, definitions, extension_settings);
    let remote = RemoteSettings {
        services,
        identity: proxy_identity,
        rejects_redirects: settings.aggregation.rejects_redirects,
        types: trireme_schema::type_table(),
    };
    Ok(Served {
        aggregation: Aggregation::start(system, &director, remote),
        extensions: extensions.ok_or(ResourcesError::NotServed(trireme_extensions::PLURAL))?,
        director,
        addresses: kind_settings.addresses,
        ports: kind_settings.ports,
        authorization,
        views,
        clients: vec![webhooks, converters],
    })
}

/// Webhooks may take 30 seconds: what they take beyond most of that is slow.
fn client_settings() -> ClientSettings {
    let breaker = BreakerSettings {
        slow_call: std::time::Duration::from_secs(25),
        ..BreakerSettings::default()
    };
    ClientSettings {
        breaker: Some(breaker),
        ..ClientSettings::default()
    }
}

/// The built-in resources, with the behaviour that rooms of their own bring.
fn defined(resources: Vec<ResourceDefinition>) -> Vec<ResourceDefinition> {
    let is_definition = |definition: &ResourceDefinition| {
        *definition.resource.group == *trireme_extensions::GROUP
            && *definition.resource.resource == *trireme_extensions::PLURAL
    };
    let define = |definition| match is_definition(&definition) {
        true => trireme_extensions::define(definition),
        false => definition,
    };
    resources.into_iter().map(define).collect()
}

/// Serves the resources that are not stored, each by its handler in `handlers`.
pub(crate) async fn serve_virtual(
    director: &DirectorHandle,
    (apis, features): (&ApiSelection, Features),
    handlers: Vec<(GroupResource, Arc<dyn VirtualResource>)>,
) -> Result<(), ResourcesError> {
    let mut resources = Vec::new();
    for definition in trireme_kinds::virtual_resources(apis, features) {
        let mut handlers = handlers.iter();
        let handler = handlers.find(|(resource, _)| *resource == definition.resource);
        let (_, handler) = handler.ok_or_else(|| ResourcesError::NoHandler(definition.resource.clone()))?;
        resources.push(ResourceToServe::Virtual(Arc::new(definition), handler.clone()));
    }
    director.install(resources).await?;
    Ok(())
}

/// The registry of something that the server itself needs.
pub(crate) fn registry(
    director: &DirectorHandle,
    group: &str,
    resource: &'static str,
) -> Result<RegistryHandle, ResourcesError> {
    director
        .surface()
        .find(group, "v1", resource)
        .map(|route| route.registry)
        .ok_or(ResourcesError::NotServed(resource))
}

/// The registries of roles and bindings.
pub(crate) fn rbac_registries(director: &DirectorHandle) -> Result<RbacRegistries, ResourcesError> {
    let of = |resource| registry(director, "rbac.authorization.k8s.io", resource);
    Ok(RbacRegistries {
        cluster_roles: of("clusterroles")?,
        cluster_role_bindings: of("clusterrolebindings")?,
        roles: of("roles")?,
        role_bindings: of("rolebindings")?,
    })
}

fn kind_settings(
    system: &ActorSystem,
    store: &Arc<dyn Storage>,
    settings: &Settings,
    tokens: TokenIssuer,
    published: &PublishedSurface,
) -> Result<KindSettings, ResourcesError> {
    let configured = settings.service_cluster_ip_ranges.iter().map(|range| {
        let range = range.to_string();
        range.parse::<AddressRange>().map_err(|_| ResourcesError::Range(range))
    });
    let configured: Vec<AddressRange> = configured.collect::<Result<_, _>>()?;
    let ports = format!(
        "{}-{}",
        settings.service_node_ports.start(),
        settings.service_node_ports.end()
    );
    let ports = ports.parse::<PortRange>().map_err(|_| ResourcesError::Range(ports))?;
    let root = &settings.store.prefix;
    let service_cidrs = published.resource("networking.k8s.io", "v1", "servicecidrs");
    Ok(KindSettings {
        apis: settings.apis.clone(),
        features: settings.feature_gates.features(),
        storage_root: root.clone(),
        storage_media_type: settings.store.media_type,
        event_ttl: settings.event_ttl.map(|ttl| TimeToLive {
            ttl,
            lease_reuse: settings.lease_reuse,
        }),
        allow_privileged: settings.allow_privileged,
        endpoints: published.resource("", "v1", "endpoints"),
        tokens,
        addresses: AddressAllocator::new(
            Arc::clone(store),
            system.clock().clone(),
            &format!("{root}/ipaddresses"),
            ServiceRanges::following(configured, system, service_cidrs),
        ),
        ports: PortAllocator::new(Arc::clone(store), &format!("{root}/ranges/servicenodeports"), ports),
        now: Arc::new({
            let clock = system.clock().clone();
            move || clock.now()
        }),
    })
}
