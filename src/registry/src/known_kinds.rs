//! The kinds that clients may name: those of served resources, of their lists and options, and some others.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use trireme_machinery::{GroupVersion, GroupVersionKind};

use crate::{definition::ResourceDefinition, verb::Verb};

/// Kinds that every version of every group has.
const IN_EVERY_VERSION: [&str; 7] = [
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
    "WatchEvent",
];

/// The kinds that are known at a moment, to distinguish a wrong kind from an unknown one.
#[derive(Clone, Default)]
pub struct KnownKinds {
    served: HashMap<GroupVersion, Vec<Arc<ResourceDefinition>>>,
    others: Arc<HashSet<GroupVersionKind>>,
}

impl KnownKinds {
    /// The kinds of these resources, and others that no resource serves: retired ones, and those of the API machinery.
    pub fn new(definitions: &[Arc<ResourceDefinition>], others: Arc<HashSet<GroupVersionKind>>) -> Self {
        let mut served: HashMap<GroupVersion, Vec<Arc<ResourceDefinition>>> = HashMap::new();
        for definition in definitions {
            for version in definition.versions.iter().filter(|version| version.is_served) {
                let of_version = served.entry(version.group_version.clone()).or_default();
                of_version.push(definition.clone());
            }
        }
        Self { served, others }
    }

    /// The kinds after the resources have changed to these.
    pub(crate) fn changed_to(&self, definitions: &[Arc<ResourceDefinition>]) -> Self {
        Self::new(definitions, self.others.clone())
    }

    /// Looks a kind up.
    pub fn contains(&self, kind: &GroupVersionKind) -> bool {
        let name = &*kind.kind;
        let is_served = self.served.get(&kind.group_version()).is_some_and(|definitions| {
            let names = |definition: &Arc<ResourceDefinition>| {
                *definition.kind == *name || *definition.list_kind == *name && definition.verbs.contains(Verb::List)
            };
            IN_EVERY_VERSION.contains(&name) || definitions.iter().any(names)
        });
        is_served || self.others.contains(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::widgets;

    #[test]
    fn kinds_are_known_in_the_versions_that_serve_them() {
        let others = [GroupVersion::new("extensions", "v1beta1").with_kind("Ingress")];
        let known = KnownKinds::new(&[Arc::new(widgets())], Arc::new(others.into_iter().collect()));
        let knows = |group, version, kind| known.contains(&GroupVersion::new(group, version).with_kind(kind));
        assert!(knows("example.com", "v1beta1", "Widget") && knows("example.com", "v1", "WidgetList"));
        assert!(knows("example.com", "v1", "DeleteOptions") && knows("extensions", "v1beta1", "Ingress"));
        assert!(!knows("example.com", "v2", "Widget") && !knows("example.com", "v1", "Gadget"));
        assert!(!knows("extensions", "v1beta1", "DeleteOptions"));
    }
}
