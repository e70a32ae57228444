//! The largest sizes of the parts of a device, by which the cost of selectors is estimated
//! (`sizeEstimator` of `k8s.io/dynamic-resource-allocation/cel`).

use trireme_cel::BoundSizes;

use super::names::{MAX_DOMAIN_BYTES, MAX_ID_BYTES};

const MAX_DRIVER_BYTES: u64 = 63;
const MAX_ENTRIES: u64 = 32;
/// The most bytes of a text, which is more than the most items of a list.
const MAX_ATTRIBUTE_ELEMENTS: u64 = 64;

/// A part of a device.
#[derive(Debug, Clone, Copy)]
enum DevicePart {
    Device,
    Driver,
    MultipleAllocations,
    /// Attributes by domain and identifier.
    Attributes,
    /// Attributes of a domain.
    DomainAttributes,
    Attribute,
    Capacity,
    DomainCapacity,
    Quantity,
    Domain,
    Identifier,
}

impl DevicePart {
    /// The part that a step leads to.
    fn step(self, step: &str) -> Option<Self> {
        match (self, step) {
            (Self::Device, "driver") => Some(Self::Driver),
            (Self::Device, "allowMultipleAllocations") => Some(Self::MultipleAllocations),
            (Self::Device, "attributes") => Some(Self::Attributes),
            (Self::Device, "capacity") => Some(Self::Capacity),
            (Self::Attributes | Self::Capacity, "@keys") => Some(Self::Domain),
            (Self::DomainAttributes | Self::DomainCapacity, "@keys") => Some(Self::Identifier),
            (Self::Attributes, "@items" | "@values") => Some(Self::DomainAttributes),
            (Self::Capacity, "@items" | "@values") => Some(Self::DomainCapacity),
            (Self::DomainCapacity, "@items" | "@values") => Some(Self::Quantity),
            // Whatever its identifier, an attribute is as large as any.
            (Self::DomainAttributes, _) => Some(Self::Attribute),
            _ => None,
        }
    }

    const fn most_elements(self) -> u64 {
        match self {
            Self::Device => u64::MAX,
            Self::Driver => MAX_DRIVER_BYTES,
            Self::MultipleAllocations => 1,
            Self::Attributes | Self::DomainAttributes | Self::Capacity | Self::DomainCapacity => MAX_ENTRIES,
            Self::Attribute => MAX_ATTRIBUTE_ELEMENTS,
            Self::Quantity => 0,
            Self::Domain => MAX_DOMAIN_BYTES as u64,
            Self::Identifier => MAX_ID_BYTES as u64,
        }
    }
}

/// The sizes of the parts of the variable `device`.
#[derive(Debug)]
pub(super) struct DeviceSizes;

impl BoundSizes for DeviceSizes {
    fn most_elements(&self, steps: &[&str]) -> Option<u64> {
        let part = steps
            .iter()
            .try_fold(DevicePart::Device, |part, step| part.step(step))?;
        Some(part.most_elements())
    }
}

#[cfg(test)]
mod tests {
    use trireme_cel::{DeviceVariables, Environment, Program};

    use super::DeviceSizes;

    /// The most that an expression costs; `list_attributes` if attributes may be lists.
    fn cost(expression: &str, list_attributes: bool) -> u64 {
        let environment = Environment::device(DeviceVariables {
            multiple_allocations: true,
            list_attributes,
        });
        match Program::with_estimate(environment.into(), expression, &DeviceSizes) {
            Ok((_, cost)) => cost.max,
            Err(error) => panic!("{expression}: {error}"),
        }
    }

    #[test]
    fn costs_are_those_of_upstreams_tests() {
        let attribute = "device.attributes[\"dra.example.com\"]";
        let capacity = "device.capacity[\"dra.example.com\"]";
        let ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
        let loops: String = ["x", "y", "z", "z2", "z3", "z4", "z5"]
            .map(|name| format!("{ten}.all({name}, "))
            .concat();
        let dear = format!("{loops}int('1'.find('[0-9]*')) < 100)))))))");
        for list_attributes in [false, true] {
            for (expected, expression) in [
                (0, "true".to_owned()),
                (3, "\"no-such-domain\" in device.attributes".to_owned()),
                (2, "device.driver == \"\"".to_owned()),
                (4, "device.driver == \"dra.example.com\"".to_owned()),
                (4, format!("{attribute}.name")),
                (4, format!("{attribute}[\"name\"]")),
                (6, format!("{attribute}.a.isGreaterThan(quantity(\"0\"))")),
                (15, format!("cel.bind(dra, {attribute}, dra.name)")),
                (5, format!("{attribute}.name > 0")),
                (5, format!("{attribute}.name == \"fish\"")),
                (6, format!("{attribute}.name.isGreaterThan(semver(\"0.0.1\"))")),
                (
                    7,
                    format!("{attribute}.name.isGreaterThan(semver(\"v0.0.1\", true)) && isSemver(\"v1.0.0\", true)"),
                ),
                (6, format!("{capacity}.name.isGreaterThan(quantity(\"1Ki\"))")),
                (
                    10,
                    format!("\"name\" in {capacity} && {capacity}.name.isGreaterThan(quantity(\"1Ki\"))"),
                ),
                (
                    11,
                    format!("!(\"name\" in {capacity}) || {capacity}.name.isGreaterThan(quantity(\"1Ki\"))"),
                ),
                (12, format!("{attribute}.a && {attribute}.b && {attribute}.c")),
                (
                    164,
                    "device.attributes.exists_one(x, x == \"dra.example.com\")".to_owned(),
                ),
                (133, format!("{attribute}.exists_one(x, x == \"services\")")),
                (19, format!("{attribute}.services.split(\"example\").size() >= 2")),
                (18, format!("{attribute}.services.matches(\"[^a]?sym\")")),
                (
                    164,
                    "device.capacity.exists_one(x, x == \"dra.example.com\")".to_owned(),
                ),
                (133, format!("{capacity}.exists_one(x, x == \"memory\")")),
                (3, "device.allowMultipleAllocations == true".to_owned()),
                (85_555_551, dear.clone()),
            ] {
                assert_eq!(cost(&expression, list_attributes), expected, "{expression}");
            }
        }
        for (expected, expression) in [
            (5 + 6 * 64, "name.exists(x, x > 0)"),
            (5 + 6 * 64, "name.exists(x, x == true)"),
            (6, "names.size() == 2"),
            (5 + 4 * 64, "names.all(x, x != \"\")"),
            (5 + 6 * 64, "names.all(x, x.isGreaterThan(semver(\"0.0.1\")))"),
        ] {
            assert_eq!(
                cost(&format!("{attribute}.{expression}"), true),
                expected,
                "{expression}"
            );
        }
        assert_eq!(cost(&format!("1 in {attribute}.names"), true), 4 + 64);
    }
}
