//! Validation rules in CEL (`x-kubernetes-validations`): compiled once, evaluated for each write under one budget.
//!
//! A rule that speaks of `oldSelf` is a transition rule: it is evaluated where there is an old value to compare with. A rule
//! that does not gives a warning only if it is broken by what an update leaves as it was.

mod environments;
mod meters;
mod shapes;
#[cfg(test)]
mod tests;

use serde_json::Value;
use trireme_cel::{Activation, Budget, EvalError, Program, RUNTIME_BUDGET, Value as CelValue};
use trireme_machinery::{
    field::{Error, ErrorList, ErrorType, Path, shown},
    go_text::quote,
    schema::ListType,
};

use self::{environments::compile_rules, shapes::is_visible};
pub(crate) use self::{
    environments::{RuleFindings, examine_rules},
    meters::RuleMeters,
};
use crate::structural::{
    Additional, JsonType, RuleText, Structural,
    correlation::{Ratchet, old_item},
};

/// The rules of a schema and of all parts of it.
pub(crate) struct CompiledRules {
    own: Vec<CompiledRule>,
    json_type: &'static str,
    properties: Vec<(Box<str>, CompiledRules)>,
    additional: Option<Box<CompiledRules>>,
    items: Option<Box<CompiledRules>>,
    list_type: Option<ListType>,
}

struct CompiledRule {
    text: RuleText,
    /// The program, or why there is none.
    program: Result<Program, String>,
    message: Option<Program>,
    uses_old_self: bool,
}

impl CompiledRules {
    /// Compiles the rules of a schema, which is that of whole objects or of a value in one; `None` if it has none.
    pub(crate) fn compile(schema: &Structural, is_resource: bool) -> Option<Self> {
        schema.has_rules().then(|| Self::of(schema, is_resource)).flatten()
    }

    fn of(schema: &Structural, is_root: bool) -> Option<Self> {
        // Rules do not see values of unknown types, nor what is in them.
        let of = |schema: &Structural| Self::of(schema, schema.embedded).filter(|_| is_visible(schema));
        let properties = schema.properties.iter();
        let properties: Vec<(Box<str>, Self)> = properties
            .filter_map(|(name, schema)| Some((name.clone(), of(schema)?)))
            .collect();
        let rules = Self {
            own: compile_rules(schema, is_root),
            json_type: schema.json_type.map_or("", JsonType::name),
            properties,
            additional: match &schema.additional {
                Additional::Schema(schema) => of(schema).map(Box::new),
                Additional::Unsaid | Additional::Anything | Additional::Nothing => None,
            },
            items: schema.items.as_deref().and_then(of).map(Box::new),
            list_type: schema.list_type.clone(),
        };
        let is_empty =
            rules.own.is_empty() && rules.properties.is_empty() && rules.additional.is_none() && rules.items.is_none();
        (!is_empty).then_some(rules)
    }

    /// Holds a value against the rules; `old` is what it replaces. Gives back warnings of rules that are broken by what has not
    /// changed.
    pub(crate) fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        errors: &mut ErrorList,
    ) -> Vec<String> {
        let mut run = RuleRun {
            budget: Budget::new(RUNTIME_BUDGET),
            errors,
            warnings: Vec::new(),
        };
        let root = RuledValue { new, old, ratchet };
        // What ends the evaluation of all rules has been noted.
        let _ = self.check(root, &Path::root(), &mut run);
        run.warnings
    }

    /// Returns an error when no further rules are to be evaluated.
    fn check(&self, value: RuledValue<'_>, path: &Path<'_>, run: &mut RuleRun<'_>) -> Result<(), OutOfBudget> {
        if value.new.is_null() {
            return Ok(());
        }
        let value = RuledValue {
            old: value.old.filter(|old| !old.is_null()),
            ..value
        };
        for rule in &self.own {
            self.check_rule(rule, value, path, run)?;
        }
        match value.new {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let part = RuledValue {
                        new: field,
                        old: value.old.and_then(|old| old.get(name)),
                        ratchet: value.ratchet.key(name),
                    };
                    let at = self.properties.binary_search_by(|(known, _)| (**known).cmp(name));
                    if let Some((_, rules)) = at.ok().and_then(|at| self.properties.get(at)) {
                        rules.check(part, &path.child(name), run)?;
                    } else if let Some(rules) = &self.additional {
                        rules.check(part, &path.key(name), run)?;
                    }
                }
            }
            Value::Array(items) => {
                let Some(rules) = &self.items else { return Ok(()) };
                for (index, item) in items.iter().enumerate() {
                    let part = RuledValue {
                        new: item,
                        old: old_item(item, value.old, self.list_type.as_ref()),
                        ratchet: value.ratchet.item(index),
                    };
                    rules.check(part, &path.index(index), run)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check_rule(
        &self,
        rule: &CompiledRule,
        value: RuledValue<'_>,
        path: &Path<'_>,
        run: &mut RuleRun<'_>,
    ) -> Result<(), OutOfBudget> {
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => {
                run.errors
                    .push(self.invalid(path, "", &format!("rule compile error: {why}")));
                return Ok(());
            }
        };
        if rule.uses_old_self && value.old.is_none() && !rule.text.optional_old_self {
            return Ok(());
        }
        let activation = rule.activation(value, rule.text.optional_old_self);
        match program.evaluate(&activation, &mut run.budget).result {
            Ok(CelValue::Bool(true)) => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                let is_last = matches!(error, EvalError::BudgetExhausted | EvalError::CostLimitExceeded);
                run.errors.push(self.invalid(path, "", &rule.failure(&error)));
                return if is_last { Err(OutOfBudget) } else { Ok(()) };
            }
        }
        let (error, outcome) = match rule.detail(value, &mut run.budget) {
            Ok(detail) => (self.broken(rule, value.new, path, &detail), Ok(())),
            Err(why) => (self.invalid(path, &rule.text.field_path, &why), Err(OutOfBudget)),
        };
        if !rule.uses_old_self && value.ratchet.holds() {
            run.warnings.push(error.to_string());
        } else {
            run.errors.push(error);
        }
        outcome
    }

    /// The error of a rule that cannot be evaluated.
    fn invalid(&self, path: &Path<'_>, below: &str, detail: &str) -> Error {
        let body = format!("Invalid value: \"{}\": {detail}", self.json_type);
        error_at(ErrorType::Invalid, path, below, body)
    }

    fn broken(&self, rule: &CompiledRule, value: &Value, path: &Path<'_>, detail: &str) -> Error {
        let below = &rule.text.field_path;
        let (kind, body) = match rule.text.reason.as_str() {
            "FieldValueForbidden" => (ErrorType::Forbidden, format!("Forbidden: {detail}")),
            "FieldValueRequired" => (ErrorType::Required, format!("Required value: {detail}")),
            "FieldValueDuplicate" => (ErrorType::Duplicate, format!("Duplicate value: {}", shown(value))),
            _ if matches!(self.json_type, "object" | "array") => {
                (ErrorType::Invalid, format!("Invalid value: {detail}"))
            }
            _ => (ErrorType::Invalid, format!("Invalid value: {}: {detail}", shown(value))),
        };
        error_at(kind, path, below, body)
    }
}

