//! The admission chain and its built-in plugins.
//!
//! A [`Chain`] of the [`EnabledPlugins`] is made by the composition root and handed to every registry. Plugins look objects up
//! in the watch caches and hold no locks. [`ClaimStatusAccess`], [`DeviceAdminAccess`], [`PodCertificateSigning`] and
//! [`PolicyParameterAccess`] are no plugins of kube-apiserver but checks of its registries. The table in `plugins.rs` has all plugins.

mod admission_request;
mod always_admit;
mod always_deny;
mod always_pull_images;
mod attributes;
mod authority;
mod certificate_subject_restriction;
mod chain;
mod claim_status_access;
mod configuration;
mod default_classes;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod device_admin_access;
mod doubts;
mod event_rate_limit;
mod expression;
mod expression_input;
mod extended_resource_toleration;
mod image_policy_webhook;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod loading;
mod match_conditions;
mod matching;
mod metrics;
mod namespace_exists;
mod namespace_lifecycle;
mod namespaces;
mod node_restriction;
mod object_lookup;
mod owner_references_permission_enforcement;
mod permissions;
mod persistent_volume_claim_resize;
mod plugins;
mod pod_groups;
mod pod_node_selector;
mod pod_resize;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod policies;
mod policy_parameter_access;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod signers;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
mod tolerations;
mod webhooks;

pub use chain::Chain;
pub use claim_status_access::ClaimStatusAccess;
pub use configuration::{AdmissionConfiguration, PluginSettings};
pub use default_toleration_seconds::TolerationSeconds;
pub use device_admin_access::DeviceAdminAccess;
pub use image_policy_webhook::{ImagePolicySettings, ImageReviewer};
pub use namespaces::Namespaces;
pub use permissions::{PermissionRequest, Permissions};
pub use plugins::{EnabledPlugins, PluginParts};
pub use policy_parameter_access::PolicyParameterAccess;
pub use signers::PodCertificateSigning;
pub use trireme_cel::{AuthorizerCheck, CheckDecision, CheckObject};
pub use webhooks::{WebhookCredentials, WebhookUsers, WebhookUsersByPlugin, record_breaker_events};
