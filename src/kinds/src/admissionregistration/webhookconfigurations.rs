//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations
//! (`pkg/registry/admissionregistration/*webhookconfiguration`).

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
    selector::validate_label_selector,
    webhook_address,
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use super::{
    expressions::ExpressionScope,
    matching::{validate_match_conditions, validate_rule_with_operations},
    name_warnings,
};
use crate::{
    checks::{number, push_invalid, require, validate_optional_label_selector, validate_supported},
    columns::{self, column, described},
    kind::Kind,
    values::{items, text},
};

/// The versions of reviews that webhooks can be sent.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const SELECTORS: [&str; 2] = ["namespaceSelector", "objectSelector"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

/// ValidatingWebhookConfigurations.
pub(crate) fn validating() -> Kind {
    kind("validatingwebhookconfigurations", Webhooks { mutating: false })
}

/// MutatingWebhookConfigurations.
pub(crate) fn mutating() -> Kind {
    kind("mutatingwebhookconfigurations", Webhooks { mutating: true })
}

fn kind(plural: &'static str, webhooks: Webhooks) -> Kind {
    let count = |object: &Value| Value::from(items(object, "webhooks").len());
    let description = "Webhooks indicates the number of webhooks registered in this configuration";
    Kind::new("admissionregistration.k8s.io", plural, webhooks).columns(vec![
        columns::name(),
        column("Webhooks", "integer", described(description), count),
        columns::age(),
    ])
}

struct Webhooks {
    mutating: bool,
}

impl Strategy for Webhooks {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        self.validate_webhooks(object, Requirements::ALL)
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        self.validate_webhooks(new, Requirements::of_change(new, old))
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(new)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfNew
    }

    fn wants_standard_finalizers(&self) -> bool {
        false
    }
}

/// The requirements on webhooks. A configuration that an older version stored stays changeable: what the old one does not
/// fulfill is not asked of the new one.
#[derive(Clone, Copy)]
struct Requirements {
    side_effects: &'static [&'static str],
    known_reviews: bool,
    unique_names: bool,
    label_values: bool,
    conditions: bool,
}

impl Requirements {
    /// Those of a new configuration.
    const ALL: Self = Self {
        side_effects: &NO_SIDE_EFFECTS,
        known_reviews: true,
        unique_names: true,
        label_values: true,
        conditions: true,
    };

    /// Those of a change of an old one. Conditions that are as before are not looked at.
    fn of_change(new: &Value, old: &Value) -> Self {
        let [new, old] = [new, old].map(|object| items(object, "webhooks"));
        let has_no_effects = |webhook: &Value| NO_SIDE_EFFECTS.contains(&text(webhook, "sideEffects"));
        let conditions = |webhooks: &[Value]| -> Vec<Vec<Value>> {
            let of_each = webhooks
                .iter()
                .map(|webhook| items(webhook, "matchConditions").to_vec());
            of_each.collect()
        };
        Self {
            side_effects: if old.iter().all(has_no_effects) {
                &NO_SIDE_EFFECTS
            } else {
                &SIDE_EFFECTS
            },
            known_reviews: old.iter().all(|webhook| {
                let versions = items(webhook, "admissionReviewVersions");
                versions.is_empty() || has_known_review(versions)
            }),
            unique_names: !repeated_names(old).contains(&true),
            label_values: old.iter().all(has_valid_selectors),
            conditions: conditions(new) != conditions(old),
        }
    }
}

/// Tells of each webhook if an earlier one has its name, too.
fn repeated_names(webhooks: &[Value]) -> Vec<bool> {
    let mut seen = BTreeSet::new();
    let names = webhooks.iter().map(|webhook| text(webhook, "name"));
    names.map(|name| !seen.insert(name)).collect()
}

fn has_valid_selectors(webhook: &Value) -> bool {
    SELECTORS.iter().all(|field| {
        let mut errors = ErrorList::new();
        validate_optional_label_selector(webhook.get(*field), &Path::root(), &mut errors);
        errors.is_empty()
    })
}

fn has_known_review(versions: &[Value]) -> bool {
    versions
        .iter()
        .any(|version| REVIEWS.iter().any(|known| version == known))
}

