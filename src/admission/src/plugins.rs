//! The plugins by name, in kube-apiserver's order, and which of them run.

use std::{collections::BTreeSet, sync::Arc};

use trireme_actors::ActorSystem;
use trireme_http::client::Client;
use trireme_machinery::{Feature, Features};
use trireme_registry::{Admission, PublishedSurface, Readiness, ResourceLookup, ServiceResolver};

use crate::{
    always_admit::AlwaysAdmit,
    always_deny::DenyAllWrites,
    always_pull_images::AlwaysPullImages,
    certificate_subject_restriction::CertificateSubjectRestriction,
    chain::{Chain, ChainedPlugin},
    configuration::PluginSettings,
    default_classes::DefaultClass,
    default_toleration_seconds::DefaultTolerationSeconds,
    deny_service_external_ips::DenyServiceExternalIps,
    event_rate_limit::EventRateLimit,
    extended_resource_toleration::ExtendedResourceToleration,
    image_policy_webhook::{ImagePolicySettings, ImagePolicyWebhook, ImageReviewer},
    limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology,
    limit_ranger::LimitRanger,
    metrics::AdmissionStep,
    namespace_exists::{NamespaceAutoProvision, NamespaceExists},
    namespace_lifecycle::NamespaceLifecycle,
    namespaces::Namespaces,
    node_restriction::{NodeRestriction, RestrictedObjects},
    object_lookup::ObjectLookup,
    owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement,
    permissions::Permissions,
    persistent_volume_claim_resize::PersistentVolumeClaimResize,
    pod_groups::{self, JobValidation, PodGroupProtection, PodGroupWorkloadExists},
    pod_node_selector::PodNodeSelector,
    pod_resize::ResizeOnNode,
    pod_security::PodSecurity,
    pod_toleration_restriction::PodTolerationRestriction,
    pod_topology_labels::PodTopologyLabels,
    policies::{MutatingPolicies, PolicyParts, ValidatingPolicies},
    priority::Priority,
    resource_quota::{ExtendedResources, ResourceQuota},
    runtime_class::RuntimeClass,
    service_account::ServiceAccount,
    signers::SignerPermission,
    storage_object_in_use_protection::StorageObjectInUseProtection,
    taint_nodes_by_condition::TaintNodesByCondition,
    webhooks::{MutatingWebhooks, ValidatingWebhooks, WebhookParts, WebhookUsers, WebhookUsersByPlugin},
};

