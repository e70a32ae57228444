//! The file of `--authorization-config`: `AuthorizationConfiguration` of `apiserver.config.k8s.io`
//! (`k8s.io/apiserver/pkg/apis/apiserver`).
//!
//! The composition root reads it at start and whenever it changes, and makes authorizers of it. Promise: what comes out has been
//! validated as kube-apiserver validates it; an error is in its words.

mod validation;

use std::path::PathBuf;

use trireme_machinery::{
    configuration::{ConfigErrors, ConfigFields},
    go_text::aggregate_errors,
    time::Duration,
};

use crate::{modes::AuthorizerType, webhook_authorizer::WebhookAuthorizerSettings};

const VERSIONS: &[&str] = &[
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1beta1",
    "apiserver.config.k8s.io/v1alpha1",
];
const DEFAULT_AUTHORIZED_TTL: Duration = Duration::from_nanos(300_000_000_000);
const DEFAULT_UNAUTHORIZED_TTL: Duration = Duration::from_nanos(30_000_000_000);

/// The authorizers, in the order in which they are asked.
#[derive(Debug, Clone)]
pub struct AuthorizationConfiguration {
    /// Each of them.
    pub authorizers: Vec<ConfiguredAuthorizer>,
}

/// One authorizer.
#[derive(Debug, Clone)]
pub struct ConfiguredAuthorizer {
    /// Its kind.
    pub kind: AuthorizerType,
    /// Its name in metrics.
    pub name: String,
    /// The webhook of an authorizer of this kind.
    pub webhook: Option<ConfiguredWebhook>,
}

/// A webhook that authorizes.
#[derive(Debug, Clone)]
pub struct ConfiguredWebhook {
    /// The way in which it is asked.
    pub settings: WebhookAuthorizerSettings,
    /// The kubeconfig of the server.
    pub kubeconfig: PathBuf,
}

/// An item of `authorizers` as it is written.
struct AuthorizerFields {
    kind: String,
    name: String,
    webhook: Option<WebhookFields>,
}

/// `webhook` of an item as it is written, with defaults.
struct WebhookFields {
    authorized_ttl: Duration,
    caches_authorized: bool,
    unauthorized_ttl: Duration,
    caches_unauthorized: bool,
    timeout: Duration,
    version: String,
    condition_version: String,
    failure_policy: String,
    connection_type: String,
    kubeconfig: Option<String>,
    conditions: Vec<String>,
}

impl AuthorizationConfiguration {
    /// Reads and validates a file.
    ///
    /// # Errors
    /// All that is wrong with it, in one text.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let written =
            read(bytes).map_err(|error| format!("failed to load AuthorizationConfiguration from file: {error}"))?;
        validation::validate_authorization_configuration(&written)
    }
}

fn read(bytes: &[u8]) -> Result<Vec<AuthorizerFields>, String> {
    let (_, mut fields) = ConfigFields::read(bytes, VERSIONS, "AuthorizationConfiguration")?;
    let mut errors = ConfigErrors::new();
    let items = fields.objects("authorizers", &mut errors).into_iter();
    let authorizers = items.map(|item| authorizer(item, &mut errors)).collect();
    fields.finish(&mut errors);
    aggregate_errors(&errors).map_or(Ok(authorizers), Err)
}

fn authorizer(mut fields: ConfigFields, errors: &mut ConfigErrors) -> AuthorizerFields {
    let read = AuthorizerFields {
        kind: fields.text("type", errors),
        name: fields.text("name", errors),
        webhook: fields
            .object_opt("webhook", errors)
            .map(|webhook| self::webhook(webhook, errors)),
    };
    fields.finish(errors);
    read
}

fn webhook(mut fields: ConfigFields, errors: &mut ConfigErrors) -> WebhookFields {
    let or = |given: Duration, default| if given == Duration::default() { default } else { given };
    let mut connection = fields.object_opt("connectionInfo", errors);
    let conditions = fields.objects("matchConditions", errors).into_iter();
    let conditions = conditions.map(|mut condition| {
        let expression = condition.text("expression", errors);
        condition.finish(errors);
        expression
    });
    let conditions = conditions.collect();
    let read = WebhookFields {
        authorized_ttl: or(fields.duration("authorizedTTL", errors), DEFAULT_AUTHORIZED_TTL),
        caches_authorized: fields.flag_opt("cacheAuthorizedRequests", errors).unwrap_or(true),
        unauthorized_ttl: or(fields.duration("unauthorizedTTL", errors), DEFAULT_UNAUTHORIZED_TTL),
        caches_unauthorized: fields.flag_opt("cacheUnauthorizedRequests", errors).unwrap_or(true),
        timeout: fields.duration("timeout", errors),
        version: fields.text("subjectAccessReviewVersion", errors),
        condition_version: fields.text("matchConditionSubjectAccessReviewVersion", errors),
        failure_policy: fields.text("failurePolicy", errors),
        connection_type: connection
            .as_mut()
            .map(|it| it.text("type", errors))
            .unwrap_or_default(),
        kubeconfig: connection.as_mut().and_then(|it| it.text_opt("kubeConfigFile", errors)),
        conditions,
    };
    if let Some(connection) = connection {
        connection.finish(errors);
    }
    fields.finish(errors);
    read
}

#[cfg(test)]
mod tests;
