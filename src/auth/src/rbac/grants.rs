//! The bindings that name one subject.

use std::sync::Arc;

use imbl::HashMap;
use trireme_registry::ItemKey;

use super::{compiled::CompiledBinding, roles::RoleNumber};

/// A role for a subject.
#[derive(Debug, Clone)]
pub(super) struct BoundRole {
    pub(super) role: RoleNumber,
    pub(super) binding: Arc<CompiledBinding>,
}

/// Grants in the order of the keys of their bindings. Side by side, since a request goes through all of a user's; a change copies
/// those of one subject if a snapshot has them.
#[derive(Debug, Clone, Default)]
pub(super) struct GrantList(Arc<Vec<BoundRole>>);

impl GrantList {
    fn find(&self, key: &ItemKey) -> Result<usize, usize> {
        self.0.binary_search_by(|grant| grant.binding.key.cmp(key))
    }

    fn insert(&mut self, grant: BoundRole) {
        // A binding may name a subject more than once.
        if let Err(place) = self.find(&grant.binding.key) {
            Arc::make_mut(&mut self.0).insert(place, grant);
        }
    }

    fn remove(&mut self, key: &ItemKey) {
        if let Ok(place) = self.find(key) {
            Arc::make_mut(&mut self.0).remove(place);
        }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, BoundRole> {
        self.0.iter()
    }
}

/// The bindings that name one subject.
#[derive(Debug, Clone, Default)]
pub(super) struct Grants {
    /// ClusterRoleBindings.
    pub(super) cluster: GrantList,
    /// RoleBindings by namespace.
    namespaced: HashMap<Arc<str>, GrantList>,
}

impl Grants {
    pub(super) fn add(&mut self, grant: BoundRole) {
        let list = match &*grant.binding.namespace {
            "" => &mut self.cluster,
            _ => self.namespaced.entry(grant.binding.namespace.clone()).or_default(),
        };
        list.insert(grant);
    }

    pub(super) fn remove(&mut self, binding: &CompiledBinding) {
        if binding.namespace.is_empty() {
            self.cluster.remove(&binding.key);
        } else if let Some(list) = self.namespaced.get_mut(&binding.namespace) {
            list.remove(&binding.key);
            if list.0.is_empty() {
                self.namespaced.remove(&binding.namespace);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cluster.0.is_empty() && self.namespaced.is_empty()
    }

    /// Reports whether there are RoleBindings.
    pub(super) fn has_namespaced(&self) -> bool {
        !self.namespaced.is_empty()
    }

    /// The RoleBindings in a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Option<&GrantList> {
        self.namespaced.get(namespace)
    }
}
