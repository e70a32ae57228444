//! Version 1beta1, which is served no longer and in which kube-apiserver stores definitions to this day: what all versions
//! of a resource share stands in the spec.

use serde_json::{Map, Value, json};
use trireme_registry::Conversion;

/// Fields of the spec that stand in each version of version 1, with the name that they have there.
const SHARED: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// Turns version 1beta1 into version 1, in which definitions are stored.
pub(crate) struct V1Beta1;

impl Conversion for V1Beta1 {
    fn to_stored(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
            return;
        };
        let first = spec.remove("version");
        let has_versions = spec
            .get("versions")
            .and_then(Value::as_array)
            .is_some_and(|all| !all.is_empty());
        if let Some(name) = first.filter(|_| !has_versions) {
            spec.insert(
                "versions".into(),
                json!([{ "name": name, "served": true, "storage": true }]),
            );
        }
        // Version 1 says nothing for false, and version 1beta1 nothing for true.
        if spec.get("preserveUnknownFields").is_none_or(Value::is_null) {
            spec.insert("preserveUnknownFields".into(), true.into());
        }
        for (name, in_version) in SHARED {
            if let Some(shared) = spec.remove(name).filter(|shared| !shared.is_null()) {
                for_each_version(spec, |version| drop(version.insert(in_version.into(), shared.clone())));
            }
        }
        for_each_version(spec, |version| {
            for column in version
                .get_mut("additionalPrinterColumns")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                rename(column, "JSONPath", "jsonPath");
            }
        });
        if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
            nest_webhook(conversion);
        }
    }

    /// Not served, so nobody asks: the form of version 1 is an object of either version but for what is shared.
    fn to_served(&self, _: &mut Value) {}
}

fn for_each_version(spec: &mut Map<String, Value>, mut change: impl FnMut(&mut Map<String, Value>)) {
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    let versions = versions.into_iter().flatten();
    versions.filter_map(Value::as_object_mut).for_each(&mut change);
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(fields) = object.as_object_mut()
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}

/// Moves the webhook's fields into a struct of their own.
fn nest_webhook(conversion: &mut Map<String, Value>) {
    let mut part = |name: &str| conversion.remove(name).filter(|value| !value.is_null());
    let (client, versions) = (part("webhookClientConfig"), part("conversionReviewVersions"));
    if client.is_none() && versions.is_none() {
        return;
    }
    let mut webhook = Map::new();
    webhook.insert("conversionReviewVersions".into(), versions.unwrap_or_default());
    if let Some(client) = client {
        webhook.insert("clientConfig".into(), client);
    }
    conversion.insert("webhook".into(), webhook.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(spec: Value) -> Value {
        let mut object = json!({ "spec": spec });
        V1Beta1.to_stored(&mut object);
        object["spec"].take()
    }

    #[test]
    fn what_versions_share_goes_into_each() {
        let spec = converted(json!({
            "group": "example.com",
            "version": "v1",
            "versions": [
                { "name": "v1", "served": true, "storage": true },
                { "name": "v2", "served": true, "storage": false },
            ],
            "preserveUnknownFields": false,
            "validation": { "openAPIV3Schema": { "type": "object" } },
            "subresources": { "status": {} },
            "additionalPrinterColumns": [{ "name": "Age", "type": "date", "JSONPath": ".metadata.creationTimestamp" }],
            "selectableFields": [{ "jsonPath": ".spec.colour" }],
            "conversion": { "strategy": "None" },
        }));
        let shared = |name: &str, storage: bool| {
            json!({
                "name": name,
                "served": true,
                "storage": storage,
                "schema": { "openAPIV3Schema": { "type": "object" } },
                "subresources": { "status": {} },
                "additionalPrinterColumns": [{ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }],
                "selectableFields": [{ "jsonPath": ".spec.colour" }],
            })
        };
        assert_eq!(
            spec,
            json!({
                "group": "example.com",
                "versions": [shared("v1", true), shared("v2", false)],
                "preserveUnknownFields": false,
                "conversion": { "strategy": "None" },
            })
        );
    }

    #[test]
    fn what_versions_have_of_their_own_stays() {
        let columns = json!([{ "name": "A", "type": "string", "JSONPath": ".a" }]);
        let spec = converted(json!({
            "versions": [{ "name": "v1", "additionalPrinterColumns": columns }, { "name": "v2" }],
        }));
        assert_eq!(
            spec["versions"],
            json!([{ "name": "v1", "additionalPrinterColumns": [{ "name": "A", "type": "string", "jsonPath": ".a" }] }, { "name": "v2" }])
        );
    }

    #[test]
    fn a_definition_of_old_has_one_version_and_keeps_unknown_fields() {
        assert_eq!(
            converted(json!({ "version": "v1" })),
            json!({ "versions": [{ "name": "v1", "served": true, "storage": true }], "preserveUnknownFields": true })
        );
    }

    #[test]
    fn a_webhook_gets_a_struct_of_its_own() {
        let spec = converted(json!({
            "preserveUnknownFields": false,
            "conversion": {
                "strategy": "Webhook",
                "webhookClientConfig": { "url": "https://example.com" },
                "conversionReviewVersions": ["v1"],
            },
        }));
        assert_eq!(
            spec["conversion"],
            json!({
                "strategy": "Webhook",
                "webhook": { "clientConfig": { "url": "https://example.com" }, "conversionReviewVersions": ["v1"] },
            })
        );
    }
}
