//! `PodSecurityConfiguration`: the levels of namespaces that have no labels, and who is exempt
//! (`k8s.io/pod-security-admission/admission/api`).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trireme_machinery::{
    configuration::{ConfigErrors, ConfigFields},
    field::{Error, ErrorList, Path},
    go_text::{aggregate_errors, quote},
    json, names,
};

use super::policy::{LevelVersion, PREFIX, PodSecurityPolicy, PolicyLevel, PolicyVersion};

const VERSIONS: &[&str] = &[
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];

/// The configuration of the plugin.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodSecurityConfiguration {
    pub(super) defaults: PodSecurityPolicy,
    namespaces: BTreeSet<String>,
    users: BTreeSet<String>,
    runtime_classes: BTreeSet<String>,
}

impl PodSecurityConfiguration {
    /// Reads and validates a configuration (`ValidatePodSecurityConfiguration`).
    pub(crate) fn read(bytes: Option<&[u8]>) -> Result<Self, String> {
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        let (_, mut fields) = ConfigFields::read(bytes, VERSIONS, "PodSecurityConfiguration")?;
        let (mut errors, mut found) = (ConfigErrors::new(), ErrorList::new());
        let mut read = Self::default();
        if let Some(mut defaults) = fields.object_opt("defaults", &mut errors) {
            let mut mode = |name: &str| validate_mode(&mut defaults, name, &mut errors, &mut found);
            read.defaults = PodSecurityPolicy {
                enforce: mode("enforce"),
                warn: mode("warn"),
                audit: mode("audit"),
            };
            defaults.finish(&mut errors);
        }
        if let Some(mut exemptions) = fields.object_opt("exemptions", &mut errors) {
            let mut set = |name: &str, check: fn(&str) -> Vec<String>| {
                validate_exemptions(&exemptions.texts(name, &mut errors), name, check, &mut found)
            };
            read.namespaces = set("namespaces", names::dns1123_label);
            read.runtime_classes = set("runtimeClasses", names::dns1123_subdomain);
            read.users = set("usernames", |name| match name {
                "" => vec!["username must not be empty".to_owned()],
                _ => Vec::new(),
            });
            exemptions.finish(&mut errors);
        }
        fields.finish(&mut errors);
        errors.extend(found.iter().map(ToString::to_string));
        aggregate_errors(&errors).map_or(Ok(read), Err)
    }

    /// The reason for which nothing that this user writes in this namespace is judged.
    pub(super) fn exempt(&self, namespace: &str, user: &str) -> Option<&'static str> {
        if self.namespaces.contains(namespace) {
            return Some("namespace");
        }
        self.users.contains(user).then_some("user")
    }

    /// Reports whether a pod or a template is of a runtime class that is exempt.
    pub(super) fn has_exempt_runtime_class(&self, pod: &Value) -> bool {
        let class = json::at(pod, "/spec/runtimeClassName").and_then(Value::as_str);
        class.is_some_and(|class| self.runtime_classes.contains(class))
    }

    /// The warning about labels of a namespace that is exempt (`exemptNamespaceWarning`).
    pub(super) fn ignored(&self, name: &str, policy: &PodSecurityPolicy, namespace: &Value) -> Option<String> {
        if !self.namespaces.contains(name) || policy.is_fully_privileged() || *policy == self.defaults {
            return None;
        }
        let labels = json::at(namespace, "/metadata/labels");
        let has = |key: &str| labels.is_some_and(|labels| labels.get(format!("{PREFIX}{key}")).is_some());
        let modes = [
            ("enforce", policy.enforce),
            ("audit", policy.audit),
            ("warn", policy.warn),
        ];
        let ignored_modes = modes.into_iter().filter(|(mode, chosen)| {
            chosen.level != PolicyLevel::Privileged && (has(mode) || has(&format!("{mode}-version")))
        });
        let ignored_modes: Vec<String> = ignored_modes.map(|(mode, chosen)| format!("{mode}={chosen}")).collect();
        let (name, ignored_modes) = (quote(name), ignored_modes.join(", "));
        Some(format!(
            "namespace {name} is exempt from Pod Security, and the policy ({ignored_modes}) will be ignored"
        ))
    }
}

