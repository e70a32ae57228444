//! The server's settings that kinds are made with.

use std::{sync::Arc, time::Instant};

use serde_json::Value;
use trireme_machinery::{ApiError, Features};
use trireme_registry::{
    ResourceLookup, StorageMediaType, TimeToLive,
    allocate::{AddressAllocator, PortAllocator},
};
use trireme_schema::ApiSelection;

use crate::pod_template::Capabilities;

/// The part of the server's settings that the kinds depend on.
pub struct KindSettings {
    /// The versions that are served.
    pub apis: ApiSelection,
    /// The features that are on.
    pub features: Features,
    /// The prefix of all keys: `/registry`.
    pub storage_root: String,
    /// The media type of objects at rest.
    pub storage_media_type: StorageMediaType,
    /// True if privileged containers may run in this cluster.
    pub allow_privileged: bool,
    /// The lifetime of an event; `None` for ever.
    pub event_ttl: Option<TimeToLive>,
    /// The giver of services' cluster IPs.
    pub addresses: AddressAllocator,
    /// The giver of services' node ports.
    pub ports: PortAllocator,
    /// The endpoints, of which those of a service go with it.
    pub endpoints: ResourceLookup,
    /// The signer of service accounts' tokens.
    pub tokens: TokenIssuer,
    /// Measures how long allocations take.
    pub now: MonotonicTime,
}

/// Reads a monotonic clock.
pub type MonotonicTime = Arc<dyn Fn() -> Instant + Send + Sync>;

impl KindSettings {
    /// The capabilities that containers of this cluster may have.
    pub(crate) fn capabilities(&self) -> Capabilities {
        Capabilities {
            allow_privileged: self.allow_privileged,
            features: self.features,
            ..Capabilities::default()
        }
    }
}

/// The signer of tokens.
#[derive(Clone)]
pub struct TokenIssuer {
    /// The audiences of a token whose request names none.
    pub audiences: Vec<String>,
    /// True if the tokens that kubelets put into pods are good for a year, whatever lifetime these ask for.
    pub extend: bool,
    /// The longest lifetime in seconds, to which longer ones are shortened; `None` for no bound of its own.
    pub max_seconds: Option<i64>,
    /// Adds who issues it and an id of its own, and signs.
    pub sign: Arc<dyn Fn(Value) -> Result<String, ApiError> + Send + Sync>,
}