/// The constructor of a plugin.
type Make = fn(&PluginParts<'_>) -> Arc<dyn Admission>;
/// Makes a plugin that follows objects, and gives its view as well.
type MakeFollowing = fn(&PluginParts<'_>) -> (Arc<dyn Admission>, Arc<dyn Readiness>);

/// A plugin of kube-apiserver.
struct Plugin {
    name: &'static str,
    /// The steps that it takes part in.
    steps: &'static [AdmissionStep],
    make: Made,
    /// The plugin does nothing while this feature is off.
    feature: Option<Feature>,
    /// It runs unless it is switched off; the others run if they are switched on.
    by_default: bool,
}

/// The implementation of a plugin, if there is one.
enum Made {
    There(Make),
    Following(MakeFollowing),
}

const fn there(name: &'static str, steps: &'static [AdmissionStep], make: Make) -> Plugin {
    Plugin {
        name,
        steps,
        make: Made::There(make),
        feature: None,
        by_default: true,
    }
}

const fn following(name: &'static str, steps: &'static [AdmissionStep], make: MakeFollowing) -> Plugin {
    Plugin {
        name,
        steps,
        make: Made::Following(make),
        feature: None,
        by_default: true,
    }
}

const fn optional(name: &'static str, steps: &'static [AdmissionStep], make: Make) -> Plugin {
    Plugin {
        name,
        steps,
        make: Made::There(make),
        feature: None,
        by_default: false,
    }
}

impl Plugin {
    const fn behind(self, feature: Feature) -> Self {
        Self {
            feature: Some(feature),
            ..self
        }
    }
}

const ADMIT: &[AdmissionStep] = &[AdmissionStep::Admit];
const VALIDATE: &[AdmissionStep] = &[AdmissionStep::Validate];
const BOTH: &[AdmissionStep] = &[AdmissionStep::Admit, AdmissionStep::Validate];

/// `AllOrderedPlugins`.
const ALL: &[Plugin] = &[
    optional("AlwaysAdmit", BOTH, |_| Arc::new(AlwaysAdmit)),
    optional("NamespaceAutoProvision", ADMIT, |parts| {
        let resource = parts.surface.resource("", "v1", "namespaces");
        Arc::new(NamespaceAutoProvision::new(parts.namespaces.clone(), resource))
    }),
    there("NamespaceLifecycle", ADMIT, |parts| {
        Arc::new(NamespaceLifecycle::new(parts.namespaces.clone()))
    }),
    optional("NamespaceExists", VALIDATE, |parts| {
        Arc::new(NamespaceExists::new(parts.namespaces.clone()))
    }),
    optional("LimitPodHardAntiAffinityTopology", VALIDATE, |_| {
        Arc::new(LimitPodHardAntiAffinityTopology)
    }),
    there("LimitRanger", BOTH, |parts| {
        Arc::new(LimitRanger::new(parts.objects("", "limitranges")))
    }),
    there("ServiceAccount", BOTH, |parts| {
        Arc::new(ServiceAccount::new(
            parts.objects("", "serviceaccounts"),
            parts.system.clock().clone(),
        ))
    }),
    optional("NodeRestriction", ADMIT, |parts| {
        let objects = RestrictedObjects {
            pods: parts.objects("", "pods"),
            nodes: parts.objects("", "nodes"),
            claims: parts.objects("", "persistentvolumeclaims"),
            volumes: parts.objects("", "persistentvolumes"),
            drivers: parts.objects("storage.k8s.io", "csidrivers"),
            accounts: parts.objects("", "serviceaccounts"),
        };
        let permissions = Arc::clone(parts.permissions);
        Arc::new(NodeRestriction::new(objects, permissions, parts.features))
    }),
    there("TaintNodesByCondition", ADMIT, |_| Arc::new(TaintNodesByCondition)),
    optional("AlwaysPullImages", BOTH, |_| Arc::new(AlwaysPullImages)),
    optional("ImagePolicyWebhook", VALIDATE, |parts| {
        let settings = parts.settings.image_policy.clone();
        let settings = settings.expect("the settings are refused that enable it without a configuration");
        let reviewer = (parts.image_reviewer)(&settings);
        Arc::new(ImagePolicyWebhook::new(
            settings,
            reviewer,
            parts.system.clock().clone(),
        ))
    }),
    there("PodSecurity", VALIDATE, |parts| {
        Arc::new(PodSecurity::new(
            parts.namespaces.clone(),
            parts.objects("", "pods"),
            parts.system.clock().clone(),
            parts.settings.pod_security.clone(),
        ))
    }),
    optional("PodNodeSelector", BOTH, |parts| {
        let selectors = parts.settings.node_selectors.clone();
        Arc::new(PodNodeSelector::new(parts.namespaces.clone(), selectors))
    }),
    there("Priority", BOTH, |parts| {
        let classes = parts.objects("scheduling.k8s.io", "priorityclasses");
        Arc::new(Priority::new(
            classes,
            parts.features.has(Feature::WorkloadAwarePreemption),
        ))
    }),
    there("DefaultTolerationSeconds", ADMIT, |parts| {
        Arc::new(DefaultTolerationSeconds(parts.settings.default_tolerations))
    }),
    optional("PodTolerationRestriction", BOTH, |parts| {
        let tolerations = parts.settings.tolerations.clone();
        Arc::new(PodTolerationRestriction::new(parts.namespaces.clone(), tolerations))
    }),
    optional("EventRateLimit", VALIDATE, |parts| {
        let limits = &parts.settings.event_limits;
        Arc::new(EventRateLimit::new(limits, parts.system.clock().clone()))
    }),
    optional("ExtendedResourceToleration", ADMIT, |_| {
        Arc::new(ExtendedResourceToleration)
    }),
    there("DefaultStorageClass", ADMIT, |parts| {
        Arc::new(DefaultClass::of_claims(
            parts.objects("storage.k8s.io", "storageclasses"),
        ))
    }),
    there("StorageObjectInUseProtection", ADMIT, |_| {
        Arc::new(StorageObjectInUseProtection)
    }),
    there("PodGroupProtection", ADMIT, |_| Arc::new(PodGroupProtection)).behind(Feature::GenericWorkload),
    optional("OwnerReferencesPermissionEnforcement", VALIDATE, |parts| {
        Arc::new(OwnerReferencesPermissionEnforcement::new(
            parts.permissions.clone(),
            parts.surface.clone(),
        ))
    }),
    there("PersistentVolumeClaimResize", VALIDATE, |parts| {
        let classes = parts.objects("storage.k8s.io", "storageclasses");
        Arc::new(PersistentVolumeClaimResize::new(classes))
    }),
    there("RuntimeClass", BOTH, |parts| {
        Arc::new(RuntimeClass::new(parts.objects("node.k8s.io", "runtimeclasses")))
    }),
    there("CertificateApproval", VALIDATE, |parts| {
        Arc::new(SignerPermission::to_approve(parts.permissions.clone()))
    }),
    there("CertificateSigning", VALIDATE, |parts| {
        Arc::new(SignerPermission::to_sign(parts.permissions.clone()))
    }),
    there("ClusterTrustBundleAttest", VALIDATE, |parts| {
        Arc::new(SignerPermission::to_attest(parts.permissions.clone()))
    }),
    there("CertificateSubjectRestriction", VALIDATE, |_| {
        Arc::new(CertificateSubjectRestriction)
    }),
    there("DefaultIngressClass", ADMIT, |parts| {
        Arc::new(DefaultClass::of_ingresses(
            parts.objects("networking.k8s.io", "ingressclasses"),
        ))
    }),
    optional("DenyServiceExternalIPs", VALIDATE, |_| Arc::new(DenyServiceExternalIps)),
    there("PodTopologyLabels", ADMIT, |parts| {
        Arc::new(PodTopologyLabels::new(parts.objects("", "nodes")))
    })
    .behind(Feature::PodTopologyLabelsAdmission),
    there("PodGroupWorkloadExists", VALIDATE, |parts| {
        Arc::new(PodGroupWorkloadExists::new(parts.scheduling("workloads")))
    })
    .behind(Feature::GenericWorkload),
    there("NodeDeclaredFeatureValidator", VALIDATE, |parts| {
        Arc::new(ResizeOnNode::by_declared_features(parts.objects("", "nodes")))
    })
    .behind(Feature::NodeDeclaredFeatures),
    there("JobValidation", VALIDATE, |parts| {
        Arc::new(JobValidation::new(parts.scheduling("podgroups")))
    })
    .behind(Feature::GenericWorkload),
    there("PodResizeValidator", VALIDATE, |parts| {
        Arc::new(ResizeOnNode::within_capacity(parts.objects("", "nodes")))
    }),
    following("MutatingAdmissionPolicy", ADMIT, |parts| {
        let plugin = MutatingPolicies::new(parts.policies());
        let view = plugin.readiness();
        (Arc::new(plugin), view)
    })
    .behind(Feature::MutatingAdmissionPolicy),
    following("MutatingAdmissionWebhook", ADMIT, |parts| {
        let source = parts.configurations("mutatingwebhookconfigurations");
        let plugin = MutatingWebhooks::start(parts.system, source, parts.webhooks(&parts.webhook_users.mutating));
        let view = plugin.readiness();
        (Arc::new(plugin), view)
    }),
    following("ValidatingAdmissionPolicy", VALIDATE, |parts| {
        let plugin = ValidatingPolicies::new(parts.policies());
        let view = plugin.readiness();
        (Arc::new(plugin), view)
    }),
    following("ValidatingAdmissionWebhook", VALIDATE, |parts| {
        let source = parts.configurations("validatingwebhookconfigurations");
        let plugin = ValidatingWebhooks::start(parts.system, source, parts.webhooks(&parts.webhook_users.validating));
        let view = plugin.readiness();
        (Arc::new(plugin), view)
    }),
    there("ResourceQuota", VALIDATE, |parts| {
        let quotas = parts.surface.resource("", "v1", "resourcequotas");
        let limited = parts.settings.limited_resources.clone();
        let extended = parts.features.has(Feature::DraExtendedResource).then(|| {
            let of_devices = |plural| parts.objects("resource.k8s.io", plural);
            ExtendedResources::new(
                of_devices("deviceclasses"),
                parts.objects("", "pods"),
                of_devices("resourceclaims"),
            )
        });
        Arc::new(ResourceQuota::start(parts.system, quotas, limited, extended))
    }),
    optional("AlwaysDeny", BOTH, |_| Arc::new(DenyAllWrites)),
];

/// The parts that plugins are made of.
#[derive(Clone, Copy)]
pub struct PluginParts<'p> {
    /// The resources that they look up.
    pub surface: &'p PublishedSurface,
    /// The namespaces, looked up in one way by all.
    pub namespaces: &'p Namespaces,
    /// Runs their tasks.
    pub system: &'p ActorSystem,
    /// Calls webhooks.
    pub client: &'p Client,
    /// Finds those that are behind services.
    pub services: &'p ServiceResolver,
    /// Answers for the authorizers.
    pub permissions: &'p Arc<dyn Permissions>,
    /// The features that are on.
    pub features: Features,
    /// The configurations of those plugins that take one.
    pub settings: &'p PluginSettings,
    /// The users that webhooks are called as.
    pub webhook_users: &'p WebhookUsersByPlugin,
    /// Makes the server known that judges images.
    pub image_reviewer: &'p dyn Fn(&ImagePolicySettings) -> Arc<dyn ImageReviewer>,
}

impl PluginParts<'_> {
    fn objects(&self, group: &'static str, plural: &'static str) -> ObjectLookup {
        ObjectLookup::new(self.surface.resource(group, "v1", plural))
    }

    /// The plugins that the feature GenericWorkload brings.
    fn scheduling(&self, plural: &'static str) -> ObjectLookup {
        ObjectLookup::new(self.surface.resource(pod_groups::GROUP, "v1alpha2", plural))
    }

    fn configurations(&self, plural: &'static str) -> ResourceLookup {
        self.surface.resource("admissionregistration.k8s.io", "v1", plural)
    }

    fn policies(&self) -> PolicyParts {
        PolicyParts {
            system: self.system.clone(),
            surface: self.surface.clone(),
            namespaces: self.namespaces.clone(),
            permissions: Arc::clone(self.permissions),
        }
    }

    fn webhooks(&self, users: &WebhookUsers) -> WebhookParts {
        WebhookParts {
            client: self.client.clone(),
            clock: self.system.clock().clone(),
            namespaces: self.namespaces.clone(),
            services: self.services.clone(),
            surface: self.surface.clone(),
            permissions: Arc::clone(self.permissions),
            users: Arc::new(users.clone()),
        }
    }
}

