//! The group versions and resources that are served: `--runtime-config` over what is on by default
//! (`k8s.io/apiserver/pkg/server/resourceconfig`).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    read_resources::resources,
    resources::{ResourceData, Stability, VersionData, stability},
};

/// The kinds of versions that can be switched together, the later ones winning.
const MATCHERS: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

/// The built-in APIs that a server is to serve: stable versions unless something else is said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiSelection {
    /// By matcher, in their order.
    matching: Vec<(&'static str, bool)>,
    /// By `GROUP/VERSION`.
    versions: BTreeMap<String, bool>,
    /// By `GROUP/VERSION/RESOURCE`.
    resources: BTreeMap<String, bool>,
    /// The feature gates that are on.
    gates: BTreeSet<String>,
}

impl ApiSelection {
    /// Reads `KEY=true|false,KEY`, where the last word on a key counts.
    ///
    /// # Errors
    /// The text of kube-apiserver about keys and values that mean nothing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let pairs: BTreeMap<&str, &str> = pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(key, value)| (key.trim(), value.trim()))
            .collect();
        if pairs.len() == 1 && pairs.get("api/all") == Some(&"false") {
            return Err("invalid runtime-config with only api/all=false".to_owned());
        }
        let mut selection = Self::default();
        for (key, value) in &pairs {
            if let Some(matcher) = MATCHERS.iter().find(|matcher| *matcher == key) {
                let value = match *value {
                    "true" => true,
                    "false" => false,
                    _ => return Err(format!("invalid value {key}={value}")),
                };
                selection.matching.push((matcher, value));
            } else {
                selection.override_one(key, value)?;
            }
        }
        let place = |key: &str| MATCHERS.iter().position(|matcher| *matcher == key);
        selection.matching.sort_by_key(|(key, _)| place(key));
        Ok(selection)
    }

    /// One version or resource; the core group is `v1`, `/v1` or `api/v1`.
    fn override_one(&mut self, key: &str, value: &str) -> Result<(), String> {
        let parts: Vec<&str> = key.split('/').collect();
        let (group, version, resource) = match parts.as_slice() {
            [version] | ["api", version] => ("", *version, None),
            ["api", version, resource] => ("", *version, Some(*resource)),
            [group, version] => (*group, *version, None),
            [group, version, resource] => (*group, *version, Some(*resource)),
            _ => return Err(format!("runtime-config invalid key {key}")),
        };
        let shown = match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let mut of_group = resources().iter().filter(|row| row.group == group).peekable();
        if of_group.peek().is_none() {
            return Err(format!("unknown api groups {shown}"));
        }
        if !of_group.any(|row| row.version(version).is_some()) {
            return Err(format!("group version {shown} that has not been registered"));
        }
        let enabled = match value {
            "" => true,
            value => go_bool(value).ok_or_else(|| {
                format!("invalid value of {key}: {value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")
            })?,
        };
        match resource {
            Some(resource) if resource.chars().any(char::is_uppercase) => {
                return Err(format!(
                    "invalid key {key}: group/version/resource and resource is always lowercase plural, not {resource:?}"
                ));
            }
            Some(resource) => self.resources.insert(format!("{group}/{version}/{resource}"), enabled),
            None => self.versions.insert(format!("{group}/{version}"), enabled),
        };
        Ok(())
    }

    /// With a feature gate switched on.
    #[must_use]
    pub fn with_gate(mut self, name: &str) -> Self {
        self.gates.insert(name.to_owned());
        self
    }

    /// Reports whether a resource is served in one of its versions.
    pub fn serves(&self, row: &ResourceData, version: &VersionData) -> bool {
        if version.gate.as_ref().is_some_and(|gate| !self.gates.contains(gate)) {
            return false;
        }
        let of_version = format!("{}/{}", row.group, version.name);
        let said = self.resources.get(&format!("{of_version}/{}", row.plural));
        if let Some(said) = said.or_else(|| self.versions.get(&of_version)) {
            return *said;
        }
        let stability = stability(&version.name);
        let matches = |matcher: &str| match matcher {
            "api/ga" => stability == Stability::Stable,
            "api/beta" => stability == Stability::Beta,
            "api/alpha" => stability == Stability::Alpha,
            _ => true,
        };
        let said = self.matching.iter().rev().find(|(matcher, _)| matches(matcher));
        said.map_or(stability == Stability::Stable, |(_, enabled)| *enabled)
    }
}

/// The words that Go takes for a boolean.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The versions in which a resource is served, or the error.
    fn served(config: &str, group: &str, plural: &str) -> String {
        let selection = match ApiSelection::parse(config) {
            Ok(selection) => selection,
            Err(error) => return error,
        };
        let row = crate::resource(group, plural).expect("the resource is in the table");
        let served = row.versions.iter().filter(|version| selection.serves(row, version));
        served
            .map(|version| version.name.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn stable_versions_are_served_and_others_when_asked_for() {
        let claims = |config: &str| served(config, "resource.k8s.io", "resourceclaims");
        assert_eq!(claims(""), "v1");
        assert_eq!(claims("api/all=true"), "v1 v1beta2 v1beta1");
        assert_eq!(claims("api/beta=true"), "v1 v1beta2 v1beta1");
        assert_eq!(claims("api/alpha=true"), "v1");
        assert_eq!(claims("resource.k8s.io/v1beta1"), "v1 v1beta1");
        assert_eq!(claims("resource.k8s.io/v1beta1/resourceclaims=true"), "v1 v1beta1");
        assert_eq!(claims("resource.k8s.io/v1beta1/deviceclasses=true"), "v1");
    }

    #[test]
    fn the_narrower_word_wins() {
        let claims = |config: &str| served(config, "resource.k8s.io", "resourceclaims");
        assert_eq!(claims("resource.k8s.io/v1beta1=false,api/all=true"), "v1 v1beta2");
        assert_eq!(claims("api/all=false,resource.k8s.io/v1beta1=true"), "v1beta1");
        assert_eq!(claims("api/beta=false,api/all=true"), "v1");
        assert_eq!(
            claims("resource.k8s.io/v1beta1/resourceclaims=false,resource.k8s.io/v1beta1=true"),
            "v1"
        );
        assert_eq!(served("v1=false", "", "pods"), "");
        assert_eq!(served("/v1=false", "", "pods"), "");
        assert_eq!(served("api/v1=false", "", "pods"), "");
        assert_eq!(served("api/v1/pods=false", "", "pods"), "");
        assert_eq!(served("api/v1", "", "pods"), "v1");
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let pods = |config: &str| served(config, "", "pods");
        assert_eq!(pods("api/all=2"), "invalid value api/all=2");
        assert_eq!(pods("api/all=false"), "invalid runtime-config with only api/all=false");
        assert_eq!(
            pods("nope.example.com/v1=true"),
            "unknown api groups nope.example.com/v1"
        );
        assert_eq!(
            pods("apps/v7=true"),
            "group version apps/v7 that has not been registered"
        );
        assert_eq!(
            pods("apps/v1=x"),
            "invalid value of apps/v1: x, err: strconv.ParseBool: parsing \"x\": invalid syntax"
        );
        assert_eq!(pods("a/b/c/d=true"), "runtime-config invalid key a/b/c/d");
    }
}
