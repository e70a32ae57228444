//! The HTTP edge: the Kubernetes API over HTTP.
//!
//! ```text
//! http (TLS, HTTP/1.1, HTTP/2) ─► chain (filters, in order) ─► routes (actix-web) ─► handlers ─► registry
//!                           ◄─ bytes and streams; errors through the table in `status` ◄─
//! ```
//!
//! Called by the composition root alone: [`Edge::build`]. Promise: every request gets exactly one answer, with an
//! `Audit-Id`; what is done is what was authorized; nothing that a client does makes another client wait without bound.

mod allowed_origins;
mod api;
mod audit_trail;
pub mod backends;
mod body;
mod chain;
pub mod components;
mod compress;
mod config;
mod delete_options;
mod dropped_requests;
mod edge;
mod exchange;
mod filters;
mod flow_control;
mod handlers;
mod health;
mod installed_paths;
pub mod metrics;
mod negotiation;
mod options;
mod passing;
pub mod profiling;
mod query;
pub mod replicas;
mod request_info;
mod request_span;
mod respond;
mod reviews;
mod routes;
pub mod spans;
mod state;
mod status;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
mod user_counts;
mod views;
mod watch_counts;
mod websocket;
mod wire;

pub use allowed_origins::AllowedOrigins;
pub use config::{EdgeConfig, Rooms, VersionInfo};
pub use edge::{Edge, EdgeError};
pub use flow_control::follow_flow_control;
pub use health::{Health, Probes};
pub use reviews::{Reviewers, reviews};
pub use user_counts::OpenBounds;
