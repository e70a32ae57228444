//! The rules that apply to a user.

use std::{collections::HashSet, sync::Arc};

use imbl::HashMap;
use trireme_machinery::{go_text::aggregate_errors, policy_rule::PolicyRule};
use trireme_registry::request::UserInfo;

use super::{
    compiled::{CompiledBinding, RoleRef, RoleRules},
    policy::{BindingsByKey, Grants, RbacPolicy},
};

/// The rights that a binding grants.
pub(super) enum Granted<'a> {
    /// The rules of its role.
    Rules {
        binding: &'a CompiledBinding,
        rules: &'a [PolicyRule],
    },
    /// Nothing, for there is no such role.
    NoRole(&'a RoleRef),
}

impl RbacPolicy {
    /// The rules of a role.
    pub(super) fn rules_of_role(&self, role: &RoleRef) -> Option<&RoleRules> {
        match role {
            RoleRef::Role(key) => self.roles.get(key),
            RoleRef::ClusterRole(name) => self.cluster_roles.get(name),
            RoleRef::Unknown { .. } => None,
        }
    }

    /// The grants of bindings to a user everywhere, then in a namespace, which may be none. A binding that names the user and
    /// groups of his comes more than once.
    pub(super) fn granted_to<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &'a str,
    ) -> impl Iterator<Item = Granted<'a>> {
        let everywhere = self.grants_of(user).map(|grants| &grants.cluster);
        let in_namespace = (!namespace.is_empty()).then(|| {
            self.grants_of(user)
                .filter_map(move |grants| in_namespace(&grants.namespaced, namespace))
        });
        everywhere
            .chain(in_namespace.into_iter().flatten())
            .flat_map(|bindings| bindings.values())
            .map(|binding| self.granted_by(binding))
    }

    fn granted_by<'a>(&'a self, binding: &'a CompiledBinding) -> Granted<'a> {
        match self.rules_of_role(&binding.role) {
            Some(rules) => Granted::Rules { binding, rules },
            None => Granted::NoRole(&binding.role),
        }
    }

    fn grants_of<'a>(&'a self, user: &'a UserInfo) -> impl Iterator<Item = &'a Grants> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        self.users.get(user.name.as_str()).into_iter().chain(groups)
    }

    /// All rules of a user in a namespace and beside it, and what is wrong with his bindings.
    pub(super) fn rules_of(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Option<String>) {
        let (mut rules, mut missing, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for granted in self.granted_to(user, namespace) {
            match granted {
                Granted::Rules {
                    binding,
                    rules: of_role,
                } => {
                    if seen.insert((binding.namespace.clone(), binding.key.clone())) {
                        rules.extend(of_role.iter().cloned());
                    }
                }
                Granted::NoRole(role) => missing.push(role.not_found()),
            }
        }
        (rules, aggregate_errors(&missing))
    }
}

fn in_namespace<'a>(namespaced: &'a HashMap<Arc<str>, BindingsByKey>, namespace: &str) -> Option<&'a BindingsByKey> {
    // Most subjects have none, and asking costs a hash.
    (!namespaced.is_empty()).then(|| namespaced.get(namespace)).flatten()
}
