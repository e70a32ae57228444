//! `limitedResources`: what may be used only where a quota covers it (`ResourceQuotaConfiguration`).

use std::collections::BTreeSet;

use trireme_machinery::{
    GroupResource,
    configuration::{ConfigErrors, ConfigFields},
    field::{Error, ErrorList, Path},
    go_text::aggregate_errors,
    pod_resources::ResourceList,
};

use super::{evaluators::Measure, quota::ScopeSelector};

const VERSIONS: &[&str] = &[
    "apiserver.config.k8s.io/v1",
    "resourcequota.admission.k8s.io/v1beta1",
    "resourcequota.admission.k8s.io/v1alpha1",
];

/// One of the resources that are limited.
#[derive(Debug, Clone)]
struct LimitedResource {
    resource: GroupResource,
    match_contains: Vec<String>,
    match_scopes: Vec<ScopeSelector>,
}

/// The configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitedResources(Vec<LimitedResource>);

/// The resources of a write that have to be covered by quotas.
#[derive(Debug, Clone, Default)]
pub(super) struct RequiredCoverage {
    /// Names of what is used.
    pub(super) names: BTreeSet<String>,
    /// Scopes that the object is in.
    pub(super) scopes: Vec<ScopeSelector>,
}

impl LimitedResources {
    /// Reads and validates a configuration (`ValidateConfiguration`).
    pub(crate) fn read(bytes: Option<&[u8]>) -> Result<Self, String> {
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        let read = ConfigFields::read(bytes, VERSIONS, "ResourceQuotaConfiguration")
            .or_else(|error| ConfigFields::read(bytes, &VERSIONS[1..], "Configuration").map_err(|_| error));
        let (_, mut fields) = read?;
        let (mut errors, mut found) = (ConfigErrors::new(), ErrorList::new());
        let path = Path::new("limitedResources");
        let items = fields.objects("limitedResources", &mut errors).into_iter().enumerate();
        let mut limited = Vec::new();
        for (index, mut item) in items {
            let resource = item.text("resource", &mut errors);
            if resource.is_empty() {
                found.push(Error::required(&path.index(index).child("resource"), ""));
            }
            let scopes = item.take("matchScopes").unwrap_or_default();
            limited.push(LimitedResource {
                resource: GroupResource {
                    group: item.text("apiGroup", &mut errors).into(),
                    resource: resource.into(),
                },
                match_contains: item.texts("matchContains", &mut errors),
                match_scopes: scopes
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(ScopeSelector::read)
                    .collect(),
            });
        }
        errors.extend(found.iter().map(ToString::to_string));
        aggregate_errors(&errors).map_or(Ok(Self(limited)), Err)
    }

    /// Reports whether quotas have to cover some of what a resource uses.
    pub(super) fn concern(&self, resource: &GroupResource) -> bool {
        self.0.iter().any(|limited| limited.resource == *resource)
    }

    /// The resources of a write that quotas have to cover.
    pub(super) fn of(&self, resource: &GroupResource, measure: &Measure) -> RequiredCoverage {
        let of_resource = self.0.iter().filter(|limited| limited.resource == *resource);
        let names = of_resource.flat_map(|limited| used(&measure.usage, &limited.match_contains));
        let scopes = self.0.iter().flat_map(|limited| &limited.match_scopes);
        RequiredCoverage {
            names: names.collect(),
            scopes: scopes.filter(|scope| measure.scopes.are_in(scope)).cloned().collect(),
        }
    }
}

/// The names of what is used that contain one of these texts (`limitedByDefault`).
fn used(usage: &ResourceList, contains: &[String]) -> Vec<String> {
    let used = usage.iter().filter(|(_, amount)| amount.signum() > 0);
    let matches = |name: &&String| contains.iter().any(|part| name.contains(part.as_str()));
    used.map(|(name, _)| name).filter(matches).cloned().collect()
}

impl RequiredCoverage {
    /// The refusal of a write that quotas do not cover: those with these limits and scopes.
    pub(super) fn uncovered(&self, limits: &BTreeSet<&str>, scopes: &BTreeSet<&str>) -> Option<String> {
        let names = self.names.iter().map(String::as_str);
        let names: Vec<&str> = names.filter(|name| !limits.contains(name)).collect();
        if !names.is_empty() {
            return Some(format!("insufficient quota to consume: {}", names.join(",")));
        }
        let open = self
            .scopes
            .iter()
            .filter(|scope| !scopes.contains(scope.scope.as_str()));
        let open: Vec<String> = open.map(ScopeSelector::shown).collect();
        (!open.is_empty()).then(|| format!("insufficient quota to match these scopes: [{}]", open.join(" ")))
    }
}
