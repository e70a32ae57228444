//! Version 1beta1, whose requests name one kind of device without `exactly` and whose devices are `basic`
//! (`pkg/apis/resource/v1beta1`).

use serde_json::{Map, Value};
use trireme_registry::Conversion;

use crate::values::set_default;

/// The fields of a request of version 1beta1 in the order of its declaration; `name` and `firstAvailable` are in version
/// 1 too, the others are below `exactly` there.
const REQUEST: [&str; 9] = [
    "name",
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "firstAvailable",
    "tolerations",
    "capacity",
];
const SHARED: [&str; 2] = ["name", "firstAvailable"];

/// Converts the claims that stand at a pointer in objects.
pub(super) struct RequestsOfClaims {
    /// The pointer to the spec of a claim.
    pub(super) spec: &'static str,
}

impl RequestsOfClaims {
    fn requests<'a>(&self, object: &'a mut Value) -> impl Iterator<Item = &'a mut Value> + use<'a> {
        let requests = object.pointer_mut(&format!("{}/devices/requests", self.spec));
        requests.and_then(Value::as_array_mut).into_iter().flatten()
    }
}

impl Conversion for RequestsOfClaims {
    fn to_stored(&self, object: &mut Value) {
        for request in self.requests(object).filter_map(Value::as_object_mut) {
            let mut fields = std::mem::take(request);
            let mut exactly = Map::new();
            for name in REQUEST.iter().filter(|name| !SHARED.contains(name)) {
                if let Some(value) = fields.remove(*name) {
                    exactly.insert((*name).to_owned(), value);
                }
            }
            let names_class = exactly.get("deviceClassName").is_some_and(|class| class != "");
            let is_used = names_class
                || exactly
                    .iter()
                    .any(|(name, value)| name != "deviceClassName" && is_set(value));
            if !names_class {
                set_default(&mut exactly, "allocationMode", "");
            }
            for name in SHARED {
                if let Some(value) = fields.remove(name) {
                    request.insert(name.to_owned(), value);
                }
                if name == "name" && is_used {
                    request.insert("exactly".to_owned(), std::mem::take(&mut exactly).into());
                }
            }
        }
    }

    fn to_served(&self, object: &mut Value) {
        for request in self.requests(object).filter_map(Value::as_object_mut) {
            let mut fields = std::mem::take(request);
            let exactly = fields.remove("exactly");
            if let Some(Value::Object(exactly)) = exactly {
                fields.extend(exactly);
            }
            fields.entry("deviceClassName").or_insert_with(|| "".into());
            for name in REQUEST {
                if let Some(value) = fields.remove(name) {
                    request.insert(name.to_owned(), value);
                }
            }
        }
    }
}

fn is_set(value: &Value) -> bool {
    !(value.is_null() || *value == "" || *value == 0)
}

/// Converts slices.
pub(super) struct Slices;

impl Slices {
    fn devices(object: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
        let devices = object.pointer_mut("/spec/devices").and_then(Value::as_array_mut);
        devices.into_iter().flatten().filter_map(Value::as_object_mut)
    }
}

impl Conversion for Slices {
    fn to_stored(&self, object: &mut Value) {
        for device in Self::devices(object) {
            if let Some(Value::Object(basic)) = device.remove("basic") {
                device.extend(basic);
            }
        }
    }

    fn to_served(&self, object: &mut Value) {
        for device in Self::devices(object) {
            let mut basic = std::mem::take(device);
            if let Some(name) = basic.remove("name") {
                device.insert("name".to_owned(), name);
            }
            device.insert("basic".to_owned(), basic.into());
        }
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            // Here they are no pointers, so that empty values are not shown.
            spec.retain(|name, value| !(name == "nodeName" && *value == "" || name == "allNodes" && *value == false));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn a_request_of_one_kind_of_device_is_an_exact_one() {
        let claims = Trial::new(
            "resource.k8s.io",
            "resourceclaims",
            super::super::resourceclaims::kind(trireme_machinery::Features::default()),
        )
        .in_version("v1beta1", RequestsOfClaims { spec: "/spec" });
        let given = json!({"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [
            {"name": "r", "deviceClassName": "c", "tolerations": [{"operator": "Exists"}]},
            {"name": "f", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]},
            {"name": "n"},
        ]}}});
        let stored = claims.decode(given);
        let requests = stored["spec"]["devices"]["requests"].clone();
        let expected = json!([
            {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1,
                "tolerations": [{"operator": "Exists"}]}},
            {"name": "f", "firstAvailable":
                [{"name": "a", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}]},
            {"name": "n"},
        ]);
        assert_eq!(requests, expected);
        let mut served = stored;
        RequestsOfClaims { spec: "/spec" }.to_served(&mut served);
        let expected = json!([
            {"name": "r", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1,
                "tolerations": [{"operator": "Exists"}]},
            {"name": "f", "deviceClassName": "", "firstAvailable":
                [{"name": "a", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}]},
            {"name": "n", "deviceClassName": ""},
        ]);
        assert_eq!(served["spec"]["devices"]["requests"], expected);
    }

    #[test]
    fn a_request_without_a_class_has_no_defaults() {
        let kind = super::super::resourceclaims::kind(trireme_machinery::Features::default());
        let claims = Trial::new("resource.k8s.io", "resourceclaims", kind);
        let claims = claims.in_version("v1beta1", RequestsOfClaims { spec: "/spec" });
        let of = |request: Value| {
            claims.errors(
                json!({"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "c"},
                "spec": {"devices": {"requests": [request]}}}),
            )
        };
        let errors = [
            "spec.devices.requests[0].exactly.deviceClassName: Required value",
            "spec.devices.requests[0].exactly.allocationMode: Unsupported value: \"\": supported values: \"All\", \"ExactCount\"",
        ];
        assert_eq!(of(json!({"name": "r", "count": 3})), errors);
        assert_eq!(of(json!({"name": "r", "allocationMode": "All"})), errors[..1]);
        assert_eq!(
            of(json!({"name": "r", "deviceClassName": "c", "allocationMode": ""})),
            [""; 0]
        );
    }

    #[test]
    fn devices_are_basic() {
        let mut slice = json!({"spec": {"nodeName": "", "devices": [
            {"name": "x", "basic": {"attributes": {"a": {"string": "s"}}}},
            {"name": "y"},
        ]}});
        Slices.to_stored(&mut slice);
        let expected = json!([{"name": "x", "attributes": {"a": {"string": "s"}}}, {"name": "y"}]);
        assert_eq!(slice["spec"]["devices"], expected);
        Slices.to_served(&mut slice);
        let expected = json!({"devices": [
            {"name": "x", "basic": {"attributes": {"a": {"string": "s"}}}},
            {"name": "y", "basic": {}},
        ]});
        assert_eq!(slice["spec"], expected);
    }
}
