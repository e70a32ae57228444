//! The plugins by name, in kube-apiserver's order, and which of them run.

use std::{collections::BTreeSet, sync::Arc};

use trireme_actors::ActorSystem;
use trireme_http::client::Client;
use trireme_registry::{Admission, PublishedSurface, Readiness, ResourceLookup};

use crate::{
    certificate_subject_restriction::CertificateSubjectRestriction,
    chain::Chain,
    default_classes::DefaultClass,
    default_toleration_seconds::DefaultTolerationSeconds,
    limit_ranger::LimitRanger,
    namespace_lifecycle::NamespaceLifecycle,
    namespaces::Namespaces,
    object_lookup::ObjectLookup,
    permissions::Permissions,
    persistent_volume_claim_resize::PersistentVolumeClaimResize,
    pod_security::PodSecurity,
    policies::{MutatingPolicies, PolicyParts, ValidatingPolicies},
    priority::Priority,
    resource_quota::ResourceQuota,
    runtime_class::RuntimeClass,
    service_account::ServiceAccount,
    signers::SignerPermission,
    storage_object_in_use_protection::StorageObjectInUseProtection,
    taint_nodes_by_condition::TaintNodesByCondition,
    webhooks::{MutatingWebhooks, ValidatingWebhooks, WebhookParts},
};

