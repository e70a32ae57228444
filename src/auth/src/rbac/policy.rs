//! All roles and bindings of a moment, indexed by those whom bindings name.

use std::{collections::HashMap as StdHashMap, sync::Arc};

use imbl::HashMap;
use serde_json::Value;
use trireme_machinery::policy_rule::PolicyRule;
use trireme_registry::{Fold, Item, ItemKey};

use super::{
    compiled::{CompiledBinding, RoleRef, SubjectKey},
    grants::{BoundRole, Grants},
    roles::{CompiledRole, RoleNumber, RoleTable},
};

/// The sources of the view, in the order of its numbers.
pub(super) const SOURCES: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
const CLUSTER_ROLES: usize = 0;
const ROLES: usize = 2;

/// Roles and bindings. Persistent: a clone costs nothing, and a change touches the subjects of one binding or one role.
#[derive(Debug, Clone, Default)]
pub(super) struct RbacPolicy {
    cluster_roles: HashMap<ItemKey, CompiledRole>,
    roles: HashMap<ItemKey, CompiledRole>,
    /// Those of both that bindings are of.
    pub(super) table: RoleTable,
    pub(super) users: HashMap<Arc<str>, Grants>,
    pub(super) groups: HashMap<Arc<str>, Grants>,
}

impl RbacPolicy {
    /// Reports whether there is no grant: the store is fresh, or has not been loaded yet.
    pub(super) fn has_no_bindings(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// The rules of a ClusterRole.
    pub(super) fn cluster_role(&self, name: &str) -> Option<&[PolicyRule]> {
        self.cluster_roles.get(name).map(|role| &*role.rules)
    }

    /// The rules of a Role.
    pub(super) fn role(&self, namespace: &str, name: &str) -> Option<&[PolicyRule]> {
        self.roles
            .get(format!("{namespace}/{name}").as_str())
            .map(|role| &*role.rules)
    }

    fn compiled_role(&self, role: &RoleRef) -> Option<&CompiledRole> {
        match role {
            RoleRef::Role(key) => self.roles.get(key),
            RoleRef::ClusterRole(name) => self.cluster_roles.get(name),
            RoleRef::Unknown { .. } => None,
        }
    }

    fn index_mut(&mut self, subject: &SubjectKey) -> (&mut HashMap<Arc<str>, Grants>, Arc<str>) {
        match subject {
            SubjectKey::User(name) => (&mut self.users, name.clone()),
            SubjectKey::Group(name) => (&mut self.groups, name.clone()),
        }
    }

    fn add(&mut self, role: RoleNumber, binding: &Arc<CompiledBinding>) {
        for subject in &binding.subjects {
            let (index, name) = self.index_mut(&subject.key);
            let binding = Arc::clone(binding);
            index.entry(name).or_default().add(BoundRole { role, binding });
        }
    }

    fn forget(&mut self, binding: &CompiledBinding) {
        for subject in &binding.subjects {
            let (index, name) = self.index_mut(&subject.key);
            let Some(grants) = index.get_mut(&name) else { continue };
            grants.remove(binding);
            if grants.is_empty() {
                index.remove(&name);
            }
        }
    }
}

/// The numbers of the roles that bindings are of.
#[derive(Default)]
struct RoleNumbers {
    /// With the number of bindings.
    used: StdHashMap<RoleRef, (RoleNumber, usize)>,
    /// Below the end, and not in use.
    free: Vec<RoleNumber>,
    end: usize,
}

impl RoleNumbers {
    fn of(&self, role: &RoleRef) -> Option<RoleNumber> {
        self.used.get(role).map(|(number, _)| *number)
    }

    /// The number of a role that one more binding is of.
    fn take(&mut self, role: &RoleRef) -> RoleNumber {
        if let Some((number, bindings)) = self.used.get_mut(role) {
            *bindings += 1;
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            RoleNumber(self.end - 1)
        });
        self.used.insert(role.clone(), (number, 1));
        number
    }

    /// One binding less is of a role; its number, if that was the last one.
    fn give_back(&mut self, role: &RoleRef) -> Option<RoleNumber> {
        let (number, bindings) = self.used.get_mut(role)?;
        *bindings -= 1;
        if *bindings > 0 {
            return None;
        }
        let number = *number;
        self.used.remove(role);
        self.free.push(number);
        Some(number)
    }
}

/// Takes in roles and bindings one at a time.
#[derive(Default)]
pub(super) struct PolicyFold {
    policy: RbacPolicy,
    /// The bindings that are in the index, by source and key.
    bindings: StdHashMap<(usize, ItemKey), Arc<CompiledBinding>>,
    numbers: RoleNumbers,
}

impl PolicyFold {
    pub(super) fn put_object(&mut self, source: usize, key: &ItemKey, object: &Value) {
        match source {
            CLUSTER_ROLES | ROLES => {
                let role = CompiledRole::new(PolicyRule::all_of(object));
                self.set_role(source, key, Some(role));
            }
            _ => {
                let binding = Arc::new(CompiledBinding::compile(key, object));
                self.remove(source, key);
                let number = self.numbers.take(&binding.role);
                let role = self.policy.compiled_role(&binding.role).cloned();
                self.policy.table.set(number, role);
                self.policy.add(number, &binding);
                self.bindings.insert((source, key.clone()), binding);
            }
        }
    }

    fn set_role(&mut self, source: usize, key: &ItemKey, role: Option<CompiledRole>) {
        let (roles, named) = match source {
            CLUSTER_ROLES => (&mut self.policy.cluster_roles, RoleRef::ClusterRole(key.clone())),
            _ => (&mut self.policy.roles, RoleRef::Role(key.clone())),
        };
        match &role {
            Some(role) => roles.insert(key.clone(), role.clone()),
            None => roles.remove(key),
        };
        if let Some(number) = self.numbers.of(&named) {
            self.policy.table.set(number, role);
        }
    }
}

#[cfg(test)]
impl PolicyFold {
    /// The number of roles that have a number.
    pub(super) fn numbers_in_use(&self) -> usize {
        self.numbers.end - self.numbers.free.len()
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
            CLUSTER_ROLES | ROLES => self.set_role(source, key, None),
            _ => {
                if let Some(binding) = self.bindings.remove(&(source, key.clone())) {
                    self.policy.forget(&binding);
                    if let Some(number) = self.numbers.give_back(&binding.role) {
                        self.policy.table.set(number, None);
                    }
                }
            }
        }
    }

    fn value(&self) -> RbacPolicy {
        self.policy.clone()
    }
}
