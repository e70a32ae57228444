//! The settings of authorization: `--authorization-mode` and what goes with it, or `--authorization-config`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trireme_auth::{
    AbacPolicies, AccessReviewVersion, AuthorizationConfiguration, AuthorizerType, WebhookAuthorizerSettings,
};
use trireme_http::client::RemoteServer;

use super::values::list;
use crate::config_controller::FollowedFile;
use crate::kubeconfig;

/// The authorizers.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizationSettings {
    /// In the order in which they are asked.
    pub(crate) authorizers: Vec<AuthorizerSettings>,
    /// The file that they were read from; it may change.
    pub(crate) file: Option<FollowedFile>,
    /// The policies of the kind ABAC.
    pub(crate) abac: Option<Arc<AbacPolicies>>,
}

impl AuthorizationSettings {
    /// True if everyone may do everything.
    pub(crate) fn allows_all(&self) -> bool {
        self.authorizers.iter().any(|it| it.kind == AuthorizerType::AlwaysAllow)
    }
}

/// One authorizer.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizerSettings {
    /// Its kind.
    pub(crate) kind: AuthorizerType,
    /// Its name in metrics.
    pub(crate) name: String,
    /// The server and how it is asked, for one of the kind Webhook.
    pub(crate) webhook: Option<(RemoteServer, WebhookAuthorizerSettings)>,
}

/// The webhook of flags.
#[derive(Debug, Clone)]
pub(super) struct WebhookFlags {
    pub(super) kubeconfig: PathBuf,
    pub(super) version: AccessReviewVersion,
    pub(super) authorized_ttl: Duration,
    pub(super) unauthorized_ttl: Duration,
}

/// The allowed values, for the error's text.
pub(super) const ALLOWED: &str = "give a list of AlwaysAllow, AlwaysDeny, ABAC, Webhook, Node and RBAC, each once";

/// Reads the list, in the order in which they are asked.
pub(super) fn modes(text: &str) -> Option<Vec<AuthorizerType>> {
    let modes: Vec<AuthorizerType> = list(text).map(AuthorizerType::parse).collect::<Option<_>>()?;
    let is_once = |mode: &AuthorizerType| modes.iter().filter(|other| *other == mode).count() == 1;
    (!modes.is_empty() && modes.iter().all(is_once)).then_some(modes)
}

/// The authorizers of flags.
pub(super) fn of_flags(
    modes: &[AuthorizerType],
    webhook: Option<&WebhookFlags>,
) -> Result<Vec<AuthorizerSettings>, String> {
    let authorizer = |kind: AuthorizerType| {
        let webhook = match webhook.filter(|_| kind == AuthorizerType::Webhook) {
            None => None,
            Some(flags) => {
                let settings =
                    WebhookAuthorizerSettings::of_flags(flags.version, flags.authorized_ttl, flags.unauthorized_ttl);
                Some((server(&flags.kubeconfig)?, settings))
            }
        };
        let name = match &webhook {
            Some((_, settings)) => settings.name.clone(),
            None => kind.only_name(),
        };
        Ok(AuthorizerSettings { kind, name, webhook })
    };
    modes.iter().copied().map(authorizer).collect()
}

/// The authorizers of the content of a file.
pub(crate) fn of_configuration(bytes: &[u8]) -> Result<Vec<AuthorizerSettings>, String> {
    let configuration = AuthorizationConfiguration::parse(bytes)?;
    let authorizer = |configured: trireme_auth::ConfiguredAuthorizer| {
        let webhook = configured.webhook.map(|webhook| {
            let server = server(&webhook.kubeconfig)?;
            Ok::<_, String>((server, webhook.settings))
        });
        Ok(AuthorizerSettings {
            kind: configured.kind,
            name: configured.name,
            webhook: webhook.transpose()?,
        })
    };
    configuration.authorizers.into_iter().map(authorizer).collect()
}

fn server(kubeconfig: &Path) -> Result<RemoteServer, String> {
    kubeconfig::webhook(kubeconfig).map_err(|error| error.to_string())
}
