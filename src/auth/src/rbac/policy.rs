//! All roles and bindings of a moment, indexed by those whom bindings name.

use std::{collections::HashMap as StdHashMap, sync::Arc};

use imbl::{HashMap, OrdMap};
use serde_json::Value;
use trireme_machinery::policy_rule::PolicyRule;
use trireme_registry::{Fold, Item, ItemKey};

use super::compiled::{CompiledBinding, RoleRules, SubjectKey};

/// The sources of the view, in the order of its numbers.
pub(super) const SOURCES: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
const CLUSTER_ROLES: usize = 0;
const ROLES: usize = 2;

/// BindingsByKey in the order of their keys.
pub(super) type BindingsByKey = OrdMap<ItemKey, Arc<CompiledBinding>>;

/// The bindings that name one subject.
#[derive(Debug, Clone, Default)]
pub(super) struct Grants {
    /// ClusterRoleBindings.
    pub(super) cluster: BindingsByKey,
    /// RoleBindings by namespace.
    pub(super) namespaced: HashMap<Arc<str>, BindingsByKey>,
}

/// Roles and bindings. Persistent: a clone costs nothing, and a change touches the subjects of one binding.
#[derive(Debug, Clone, Default)]
pub(super) struct RbacPolicy {
    pub(super) cluster_roles: HashMap<ItemKey, RoleRules>,
    pub(super) roles: HashMap<ItemKey, RoleRules>,
    pub(super) users: HashMap<Arc<str>, Grants>,
    pub(super) groups: HashMap<Arc<str>, Grants>,
}

impl RbacPolicy {
    /// Reports whether there is no grant: the store is fresh, or has not been loaded yet.
    pub(super) fn has_no_bindings(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    fn index_mut(&mut self, subject: &SubjectKey) -> (&mut HashMap<Arc<str>, Grants>, Arc<str>) {
        match subject {
            SubjectKey::User(name) => (&mut self.users, name.clone()),
            SubjectKey::Group(name) => (&mut self.groups, name.clone()),
        }
    }

    fn add(&mut self, binding: &Arc<CompiledBinding>) {
        for subject in &binding.subjects {
            let (index, name) = self.index_mut(&subject.key);
            let grants = index.entry(name).or_default();
            let bindings = match &*binding.namespace {
                "" => &mut grants.cluster,
                _ => grants.namespaced.entry(binding.namespace.clone()).or_default(),
            };
            bindings.insert(binding.key.clone(), binding.clone());
        }
    }

    fn forget(&mut self, binding: &CompiledBinding) {
        for subject in &binding.subjects {
            let (index, name) = self.index_mut(&subject.key);
            let Some(grants) = index.get_mut(&name) else { continue };
            if binding.namespace.is_empty() {
                grants.cluster.remove(&binding.key);
            } else if let Some(bindings) = grants.namespaced.get_mut(&binding.namespace) {
                bindings.remove(&binding.key);
                if bindings.is_empty() {
                    grants.namespaced.remove(&binding.namespace);
                }
            }
            if grants.cluster.is_empty() && grants.namespaced.is_empty() {
                index.remove(&name);
            }
        }
    }
}

/// Takes in roles and bindings one at a time.
#[derive(Default)]
pub(super) struct PolicyFold {
    policy: RbacPolicy,
    /// The bindings that are in the index, by source and key.
    bindings: StdHashMap<(usize, ItemKey), Arc<CompiledBinding>>,
}

impl PolicyFold {
    pub(super) fn put_object(&mut self, source: usize, key: &ItemKey, object: &Value) {
        match source {
            CLUSTER_ROLES => {
                let rules = PolicyRule::all_of(object).into();
                self.policy.cluster_roles.insert(key.clone(), rules);
            }
            ROLES => {
                let rules = PolicyRule::all_of(object).into();
                self.policy.roles.insert(key.clone(), rules);
            }
            _ => {
                let binding = Arc::new(CompiledBinding::compile(key, object));
                self.remove(source, key);
                self.policy.add(&binding);
                self.bindings.insert((source, key.clone()), binding);
            }
        }
    }
}

impl Fold for PolicyFold {
    type Value = RbacPolicy;

    fn put(&mut self, source: usize, item: &Arc<Item>) {
        // One that cannot be read grants nothing.
        let object = serde_json::from_slice(&item.bytes).unwrap_or_default();
        self.put_object(source, &item.key, &object);
    }

    fn remove(&mut self, source: usize, key: &ItemKey) {
        match source {
            CLUSTER_ROLES => {
                self.policy.cluster_roles.remove(key);
            }
            ROLES => {
                self.policy.roles.remove(key);
            }
            _ => {
                if let Some(binding) = self.bindings.remove(&(source, key.clone())) {
                    self.policy.forget(&binding);
                }
            }
        }
    }

    fn value(&self) -> RbacPolicy {
        self.policy.clone()
    }
}
