//! CustomResourceDefinitions: resources that users define.
//!
//! ```text
//!  definition ──validated──► store ──names accepted (names.rs)──► each replica: compiled (resource.rs), served (installer.rs)
//!                                  ◄──established, once all replicas serve it────────────────────────┘
//!                                  ──────────────────established──────────────────► each replica: in discovery and OpenAPI
//! ```
//! A custom resource is a `ResourceDefinition` as any other: its registry, watch cache, discovery and OpenAPI are those of
//! built-in kinds. What is its own is here: the schema of its objects (`structural`), its rules in CEL, its columns, its
//! strategy. The composition root calls [`define`] for the kind and [`Extensions::start`] for the work.

mod catalogue;
mod cleanup;
mod columns;
mod conversion;
mod custom_resource;
mod definition;
mod installer;
mod json_path;
mod names;
mod object_schema;
mod openapi;
mod openapi_schema;
mod openapi_v2;
mod resource;
mod rules;
mod structural;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;

use std::{collections::HashSet, sync::Arc};

use trireme_actors::{ActorSystem, Clock};
use trireme_duties::ServedDefinitions;
use trireme_http::client::Client;
use trireme_machinery::GroupVersion;
use trireme_registry::{
    AnnouncedDefinitions, DirectorHandle, Entries, OwnObjects, ReadableVersion, Readiness, RegistryHandle,
    ResourceDefinition, ServiceResolver, SubresourceDefinition, View,
};

use crate::{
    catalogue::{Catalogue, Compile},
    columns::Columns,
    conversion::ConversionWebhooks,
    definition::{Definitions, V1Beta1},
    installer::{InstalledRevision, ServedHere, ServesAll},
    resource::Builder,
    rules::RuleMeters,
    structural::metadata::MetadataType,
};
pub use crate::{cleanup::DefinitionCleanup, names::DefinitionNames};

/// The group of the kind.
pub const GROUP: &str = "apiextensions.k8s.io";
/// The plural of the kind.
pub const PLURAL: &str = "customresourcedefinitions";

/// The kind with its own behaviour.
#[must_use]
pub fn define(definition: ResourceDefinition) -> ResourceDefinition {
    let beta = ReadableVersion {
        group_version: GroupVersion::new(GROUP, "v1beta1"),
        type_id: definition.stored().type_id,
        conversion: Some(Arc::new(V1Beta1)),
    };
    ResourceDefinition {
        strategy: Arc::new(Definitions {
            metadata: MetadataType::find(&definition.types),
        }),
        readable: vec![beta],
        ..definition
    }
}

/// What the work with definitions needs.
pub struct ExtensionSettings {
    /// Where all keys begin: `/registry`.
    pub storage_root: String,
    /// `/scale`, as built-in kinds have it.
    pub scale: SubresourceDefinition,
    /// Calls the webhooks that convert.
    pub client: Client,
    /// The services that webhooks may be behind.
    pub services: ServiceResolver,
    /// How replicas tell each other what they serve, and the name of this one; none without others.
    pub announcement: Option<(AnnouncedDefinitions, String)>,
}

/// The definitions that are followed and served here.
pub struct Extensions {
    definitions: RegistryHandle,
    director: DirectorHandle,
    view: View<Catalogue>,
    installed: InstalledRevision,
    others: Option<AnnouncedDefinitions>,
    clock: Clock,
}

/// The group versions that are served before anything is defined.
fn own_versions(director: &DirectorHandle) -> HashSet<GroupVersion> {
    let surface = director.surface();
    let definitions = surface.registries().map(|registry| registry.info());
    let versions = definitions.flat_map(|definition| definition.versions.iter());
    let served = versions.filter(|version| version.is_served);
    served.map(|version| version.group_version.clone()).collect()
}

impl Extensions {
    /// Starts to serve what is defined; `None` if the kind is not as expected.
    pub fn start(
        system: &ActorSystem,
        director: &DirectorHandle,
        definitions: RegistryHandle,
        settings: ExtensionSettings,
    ) -> Option<Self> {
        let kind = definitions.info();
        let builder = Arc::new(Builder {
            storage_root: settings.storage_root.into(),
            metadata: MetadataType::find(&kind.types)?,
            columns: Columns::from(kind.columns_in(0))?,
            scale: settings.scale,
            schemas: kind.openapi.schemas().clone(),
            converters: Arc::new(ConversionWebhooks {
                client: settings.client,
                services: settings.services,
            }),
            own_versions: own_versions(director),
            rule_meters: RuleMeters::new(system.clock().clone()),
        });
        let fold = move || Compile {
            builder: builder.clone(),
            entries: Entries::default(),
        };
        // The caches of custom resources begin where the others do, or watches of them could not resume after a restart.
        let view = View::start_from_history(system, PLURAL, definitions.reader().clone(), fold);
        let announcement = settings.announcement.map(|(all, own)| (all, own.into()));
        let others = announcement
            .as_ref()
            .map(|(all, _): &(AnnouncedDefinitions, Arc<str>)| all.clone());
        let installed = installer::start(system, view.clone(), director.clone(), announcement);
        director.follow_definitions(definitions.reader().clone(), installed.changes());
        Some(Self {
            definitions,
            director: director.clone(),
            view,
            installed,
            others,
            clock: system.clock().clone(),
        })
    }

    /// Says when all that was defined at the start is served.
    pub fn readiness(&self) -> Arc<dyn Readiness> {
        Arc::new(ServesAll::new(self.view.clone(), self.installed.clone()))
    }

    /// Says when all that is defined now is served.
    pub fn served_definitions(&self) -> Arc<dyn ServedDefinitions> {
        Arc::new(ServedHere {
            view: self.view.clone(),
            installed: self.installed.clone(),
            clock: self.clock.clone(),
        })
    }

    /// The duty that accepts names and establishes.
    pub fn names(&self) -> DefinitionNames {
        DefinitionNames::new(
            self.own_objects(),
            self.view.clone(),
            self.installed.clone(),
            self.others.clone(),
            self.clock.clone(),
        )
    }

    /// The duty that deletes objects with their definition.
    pub fn cleanup(&self) -> DefinitionCleanup {
        DefinitionCleanup::new(self.own_objects(), self.director.clone())
    }

    fn own_objects(&self) -> OwnObjects {
        OwnObjects::new(self.definitions.clone(), "kube-apiserver")
    }
}