/// The plugins that run: the default ones, but for those that were switched off, and those that were switched on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnabledPlugins {
    enabled: BTreeSet<String>,
    disabled: BTreeSet<String>,
}

impl EnabledPlugins {
    /// Reads `--enable-admission-plugins` and `--disable-admission-plugins`.
    ///
    /// # Errors
    /// If a name is unknown or is in both lists.
    pub fn new<'n>(
        enable: impl IntoIterator<Item = &'n str>,
        disable: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, String> {
        let disabled: BTreeSet<String> = disable.into_iter().map(str::to_owned).collect();
        for name in &disabled {
            find(name)?;
        }
        let enabled: BTreeSet<String> = enable.into_iter().map(str::to_owned).collect();
        for name in &enabled {
            if disabled.contains(name) {
                return Err(format!("{name} is in both lists"));
            }
            find(name)?;
        }
        Ok(Self { enabled, disabled })
    }

    /// Reports whether a plugin runs.
    pub fn runs(&self, name: &str) -> bool {
        find(name).is_ok_and(|plugin| self.has(plugin))
    }

    /// Makes the plugins in their order, and gives the views that readiness waits for as well. Other checks that are no
    /// plugins of kube-apiserver come after them.
    pub fn chain(&self, parts: &PluginParts<'_>, checks: Vec<Arc<dyn Admission>>) -> (Chain, Vec<Arc<dyn Readiness>>) {
        let (mut plugins, mut views) = (Vec::new(), Vec::new());
        let is_on = |plugin: &&Plugin| plugin.feature.is_none_or(|feature| parts.features.has(feature));
        for plugin in ALL.iter().filter(|plugin| self.has(plugin)).filter(is_on) {
            let made = match plugin.make {
                Made::There(make) => make(parts),
                Made::Following(make) => {
                    let (made, view) = make(parts);
                    views.push(view);
                    made
                }
            };
            plugins.push(ChainedPlugin::named(plugin.name, plugin.steps, made));
        }
        plugins.extend(checks.into_iter().map(ChainedPlugin::unnamed));
        (Chain::new(plugins, parts.system.clock().clone()), views)
    }

