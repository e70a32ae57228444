//! Expressions as they are compiled once per policy.

use std::sync::Arc;

use trireme_cel::{Environment, Program, Type};

/// An expression and its program.
pub(super) struct CompiledExpression {
    pub(super) text: String,
    /// The program, or why there is none: what was stored may have been checked by another release.
    pub(super) program: Result<Program, String>,
}

impl CompiledExpression {
    pub(super) fn compile(environment: &Arc<Environment>, text: &str) -> Self {
        let program = Program::new(Arc::clone(environment), text);
        Self {
            text: text.to_owned(),
            program: program.map_err(|error| error.to_string()),
        }
    }

    /// The type of its values.
    pub(super) fn output(&self) -> Type {
        self.program
            .as_ref()
            .map_or(Type::Dyn, |program| program.output().clone())
    }
}

/// A variable of a policy, or a match condition.
pub(super) struct NamedExpression {
    pub(super) name: String,
    pub(super) expression: CompiledExpression,
}
