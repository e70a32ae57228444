//! The webhook for bearer tokens, `--authentication-token-webhook-…`.

use std::path::Path;

use trireme_auth::{TokenReviewVersion, TokenWebhookSettings};

use super::{DURATION, SettingsReader};
use crate::kubeconfig;
use crate::settings::TokenWebhook;
use crate::settings::errors::SettingError;
use crate::settings::layers::Given;
use crate::settings::values::duration;

impl SettingsReader {
    /// `None` without a webhook.
    pub(super) fn token_webhook(&mut self) -> Option<TokenWebhook> {
        let settings = TokenWebhookSettings {
            version: self.value(
                "authentication-token-webhook-version",
                "give v1 or v1beta1",
                |text| match text {
                    "v1" => Some(TokenReviewVersion::V1),
                    "v1beta1" => Some(TokenReviewVersion::V1Beta1),
                    _ => None,
                },
            ),
            cache_ttl: self.value("authentication-token-webhook-cache-ttl", DURATION, duration),
        };
        let Given { origin, text } = self.layers.given("authentication-token-webhook-config-file")?;
        let server = kubeconfig::webhook(Path::new(&text)).map_err(|error| {
            self.errors.push(SettingError {
                origin,
                value: Some(text),
                allowed: format!("give a kubeconfig of a webhook: {error}"),
            });
        });
        Some(TokenWebhook {
            server: server.ok()?,
            settings,
        })
    }
}
