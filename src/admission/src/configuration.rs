//! The file of `--admission-control-config-file`: an `AdmissionConfiguration`, with the configurations of plugins in it or in
//! files of their own (`k8s.io/apiserver/pkg/admission`).
//!
//! Read once, at the start. As in kube-apiserver, what is configured for a plugin that does not run is not looked at, and a plugin
//! that takes no configuration ignores one.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use trireme_machinery::{
    configuration::{ConfigErrors, ConfigFields},
    go_text::{aggregate_errors, quote},
    yaml,
};

use crate::{
    default_toleration_seconds::TolerationSeconds, event_rate_limit::EventLimits,
    image_policy_webhook::ImagePolicySettings, pod_node_selector::ClusterNodeSelectors,
    pod_security::PodSecurityConfiguration, pod_toleration_restriction::ClusterTolerations,
    resource_quota::LimitedResources,
};

const VERSIONS: &[&str] = &["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
/// Plugins whose configuration may be the whole file, from before there were versions.
const LEGACY: [(&str, &str); 2] = [
    ("imagePolicy", "ImagePolicyWebhook"),
    ("podNodeSelectorPluginConfig", "PodNodeSelector"),
];

/// The configurations of plugins, by name, as they are written.
#[derive(Debug, Clone, Default)]
pub struct AdmissionConfiguration(BTreeMap<String, Vec<u8>>);

impl AdmissionConfiguration {
    /// Reads the file and those that it names.
    ///
    /// # Errors
    /// In kube-apiserver's words.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| {
            let path = quote(&path.display().to_string());
            format!("unable to read admission control configuration from {path} [{error}]")
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        match ConfigFields::read(&bytes, VERSIONS, "AdmissionConfiguration") {
            Ok((_, fields)) => Self::of_fields(fields, folder),
            Err(error) => Self::legacy(&bytes).ok_or(error),
        }
    }

    fn of_fields(mut fields: ConfigFields, folder: &Path) -> Result<Self, String> {
        let mut errors = ConfigErrors::new();
        let mut plugins = BTreeMap::new();
        for mut plugin in fields.objects("plugins", &mut errors) {
            let name = plugin.text("name", &mut errors);
            let file = plugin.text("path", &mut errors);
            let bytes = match plugin.take("configuration") {
                Some(inline) => Some(inline.to_string().into_bytes()),
                None if file.is_empty() => None,
                None => match std::fs::read(folder.join(PathBuf::from(&file))) {
                    Ok(bytes) => Some(bytes),
                    Err(error) => {
                        errors.push(format!("Couldn't open admission plugin configuration {file}: {error}"));
                        None
                    }
                },
            };
            plugin.finish(&mut errors);
            // The first of a name counts.
            if let Some(bytes) = bytes {
                plugins.entry(name).or_insert(bytes);
            }
        }
        fields.finish(&mut errors);
        aggregate_errors(&errors).map_or(Ok(Self(plugins)), Err)
    }

    fn legacy(bytes: &[u8]) -> Option<Self> {
        let value = yaml::decode(bytes).ok()?.value;
        let is_one = LEGACY.iter().any(|(key, _)| value.get(key).is_some());
        let plugins = LEGACY.map(|(_, plugin)| (plugin.to_owned(), bytes.to_vec()));
        is_one.then(|| Self(plugins.into()))
    }
}

/// The configurations of those plugins that take one, validated.
#[derive(Debug, Clone, Default)]
pub struct PluginSettings {
    pub(crate) pod_security: PodSecurityConfiguration,
    pub(crate) event_limits: EventLimits,
    pub(crate) node_selectors: ClusterNodeSelectors,
    pub(crate) tolerations: ClusterTolerations,
    pub(crate) limited_resources: LimitedResources,
    /// Of the plugin DefaultTolerationSeconds, which flags configure.
    pub default_tolerations: TolerationSeconds,
    /// Of the plugin ImagePolicyWebhook, if it runs.
    pub image_policy: Option<ImagePolicySettings>,
    /// The kubeconfig with the users that MutatingAdmissionWebhook calls as.
    pub mutating_kubeconfig: Option<PathBuf>,
    /// The kubeconfig with the users that ValidatingAdmissionWebhook calls as.
    pub validating_kubeconfig: Option<PathBuf>,
}

impl PluginSettings {
    /// Reads the configurations of the plugins that run.
    ///
    /// # Errors
    /// The first that cannot be used, with the name of its plugin.
    pub fn read(configuration: &AdmissionConfiguration, runs: impl Fn(&str) -> bool) -> Result<Self, String> {
        let read = PluginReader { configuration, runs };
        Ok(Self {
            pod_security: read
                .of("PodSecurity", PodSecurityConfiguration::read)?
                .unwrap_or_default(),
            event_limits: read.of("EventRateLimit", EventLimits::read)?.unwrap_or_default(),
            node_selectors: read
                .of("PodNodeSelector", ClusterNodeSelectors::read)?
                .unwrap_or_default(),
            tolerations: read
                .of("PodTolerationRestriction", ClusterTolerations::read)?
                .unwrap_or_default(),
            limited_resources: read.of("ResourceQuota", LimitedResources::read)?.unwrap_or_default(),
            default_tolerations: TolerationSeconds::default(),
            image_policy: read.of("ImagePolicyWebhook", ImagePolicySettings::read)?,
            mutating_kubeconfig: read.of("MutatingAdmissionWebhook", webhook_kubeconfig)?.flatten(),
            validating_kubeconfig: read.of("ValidatingAdmissionWebhook", webhook_kubeconfig)?.flatten(),
        })
    }
}

