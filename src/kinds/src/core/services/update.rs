//! Errors of an update of a service, beyond those of the new service.

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::{
    families,
    fields::{is_load_balancer, same, shown_list},
    validation::validate_load_balancer_class_field,
};

/// Validates the fields that may not change (`ValidateServiceUpdate`).
pub(super) fn validate_service_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = families::validate_upgrade_downgrade(new, old);
    if is_load_balancer(old) && is_load_balancer(new) && !same(new, old, "loadBalancerClass") {
        let shown = shown_list(new, "loadBalancerClass");
        errors.push(Error::invalid(
            &Path::new("spec.loadBalancerClass"),
            shown,
            "may not change once set",
        ));
    }
    errors.extend(validate_load_balancer_class_field(new));
    errors
}
