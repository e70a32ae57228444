//! Limits of the estimated costs of rules.

#[cfg(test)]
mod tests;

use trireme_machinery::field::{Error, ErrorList, Path};

/// The most that a rule or a message expression may cost (`StaticEstimatedCostLimit`).
pub(super) const RULE_COST_LIMIT: u64 = 10_000_000;
/// The most that all of a schema may cost (`StaticEstimatedCRDCostLimit`).
const SCHEMA_COST_LIMIT: u64 = 100_000_000;
/// The rules that are named when a schema costs too much.
const MAX_NAMED_RULES: usize = 4;

/// The cost of all rules of a schema.
#[derive(Debug, Default)]
pub(super) struct TotalCost {
    total: u64,
    /// Those that cost most and at least a hundredth of the limit, the dearest first.
    dearest: Vec<(String, u64)>,
}

impl TotalCost {
    /// Adds the cost of an expression.
    pub(super) fn observe(&mut self, path: &Path<'_>, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_COST_LIMIT / 100 {
            self.dearest.push((path.to_string(), cost));
            self.dearest.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.dearest.truncate(MAX_NAMED_RULES);
        }
    }

    /// Refuses a schema whose rules cost too much together.
    pub(super) fn validate(self, path: &Path<'_>, errors: &mut ErrorList) {
        if self.total <= SCHEMA_COST_LIMIT {
            return;
        }
        for (rule, _) in &self.dearest {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(Error::forbidden(&Path::new(rule), detail));
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let detail = cost_error(name, self.total, SCHEMA_COST_LIMIT);
        errors.push(Error::forbidden(path, &detail));
    }
}

/// The text of the error for a cost above a limit.
pub(super) fn cost_error(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
