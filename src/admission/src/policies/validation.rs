//! Validation of a request by a `ValidatingAdmissionPolicy`
//! (`k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go`).

use serde_json::Value;
use trireme_cel::{Budget, RUNTIME_BUDGET, Value as CelValue};

use super::{
    policy::{Policy, PolicyEnvironments, PolicyRules, items, text},
    scope::{EvaluationScope, Variables},
};
use crate::{
    expression::{CompiledExpression, EvaluationFailure},
    expression_input::ExpressionInput,
};

/// The longest message that an expression may make.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
/// The longest value of an audit annotation; the rest is cut off.
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;

/// The rules of a `ValidatingAdmissionPolicy`.
pub(super) struct Validations {
    validations: Vec<Validation>,
    annotations: Vec<AuditAnnotation>,
}

struct Validation {
    expression: CompiledExpression,
    message: String,
    message_expression: Option<CompiledExpression>,
    reason: Option<String>,
}

struct AuditAnnotation {
    key: String,
    value: CompiledExpression,
}

/// A validation that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailedValidation {
    /// The validation's place in the policy.
    pub(super) index: usize,
    pub(super) message: String,
    pub(super) reason: Option<String>,
}

/// The result of an evaluation.
#[derive(Debug, Default)]
pub(super) struct Validated {
    pub(super) failed: Vec<FailedValidation>,
    /// Audit annotations that are to be published: keys and values.
    pub(super) annotations: Vec<(String, String)>,
    /// Errors of audit annotations, which refuse the request whatever the binding's actions are.
    pub(super) annotation_errors: Vec<String>,
}

impl PolicyRules for Validations {
    const PATCHES: bool = false;

    fn compile(spec: &Value, environments: &PolicyEnvironments) -> Self {
        let validation = |fields: &Value| {
            let message_expression = text(fields, "messageExpression");
            Validation {
                expression: CompiledExpression::compile(&environments.full, text(fields, "expression").trim()),
                message: text(fields, "message").trim().to_owned(),
                message_expression: (!message_expression.is_empty())
                    .then(|| CompiledExpression::compile(&environments.without_authorizer, message_expression)),
                reason: fields.get("reason").and_then(Value::as_str).map(str::to_owned),
            }
        };
        let annotation = |fields: &Value| AuditAnnotation {
            key: text(fields, "key").to_owned(),
            value: CompiledExpression::compile(&environments.full, text(fields, "valueExpression").trim()),
        };
        Self {
            validations: items(spec, "validations").iter().map(validation).collect(),
            annotations: items(spec, "auditAnnotations").iter().map(annotation).collect(),
        }
    }
}

#[cfg(test)]
impl Validations {
    pub(super) fn expression(&self, index: usize) -> &CompiledExpression {
        let validation = self.validations.get(index);
        &validation.expect("a validation").expression
    }
}

impl Policy<Validations> {
    /// Evaluates match conditions, validations and audit annotations.
    pub(super) fn validate(&self, input: &ExpressionInput<'_>, params: &Value) -> Validated {
        match self.conditions_hold(input, params) {
            Ok(true) => {}
            Ok(false) => return Validated::default(),
            Err(error) => return self.failed(error),
        }
        let scope = EvaluationScope::new(input.activation(params, self.roots.request), &self.variables);
        let variables = Variables(&scope);
        scope.bind(&variables);
        let mut validated = match self.validations(&scope) {
            Ok(validated) => validated,
            Err(error) => return self.failed(error),
        };
        if let Err(error) = self.annotate(&scope, &mut validated) {
            return self.failed(error);
        }
        validated
    }

    /// The result if nothing else can be said.
    fn failed(&self, message: String) -> Validated {
        let failed = FailedValidation {
            index: 0,
            message,
            reason: None,
        };
        Validated {
            failed: if self.fails_open { Vec::new() } else { vec![failed] },
            ..Validated::default()
        }
    }

    pub(super) fn validations<'v>(&'v self, scope: &EvaluationScope<'v>) -> Result<Validated, String> {
        let mut budget = Budget::new(RUNTIME_BUDGET);
        let mut validated = Validated::default();
        let mut refused = Vec::new();
        for (index, validation) in self.rules.validations.iter().enumerate() {
            match scope.evaluate(&validation.expression, &mut budget) {
                Ok(value) if value.as_bool() == Some(true) => {}
                Ok(_) => refused.push((index, validation)),
                Err(EvaluationFailure::OutOfBudget) => return Err(EvaluationFailure::OutOfBudget.text()),
                Err(_) if self.fails_open => {}
                Err(failure) => validated.failed.push(FailedValidation {
                    index,
                    message: failure.text(),
                    reason: None,
                }),
            }
        }
        // Messages are made of what is left once all validations are evaluated.
        for (index, validation) in refused {
            validated.failed.push(FailedValidation {
                index,
                message: validation.message(scope, &mut budget),
                reason: Some(validation.reason.clone().unwrap_or_else(|| "Invalid".to_owned())),
            });
        }
        validated.failed.sort_by_key(|failed| failed.index);
        Ok(validated)
    }

    fn annotate<'v>(&'v self, scope: &EvaluationScope<'v>, validated: &mut Validated) -> Result<(), String> {
        let mut budget = Budget::new(RUNTIME_BUDGET);
        for annotation in &self.rules.annotations {
            let error = match scope.evaluate(&annotation.value, &mut budget) {
                Ok(CelValue::Null) => continue,
                Ok(CelValue::String(value)) => {
                    let value = value.as_str().trim();
                    if !value.is_empty() {
                        let value = value
                            .get(..value.floor_char_boundary(MAX_ANNOTATION_BYTES))
                            .unwrap_or_default();
                        validated.annotations.push((annotation.key.clone(), value.to_owned()));
                    }
                    continue;
                }
                Ok(other) => format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or \
                     null.",
                    annotation.value.text(),
                    other.kind()
                ),
                Err(EvaluationFailure::OutOfBudget) => return Err(EvaluationFailure::OutOfBudget.text()),
                Err(failure) => failure.text(),
            };
            if !self.fails_open {
                validated.annotation_errors.push(error);
            }
        }
        Ok(())
    }
}

impl Validation {
    fn message<'v>(&'v self, scope: &EvaluationScope<'v>, budget: &mut Budget) -> String {
        let made = self.message_expression.as_ref().and_then(|expression| {
            let value = scope.evaluate(expression, budget).ok()?;
            let text = value.as_str()?.trim().to_owned();
            let is_fine = text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n') && !text.is_empty();
            is_fine.then_some(text)
        });
        made.or_else(|| Some(self.message.clone()).filter(|message| !message.is_empty()))
            .unwrap_or_else(|| format!("failed expression: {}", self.expression.text()))
    }
}
