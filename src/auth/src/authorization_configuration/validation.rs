//! Validation of a configuration of authorizers (`k8s.io/apiserver/pkg/apis/apiserver/validation`, and
//! `LoadAndValidateData` of `pkg/kubeapiserver/authorizer`).

use std::{path::Path as FilePath, time::Duration as StdDuration};

use serde_json::json;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::aggregate_errors,
    names::dns1123_subdomain,
    time::Duration,
};

use super::{AuthorizationConfiguration, AuthorizerFields, ConfiguredAuthorizer, ConfiguredWebhook, WebhookFields};
use crate::{
    modes::AuthorizerType,
    webhook_authorizer::{AccessConditions, AccessReviewVersion, WebhookAuthorizerSettings},
};

const MAX_TIMEOUT: Duration = Duration::from_nanos(30_000_000_000);
const IN_CLUSTER: &str = "InClusterConfig";
const KUBECONFIG_FILE: &str = "KubeConfigFile";

/// Validates what is written, and gives what it means.
pub(super) fn validate_authorization_configuration(
    written: &[AuthorizerFields],
) -> Result<AuthorizationConfiguration, String> {
    let mut errors = ErrorList::new();
    let root = Path::new("authorizers");
    if written.is_empty() {
        errors.push(Error::required(
            &root,
            "at least one authorization mode must be defined",
        ));
    }
    let mut authorizers: Vec<ConfiguredAuthorizer> = Vec::new();
    for (index, fields) in written.iter().enumerate() {
        let path = root.index(index);
        if let Some(kind) = validate_type(fields, &authorizers, &path, &mut errors) {
            validate_name(fields, &authorizers, &path, &mut errors);
            let webhook = validate_webhook(kind, fields, &path, &mut errors);
            authorizers.push(ConfiguredAuthorizer {
                kind,
                name: fields.name.clone(),
                webhook,
            });
        }
    }
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    if let Some(error) = aggregate_errors(&texts).or_else(|| unexpected_names(&authorizers)) {
        return Err(error);
    }
    Ok(AuthorizationConfiguration { authorizers })
}

