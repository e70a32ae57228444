//! The admission plugins: which of them run, and how.

use std::path::Path;

use trireme_admission::{
    AdmissionConfiguration, EnabledPlugins, PluginSettings, TolerationSeconds, WebhookUsers, WebhookUsersByPlugin,
};

use super::{FILE, SettingsReader, readable};
use crate::kubeconfig;
use crate::settings::AdmissionSettings;
use crate::settings::values::list;

const ENABLE: &str = "enable-admission-plugins";
const DISABLE: &str = "disable-admission-plugins";
const CONFIG: &str = "admission-control-config-file";

impl SettingsReader {
    pub(super) fn admission(&mut self) -> AdmissionSettings {
        let enabled = self.enabled_plugins();
        let file = self.optional(CONFIG, FILE, readable);
        let configuration = file
            .as_deref()
            .map_or_else(|| Ok(AdmissionConfiguration::default()), AdmissionConfiguration::read);
        let mut seconds = |name| self.value(name, "give a number of seconds", |text| text.parse().ok());
        let default_tolerations = TolerationSeconds {
            not_ready: seconds("default-not-ready-toleration-seconds"),
            unreachable: seconds("default-unreachable-toleration-seconds"),
        };
        let plugins = configuration.and_then(|read| {
            let mut plugins = PluginSettings::read(&read, |name| enabled.runs(name))?;
            plugins.default_tolerations = default_tolerations;
            Ok(plugins)
        });
        let settings = plugins.and_then(|plugins| {
            let server = plugins
                .image_policy
                .as_ref()
                .map(|policy| kubeconfig::webhook(&policy.kubeconfig));
            let image_policy = server
                .transpose()
                .map_err(|error| format!("couldn't init admission plugin \"ImagePolicyWebhook\": {error}"))?;
            Ok(AdmissionSettings {
                enabled,
                image_policy,
                webhook_users: webhook_users(&plugins)?,
                plugins,
            })
        });
        settings.unwrap_or_else(|why| {
            // A plugin may want a configuration that is not given.
            self.refuse_if_given(if file.is_some() { CONFIG } else { ENABLE }, &why);
            AdmissionSettings::default()
        })
    }

    /// The plugins that run, of two lists that must fit each other.
    fn enabled_plugins(&mut self) -> EnabledPlugins {
        let names = |name| self.layers.given(name).map(|given| given.text).unwrap_or_default();
        let (enable, disable) = (names(ENABLE), names(DISABLE));
        let plugins = |enable: &str, disable: &str| EnabledPlugins::new(list(enable), list(disable));
        if let Err(why) = plugins("", &disable) {
            self.refuse_if_given(DISABLE, &why);
        } else if let Err(why) = plugins(&enable, &disable) {
            self.refuse_if_given(ENABLE, &why);
        }
        plugins(&enable, &disable).unwrap_or_default()
    }
}

/// Reads the kubeconfigs of both plugins.
fn webhook_users(plugins: &PluginSettings) -> Result<WebhookUsersByPlugin, String> {
    let users = |plugin: &str, file: Option<&Path>| {
        let wrong = |error| format!("couldn't init admission plugin \"{plugin}\": {error}");
        file.map_or_else(|| Ok(WebhookUsers::default()), kubeconfig::webhook_users)
            .map_err(wrong)
    };
    Ok(WebhookUsersByPlugin {
        mutating: users("MutatingAdmissionWebhook", plugins.mutating_kubeconfig.as_deref())?,
        validating: users("ValidatingAdmissionWebhook", plugins.validating_kubeconfig.as_deref())?,
    })
}
