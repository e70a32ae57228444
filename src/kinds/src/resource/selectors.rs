//! Selectors of devices, and configuration for drivers.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use trireme_cel::{DeviceVariables, Environment, Program, Type};
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
};

use super::{device_sizes::DeviceSizes, lists::validate_slice};
use crate::{pod_template::validate_csi_driver_name, values::text};

const MAX_SELECTORS: usize = 32;
const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
/// The most that an expression may cost by its estimate (`CELSelectorExpressionMaxCost`).
const MAX_COST: u64 = 1_000_000;
/// The most bytes of a driver's parameters.
pub(super) const MAX_PARAMETERS_BYTES: usize = 10 * 1024;

/// The environments without and with `allowMultipleAllocations`, and of each the one without and with lists as attributes.
static ENVIRONMENTS: LazyLock<[[Arc<Environment>; 2]; 2]> = LazyLock::new(|| {
    [false, true].map(|multiple_allocations| {
        [false, true].map(|list_attributes| {
            Arc::new(Environment::device(DeviceVariables {
                multiple_allocations,
                list_attributes,
            }))
        })
    })
});

fn environment(features: Features) -> &'static Arc<Environment> {
    let [single, multiple] = &*ENVIRONMENTS;
    let [plain, lists] = if features.has(Feature::DraConsumableCapacity) {
        multiple
    } else {
        single
    };
    if features.has(Feature::DraListTypeAttributes) {
        lists
    } else {
        plain
    }
}

/// Validates the selectors of a class or request. Expressions that are `stored` already are taken as they are.
/// Upstream: `validateSelectorSlice`.
pub(super) fn validate_selector_slice(
    features: Features,
    holder: &Value,
    path: &Path<'_>,
    stored: bool,
    errors: &mut ErrorList,
) {
    validate_slice(
        holder,
        path,
        ("selectors", MAX_SELECTORS),
        |selector, at, errors| {
            let Some(cel) = selector.get("cel") else {
                errors.push(Error::required(&at.child("cel"), ""));
                return;
            };
            if !stored {
                validate_cel_selector(features, text(cel, "expression"), &at.child("cel.expression"), errors);
            }
        },
        errors,
    );
}

/// As upstream's `validateCELSelector`.
fn validate_cel_selector(features: Features, expression: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if expression.len() > MAX_EXPRESSION_BYTES {
        errors.push(Error::too_long(path, MAX_EXPRESSION_BYTES));
        return;
    }
    // An attribute that may be a list is of the type dyn.
    let is_selector = |output: &Type| {
        output.is_bool_or_unknown() || features.has(Feature::DraListTypeAttributes) && *output == Type::Dyn
    };
    match Program::with_estimate(environment(features).clone(), expression, &DeviceSizes) {
        Err(error) => {
            let detail = format!("compilation failed: {error}");
            errors.push(Error::invalid_str(path, expression, &detail));
        }
        Ok((program, _)) if !is_selector(program.output()) => {
            let detail = format!("must evaluate to bool or the unknown type, not {}", program.output());
            errors.push(Error::invalid_str(path, expression, &detail));
        }
        Ok((_, cost)) if cost.max > MAX_COST => {
            errors.push(Error::forbidden(path, "too complex, exceeds cost limit"));
        }
        Ok(_) => {}
    }
}

/// Validates a configuration, of which there is one sort: a driver's own parameters (`validateDeviceConfiguration`).
pub(super) fn validate_device_configuration(config: &Value, path: &Path<'_>, stored: bool, errors: &mut ErrorList) {
    let at = path.child("opaque");
    let Some(opaque) = config.get("opaque") else {
        errors.push(Error::required(&at, ""));
        return;
    };
    validate_csi_driver_name(text(opaque, "driver"), &at.child("driver"), errors);
    let max = if stored { usize::MAX } else { MAX_PARAMETERS_BYTES };
    validate_raw_extension(opaque.get("parameters"), &at.child("parameters"), max, errors);
}

/// Validates what only a driver can read: an object of at most so many bytes (`validateRawExtension`).
pub(super) fn validate_raw_extension(raw: Option<&Value>, path: &Path<'_>, max_bytes: usize, errors: &mut ErrorList) {
    match raw {
        None | Some(Value::Null) => errors.push(Error::required(path, "")),
        Some(raw) if raw.to_string().len() > max_bytes => errors.push(Error::too_long(path, max_bytes)),
        Some(Value::Object(_)) => {}
        Some(_) => errors.push(Error::invalid_str(
            path,
            "<value omitted>",
            "must be a valid JSON object",
        )),
    }
}