fn validate_type(
    fields: &AuthorizerFields,
    before: &[ConfiguredAuthorizer],
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<AuthorizerType> {
    let at = path.child("type");
    if fields.kind.is_empty() {
        errors.push(Error::required(&at, ""));
        return None;
    }
    let Some(kind) = AuthorizerType::parse(&fields.kind) else {
        let known = AuthorizerType::ALL.map(AuthorizerType::name);
        errors.push(Error::not_supported(&at, &fields.kind, &known));
        return None;
    };
    if kind != AuthorizerType::Webhook && before.iter().any(|other| other.kind == kind) {
        errors.push(Error::duplicate(&at, &json!(fields.kind)));
        return None;
    }
    Some(kind)
}

fn validate_name(fields: &AuthorizerFields, before: &[ConfiguredAuthorizer], path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("name");
    let name = fields.name.as_str();
    if name.is_empty() {
        errors.push(Error::required(&at, ""));
    } else if before.iter().any(|other| other.name == name) {
        errors.push(Error::duplicate(&at, &json!(name)));
    } else {
        let why = dns1123_subdomain(name);
        if !why.is_empty() {
            let detail = format!("authorizer name is invalid: {}", why.join(", "));
            errors.push(Error::invalid_str(&at, name, &detail));
        }
    }
}

fn validate_webhook(
    kind: AuthorizerType,
    fields: &AuthorizerFields,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<ConfiguredWebhook> {
    match (&fields.webhook, kind) {
        (Some(webhook), AuthorizerType::Webhook) => validate_webhook_configuration(&fields.name, webhook, path, errors),
        (None, AuthorizerType::Webhook) => {
            errors.push(Error::required(&path.child("webhook"), "required when type=Webhook"));
            None
        }
        (Some(_), _) => {
            let detail = "may only be specified when type=Webhook";
            errors.push(Error::invalid_str(&path.child("webhook"), "non-null", detail));
            None
        }
        (None, _) => None,
    }
}

/// Its errors stand beside those of the authorizer, as `webhook` is no part of their paths upstream.
fn validate_webhook_configuration(
    name: &str,
    fields: &WebhookFields,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<ConfiguredWebhook> {
    let wrong =
        |field: &str, value: Duration, detail: &str| Error::invalid_str(&path.child(field), &value.to_string(), detail);
    if fields.timeout == Duration::default() {
        errors.push(Error::required(&path.child("timeout"), ""));
    } else if fields.timeout > MAX_TIMEOUT || fields.timeout < Duration::default() {
        errors.push(wrong("timeout", fields.timeout, "must be > 0s and <= 30s"));
    }
    for (field, value) in [
        ("authorizedTTL", fields.authorized_ttl),
        ("unauthorizedTTL", fields.unauthorized_ttl),
    ] {
        if value < Duration::default() {
            errors.push(wrong(field, value, "must be > 0s"));
        }
    }
    let version = validate_versions(fields, path, errors);
    let policies = ["NoOpinion", "Deny"];
    validate_choice("failurePolicy", &fields.failure_policy, &policies, path, errors);
    validate_connection(fields, path, errors);
    let conditions = AccessConditions::compile(&fields.conditions, path, errors);
    let ttl = |value: Duration, counts: bool| if counts { positive(value) } else { StdDuration::ZERO };
    Some(ConfiguredWebhook {
        settings: WebhookAuthorizerSettings {
            name: name.to_owned(),
            version: version?,
            timeout: positive(fields.timeout),
            authorized_ttl: ttl(fields.authorized_ttl, fields.caches_authorized),
            unauthorized_ttl: ttl(fields.unauthorized_ttl, fields.caches_unauthorized),
            fails_closed: fields.failure_policy == "Deny",
            conditions,
        },
        kubeconfig: fields.kubeconfig.as_ref()?.into(),
    })
}

fn validate_versions(fields: &WebhookFields, path: &Path<'_>, errors: &mut ErrorList) -> Option<AccessReviewVersion> {
    validate_choice(
        "subjectAccessReviewVersion",
        &fields.version,
        &["v1", "v1beta1"],
        path,
        errors,
    );
    let field = "matchConditionSubjectAccessReviewVersion";
    if !fields.condition_version.is_empty() {
        validate_choice(field, &fields.condition_version, &["v1"], path, errors);
    } else if !fields.conditions.is_empty() {
        let detail = "required if match conditions are specified";
        errors.push(Error::required(&path.child(field), detail));
    }
    AccessReviewVersion::parse(&fields.version)
}

fn validate_choice(field: &str, value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child(field);
    if value.is_empty() {
        errors.push(Error::required(&at, ""));
    } else if !allowed.contains(&value) {
        errors.push(Error::not_supported(&at, value, allowed));
    }
}

fn validate_connection(fields: &WebhookFields, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("connectionInfo");
    let at = path.child("kubeConfigFile");
    let file = fields.kubeconfig.as_deref();
    match fields.connection_type.as_str() {
        IN_CLUSTER => match file {
            Some(file) => errors.push(Error::invalid_str(
                &at,
                file,
                "can only be set when type=KubeConfigFile",
            )),
            // kube-apiserver looks for the kubeconfig nevertheless, and ends when there is none.
            None => errors.push(Error::invalid_str(
                &path.child("type"),
                IN_CLUSTER,
                "is for servers that run in the cluster of another; give KubeConfigFile",
            )),
        },
        KUBECONFIG_FILE => match file.unwrap_or_default() {
            "" => errors.push(Error::required(&at, "")),
            file if !FilePath::new(file).is_absolute() => {
                errors.push(Error::invalid_str(&at, file, "must be an absolute path"));
            }
            file => match std::fs::metadata(file) {
                Ok(found) if found.is_file() => {}
                Ok(_) => errors.push(Error::invalid_str(&at, file, "must be a regular file")),
                Err(error) => errors.push(Error::invalid_str(&at, file, &format!("error loading file: {error}"))),
            },
        },
        other => validate_choice("type", other, &[IN_CLUSTER, KUBECONFIG_FILE], &path, errors),
    }
}

/// An authorizer of which there is one goes by the name of its kind.
fn unexpected_names(authorizers: &[ConfiguredAuthorizer]) -> Option<String> {
    let only = authorizers.iter().filter(|it| it.kind != AuthorizerType::Webhook);
    let wrong = only.filter(|it| it.name != it.kind.only_name());
    let errors = wrong.map(|it| {
        let (expected, kind) = (it.kind.only_name(), it.kind.name());
        format!("expected name {expected} for authorizer {kind} instead of {}", it.name)
    });
    aggregate_errors(&errors.collect::<Vec<String>>())
}

/// A duration that has been found to be positive.
fn positive(value: Duration) -> StdDuration {
    StdDuration::from_nanos(u64::try_from(value.nanos()).unwrap_or_default())
}
