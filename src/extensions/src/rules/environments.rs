//! The compilation of the rules of a schema.

use std::sync::Arc;

use trireme_cel::{CompileError, Environment, Program, Type};
use trireme_machinery::schema::TypeTable;

use super::{CompiledRule, shapes::shape_of};
use crate::structural::{RuleText, Structural, bounds::SchemaSizes};

/// The environments that the rules of one schema are compiled in.
struct Environments {
    alone: Arc<Environment>,
    with_old: Arc<Environment>,
    with_optional_old: Arc<Environment>,
}

impl Environments {
    /// Those of values that rules can see.
    fn of(schema: &Structural, is_root: bool) -> Option<Self> {
        let mut table = TypeTable::default();
        let shape = shape_of(schema, is_root, "object", &mut table)?;
        let alone = || Environment::default().with_shape("self", &table, &shape, false);
        Some(Self {
            alone: Arc::new(alone()),
            with_old: Arc::new(alone().with_shape("oldSelf", &table, &shape, false)),
            with_optional_old: Arc::new(alone().with_shape("oldSelf", &table, &shape, true)),
        })
    }

    /// Compiles an expression; the second value tells that it speaks of `oldSelf`.
    fn compile(&self, text: &str, optional: bool) -> (Result<Program, String>, bool) {
        self.compile_by(optional, |environment| Program::new(environment, text))
    }

    /// The type of an expression and the most that it costs; the second value is that of [`Self::compile`].
    fn examine(&self, text: &str, optional: bool, sizes: &SchemaSizes<'_>) -> (Result<(Type, u64), String>, bool) {
        self.compile_by(optional, |environment| {
            let (program, cost) = Program::with_estimate(environment, text, sizes)?;
            Ok((program.output().clone(), cost.max))
        })
    }

    fn compile_by<T>(
        &self,
        optional: bool,
        compile: impl Fn(Arc<Environment>) -> Result<T, CompileError>,
    ) -> (Result<T, String>, bool) {
        if let Ok(compiled) = compile(self.alone.clone()) {
            return (Ok(compiled), false);
        }
        let with_old = if optional {
            &self.with_optional_old
        } else {
            &self.with_old
        };
        match compile(with_old.clone()) {
            Ok(compiled) => (Ok(compiled), true),
            Err(error) => (Err(format!("compilation failed: {error}")), false),
        }
    }
}

pub(super) fn compile_rules(schema: &Structural, is_root: bool) -> Vec<CompiledRule> {
    if schema.rules.is_empty() {
        return Vec::new();
    }
    let Some(environments) = Environments::of(schema, is_root) else {
        return Vec::new();
    };
    let compile = |text: &RuleText| {
        let (program, uses_old_self) = environments.compile(&text.rule, text.optional_old_self);
        let message = Some(text.message_expression.trim()).filter(|text| !text.is_empty());
        let message = message.and_then(|message| environments.compile(message, text.optional_old_self).0.ok());
        CompiledRule {
            text: text.clone(),
            program,
            message,
            uses_old_self,
        }
    };
    schema.rules.iter().map(compile).collect()
}

/// The findings about a rule when its definition is validated.
#[derive(Debug)]
pub(crate) struct RuleFindings {
    /// The most that an evaluation of the rule costs, or why it does not compile.
    pub(crate) rule: Result<u64, String>,
    /// The same of its message expression; none if it has none, or if the rule does not compile.
    pub(crate) message: Option<Result<u64, String>>,
    pub(crate) uses_old_self: bool,
}

/// Compiles the rules that a schema has itself; `None` if rules cannot see its values.
pub(crate) fn examine_rules(schema: &Structural, is_root: bool) -> Option<Vec<RuleFindings>> {
    if schema.rules.is_empty() {
        return Some(Vec::new());
    }
    let environments = Environments::of(schema, is_root)?;
    let sizes = SchemaSizes::of(schema, is_root);
    let examine = |text: &RuleText| {
        let (program, uses_old_self) = environments.examine(&text.rule, text.optional_old_self, &sizes);
        let rule = match program {
            Ok((output, _)) if !output.is_bool_or_unknown() => Err("cel expression must evaluate to a bool".to_owned()),
            Ok((_, cost)) => Ok(cost),
            Err(why) => Err(why),
        };
        let message = Some(text.message_expression.trim()).filter(|text| !text.is_empty() && rule.is_ok());
        let message = message.map(
            |message| match environments.examine(message, text.optional_old_self, &sizes).0 {
                Ok((output, _)) if output != Type::String => {
                    Err("messageExpression must evaluate to a string".to_owned())
                }
                Ok((_, cost)) => Ok(cost),
                Err(why) => Err(format!("messageExpression {why}")),
            },
        );
        RuleFindings {
            uses_old_self: uses_old_self && rule.is_ok(),
            rule,
            message,
        }
    };
    Some(schema.rules.iter().map(examine).collect())
}
