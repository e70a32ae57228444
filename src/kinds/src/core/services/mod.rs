//! Services (`pkg/registry/core/service`).
//!
//! Kubernetes reserves addresses and ports before it validates; here pure checks come first ([`families`] and
//! [`ports`] say what a reservation would refuse without asking the store), so that a invalid service reserves nothing.

mod allocation;
mod columns;
mod defaults;
mod families;
mod fields;
mod ports;
mod proxy;
mod update;
mod validation;
mod warnings;

#[cfg(test)]
mod tests;

pub use allocation::held_by_service;

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features,
    field::ErrorList,
    names::{self, NameCheck},
};
use trireme_registry::{
    Strategy, WriteContext,
    allocate::{IpFamily, PortRange, ServiceRanges},
    strategy::MetadataChecks,
    subresource::SubresourceRole,
};

use crate::{
    address_warnings,
    checks::validate_builtin_metadata,
    kind::Kind,
    settings::KindSettings,
    values::{keep_field, struct_mut},
};

/// The kind's parts.
pub(crate) fn kind(settings: &KindSettings) -> Kind {
    let strategy = Services {
        addresses: settings.addresses.ranges().clone(),
        ports: settings.ports.range(),
        features: settings.features,
    };
    let allocation = allocation::Allocation::new(settings);
    let kind = Kind::new("", "services", strategy).columns(columns::columns());
    kind.side_effects(allocation)
}

struct Services {
    addresses: ServiceRanges,
    ports: PortRange,
    features: Features,
}

impl Services {
    fn settle_families(&self, object: &mut Value, old: Option<&Value>) -> ErrorList {
        let families: Vec<&str> = self.addresses.families().map(IpFamily::name).collect();
        families::settle(self.features, object, old, &families)
    }

    /// Validates the addresses and ports that a service asks for; if this fails no other error is reported.
    fn validate_allocation(&self, context: &WriteContext, object: &Value, old: Option<&Value>) -> ErrorList {
        let mut errors = self.settle_families(&mut object.clone(), old);
        if errors.is_empty() {
            errors = allocation::validate_address_allocation(object, old, &self.addresses, context.dry_run);
        }
        if errors.is_empty() {
            errors = ports::validate_node_port_allocation(object, old, &self.ports);
        }
        errors
    }
}

impl Strategy for Services {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn default(&self, object: &mut Value) {
        defaults::set(object);
    }

    /// There were services before there were several addresses and families (`defaultOnReadService`).
    fn default_on_read(&self, object: &mut Value) {
        if fields::needs_cluster_ip(object) && fields::texts(object, "ipFamilies").is_empty() {
            defaults::normalize_cluster_ips(object, None);
            // One that cannot be settled is shown as it is, and refused when it is written.
            self.settle_families(object, None);
        }
    }

    fn name_check(&self) -> NameCheck {
        if self.features.has(Feature::RelaxedServiceNameValidation) {
            names::name_is_dns_label
        } else {
            names::name_is_dns1035_label
        }
    }

    fn subresource(&self, name: &str) -> Option<SubresourceRole<'_>> {
        (name == "proxy").then_some(SubresourceRole::Connect(&proxy::ServiceProxy))
    }

    /// Returns false: `validate` does so, once the addresses and ports can be allocated.
    fn validates_metadata_of_new(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "loadBalancer": {} });
        defaults::normalize_cluster_ips(object, None);
        // Its errors are found again by the validation, which reports them.
        self.settle_families(object, None);
    }

    fn canonicalize(&self, object: &mut Value) {
        // kube-apiserver keeps it, but never shows it.
        if fields::service_type(object) == "ExternalName" {
            struct_mut(object, "spec").remove("internalTrafficPolicy");
        }
    }

    fn validate(&self, context: &WriteContext, object: &Value) -> ErrorList {
        let refused = self.validate_allocation(context, object, None);
        if !refused.is_empty() {
            return refused;
        }
        let mut errors = validate_builtin_metadata(object, true, self.name_check());
        errors.extend(validation::validate_service(self.features, object, None));
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        defaults::keep_allocated(new, old);
        defaults::normalize_cluster_ips(new, Some(old));
        self.settle_families(new, Some(old));
        defaults::drop_by_type(new, old);
        keep_field(new, old, "status");
        if fields::service_type(new) != "LoadBalancer" {
            struct_mut(new, "status").insert("loadBalancer".into(), json!({}));
        }
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let refused = self.validate_allocation(context, new, Some(old));
        if !refused.is_empty() {
            return refused;
        }
        let mut errors = update::validate_service_update(new, old);
        errors.extend(validation::validate_service(self.features, new, Some(old)));
        errors
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validation::validate_service_status_update(self.features, new, old)
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings::of(new)
    }

    fn status_warnings(&self, new: &Value) -> Vec<String> {
        address_warnings::of_status(new)
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}