impl Webhooks {
    fn validate_webhooks(&self, object: &Value, requirements: Requirements) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("webhooks");
        let webhooks = items(object, "webhooks");
        for ((index, webhook), is_repeated) in webhooks.iter().enumerate().zip(repeated_names(webhooks)) {
            let at = path.index(index);
            self.validate_webhook(webhook, requirements, &at, &mut errors);
            let versions = at.child("admissionReviewVersions");
            validate_admission_review_versions(webhook, requirements.known_reviews, &versions, &mut errors);
            let name = text(webhook, "name");
            if is_repeated && requirements.unique_names && !name.is_empty() {
                errors.push(Error::duplicate(&at.child("name"), &name.into()));
            }
        }
        errors
    }

    fn validate_webhook(&self, webhook: &Value, requirements: Requirements, path: &Path<'_>, errors: &mut ErrorList) {
        if let Some(name) = require(webhook, path, "name", errors) {
            let messages = names::dns1123_subdomain(name);
            let at = path.child("name");
            if !messages.is_empty() {
                errors.push(Error::invalid_str(&at, name, &messages.join(",")));
            } else if name.split('.').count() < 3 {
                let detail = "should be a domain with at least three segments separated by dots";
                errors.push(Error::invalid_str(&at, name, detail));
            }
        }
        let rules = path.child("rules");
        for (index, rule) in items(webhook, "rules").iter().enumerate() {
            validate_rule_with_operations(rule, &rules.index(index), errors);
        }
        for (field, supported) in [
            ("failurePolicy", ["Fail", "Ignore"]),
            ("matchPolicy", ["Equivalent", "Exact"]),
        ] {
            if webhook.get(field).is_some() {
                validate_supported(webhook, path, field, &supported, errors);
            }
        }
        validate_side_effects(webhook, requirements.side_effects, path, errors);
        if let Some(seconds) = number(webhook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(Error::invalid(&path.child("timeoutSeconds"), &seconds.into(), detail));
        }
        validate_selectors(webhook, !requirements.label_values, path, errors);
        if self.mutating && webhook.get("reinvocationPolicy").is_some() {
            validate_supported(webhook, path, "reinvocationPolicy", &["IfNeeded", "Never"], errors);
        }
        validate_client_config(
            webhook.get("clientConfig").unwrap_or(&Value::Null),
            &path.child("clientConfig"),
            errors,
        );
        if requirements.conditions {
            validate_match_conditions(webhook, path, &ExpressionScope::default().of_conditions(), errors);
        }
    }
}

fn validate_side_effects(webhook: &Value, supported: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    match text(webhook, "sideEffects") {
        "" => errors.push(Error::required(
            &path.child("sideEffects"),
            &format!("must specify one of {}", supported.join(", ")),
        )),
        _ => validate_supported(webhook, path, "sideEffects", supported, errors),
    }
}

fn validate_selectors(webhook: &Value, any_value: bool, path: &Path<'_>, errors: &mut ErrorList) {
    for field in SELECTORS {
        let fields = webhook.get(field).and_then(Value::as_object).into_iter();
        errors.extend(fields.flat_map(|fields| validate_label_selector(fields, any_value, &path.child(field))));
    }
}

