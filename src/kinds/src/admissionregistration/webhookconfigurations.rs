//! ValidatingWebhookConfigurations and MutatingWebhookConfigurations
//! (`pkg/registry/admissionregistration/*webhookconfiguration`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names, webhook_address,
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
        let mut errors = ErrorList::new();
        let path = Path::new("webhooks");
        let webhooks = items(object, "webhooks");
        for (index, webhook) in webhooks.iter().enumerate() {
            let at = path.index(index);
            self.validate_webhook(webhook, &at, &mut errors);
            validate_admission_review_versions(webhook, &at.child("admissionReviewVersions"), &mut errors);
            let name = text(webhook, "name");
            if !name.is_empty() && webhooks.iter().take(index).any(|earlier| text(earlier, "name") == name) {
                errors.push(Error::duplicate(&at.child("name"), &name.into()));
            }
        }
        errors
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
}

impl Webhooks {
    fn validate_webhook(&self, webhook: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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
        match text(webhook, "sideEffects") {
            "" => errors.push(Error::required(
                &path.child("sideEffects"),
                "must specify one of None, NoneOnDryRun",
            )),
            _ => validate_supported(webhook, path, "sideEffects", &["None", "NoneOnDryRun"], errors),
        }
        if let Some(seconds) = number(webhook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(Error::invalid(&path.child("timeoutSeconds"), &seconds.into(), detail));
        }
        for field in ["namespaceSelector", "objectSelector"] {
            validate_optional_label_selector(webhook.get(field), &path.child(field), errors);
        }
        if self.mutating && webhook.get("reinvocationPolicy").is_some() {
            validate_supported(webhook, path, "reinvocationPolicy", &["IfNeeded", "Never"], errors);
        }
        validate_client_config(
            webhook.get("clientConfig").unwrap_or(&Value::Null),
            &path.child("clientConfig"),
            errors,
        );
        validate_match_conditions(webhook, path, &ExpressionScope::default().of_conditions(), errors);
    }
}

/// As upstream's `validateAdmissionReviewVersions`.
fn validate_admission_review_versions(webhook: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let versions = items(webhook, "admissionReviewVersions");
    if versions.is_empty() {
        errors.push(Error::required(
            path,
            &format!("must specify one of {}", REVIEWS.join(", ")),
        ));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let name = version.as_str().unwrap_or_default();
        if versions.iter().take(index).any(|earlier| earlier == version) {
            errors.push(Error::invalid_str(&path.index(index), name, "duplicate version"));
        } else {
            push_invalid(&path.index(index), name, names::dns1035_label(name), errors);
        }
    }
    if !versions
        .iter()
        .any(|version| REVIEWS.iter().any(|known| version == known))
    {
        let detail = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.push(Error::invalid(path, &versions.to_vec().into(), &detail));
    }
}

fn validate_client_config(client: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match (client.get("url").and_then(Value::as_str), client.get("service")) {
        (Some(url), None) => webhook_address::validate_url(url, &path.child("url"), errors),
        (None, Some(service)) => {
            let at = path.child("service");
            require(service, &at, "name", errors);
            require(service, &at, "namespace", errors);
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
            (webhook(json!({ "timeoutSeconds": 31, "reinvocationPolicy": "Z" })), &[
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                r#"webhooks[0].reinvocationPolicy: Unsupported value: "Z": supported values: "IfNeeded", "Never""#,
            ]),
        ]);
    }
}
