//! One write against the quotas of its namespace (`CheckRequest`). Pure.

use std::collections::BTreeSet;

use trireme_machinery::{
    ApiError, GroupResource,
    pod_resources::{ResourceList, add},
    quantity::Quantity,
};

use super::{
    evaluators::{Evaluator, Measure},
    limited::RequiredCoverage,
    quota::QuotaState,
};

/// A write that is to be charged.
#[derive(Debug, Clone)]
pub(super) struct Charge {
    pub(super) evaluator: Evaluator,
    pub(super) resource: GroupResource,
    /// The name that a refusal gives.
    pub(super) name: String,
    pub(super) new: Measure,
    /// The coverage that it requires.
    pub(super) limited: RequiredCoverage,
    /// The object before, if there was one.
    pub(super) old: Option<Measure>,
    /// A part that is written by who runs the object: it counts, but is not refused.
    pub(super) is_status: bool,
    /// It is checked and counts for nothing.
    pub(super) dry_run: bool,
}

impl Charge {
    /// The use of each quota after the write, by their indexes; only those that change.
    ///
    /// # Errors
    /// Forbidden if one of them does not suffice, or its use is unknown.
    pub(super) fn against<'q>(
        &self,
        quotas: impl IntoIterator<Item = &'q QuotaState>,
    ) -> Result<Vec<(usize, ResourceList)>, ApiError> {
        let mut interesting = Vec::new();
        let (mut covered, mut scopes) = (BTreeSet::new(), BTreeSet::new());
        for (index, quota) in quotas.into_iter().enumerate() {
            let matching = quota.scopes.iter().filter(|scope| self.new.scopes.are_in(scope));
            scopes.extend(matching.map(|scope| scope.scope.as_str()));
            let limits = self.limits_of(quota, &self.new);
            covered.extend(limits.iter().copied());
            if limits.is_empty() {
                continue;
            }
            self.check_stated(quota, &limits)?;
            if limits.iter().any(|name| !quota.used.contains_key(*name)) {
                let limits = limits.join(",");
                let why = format!("status unknown for quota: {}, resources: {limits}", quota.name);
                return Err(self.forbidden(why));
            }
            interesting.push((index, quota));
        }
        let negative: Vec<&str> = self
            .new
            .usage
            .iter()
            .filter(|(_, amount)| amount.signum() < 0)
            .map(|(name, _)| name.as_str())
            .collect();
        if !negative.is_empty() {
            let why = format!("quota usage is negative for resource(s): {}", negative.join(","));
            return Err(self.forbidden(why));
        }
        // kube-apiserver answers 500 to what no scope covers.
        if let Some(why) = self.limited.uncovered(&covered, &scopes).filter(|_| self.uses_more()) {
            return Err(self.forbidden(why));
        }
        let mut changes = Vec::new();
        for (index, quota) in interesting {
            let requested = self.requested_of(quota);
            if requested.is_empty() {
                continue;
            }
            let mut used = quota.used.clone();
            add(&mut used, &requested);
            if !self.is_status {
                self.check_hard(quota, &requested, &used)?;
            }
            changes.push((index, used));
        }
        Ok(changes)
    }

    /// Reports whether the write uses more than what was there before.
    fn uses_more(&self) -> bool {
        let before = |name: &str| self.old.as_ref().and_then(|old| old.usage.get(name)).copied();
        let mut usage = self.new.usage.iter();
        usage.any(|(name, amount)| before(name).map_or(*amount, |had| *amount - had).signum() > 0)
    }

    /// The limits of a quota that concern an object; none if it is not in the quota's scopes.
    fn limits_of<'q>(&self, quota: &'q QuotaState, measure: &Measure) -> Vec<&'q str> {
        if !quota.scopes.iter().all(|selector| measure.scopes.are_in(selector)) {
            return Vec::new();
        }
        let names = quota.hard.keys().map(String::as_str);
        names
            .filter(|name| self.evaluator.matches_resource(name, measure))
            .collect()
    }

    /// Containers have to state what is limited.
    fn check_stated(&self, quota: &QuotaState, limits: &[&str]) -> Result<(), ApiError> {
        let unstated = self.new.unstated.iter().filter(|(name, _)| limits.contains(name));
        let unstated: Vec<String> = unstated
            .map(|(name, containers)| format!("{name} for: {}", containers.join(",")))
            .collect();
        if unstated.is_empty() {
            return Ok(());
        }
        let why = format!("failed quota: {}: must specify {}", quota.name, unstated.join("; "));
        Err(self.forbidden(why))
    }

    /// The amounts of a quota that the write requests beyond what the object had before.
    fn requested_of(&self, quota: &QuotaState) -> ResourceList {
        let before = self.old.as_ref().filter(|old| !self.limits_of(quota, old).is_empty());
        let limited = self.new.usage.iter().filter(|(name, _)| quota.hard.contains_key(*name));
        limited
            .map(|(name, amount)| {
                let had = before.and_then(|old| old.usage.get(name)).copied();
                (name.clone(), had.map_or(*amount, |had| *amount - had))
            })
            .filter(|(_, amount)| amount.signum() > 0)
            .collect()
    }

    fn check_hard(&self, quota: &QuotaState, requested: &ResourceList, used: &ResourceList) -> Result<(), ApiError> {
        let exceeds = |name: &str| used.get(name) > quota.hard.get(name);
        let exceeded: Vec<&str> = requested
            .keys()
            .map(String::as_str)
            .filter(|name| exceeds(name))
            .collect();
        if exceeded.is_empty() {
            return Ok(());
        }
        let shown = |list: &ResourceList| {
            let amount = |name: &str| list.get(name).copied().unwrap_or(Quantity::ZERO);
            let shown: Vec<String> = exceeded.iter().map(|name| format!("{name}={}", amount(name))).collect();
            shown.join(",")
        };
        let why = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name,
            shown(requested),
            shown(&quota.used),
            shown(&quota.hard),
        );
        Err(self.forbidden(why))
    }

    fn forbidden(&self, why: String) -> ApiError {
        ApiError::forbidden(&self.resource, &self.name, why)
    }
}
