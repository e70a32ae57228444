//! APIServices: which API server answers for which group and version.
//!
//! ```text
//!  APIServices ──view──► RemoteServers ──► Publisher ─► Director: routes, discovery, OpenAPI
//!       ▲                     │
//!       │ Available           └──► RemoteBackend: requests of clients, passed on by the edge
//!  AvailabilityController (duty) ─ looks at services, endpoints and /apis/GROUP/VERSION
//! ```
//! Every group and version that this server serves itself is registered as a local APIService: built-in ones at the start
//! ([`LocalServices`]), those of custom resources as they come and go ([`CustomServices`]). The others belong to servers
//! behind services of the cluster; what of a request goes there and what comes back is in `forward.rs`. An APIService with a
//! service comes before what this server has of the same version.

mod api_service;
mod availability;
mod availability_gauge;
mod custom;
mod discovery;
mod documents;
mod fetch;
mod forward;
mod local;
mod openapi;
mod publisher;
mod remote;

pub use availability::AvailabilityController;
pub use custom::CustomServices;
pub use forward::{
    Forwarded, REDIRECTED, absolute_location, append_client, ask_to_switch, is_redirect, remove_hop_by_hop,
};
pub use local::{LocalService, LocalServices};
pub use publisher::{Publication, publish};
pub use remote::{ProxyIdentity, RemoteBackend, RemoteError, RemoteServers, RemoteSettings};
