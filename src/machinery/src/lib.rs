//! Kubernetes objects, independent of any server: names, selectors, the schema engine,
//! patches, codecs and typed errors. Pure: no I/O, no async, no clock.
//!
//! An object in flight is a [`serde_json::Value`] tree with sorted keys; an object at rest is bytes.
//! Whatever comes from outside is decoded by [`json`] or [`yaml`] under explicit caps, then held
//! against its [`schema`].

pub mod api_service;
pub mod configuration;
pub mod error;
pub mod expiring_cache;
pub mod features;
pub mod field;
pub mod go_regex;
pub mod go_text;
pub mod gvk;
pub mod intstr;
pub mod json;
pub mod managed;
pub mod meta;
pub mod names;
pub mod patch;
pub mod percent;
pub mod pod_resources;
pub mod policy_rule;
pub mod protobuf;
pub mod quantity;
pub mod schema;
pub mod scheme;
pub mod selector;
pub mod time;
pub mod url;
pub mod webhook_address;
pub mod webhook_answer;
pub mod yaml;

pub use error::{ApiError, ErrorDetails, Reason, StatusCause, WebhookStatus};
pub use features::{Feature, Features};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, version_rank};
pub use serde_json::Value;

/// The fields of an object or of any struct within it, sorted by name.
pub type Object = serde_json::Map<String, Value>;