/// As upstream's `validateAdmissionReviewVersions`.
fn validate_admission_review_versions(webhook: &Value, known_reviews: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let versions = items(webhook, "admissionReviewVersions");
    if versions.is_empty() {
        errors.push(Error::required(
            path,
            &format!("must specify one of {}", REVIEWS.join(", ")),
        ));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().enumerate() {
        let name = version.as_str().unwrap_or_default();
        if !seen.insert(name) {
            errors.push(Error::invalid_str(&path.index(index), name, "duplicate version"));
        } else {
            push_invalid(&path.index(index), name, names::dns1035_label(name), errors);
        }
    }
    if known_reviews && !has_known_review(versions) {
        let detail = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.push(Error::invalid(path, &versions.to_vec().into(), &detail));
    }
}

fn validate_client_config(client: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match (client.get("url").and_then(Value::as_str), client.get("service")) {
        (Some(url), None) => webhook_address::validate_url(url, &path.child("url"), errors),
        (None, Some(service)) => {
            let at = path.child("service");
            // Upstream takes the one for the other here.
            for (name, shown) in [("namespace", "name"), ("name", "namespace")] {
                if text(service, name).is_empty() {
                    errors.push(Error::required(&at.child(shown), ""));
                }
            }
            webhook_address::validate_port_and_path(service, &at, errors);
        }
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, merged};

    #[test]
    fn errors() {
        let webhook = |more: Value| {
            let base = json!({
                "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": { "url": "https://example.com/x" },
            });
            json!({ "metadata": {}, "webhooks": [merged(&base, &more)] })
        };
        let trial = Trial::new(
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            mutating(),
        );
        trial.expect_errors(&[
            (webhook(json!({})), &[]),
            (webhook(json!({ "name": "short" })), &[
                "webhooks[0].name: Invalid value: \"short\": should be a domain with at least three segments separated by dots",
            ]),
            (webhook(json!({ "clientConfig": { "url": "http://u:p@h/x" } })), &[
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "webhooks[0].clientConfig.url: Invalid value: \"u:p\": user information is not permitted in the URL",
            ]),
            (webhook(json!({ "name": "Bad_", "clientConfig": { "url": "example.com/x" } })), &[
                "webhooks[0].name: Invalid value: \"Bad_\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "webhooks[0].clientConfig.url: Invalid value: \"\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "webhooks[0].clientConfig.url: Invalid value: \"\": host must be specified; desired format: https://host[/path]",
            ]),
            (webhook(json!({ "clientConfig": { "url": "https://h:x/" } })), &[
                "webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse \"https://h:x/\": invalid port \":x\" after host; desired format: https://host[/path]",
            ]),
            (webhook(json!({ "clientConfig": { "url": null, "service": { "name": "s", "namespace": "n", "path": "a/b" } } })), &[
                "webhooks[0].clientConfig.service.path: Invalid value: \"a/b\": must start with a '/'",
                "webhooks[0].clientConfig.service.path: Invalid value: \"a/b\": segment[0] may not be empty",
            ]),
            (webhook(json!({ "clientConfig": { "url": null, "service": { "namespace": "n" } } })), &[
                "webhooks[0].clientConfig.service.namespace: Required value",
            ]),
            (webhook(json!({ "clientConfig": { "url": null, "service": { "name": "s" } } })), &[
                "webhooks[0].clientConfig.service.name: Required value",
            ]),
            (webhook(json!({ "timeoutSeconds": 31, "reinvocationPolicy": "Z" })), &[
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                r#"webhooks[0].reinvocationPolicy: Unsupported value: "Z": supported values: "IfNeeded", "Never""#,
            ]),
        ]);
    }

    #[test]
    fn names_and_versions_are_unique() {
        let trial = Trial::new(
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            validating(),
        );
        let webhook = |name: &str, versions: &[&str]| {
            json!({
                "name": name, "sideEffects": "None", "admissionReviewVersions": versions,
                "clientConfig": { "url": "https://example.com/x" },
            })
        };
        let webhooks = [
            webhook("a.example.com", &["v1", "v1beta1", "v1", "v1"]),
            webhook("b.example.com", &["v1"]),
            webhook("a.example.com", &["v1"]),
        ];
        trial.expect_errors(&[(
            json!({ "metadata": {}, "webhooks": webhooks }),
            &[
                "webhooks[0].admissionReviewVersions[2]: Invalid value: \"v1\": duplicate version",
                "webhooks[0].admissionReviewVersions[3]: Invalid value: \"v1\": duplicate version",
                "webhooks[2].name: Duplicate value: \"a.example.com\"",
            ],
        )]);
        let many: Vec<Value> = (0..20_000)
            .map(|index| webhook(&format!("n{index}.example.com"), &["v1"]))
            .collect();
        assert_eq!(repeated_names(&many).len(), many.len());
    }

    #[test]
    fn what_an_old_configuration_does_not_fulfill_is_not_asked_of_its_changes() {
        for (plural, kind) in [
            ("validatingwebhookconfigurations", validating()),
            ("mutatingwebhookconfigurations", mutating()),
        ] {
            check_changes_of_old(&Trial::new("admissionregistration.k8s.io", plural, kind));
        }
    }

    fn check_changes_of_old(trial: &Trial) {
        let base = json!({
            "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": "https://example.com/x" },
        });
        let object = |webhooks: Value| json!({ "metadata": { "name": "c" }, "webhooks": webhooks });
        let bad_selector = json!({ "matchExpressions": [{ "key": "k", "operator": "In", "values": ["-1"] }] });
        for more in [
            json!({ "sideEffects": "Unknown" }),
            json!({ "admissionReviewVersions": ["v9"] }),
            json!({ "namespaceSelector": bad_selector }),
            json!({ "matchConditions": [{ "name": "n", "expression": "gone()" }] }),
        ] {
            let webhook = merged(&base, &more);
            let body = object(json!([webhook]));
            assert_eq!(trial.errors(body.clone()).len(), 1, "{more}");
            let changed = object(json!([merged(&webhook, &json!({ "failurePolicy": "Ignore" }))]));
            assert!(trial.update(&trial.decode(body), changed.clone()).is_ok(), "{more}");
            let valid = trial.decode(object(json!([base])));
            assert!(trial.update(&valid, changed).is_err(), "{more}");
        }
        let twice = object(json!([base, base]));
        assert_eq!(trial.errors(twice.clone()).len(), 1);
        assert!(trial.update(&trial.decode(twice.clone()), twice).is_ok());
    }
}