/// A value that rules are evaluated on, and what it replaces.
#[derive(Clone, Copy)]
struct RuledValue<'v> {
    new: &'v Value,
    old: Option<&'v Value>,
    ratchet: Ratchet<'v>,
}

/// The evaluation of all rules on an object.
struct RuleRun<'e> {
    budget: Budget,
    errors: &'e mut ErrorList,
    warnings: Vec<String>,
}

/// No budget is left for further rules.
struct OutOfBudget;

fn error_at(kind: ErrorType, path: &Path<'_>, below: &str, body: String) -> Error {
    let at = path.to_string();
    let field = match (at.as_str(), below.trim_start_matches('.')) {
        ("", "") => "<nil>".to_owned(),
        ("", below) => below.to_owned(),
        (at, "") => at.to_owned(),
        (at, below) => format!("{at}.{below}"),
    };
    Error { kind, field, body }
}

impl CompiledRule {
    fn activation<'v>(&self, value: RuledValue<'v>, optional: bool) -> Activation<'v> {
        let activation = Activation::new().with_json("self", value.new);
        if optional {
            return activation.with_optional_json("oldSelf", value.old);
        }
        match value.old {
            Some(old) => activation.with_json("oldSelf", old),
            None => activation,
        }
    }

    /// The rule as errors name it.
    fn shown(&self) -> &str {
        match self.text.message.trim() {
            "" => self.text.rule.trim(),
            message => message,
        }
    }

    fn failure(&self, error: &EvalError) -> String {
        let text = self.shown();
        match error {
            EvalError::BudgetExhausted => error.to_string(),
            EvalError::CostLimitExceeded => format!(
                "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {text}"
            ),
            error if error.to_string().starts_with("no such overload") => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for rule: \
                 {text}"
            ),
            error => format!("{error} evaluating rule: {text}"),
        }
    }

    /// The detail of the error of a broken rule.
    ///
    /// # Errors
    /// The detail of an error after which no further rules are evaluated.
    fn detail(&self, value: RuledValue<'_>, budget: &mut Budget) -> Result<String, String> {
        let usual = || match self.text.message.trim() {
            "" => format!("failed rule: {}", self.text.rule.trim()),
            message => message.to_owned(),
        };
        let Some(message) = &self.message else {
            return Ok(usual());
        };
        // As at kube-apiserver, the old value is no optional one to a message, whatever it is to the rule.
        let made = match message.evaluate(&self.activation(value, false), budget).result {
            Err(EvalError::BudgetExhausted) => {
                let text = "messageExpression evaluation failed due to running out of cost budget, no further validation \
                            rules will be run";
                return Err(text.to_owned());
            }
            Err(EvalError::CostLimitExceeded) => {
                return Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                    quote(&self.text.message_expression)
                ));
            }
            made => made.ok(),
        };
        let made = made.as_ref().and_then(CelValue::as_str).map(str::trim);
        let is_usable = |text: &&str| !text.is_empty() && !text.contains(['\n', '\r']) && text.len() <= 5 * 1024;
        Ok(made.filter(is_usable).map_or_else(usual, str::to_owned))
    }
}
