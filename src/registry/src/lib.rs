//! Registries, watch caches, the store watcher, the read index and the director.
//!
//! The data's way: `edge` decodes a request into one of the structs of [`request`] and hands it to a
//! [`RegistryHandle`]; the registry runs the resource's [`Strategy`] and the [`Admission`] chain and writes bytes to
//! the store; the store watcher sees the write come back and feeds the resource's watch cache, from which every read
//! is answered. Nothing here knows HTTP.

pub mod access;
pub mod admission;
mod admission_stages;
pub mod allocate;
mod announced;
pub mod audit_notes;
mod connect_options;
pub mod definition;
mod director;
pub mod documents;
pub mod encode;
mod event;
mod event_kind;
mod fence;
#[cfg(test)]
mod fixtures;
pub mod item;
mod key_locks;
mod known_kinds;
pub mod list_options;
mod openapi_fragment;
mod own_objects;
mod posted;
pub mod protobuf;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod protobuf_fields;
mod protobuf_form;
mod proxied;
mod read_index;
mod reads;
mod registry;
mod reinvocation;
pub mod request;
mod selectable;
mod service_resolver;
mod shared_conversions;
mod store_error;
mod store_watcher;
mod stored;
pub mod strategy;
pub mod subresource;
mod subresource_request;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
mod time_to_live;
pub mod trace;
mod unreadable;
mod verb;
pub mod versions;
mod view;
mod watch_cache;
pub mod webhook_latency;
mod write;

pub use access::{ObjectAccess, ResourceIndex, RuleChange, RuleStages};
pub use admission::{Admission, Attributes, Operation, WriteRecord, WriteRequest};
pub use admission_stages::AdmissionStages;
pub use announced::{AnnouncedAddresses, AnnouncedDefinitions, AnnouncedLoads};
pub use definition::{
    Column, Conversion, Converter, Deprecation, ObjectSchema, ReadableVersion, ResourceDefinition, ServedVersion,
    StorageMediaType, SubresourceDefinition, SubresourceKind,
};
pub use director::{
    ApiSurface, Backend, DirectorError, DirectorHandle, PublishedSurface, Registries, ResourceLookup, ResourceToServe,
    Route, ServedResource, VirtualBackend, VirtualCall, VirtualResource,
};
pub use documents::Documents;
pub use event_kind::EventKind;
pub use fence::{FenceError, Fences, WriteFence};
pub use item::{Item, ItemKey};
pub use key_locks::RegistryError;
pub use known_kinds::KnownKinds;
pub use openapi_fragment::{NoSchemas, OpenApiFragment, SchemaSource};
pub use own_objects::{OwnObjects, delete_dependent};
pub use proxied::{ProxiedOpenApi, ProxiedVersion};
pub use read_index::ReadIndexHandle;
pub use reads::{ListPage, Reader, WatchFrame, Watcher};
pub use registry::RegistryHandle;
pub use reinvocation::{PluginRounds, Reinvocation};
pub use request::{WarningRecorder, WriteContext};
pub use selectable::{SelectableField, SelectableFields};
pub use service_resolver::ServiceResolver;
pub use shared_conversions::SharedConversions;
pub use store_error::store_error;
pub use store_watcher::{StoreWatcherHandle, StoreWatcherOptions};
pub use stored::ItemError;
pub use strategy::{Deletion, ResetFields, SideEffects, Strategy};
pub use subresource_request::{ConnectAnswer, ConnectRequest, SubresourceCreateRequest};
pub use time_to_live::TimeToLive;
pub use trireme_storage::Revision;
pub use unreadable::UnreadableValue;
pub use verb::{Verb, Verbs};
pub use view::{Entries, Fold, Follower, ObjectChanges, Readiness, View, ViewSnapshot, Views, compile_entries};
pub use watch_cache::{CacheId, WatchCacheHandle};
pub use write::{DeletedCollection, metadata::generate_name};
