//! Which resource a key is of.

use std::{borrow::Cow, collections::HashMap};

use super::config::ResourceName;

/// The resources whose objects are kept under a root. Custom resources are known by the form of their keys,
/// `ROOT/GROUP/PLURAL/…`, where the group has a dot.
#[derive(Debug, Clone)]
pub struct KeyResources {
    root: String,
    by_prefix: HashMap<String, ResourceName>,
}

impl KeyResources {
    /// The root, such as `/registry`, and what stands below it, such as `services/specs`, with its resource.
    pub fn new(root: &str, prefixes: impl IntoIterator<Item = (String, ResourceName)>) -> Self {
        Self {
            root: format!("{root}/"),
            by_prefix: prefixes.into_iter().collect(),
        }
    }

    /// The resource of a key; `None` if it is no object's.
    pub(super) fn of(&self, key: &str) -> Option<Cow<'_, ResourceName>> {
        let below = key.strip_prefix(&self.root)?;
        let mut rest = below;
        while let Some((shorter, _)) = rest.rsplit_once('/') {
            if let Some(resource) = self.by_prefix.get(shorter) {
                return Some(Cow::Borrowed(resource));
            }
            rest = shorter;
        }
        let (group, rest) = below.split_once('/')?;
        let (resource, _) = rest.split_once('/')?;
        group.contains('.').then(|| {
            Cow::Owned(ResourceName {
                resource: resource.to_owned(),
                group: group.to_owned(),
            })
        })
    }
}
