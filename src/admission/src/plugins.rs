//! The plugins by name, in kube-apiserver's order, and which of them run.

use std::{collections::BTreeSet, sync::Arc};

use trireme_actors::ActorSystem;
use trireme_registry::{Admission, PublishedSurface};

use crate::{
    certificate_subject_restriction::CertificateSubjectRestriction,
    chain::Chain,
    default_classes::DefaultClass,
    default_toleration_seconds::DefaultTolerationSeconds,
    limit_ranger::LimitRanger,
    namespace_lifecycle::NamespaceLifecycle,
    namespaces::Namespaces,
    node_restriction::{NodeRestriction, RestrictedObjects},
    object_lookup::ObjectLookup,
    permissions::Permissions,
    persistent_volume_claim_resize::PersistentVolumeClaimResize,
    pod_security::PodSecurity,
    priority::Priority,
    resource_quota::ResourceQuota,
    runtime_class::RuntimeClass,
    service_account::ServiceAccount,
    signers::SignerPermission,
    storage_object_in_use_protection::StorageObjectInUseProtection,
    taint_nodes_by_condition::TaintNodesByCondition,
};

/// How a plugin that is there comes about.
type Make = fn(&PluginParts<'_>) -> Arc<dyn Admission>;

/// A plugin of kube-apiserver.
struct Plugin {
    name: &'static str,
    /// `None` if this server does not have it yet.
    make: Option<Make>,
    /// True if it runs only when it is named.
    is_optional: bool,
}

const fn there(name: &'static str, make: Make) -> Plugin {
    Plugin {
        name,
        make: Some(make),
        is_optional: false,
    }
}

const fn optional(name: &'static str, make: Make) -> Plugin {
    Plugin {
        name,
        make: Some(make),
        is_optional: true,
    }
}

const fn absent(name: &'static str) -> Plugin {
    Plugin {
        name,
        make: None,
        is_optional: false,
    }
}

/// `AllOrderedPlugins`. Those that are there are on by default but for the optional ones, as upstream.
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
    optional("NodeRestriction", |parts| {
        let objects = RestrictedObjects {
            pods: parts.objects("", "pods"),
            nodes: parts.objects("", "nodes"),
            claims: parts.objects("", "persistentvolumeclaims"),
            volumes: parts.objects("", "persistentvolumes"),
            drivers: parts.objects("storage.k8s.io", "csidrivers"),
        };
        Arc::new(NodeRestriction::new(objects, Arc::clone(parts.permissions)))
    }),
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
    absent("MutatingAdmissionPolicy"),
    absent("MutatingAdmissionWebhook"),
    absent("ValidatingAdmissionPolicy"),
    absent("ValidatingAdmissionWebhook"),
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
    /// Answers for the authorizers.
    pub permissions: &'p Arc<dyn Permissions>,
}

impl PluginParts<'_> {
    fn objects(&self, group: &'static str, plural: &'static str) -> ObjectLookup {
        ObjectLookup::new(self.surface.resource(group, "v1", plural))
    }
}

/// The plugins that run: those that are there, but for those that were switched off and the optional ones that were not named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnabledPlugins {
    disabled: BTreeSet<String>,
    named: BTreeSet<String>,
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
        let named: BTreeSet<String> = enable.into_iter().map(str::to_owned).collect();
        for name in &named {
            if disabled.contains(name) {
                return Err(format!("{name} is in both lists"));
            }
            if find(name)?.make.is_none() {
                return Err(format!("{name} is not there yet"));
            }
        }
        Ok(Self { disabled, named })
    }

    /// Makes the plugins in their order. Other checks that are no plugins of kube-apiserver come after them.
    pub fn chain(&self, parts: &PluginParts<'_>, checks: Vec<Arc<dyn Admission>>) -> Chain {
        let is_on = |plugin: &&Plugin| {
            let is_named = !plugin.is_optional || self.named.contains(plugin.name);
            is_named && !self.disabled.contains(plugin.name)
        };
        let enabled = ALL.iter().filter(is_on);
        let mut plugins: Vec<_> = enabled
            .filter_map(|plugin| plugin.make)
            .map(|make| make(parts))
            .collect();
        plugins.extend(checks);
        Chain::new(plugins)
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
