//! Match conditions, which are the same for both kinds of policies
//! (`k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions`).

use serde_json::Value;
use trireme_cel::{Budget, MATCH_CONDITIONS_BUDGET};

use super::{
    input::PolicyInput,
    policy::Policy,
    scope::{EvaluationFailure, EvaluationScope},
};

impl<R> Policy<R> {
    /// Reports whether all match conditions hold; one that is false decides, whatever errors others have.
    ///
    /// # Errors
    /// The texts of their errors, if they count.
    pub(super) fn conditions_hold(&self, input: &PolicyInput<'_>, params: &Value) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let activation = input.activation_of_conditions(params, self.roots.request);
        let null = Value::Null;
        let scope = EvaluationScope::new(activation.with_json("namespaceObject", &null), &[]);
        let mut budget = Budget::new(MATCH_CONDITIONS_BUDGET);
        let mut errors = Vec::new();
        for condition in &self.conditions {
            match scope.evaluate(&condition.expression, &mut budget) {
                Ok(value) if value.as_bool() == Some(false) => return Ok(false),
                Ok(_) => {}
                Err(EvaluationFailure::OutOfBudget) => {
                    return Err(EvaluationFailure::OutOfBudget.text());
                }
                Err(failure) => errors.push(failure.text()),
            }
        }
        match (errors.as_slice(), self.fails_open) {
            ([], _) => Ok(true),
            (_, true) => Ok(false),
            ([one], false) => Err(one.clone()),
            (several, false) => Err(format!("[{}]", several.join(", "))),
        }
    }
}