struct PluginReader<'c, R> {
    configuration: &'c AdmissionConfiguration,
    runs: R,
}

impl<R: Fn(&str) -> bool> PluginReader<'_, R> {
    /// The configuration of a plugin; `None` if it does not run.
    fn of<T>(&self, plugin: &str, read: impl FnOnce(Option<&[u8]>) -> Result<T, String>) -> Result<Option<T>, String> {
        if !(self.runs)(plugin) {
            return Ok(None);
        }
        let bytes = self.configuration.0.get(plugin).map(Vec::as_slice);
        let wrong = |error| format!("couldn't init admission plugin {}: {error}", quote(plugin));
        read(bytes).map(Some).map_err(wrong)
    }
}

/// Reads the `WebhookAdmissionConfiguration` of a plugin: the kubeconfig with the users that it calls webhooks as.
fn webhook_kubeconfig(bytes: Option<&[u8]>) -> Result<Option<PathBuf>, String> {
    const VERSIONS: &[&str] = &["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1"];
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    let kind = "WebhookAdmissionConfiguration";
    let read = ConfigFields::read(bytes, VERSIONS, kind).or_else(|error| {
        let versions = &["apiserver.config.k8s.io/v1alpha1"];
        ConfigFields::read(bytes, versions, "WebhookAdmission").map_err(|_| error)
    });
    let (_, mut fields) = read?;
    let mut errors = ConfigErrors::new();
    let file = fields.text("kubeConfigFile", &mut errors);
    if let Some(errors) = aggregate_errors(&errors) {
        return Err(errors);
    }
    if !file.is_empty() && !file.starts_with('/') {
        let file = quote(&file);
        return Err(format!(
            "kubeConfigFile: Invalid value: {file}: must be an absolute file path"
        ));
    }
    Ok((!file.is_empty()).then(|| file.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file in a folder with a file `limits.yaml`.
    fn read(text: &str) -> Result<AdmissionConfiguration, String> {
        let (_, fields) = ConfigFields::read(text.as_bytes(), VERSIONS, "AdmissionConfiguration")?;
        AdmissionConfiguration::of_fields(fields, Path::new("/none"))
    }

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n";

    #[test]
    fn plugins_that_run_are_held_to_their_configuration() {
        let text = format!("{HEAD}- name: EventRateLimit\n  configuration: {{apiVersion: v1, kind: Configuration}}\n");
        let configuration = read(&text).expect("it is good");
        assert!(PluginSettings::read(&configuration, |_| false).is_ok());
        let error = PluginSettings::read(&configuration, |name| name == "EventRateLimit").expect_err("bad");
        assert_eq!(
            error,
            "couldn't init admission plugin \"EventRateLimit\": no kind \"Configuration\" is registered for version \"v1\""
        );
        let none = AdmissionConfiguration::default();
        let error = PluginSettings::read(&none, |name| name == "ImagePolicyWebhook").expect_err("nothing");
        assert_eq!(
            error,
            "couldn't init admission plugin \"ImagePolicyWebhook\": no config specified"
        );
    }

    #[test]
    fn webhooks_are_called_as_users_of_an_absolute_file() {
        let kubeconfig = |kind: &str, fields: &str| {
            let text = format!(
                "{HEAD}- name: ValidatingAdmissionWebhook\n  configuration: {{apiVersion: apiserver.config.k8s.io/v1, \
                 kind: {kind}{fields}}}\n"
            );
            let configuration = read(&text).expect("it is good");
            let settings = PluginSettings::read(&configuration, |name| name.ends_with("AdmissionWebhook"));
            settings.map(|settings| (settings.mutating_kubeconfig, settings.validating_kubeconfig))
        };
        let kind = "WebhookAdmissionConfiguration";
        let given = kubeconfig(kind, ", kubeConfigFile: /a/b");
        assert_eq!(given, Ok((None, Some("/a/b".into()))));
        assert_eq!(kubeconfig(kind, ""), Ok((None, None)));
        let error = kubeconfig(kind, ", kubeConfigFile: a/b").expect_err("relative");
        assert_eq!(
            error,
            "couldn't init admission plugin \"ValidatingAdmissionWebhook\": kubeConfigFile: Invalid value: \"a/b\": must be an \
             absolute file path"
        );
        assert!(kubeconfig("Other", "").is_err());
    }

    #[test]
    fn a_file_of_its_own_must_be_there_and_a_field_must_be_known() {
        let error = read(&format!("{HEAD}- {{name: PodSecurity, path: gone.yaml}}\n")).expect_err("gone");
        assert!(
            error.starts_with("Couldn't open admission plugin configuration gone.yaml: "),
            "{error}"
        );
        let error = read(&format!("{HEAD}- {{name: PodSecurity, pathh: gone.yaml}}\n")).expect_err("misspelt");
        assert_eq!(error, "strict decoding error: unknown field \"plugins[0].pathh\"");
    }

    #[test]
    fn a_file_from_before_there_were_versions_is_that_of_a_plugin() {
        let text = b"podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b}";
        let configuration = AdmissionConfiguration::legacy(text).expect("it is one");
        assert!(PluginSettings::read(&configuration, |name| name == "PodNodeSelector").is_ok());
        assert!(AdmissionConfiguration::legacy(b"a: b").is_none());
    }
}
