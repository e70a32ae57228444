//! DeviceClasses (`pkg/registry/resource/deviceclass`).

use serde_json::Value;
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    names::{self, NameCheck},
    pod_resources::is_extended,
};
use trireme_registry::{Strategy, WriteContext};

use super::{
    claim::MAX_CONFIGURATIONS,
    gated::{self, GatedFields},
    lists::validate_slice,
    selectors::{validate_device_configuration, validate_selector_slice},
};
use crate::{columns, kind::Kind};

const GATED: [GatedFields; 1] = [GatedFields::new(
    &[Feature::DraExtendedResource],
    &["spec/extendedResourceName"],
)];

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    Kind::new("resource.k8s.io", "deviceclasses", DeviceClasses { features })
        .columns(vec![columns::name(), columns::age()])
}

struct DeviceClasses {
    features: Features,
}

impl Strategy for DeviceClasses {
    fn name_check(&self) -> NameCheck {
        names::name_is_long_name
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        gated::drop_disabled(self.features, &GATED, object, old);
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_device_class(self.features, object, &Value::Null)
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validate_device_class(self.features, new, old)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// Validates a class; what is as it was in the `old` one is not compiled again (`ValidateDeviceClass`).
fn validate_device_class(features: Features, new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let spec = new.get("spec").unwrap_or(&Value::Null);
    let is_stored = |name: &str| old.get("spec").is_some_and(|old| old.get(name) == spec.get(name));
    validate_selector_slice(features, spec, &path, is_stored("selectors"), &mut errors);
    let stored = is_stored("config");
    validate_slice(
        spec,
        &path,
        ("config", MAX_CONFIGURATIONS),
        |config, at, errors| validate_device_configuration(config, at, stored, errors),
        &mut errors,
    );
    if let Some(name) = spec.get("extendedResourceName").and_then(Value::as_str)
        && !is_extended(name)
    {
        let at = path.child("extendedResourceName");
        errors.push(Error::invalid_str(&at, name, "must be a valid extended resource name"));
    }
    errors
}
