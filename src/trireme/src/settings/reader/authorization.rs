//! `--authorization-…`

use std::path::PathBuf;
use std::sync::Arc;

use trireme_auth::{AbacPolicies, AccessReviewVersion, AuthorizerType};

use super::{DURATION, FILE, SettingsReader, readable};
use crate::config_controller::FollowedFile;
use crate::settings::AuthorizationSettings;
use crate::settings::authorization::{self, AuthorizerSettings, WebhookFlags};
use crate::settings::errors::SettingError;
use crate::settings::layers::Given;
use crate::settings::values::duration;

const CONFIG: &str = "authorization-config";
const MODE: &str = "authorization-mode";
const POLICY_FILE: &str = "authorization-policy-file";
const WEBHOOK_FILE: &str = "authorization-webhook-config-file";
const WEBHOOK_VERSION: &str = "authorization-webhook-version";
const AUTHORIZED_TTL: &str = "authorization-webhook-cache-authorized-ttl";
const UNAUTHORIZED_TTL: &str = "authorization-webhook-cache-unauthorized-ttl";
/// The flags that the file replaces.
const EXCLUSIVE: [&str; 5] = [MODE, WEBHOOK_FILE, WEBHOOK_VERSION, AUTHORIZED_TTL, UNAUTHORIZED_TTL];

impl SettingsReader {
    pub(super) fn authorization(&mut self) -> AuthorizationSettings {
        let abac = self.abac();
        let (authorizers, file) = match self.optional(CONFIG, FILE, readable) {
            Some(path) => self.authorizers_of_file(path),
            None => (self.authorizers_of_flags(), None),
        };
        let has_abac = authorizers.iter().any(|it| it.kind == AuthorizerType::Abac);
        if has_abac && abac.is_none() && self.layers.given(POLICY_FILE).is_none() {
            let why = "authorization-mode ABAC's authorization policy file not passed";
            self.refuse_if_given(if file.is_some() { CONFIG } else { MODE }, why);
        }
        if !has_abac && !authorizers.is_empty() {
            self.refuse_if_given(
                POLICY_FILE,
                "cannot specify --authorization-policy-file without mode ABAC",
            );
        }
        AuthorizationSettings {
            authorizers,
            file,
            abac,
        }
    }

    fn authorizers_of_file(&mut self, path: PathBuf) -> (Vec<AuthorizerSettings>, Option<FollowedFile>) {
        if EXCLUSIVE.iter().any(|name| self.layers.is_said(name)) {
            let why = "--authorization-config can not be specified when --authorization-mode or \
                --authorization-webhook-* flags are defined";
            self.refuse_if_given(CONFIG, why);
        }
        let bytes = std::fs::read(&path).map_err(|error| error.to_string());
        let read = bytes.and_then(|bytes| {
            let authorizers = authorization::of_configuration(&bytes)?;
            Ok((authorizers, Some(FollowedFile::new(path, &bytes))))
        });
        read.unwrap_or_else(|why| {
            self.refuse_if_given(CONFIG, &why);
            Default::default()
        })
    }

    fn authorizers_of_flags(&mut self) -> Vec<AuthorizerSettings> {
        let modes = self.value(MODE, authorization::ALLOWED, authorization::modes);
        let webhook = self.webhook_flags();
        match (modes.contains(&AuthorizerType::Webhook), &webhook) {
            (true, None) if self.layers.given(WEBHOOK_FILE).is_none() => {
                self.refuse_if_given(
                    MODE,
                    "authorization-mode Webhook's authorization config file not passed",
                );
            }
            (false, Some(_)) => self.refuse_if_given(
                WEBHOOK_FILE,
                "cannot specify --authorization-webhook-config-file without mode Webhook",
            ),
            _ => {}
        }
        authorization::of_flags(&modes, webhook.as_ref()).unwrap_or_else(|why| {
            self.refuse_if_given(WEBHOOK_FILE, &format!("give a kubeconfig of a webhook: {why}"));
            Vec::new()
        })
    }

    /// `None` without a file.
    fn webhook_flags(&mut self) -> Option<WebhookFlags> {
        let version = self.value(WEBHOOK_VERSION, "give v1 or v1beta1", AccessReviewVersion::parse);
        let authorized_ttl = self.value(AUTHORIZED_TTL, DURATION, duration);
        let unauthorized_ttl = self.value(UNAUTHORIZED_TTL, DURATION, duration);
        Some(WebhookFlags {
            kubeconfig: self.optional(WEBHOOK_FILE, FILE, readable)?,
            version,
            authorized_ttl,
            unauthorized_ttl,
        })
    }

    fn abac(&mut self) -> Option<Arc<AbacPolicies>> {
        let Given { origin, text } = self.layers.given(POLICY_FILE)?;
        let read = std::fs::read_to_string(&text).map_err(|error| error.to_string());
        let policies = read.and_then(|policies| AbacPolicies::parse(&policies).map_err(|error| error.to_string()));
        let refused = |why| {
            self.errors.push(SettingError {
                origin,
                value: Some(text),
                allowed: format!("give a file of ABAC policies: {why}"),
            });
        };
        policies.map_err(refused).ok().map(Arc::new)
    }
}
