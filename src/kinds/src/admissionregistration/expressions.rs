//! Expressions of webhooks and policies: what they may speak of, and what they must evaluate to.

use serde_json::Value;
use trireme_cel::{self as cel, AdmissionVariables, Environment, Type};
use trireme_machinery::field::{Error, ErrorList, Path};

use crate::{
    checks::push_invalid,
    values::{items, text},
};

/// Variables that the expressions of one webhook or policy may use.
#[derive(Default)]
pub(super) struct ExpressionScope {
    /// The policy has parameters.
    pub(super) params: bool,
    /// The policy's own variables so far; none if it cannot have any.
    pub(super) composed: Option<Vec<(String, Type)>>,
    /// The policy makes patches.
    pub(super) patches: bool,
}

impl ExpressionScope {
    /// For match conditions, which come before variables.
    pub(super) fn of_conditions(&self) -> Environment {
        Environment::admission(AdmissionVariables {
            params: self.params,
            authorizer: true,
            patch_types: false,
        })
    }

    /// For all others.
    pub(super) fn environment(&self, authorizer: bool) -> Environment {
        let environment = Environment::admission(AdmissionVariables {
            params: self.params,
            authorizer,
            patch_types: self.patches,
        });
        match &self.composed {
            Some(composed) => environment.with_composed(composed),
            None => environment,
        }
    }

    /// Checks a policy's variables; each may speak of those before it.
    pub(super) fn validate_variables(&mut self, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        for (index, variable) in items(spec, "variables").iter().enumerate() {
            let at = path.index(index);
            let (name, expression) = (text(variable, "name"), text(variable, "expression"));
            if name.trim().is_empty() {
                errors.push(Error::required(&at.child("name"), "name is not specified"));
            } else if !cel::is_identifier(name) {
                let error = "must be a valid CEL identifier".to_owned();
                push_invalid(&at.child("name"), name, vec![error], errors);
            }
            let at = at.child("expression");
            if expression.trim().is_empty() {
                errors.push(Error::required(&at, "expression is not specified"));
                continue;
            }
            // A compilation error is reported once, not at each use of the expression.
            let output = match cel::compile(&self.environment(true), expression) {
                Ok(output) => output,
                Err(error) => {
                    errors.push(compilation_failed(&at, expression, &error));
                    Type::Dyn
                }
            };
            self.composed.get_or_insert_default().push((name.to_owned(), output));
        }
    }
}

/// Checks an expression that must evaluate to one of these types; errors show `shown` (`validateCELCondition`).
pub(super) fn validate_cel_condition(
    environment: &Environment,
    (expression, shown): (&str, &str),
    path: &Path<'_>,
    expected: &[&str],
    errors: &mut ErrorList,
) {
    match cel::compile(environment, expression) {
        Err(error) => errors.push(compilation_failed(path, shown, &error)),
        Ok(output) => {
            let output = output.to_string();
            let wanted = match expected {
                _ if expected.contains(&output.as_str()) => return,
                [one] => (*one).to_owned(),
                several => format!("one of [{}]", several.join(" ")),
            };
            let detail = format!("must evaluate to {wanted} but got {output}");
            errors.push(Error::invalid_str(path, shown, &detail));
        }
    }
}

fn compilation_failed(path: &Path<'_>, expression: &str, error: &cel::CompileError) -> Error {
    Error::invalid_str(path, expression, &format!("compilation failed: {error}"))
}
