//! The rules that apply to a user.

use std::{collections::HashSet, ops::ControlFlow};

use trireme_machinery::{go_text::aggregate_errors, policy_rule::PolicyRule};
use trireme_registry::request::UserInfo;

use super::{
    grants::{BoundRole, Grants},
    policy::RbacPolicy,
};

impl RbacPolicy {
    /// Goes through the grants of a user everywhere, then in a namespace, which may be none, until `visit` breaks. A binding that
    /// names the user and groups of his comes more than once.
    pub(super) fn visit<'a, B>(
        &'a self,
        user: &UserInfo,
        namespace: &str,
        mut visit: impl FnMut(&'a BoundRole) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut with_namespaces = Vec::new();
        for grants in self.grants_of(user) {
            grants.cluster.iter().try_for_each(&mut visit)?;
            if !namespace.is_empty() && grants.has_namespaced() {
                with_namespaces.push(grants);
            }
        }
        with_namespaces
            .into_iter()
            .filter_map(|grants| grants.in_namespace(namespace))
            .try_for_each(|list| list.iter().try_for_each(&mut visit))
    }

    fn grants_of<'a>(&'a self, user: &UserInfo) -> impl Iterator<Item = &'a Grants> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        self.users.get(user.name.as_str()).into_iter().chain(groups)
    }

    /// All rules of a user in a namespace and beside it, and what is wrong with his bindings.
    pub(super) fn rules_of(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Option<String>) {
        let (mut rules, mut missing, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        let _: ControlFlow<()> = self.visit(user, namespace, |grant| {
            match self.table.role(grant.role) {
                None => missing.push(grant.binding.role.not_found()),
                Some(role) => {
                    if seen.insert((&grant.binding.namespace, &grant.binding.key)) {
                        rules.extend(role.rules.iter().cloned());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        (rules, aggregate_errors(&missing))
    }
}