fn validate_mode(
    defaults: &mut ConfigFields,
    mode: &str,
    errors: &mut ConfigErrors,
    found: &mut ErrorList,
) -> LevelVersion {
    let versions = format!("{mode}-version");
    let (level, version) = (defaults.text(mode, errors), defaults.text(&versions, errors));
    let path = Path::new("defaults");
    let mut chosen = PodSecurityPolicy::default().enforce;
    if !level.is_empty() {
        match PolicyLevel::parse(&level) {
            Some(level) => chosen.level = level,
            None => found.push(Error::invalid_str(
                &path.child(mode),
                &level,
                "must be one of privileged, baseline, restricted",
            )),
        }
    }
    if !version.is_empty() {
        match PolicyVersion::parse(&version) {
            Some(version) => chosen.version = version,
            None => found.push(Error::invalid_str(
                &path.child(&versions),
                &version,
                "must be \"latest\" or \"v1.x\"",
            )),
        }
    }
    chosen
}

fn validate_exemptions(
    given: &[String],
    name: &str,
    check: fn(&str) -> Vec<String>,
    found: &mut ErrorList,
) -> BTreeSet<String> {
    let path = Path::new("exemptions");
    let path = path.child(name);
    let mut set = BTreeSet::new();
    for (index, value) in given.iter().enumerate() {
        let why = check(value);
        if !why.is_empty() {
            found.push(Error::invalid_str(&path.index(index), value, &why.join(", ")));
        } else if !set.insert(value.clone()) {
            found.push(Error::duplicate(&path.index(index), &json!(value)));
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PodSecurityConfiguration, String> {
        let head = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n";
        PodSecurityConfiguration::read(Some(format!("{head}{text}").as_bytes()))
    }

    #[test]
    fn labels_win_over_defaults_and_the_exempt_are_known() {
        let text = "defaults: {enforce: baseline, warn: restricted, warn-version: v1.30}\n\
            exemptions: {usernames: [bob], runtimeClasses: [r], namespaces: [ns]}";
        let read = read(text).expect("it is good");
        let (policy, _) =
            PodSecurityPolicy::of_labels(read.defaults, |key| key.ends_with("/enforce").then_some("privileged"));
        let shown = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        assert_eq!(shown, "privileged:latest privileged:latest restricted:v1.30");
        assert_eq!(read.exempt("ns", "bob"), Some("namespace"));
        assert_eq!((read.exempt("m", "bob"), read.exempt("m", "eve")), (Some("user"), None));
        assert!(read.has_exempt_runtime_class(&json!({"spec": {"runtimeClassName": "r"}})));
        let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
        let (policy, _) =
            PodSecurityPolicy::of_labels(read.defaults, |key| key.ends_with("/enforce").then_some("restricted"));
        let warning = read.ignored("ns", &policy, &labels).expect("they are ignored");
        assert!(
            warning.ends_with("the policy (enforce=restricted:latest) will be ignored"),
            "{warning}"
        );
    }

    #[test]
    fn invalid_levels_and_names_are_reported() {
        let error =
            read("defaults: {enforce: none}\nexemptions: {usernames: [''], namespaces: [a, a]}").expect_err("bad");
        assert_eq!(
            error,
            "[defaults.enforce: Invalid value: \"none\": must be one of privileged, baseline, restricted, \
             exemptions.namespaces[1]: Duplicate value: \"a\", \
             exemptions.usernames[0]: Invalid value: \"\": username must not be empty]"
        );
        let error = read("default: {}").expect_err("misspelt");
        assert_eq!(error, "strict decoding error: unknown field \"default\"");
    }
}
