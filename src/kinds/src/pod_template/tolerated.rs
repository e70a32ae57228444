//! Errors of an old pod or template that its changes may keep: objects that an older version stored stay changeable
//! (`GetValidationOptionsFromPodSpecAndMeta`).

use serde_json::Value;
use trireme_machinery::{
    field::{ErrorList, Path},
    names,
    pod_resources::is_sidecar,
    selector::validate_label_selector,
};

use super::{
    check::{CONTAINER_LISTS, non_reserved_path},
    resources::is_whole_pages,
    scheduling::{PREFERRED, REQUIRED, validate_affinity_selectors},
    security::has_host_sysctl,
};
use crate::values::{at, entries, items, text};

/// The errors that validation passes over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tolerated(u8);

impl Tolerated {
    /// Huge pages that are no whole number of pages.
    pub(super) const PARTIAL_PAGES: Self = Self(1);
    /// Values of label selectors that no label can have.
    pub(crate) const SELECTOR_VALUES: Self = Self(1 << 1);
    /// Such values in the nodes that a pod must run on.
    pub(super) const NODE_AFFINITY_VALUES: Self = Self(1 << 2);
    /// Selectors of spread constraints that are not well-formed.
    pub(super) const SPREAD_SELECTORS: Self = Self(1 << 3);
    /// Settings of a namespace that is the host's.
    pub(super) const HOST_SYSCTLS: Self = Self(1 << 4);
    /// Restarts, for other resources, of containers that end by themselves.
    pub(super) const RESIZE_RESTARTS: Self = Self(1 << 5);
    /// Devices in containers with users of their own.
    pub(super) const DEVICES_OF_OWN_USERS: Self = Self(1 << 6);
    /// Projected tokens at paths that climb or are absolute.
    pub(super) const TOKEN_PATHS: Self = Self(1 << 7);

    /// Those that an old spec has.
    pub(super) fn of_old(spec: &Value) -> Self {
        let found = FINDERS.iter().filter(|(_, has)| has(spec));
        found.fold(Self::default(), |all, (error, _)| all.with(*error))
    }

    /// These and another.
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Reports whether an error is passed over.
    pub(crate) fn has(self, error: Self) -> bool {
        self.0 & error.0 != 0
    }
}

/// An error and the function that finds it in a spec.
type Finder = (Tolerated, fn(&Value) -> bool);

const FINDERS: [Finder; 8] = [
    (Tolerated::PARTIAL_PAGES, has_partial_pages),
    (Tolerated::SELECTOR_VALUES, has_invalid_pod_affinity_selector),
    (Tolerated::NODE_AFFINITY_VALUES, has_invalid_node_affinity_value),
    (Tolerated::SPREAD_SELECTORS, has_invalid_spread_selector),
    (Tolerated::HOST_SYSCTLS, has_host_sysctl),
    (Tolerated::RESIZE_RESTARTS, has_resize_restart),
    (Tolerated::DEVICES_OF_OWN_USERS, has_devices_of_own_users),
    (Tolerated::TOKEN_PATHS, has_non_local_token_path),
];

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|list| items(spec, list))
}

/// Reports whether a selector of nodes has a value that no label can have (`HasInvalidLabelValueInNodeSelectorTerms`).
pub(crate) fn has_invalid_node_selector_value(selector: &Value) -> bool {
    let terms = items(selector, "nodeSelectorTerms").iter();
    has_invalid_value(terms.flat_map(|term| items(term, "matchExpressions")))
}

/// Reports whether the nodes that a pod must run on are asked for by such a value.
fn has_invalid_node_affinity_value(spec: &Value) -> bool {
    let required = at(spec, "/affinity/nodeAffinity").and_then(|affinity| affinity.get(REQUIRED));
    required.is_some_and(has_invalid_node_selector_value)
}

/// Reports whether a selector of pods to be near or far from is not well-formed (`hasInvalidLabelValueInAffinitySelector`).
fn has_invalid_pod_affinity_selector(spec: &Value) -> bool {
    let none = Value::Null;
    let affinity = spec.get("affinity").unwrap_or(&none);
    let both = ["podAffinity", "podAntiAffinity"].map(|field| affinity.get(field).unwrap_or(&none));
    let mut terms = both.iter().flat_map(|pods| {
        let preferred = items(pods, PREFERRED)
            .iter()
            .filter_map(|term| term.get("podAffinityTerm"));
        items(pods, REQUIRED).iter().chain(preferred)
    });
    terms.any(|term| {
        let mut errors = ErrorList::new();
        validate_affinity_selectors(term, Tolerated::default(), &Path::root(), &mut errors);
        !errors.is_empty()
    })
}

/// As upstream's `usesIndivisibleHugePagesValues`.
fn has_partial_pages(spec: &Value) -> bool {
    let none = Value::Null;
    let requirements = containers(spec).map(|container| container.get("resources").unwrap_or(&none));
    let mut amounts = requirements
        .flat_map(|resources| entries(resources, "limits").chain(entries(resources, "requests")))
        .chain(entries(spec, "overhead"));
    amounts.any(|(name, amount)| !is_whole_pages(name, amount))
}

fn has_invalid_spread_selector(spec: &Value) -> bool {
    let mut selectors = items(spec, "topologySpreadConstraints")
        .iter()
        .filter_map(|constraint| constraint.get("labelSelector")?.as_object());
    selectors.any(|selector| !validate_label_selector(selector, false, &Path::root()).is_empty())
}

/// As upstream's `hasRestartContainerForNonSidecarInitContainer`.
fn has_resize_restart(spec: &Value) -> bool {
    let mut ending = items(spec, "initContainers").iter().filter(|one| !is_sidecar(one));
    ending.any(|container| {
        let mut policies = items(container, "resizePolicy").iter();
        policies.any(|policy| text(policy, "restartPolicy") == "RestartContainer")
    })
}

fn has_devices_of_own_users(spec: &Value) -> bool {
    let has_own_users = at(spec, "/hostUsers") == Some(&Value::Bool(false));
    has_own_users && containers(spec).any(|container| !items(container, "volumeDevices").is_empty())
}

/// As upstream's `hasNonLocalProjectedTokenPath`.
fn has_non_local_token_path(spec: &Value) -> bool {
    let projected = items(spec, "volumes")
        .iter()
        .filter_map(|volume| volume.get("projected"));
    let mut tokens = projected
        .flat_map(|projected| items(projected, "sources"))
        .filter_map(|source| source.get("serviceAccountToken"));
    tokens.any(|token| {
        let mut errors = ErrorList::new();
        non_reserved_path(text(token, "path"), &Path::root(), &mut errors);
        !errors.is_empty()
    })
}

/// Reports whether a label selector asks for a value that no label can have (`LabelSelectorHasInvalidLabelValue`).
pub(super) fn has_invalid_selector_value(selector: &Value) -> bool {
    has_invalid_value(items(selector, "matchExpressions"))
}

fn has_invalid_value<'a>(requirements: impl IntoIterator<Item = &'a Value>) -> bool {
    let mut values = requirements
        .into_iter()
        .flat_map(|requirement| items(requirement, "values"));
    values.any(|value| !names::label_value(value.as_str().unwrap_or_default()).is_empty())
}