    fn has(&self, plugin: &Plugin) -> bool {
        if plugin.by_default {
            !self.disabled.contains(plugin.name)
        } else {
            self.enabled.contains(plugin.name)
        }
    }
}

fn find(name: &str) -> Result<&'static Plugin, String> {
    let found = ALL.iter().find(|plugin| plugin.name == name);
    found.ok_or_else(|| format!("{name} is no admission plugin"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_plugins_run_if_they_are_switched_on() {
        let on = |plugins: &EnabledPlugins| -> Vec<&str> {
            ALL.iter()
                .filter(|plugin| plugins.has(plugin))
                .map(|plugin| plugin.name)
                .collect()
        };
        let default = on(&EnabledPlugins::default());
        assert!(default.contains(&"LimitRanger") && default.contains(&"ResourceQuota"));
        assert!(!default.contains(&"AlwaysPullImages"));
        let chosen = EnabledPlugins::new(["AlwaysPullImages"], ["LimitRanger"]).expect("both are there");
        assert!(on(&chosen).contains(&"AlwaysPullImages") && !on(&chosen).contains(&"LimitRanger"));
    }

    #[test]
    fn plugins_are_named_as_in_kube_apiserver() {
        assert!(EnabledPlugins::new(["Priority"], ["ServiceAccount", "AlwaysPullImages"]).is_ok());
        let error = |enable: &[&'static str], disable: &[&'static str]| {
            EnabledPlugins::new(enable.iter().copied(), disable.iter().copied()).unwrap_err()
        };
        assert_eq!(error(&[], &["Nonsense"]), "Nonsense is no admission plugin");
        assert_eq!(error(&["Priority"], &["Priority"]), "Priority is in both lists");
    }
}