/// Makes a plugin that is there.
type Make = fn(&PluginParts<'_>) -> Arc<dyn Admission>;
/// Makes a plugin that follows objects, and gives its view as well.
type MakeFollowing = fn(&PluginParts<'_>) -> (Arc<dyn Admission>, Arc<dyn Readiness>);

/// A plugin of kube-apiserver.
struct Plugin {
    name: &'static str,
    origin: PluginOrigin,
}

#[derive(Clone, Copy)]
enum PluginOrigin {
    /// This server does not have it yet.
    Absent,
    Made(Make),
    Following(MakeFollowing),
}

const fn there(name: &'static str, make: Make) -> Plugin {
    Plugin {
        name,
        origin: PluginOrigin::Made(make),
    }
}

const fn following(name: &'static str, make: MakeFollowing) -> Plugin {
    Plugin {
        name,
        origin: PluginOrigin::Following(make),
    }
}

const fn absent(name: &'static str) -> Plugin {
    Plugin {
        name,
        origin: PluginOrigin::Absent,
    }
}

/// `AllOrderedPlugins`. Those that are there are on by default, as upstream.
const ALL: &[Plugin] = &[
    absent("AlwaysAdmit"),
    absent("NamespaceAutoProvision"),
    there("NamespaceLifecycle", |parts| {
        Arc::new(NamespaceLifecycle::new(parts.namespaces.clone()))
    }),
    absent("NamespaceExists"),
    absent("LimitPodHardAntiAffinityTopology"),
    there("LimitRanger", |parts| {
        Arc::new(LimitRanger::new(parts.objects("", "limitranges")))
    }),
    there("ServiceAccount", |parts| {
        Arc::new(ServiceAccount::new(
            parts.objects("", "serviceaccounts"),
            parts.system.clock().clone(),
        ))
    }),
    absent("NodeRestriction"),
    there("TaintNodesByCondition", |_| Arc::new(TaintNodesByCondition)),
    absent("AlwaysPullImages"),
    absent("ImagePolicyWebhook"),
    there("PodSecurity", |parts| {
        Arc::new(PodSecurity::new(
            parts.namespaces.clone(),
            parts.objects("", "pods"),
            parts.system.clock().clone(),
        ))
    }),
    absent("PodNodeSelector"),
    there("Priority", |parts| {
        Arc::new(Priority::new(parts.objects("scheduling.k8s.io", "priorityclasses")))
    }),
    there("DefaultTolerationSeconds", |_| Arc::new(DefaultTolerationSeconds)),
    absent("PodTolerationRestriction"),
    absent("EventRateLimit"),
    absent("ExtendedResourceToleration"),
    there("DefaultStorageClass", |parts| {
        Arc::new(DefaultClass::of_claims(
            parts.objects("storage.k8s.io", "storageclasses"),
        ))
    }),
    there("StorageObjectInUseProtection", |_| {
        Arc::new(StorageObjectInUseProtection)
    }),
    absent("PodGroupProtection"),
    absent("OwnerReferencesPermissionEnforcement"),
    there("PersistentVolumeClaimResize", |parts| {
        let classes = parts.objects("storage.k8s.io", "storageclasses");
        Arc::new(PersistentVolumeClaimResize::new(classes))
    }),
    there("RuntimeClass", |parts| {
        Arc::new(RuntimeClass::new(parts.objects("node.k8s.io", "runtimeclasses")))
    }),
    there("CertificateApproval", |parts| {
        Arc::new(SignerPermission::to_approve(parts.permissions.clone()))
    }),
    there("CertificateSigning", |parts| {
        Arc::new(SignerPermission::to_sign(parts.permissions.clone()))
    }),
    there("ClusterTrustBundleAttest", |parts| {
        Arc::new(SignerPermission::to_attest(parts.permissions.clone()))
    }),
    there("CertificateSubjectRestriction", |_| {
        Arc::new(CertificateSubjectRestriction)
    }),
    there("DefaultIngressClass", |parts| {
        Arc::new(DefaultClass::of_ingresses(
            parts.objects("networking.k8s.io", "ingressclasses"),
        ))
    }),
    absent("DenyServiceExternalIPs"),
    absent("PodTopologyLabels"),
    absent("PodGroupWorkloadExists"),
    absent("NodeDeclaredFeatureValidator"),
    absent("JobValidation"),
    absent("PodResizeValidator"),
    following("MutatingAdmissionPolicy", |parts| {
        let plugin = MutatingPolicies::new(parts.policies());
        let view = plugin.readiness();
        (Arc::new(plugin), view)
    }),
    following("MutatingAdmissionWebhook", |parts| {
        let source = parts.configurations("mutatingwebhookconfigurations");
        let plugin = MutatingWebhooks::start(parts.system, source, parts.webhooks());
        let view = plugin.readiness();
        (Arc::new(plugin), view)
    }),
    following("ValidatingAdmissionPolicy", |parts| {
        let plugin = ValidatingPolicies::new(parts.policies());
        let view = plugin.readiness();
        (Arc::new(plugin), view)
    }),
    following("ValidatingAdmissionWebhook", |parts| {
        let source = parts.configurations("validatingwebhookconfigurations");
        let plugin = ValidatingWebhooks::start(parts.system, source, parts.webhooks());
        let view = plugin.readiness();
        (Arc::new(plugin), view)
    }),
    there("ResourceQuota", |parts| {
        let quotas = parts.surface.resource("", "v1", "resourcequotas");
        Arc::new(ResourceQuota::start(parts.system, quotas))
    }),
    absent("AlwaysDeny"),
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
    /// Answers for the authorizers.
    pub permissions: &'p Arc<dyn Permissions>,
}

impl PluginParts<'_> {
    fn objects(&self, group: &'static str, plural: &'static str) -> ObjectLookup {
        ObjectLookup::new(self.surface.resource(group, "v1", plural))
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

    fn webhooks(&self) -> WebhookParts {
        WebhookParts {
            client: self.client.clone(),
            clock: self.system.clock().clone(),
            namespaces: self.namespaces.clone(),
            services: self.objects("", "services"),
        }
    }
}

/// The plugins that run: those that are there, but for those that were switched off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnabledPlugins {
    disabled: BTreeSet<String>,
}

impl EnabledPlugins {
    /// Reads `--enable-admission-plugins` and `--disable-admission-plugins`.
    ///
    /// # Errors
    /// If a name is unknown, is in both lists, or is to be on and is not there yet.
    pub fn new<'n>(
        enable: impl IntoIterator<Item = &'n str>,
        disable: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, String> {
        let disabled: BTreeSet<String> = disable.into_iter().map(str::to_owned).collect();
        for name in &disabled {
            find(name)?;
        }
        for name in enable {
            if disabled.contains(name) {
                return Err(format!("{name} is in both lists"));
            }
            if matches!(find(name)?.origin, PluginOrigin::Absent) {
                return Err(format!("{name} is not there yet"));
            }
        }
        Ok(Self { disabled })
    }

    /// Makes the plugins in their order, and gives the views that readiness waits for as well. Other checks that are no
    /// plugins of kube-apiserver come after them.
    pub fn chain(&self, parts: &PluginParts<'_>, checks: Vec<Arc<dyn Admission>>) -> (Chain, Vec<Arc<dyn Readiness>>) {
        let enabled = ALL.iter().filter(|plugin| !self.disabled.contains(plugin.name));
        let (mut plugins, mut views) = (Vec::new(), Vec::new());
        for plugin in enabled {
            match plugin.origin {
                PluginOrigin::Absent => {}
                PluginOrigin::Made(make) => plugins.push(make(parts)),
                PluginOrigin::Following(make) => {
                    let (plugin, view) = make(parts);
                    plugins.push(plugin);
                    views.push(view);
                }
            }
        }
        plugins.extend(checks);
        (Chain::new(plugins), views)
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
    fn plugins_are_named_as_in_kube_apiserver() {
        assert!(EnabledPlugins::new(["Priority"], ["ServiceAccount", "AlwaysPullImages"]).is_ok());
        let error = |enable: &[&'static str], disable: &[&'static str]| {
            EnabledPlugins::new(enable.iter().copied(), disable.iter().copied()).unwrap_err()
        };
        assert_eq!(error(&[], &["Nonsense"]), "Nonsense is no admission plugin");
        assert_eq!(error(&["EventRateLimit"], &[]), "EventRateLimit is not there yet");
        assert_eq!(error(&["Priority"], &["Priority"]), "Priority is in both lists");
    }
}
